//! `trackiops metrics`: exports the counters of a running recorder to Prometheus and OpenTelemetry.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::geteuid;
use trackiops_process::lifeline::asked_to_stop;
use trackiops_process::output::say;
use trackiops_process::stderr_queue;
use trackiops_schemas::time::parse_duration_ms;
use trackiops_serve::http::{ClientFiles, ListenAddress, ListenError, Listener, WebConfig, serve};
use trackiops_serve::metrics::{AccessFiles, LastTotals, MOST_TOP_FILES, OtlpUrl, Pusher, app};
use trackiops_store::live::{LiveError, Subscription};

use crate::help_headings::{OUTPUT, WHAT};
use crate::live_socket::SocketFlag;

const EXAMPLES: &str = "\
Examples:
  trackiops metrics --listen 127.0.0.1:9930                      for a Prometheus on this host
  trackiops metrics --listen 0.0.0.0:9930 --web-config web.yml   for other hosts, with TLS
  trackiops metrics --otlp http://127.0.0.1:4318                 for an OpenTelemetry collector";

/// What `trackiops metrics` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    socket: SocketFlag,
    /// Series of this many of the busiest files, with their paths
    ///
    /// At most 100; all other files are one series, `(other)`. Whoever can scrape sees these paths.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse_top_files, hide_default_value = true, help_heading = WHAT)]
    metrics_top_files: usize,
    /// Answer scrapes at ADDRESS:PORT or unix:/PATH
    ///
    /// On this host, such as 127.0.0.1:9930. An address that other hosts can connect to needs --web-config with TLS and authentication. A Unix socket has mode 0660.
    #[arg(long, value_name = "ADDRESS", required_unless_present = "otlp", help_heading = OUTPUT)]
    listen: Option<ListenAddress>,
    /// Use the TLS, passwords and headers of this file
    ///
    /// YAML, the format of `--web.config.file` of Prometheus' exporters. It and the certificates in it are read again when they change.
    #[arg(long, value_name = "FILE", requires = "listen", help_heading = OUTPUT)]
    web_config: Option<PathBuf>,
    #[command(flatten)]
    push: PushFlags,
}

/// Where and how to push.
#[derive(clap::Args)]
struct PushFlags {
    /// Push to this collector: https://HOST, or http:// on this host
    ///
    /// OTLP over HTTP, such as http://127.0.0.1:4318. The path is /v1/metrics unless the URL has one. The port of https is 443 unless the URL has one.
    #[arg(long, value_name = "URL", help_heading = OUTPUT)]
    otlp: Option<OtlpUrl>,
    /// Push in this interval
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_interval, help_heading = OUTPUT)]
    otlp_interval: Duration,
    /// Send the headers in this file with each push
    ///
    /// One in a line, such as `Authorization: Bearer TOKEN`. It and the files of certificates are read again when they change.
    #[arg(long, value_name = "FILE", requires = "otlp", help_heading = OUTPUT)]
    otlp_headers: Option<PathBuf>,
    /// Trust these certificate authorities [default: what the system trusts]
    #[arg(long, value_name = "FILE", requires = "otlp", help_heading = OUTPUT)]
    otlp_ca: Option<PathBuf>,
    /// Show the collector this certificate
    #[arg(long, value_name = "FILE", requires_all = ["otlp", "otlp_key"], help_heading = OUTPUT)]
    otlp_cert: Option<PathBuf>,
    /// Use this private key with --otlp-cert
    #[arg(long, value_name = "FILE", requires = "otlp_cert", help_heading = OUTPUT)]
    otlp_key: Option<PathBuf>,
}

impl PushFlags {
    fn pusher(self, totals: &LastTotals) -> anyhow::Result<Option<Pusher>> {
        let Some(url) = self.otlp else {
            return Ok(None);
        };
        let files = AccessFiles {
            headers: self.otlp_headers,
            tls: ClientFiles {
                authorities: self.otlp_ca,
                identity: self.otlp_cert.zip(self.otlp_key),
            },
        };
        let pusher = Pusher::new(totals.clone(), url, self.otlp_interval, files);
        Ok(Some(pusher.context("--otlp")?))
    }
}

fn parse_top_files(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| *number <= MOST_TOP_FILES);
    number.ok_or_else(|| format!("write a number of files up to {MOST_TOP_FILES}"))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let ms = parse_duration_ms(text).and_then(|ms| u64::try_from(ms).ok());
    let ms = ms.filter(|ms| *ms >= 1000);
    ms.map(Duration::from_millis)
        .ok_or_else(|| "write a time of at least a second, such as 15s or 1m".to_owned())
}

/// Runs the command until it is asked to stop.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    // Not as root: a collector's answers are HTTP from others, too.
    if geteuid().is_root() {
        return Err(ListenError::IsRoot.into());
    }
    let web = args.web_config.map(|path| WebConfig::read(&path, say));
    let web = web.transpose().context("--web-config")?;
    if let Some(address) = &args.listen {
        address.refuse_open(web.as_ref())?;
    }
    // Report only errors that cannot pass by themselves. A recorder may start later.
    if let Err(error @ (LiveError::Forbidden(_) | LiveError::Foreign { .. })) =
        Subscription::connect(args.socket.path())
    {
        bail!(error);
    }
    stderr_queue::start()?;
    let totals = LastTotals::new(args.socket.path(), args.metrics_top_files);
    let pusher = args.push.pusher(&totals)?;
    let following = totals.clone();
    thread::Builder::new()
        .name("follow".to_owned())
        .spawn(move || following.run(|why| say(why)))
        .context("cannot start a thread")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stop = asked_to_stop()?;
        if let Some(pusher) = pusher {
            tokio::spawn(pusher.run(say));
        }
        match args.listen {
            None => stop.await,
            Some(address) => {
                let listener = Listener::bind(&address).await?;
                let has_tls = web.as_ref().is_some_and(WebConfig::has_tls);
                let scheme = if has_tls { "https://" } else { "" };
                say(format_args!("metrics at {scheme}{}", listener.address()));
                serve(listener, app(&address, has_tls, totals), web, stop).await;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

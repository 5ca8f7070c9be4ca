//! `trackiops serve`: a read-only view of stores and of the running recorder, over HTTP.
//!
//! It answers by running other commands: their flags are the parameters. Each question runs in a separate process, which can be killed
//! without harming the server.

mod access;
pub mod api;
mod jobs;
mod live;
pub mod pages;
mod state;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::{from_fn, from_fn_with_state, map_response};
use axum::response::Response;
use rustix::process::geteuid;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use trackiops_http::{
    Hosts, ListenAddress, ListenError, Listener, WebConfig, refuse_other_hosts,
    refuse_other_origins, serve,
};

use crate::config::{ConfigFlag, Source};
use crate::help_headings::{OUTPUT, WHAT};
use crate::lifeline::asked_to_stop;
use crate::live_socket::SocketFlag;
use crate::output::say;
use crate::stderr_queue;
use crate::store_flag::StoreFlags;
use access::Access;
use api::Api;
use jobs::Jobs;

const EXAMPLES: &str = "\
Examples:
  trackiops serve                                            at a socket of yours, for `ssh -L`
  trackiops serve --listen 127.0.0.1:8080                    in a browser on this host, with a token
  trackiops serve --store web-1 --store web-2 --listen unix:/run/trackiops-serve/s";

/// What `trackiops serve` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten, next_help_heading = WHAT)]
    stores: StoreFlags,
    #[command(flatten)]
    socket: SocketFlag,
    /// unix:/PATH or ADDRESS:PORT [default: a socket in $XDG_RUNTIME_DIR]
    ///
    /// A Unix socket has mode 0660, and asks for nothing else. A port asks for the token that is printed at the start: once, then a
    /// cookie has the browser's session.
    #[arg(long, value_name = "ADDRESS", help_heading = OUTPUT)]
    listen: Option<ListenAddress>,
    /// Use the TLS, passwords and headers of this file
    ///
    /// YAML, the format of `--web.config.file` of Prometheus' exporters. It and the certificates in it are read again when they change. Passwords, or certificates of
    /// clients that are required and verified, take the place of the token.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    web_config: Option<PathBuf>,
    /// Also answer requests to this host name, repeatable
    ///
    /// Needed for more than loopback. Without --web-config there is no TLS: put a proxy that has it in front.
    #[arg(long, value_name = "NAME", help_heading = OUTPUT)]
    allow_host: Vec<String>,
    #[command(flatten, next_help_heading = OUTPUT)]
    config: ConfigFlag,
}

/// Runs the command until it is asked to stop.
pub fn run(source: &Source) -> anyhow::Result<ExitCode> {
    let args: Args = source.args()?;
    if geteuid().is_root() {
        return Err(ListenError::IsRoot.into());
    }
    let address = match args.listen {
        Some(address) => address,
        None => usual_address()?,
    };
    if !address.is_local() && args.allow_host.is_empty() {
        bail!(
            "{address} can be reached by other hosts: name with --allow-host under which names they do, and use TLS by --web-config or a proxy in front; or listen at 127.0.0.1:PORT"
        );
    }
    let web = args.web_config.map(|path| WebConfig::read(&path, say));
    let web = web.transpose().context("--web-config")?;
    let has_tls = web.as_ref().is_some_and(WebConfig::has_tls);
    let knows_callers = web.as_ref().is_some_and(WebConfig::knows_callers);
    let socket = args.socket.path().to_owned();
    let api = Api::new(args.stores.existing()?, socket, Jobs::default());
    let access = match address {
        ListenAddress::Tcp(_) if !knows_callers => Some(Arc::new(Access::new(has_tls)?)),
        _ => None,
    };
    let hosts = Hosts::named(args.allow_host);
    stderr_queue::start()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stop = asked_to_stop()?;
        let listener = Listener::bind(&address).await?;
        say_where(listener.address(), has_tls, access.as_deref());
        serve(listener, app(api, access, hosts), web, stop).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// An address in a directory that only this user may enter.
fn usual_address() -> anyhow::Result<ListenAddress> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let runtime = runtime.map(PathBuf::from).context(
        "$XDG_RUNTIME_DIR names no directory for a socket; say --listen unix:/PATH or --listen 127.0.0.1:PORT",
    )?;
    Ok(ListenAddress::Unix(runtime.join("trackiops.sock")))
}

fn say_where(address: &ListenAddress, has_tls: bool, access: Option<&Access>) {
    let at = match (address, has_tls) {
        (ListenAddress::Tcp(at), false) => format!("http://{at}/"),
        (ListenAddress::Tcp(at), true) => format!("https://{at}/"),
        (ListenAddress::Unix(_), _) => address.to_string(),
    };
    match access {
        Some(access) => say(format_args!("serving at {at}?token={}", access.token())),
        None => say(format_args!("serving at {at}")),
    }
    if let ListenAddress::Unix(path) = address {
        let path = path.display();
        say(format_args!(
            "from another machine: ssh -N -L 8080:{path} THIS-HOST, then open http://localhost:8080"
        ));
    }
}

/// The first layer that a request meets is the last one here.
fn app(api: Api, access: Option<Arc<Access>>, hosts: Hosts) -> Router {
    let app = api.router().merge(pages::router());
    let app = app.layer(CompressionLayer::new().quality(CompressionLevel::Fastest));
    let app = match access {
        None => app,
        Some(access) => app.layer(from_fn_with_state(access, access::ask_for_token)),
    };
    app.layer(from_fn(refuse_other_origins))
        .layer(from_fn_with_state(hosts, refuse_other_hosts))
        .layer(map_response(confine))
}

/// Restricts the page to showing data of this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

async fn confine(mut response: Response) -> Response {
    let of_page = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in of_page {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}

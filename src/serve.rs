//! `trackiops serve`: a read-only view of stores and of the running recorder, over HTTP.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::CommandFactory as _;
use rustix::process::geteuid;
use trackiops_process::lifeline::asked_to_stop;
use trackiops_process::output::say;
use trackiops_process::stderr_queue;
use trackiops_serve::http::{Hosts, ListenAddress, ListenError, Listener, WebConfig, serve};
use trackiops_serve::page::{Access, Api, Program, app};

use crate::Cli;
use crate::config::{ConfigFlag, Source};
use crate::exit_status::ExitStatus;
use crate::help_headings::{OUTPUT, WHAT};
use crate::live_socket::SocketFlag;
use crate::notes;
use crate::store_flag::StoreFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops serve                                            at a socket of yours, for `ssh -L`
  trackiops serve --listen 127.0.0.1:8080                    in a browser on this host, with a token
  trackiops serve --store web-1 --store web-2 --listen unix:/run/trackiops-serve/s";

/// This program, which answers questions.
const PROGRAM: Program = Program {
    commands: Cli::command,
    nothing: ExitStatus::Negative as i32,
    damaged: ExitStatus::Damaged as i32,
    notes: (notes::VARIABLE, notes::AS_DATA),
};

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
    let api = Api::new(args.stores.existing()?, socket, PROGRAM);
    let access = match address {
        ListenAddress::Tcp(_) if !knows_callers => {
            let access = Access::new(has_tls).context("the system has no random numbers")?;
            Some(Arc::new(access))
        }
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

#[cfg(test)]
mod tests {
    use trackiops_serve::page::{ENDPOINTS, openapi};

    use super::*;

    #[test]
    fn every_parameter_is_a_flag_of_its_command() {
        let cli = Cli::command();
        for endpoint in ENDPOINTS {
            let command = cli.find_subcommand(endpoint.command[0]).unwrap();
            let is_flag = |name: &str| {
                let mut arguments = command.get_arguments();
                arguments.any(|argument| argument.get_long() == Some(name))
            };
            let usual = endpoint.usual.iter().map(|(name, _)| *name);
            for name in endpoint.words.iter().copied().chain(usual) {
                assert!(is_flag(name), "{}: {name}", endpoint.name);
                // A client must not choose the files that are written and read.
                assert!(!["output", "store", "plot", "socket"].contains(&name));
            }
        }
    }

    #[test]
    fn the_description_of_the_api_is_the_documented_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/openapi.json");
        let written = format!("{:#}\n", openapi(&Cli::command()));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path, &written).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), written);
    }
}

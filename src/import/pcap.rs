//! `trackiops import pcap`: packet captures.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use trackiops_capture::{
    Account, Call, Decoder, Peers, Receiver, Reply, Request, Seen, read_packets,
};
use trackiops_import::captures::files::Files;
use trackiops_import::{Hosts, Source, must_stop};

use super::account::print_account;
use super::messages::MessageFiles;
use super::outcome::{Backwards, tell};
use super::process::{OwnProcess, sources, was_ended};
use super::target_flags::TargetFlags;
use crate::help_headings::{TARGET, WHAT};
use crate::output::{plural, say};

const EXAMPLES: &str = "\
Examples:
  trackiops import pcap nfs.pcap --store captured           a capture
  trackiops import pcap nfs.pcap*.gz --store captured       one in several files
  trackiops import pcap - --store captured --messages DIR   from a pipe, with calls and replies";

/// What `trackiops import pcap` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Captures, in order of time if they are parts of one; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: TargetFlags,
    /// Also write calls and replies here, for trackiops analyze
    ///
    /// The files, with what replies tell of files, are records.parquet and attrs.parquet; they must not be there yet.
    #[arg(long, value_name = "DIR", help_heading = TARGET)]
    messages: Option<PathBuf>,
    /// Another port of NFS beside 2049; repeatable
    ///
    /// Connections to other ports are found by a call at the beginning of a packet, and followed from there.
    #[arg(long = "port", value_name = "PORT", help_heading = WHAT)]
    ports: Vec<u16>,
}

/// Imports captures.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let sources = sources(&args.files)?;
    let messages = args.messages.as_deref().map(MessageFiles::create);
    let found = Found {
        hosts: Hosts::new(
            args.target.target("pcap", &sources, &args.ports),
            &OwnProcess,
        ),
        messages: messages.transpose()?,
    };
    let mut decoder = Decoder::new(found, &args.ports);
    for source in &sources {
        read(source, &mut decoder)?;
        if was_ended() {
            break;
        }
    }
    let (found, report) = decoder.finish();
    let Found {
        mut hosts,
        messages,
    } = found;
    hosts.finish()?;
    match messages {
        // A resumed import writes them again from the beginning.
        Some(messages) if hosts.is_stopped() => messages.discard(),
        Some(messages) => messages.finish()?,
        None => {}
    }
    let backwards = Backwards {
        number: report.backwards,
        what: "packet",
        advice: "name the files in order of time, or sort a capture with `reordercap`",
    };
    tell(&mut hosts, "client", &backwards, |out| {
        print_account(&report, out)
    })
}

/// Receives the requests and messages of a capture.
struct Found {
    hosts: Hosts<Files>,
    messages: Option<MessageFiles>,
}

impl Receiver for Found {
    fn call(&mut self, call: &Arc<Call>, _: Seen, _: bool) {
        if let Some(messages) = &mut self.messages {
            messages.call(call);
        }
    }

    fn reply(&mut self, reply: &Reply, seen: Seen, _: bool) {
        if let Some(messages) = &mut self.messages {
            messages.reply(reply, seen);
        }
    }

    fn request(&mut self, request: Request) {
        if let Some(messages) = &mut self.messages {
            messages.request(&request);
        }
        self.hosts.request(request);
    }

    fn unanswered(&mut self, call: &Arc<Call>) {
        if let Some(messages) = &mut self.messages {
            messages.unanswered(call);
        }
    }

    fn account(&mut self, peers: &Peers, is_from_client: bool, last_ns: i64, more: &Account) {
        self.hosts.account(peers, is_from_client, last_ns, more);
    }
}

fn read(source: &Source, decoder: &mut Decoder<Found>) -> anyhow::Result<()> {
    let mut ticked = Ok(());
    let end = read_packets(source.open_until_signal(&OwnProcess)?, |packet| {
        if decoder.receiver().hosts.is_due(packet.time_ns) {
            decoder.report_accounts();
        }
        ticked = decoder.receiver().hosts.tick(packet.time_ns);
        if ticked.is_err() || must_stop(&OwnProcess) {
            return ControlFlow::Break(());
        }
        decoder.packet(&packet);
        ControlFlow::Continue(())
    });
    ticked?;
    let end = match end {
        Err(_) if was_ended() => return Ok(()),
        end => end.with_context(|| format!("cannot import {}", source.name))?,
    };
    let (untimed, bytes) = end.untimed;
    decoder.untimed(untimed, bytes);
    if let Some(damage) = end.damage.filter(|_| !was_ended()) {
        say(format_args!(
            "warning: {}: {damage}; what comes before it was imported, {}",
            source.name,
            plural(end.packets, "packet")
        ));
    }
    Ok(())
}

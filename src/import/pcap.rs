//! `trackiops import pcap`: captures of packets.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use trackiops_capture::{Decoder, read_packets};

use super::account::print_account;
use super::files::Files;
use super::hosts::Hosts;
use super::outcome::{Backwards, tell};
use super::source::Source;
use super::target_flags::TargetFlags;
use crate::output::{plural, say};

/// What `trackiops import pcap` takes.
#[derive(clap::Args)]
pub struct Args {
    /// Captures, in order of time if they are parts of one; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    target: TargetFlags,
    /// Another port of NFS beside 2049; repeatable
    ///
    /// Connections to other ports are found by a call at the beginning of a packet, and followed from there.
    #[arg(long = "port", value_name = "PORT")]
    ports: Vec<u16>,
}

/// Imports captures.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let sources = Source::all(&args.files)?;
    let mut decoder = Decoder::new(Hosts::<Files>::new(args.target.target()), &args.ports);
    for source in &sources {
        read(source, &mut decoder)?;
    }
    let (mut hosts, report) = decoder.finish();
    hosts.finish()?;
    let backwards = Backwards {
        number: report.backwards,
        what: "packet",
        advice: "name the files in order of time, or sort a capture with `reordercap`",
    };
    tell(&hosts, "client", &backwards, |out| {
        print_account(&report, out)
    })
}

fn read(source: &Source, decoder: &mut Decoder<Hosts<Files>>) -> anyhow::Result<()> {
    let mut ticked = Ok(());
    let end = read_packets(source.open()?, |packet| {
        ticked = decoder.receiver().tick(packet.time_ns);
        if ticked.is_err() {
            return ControlFlow::Break(());
        }
        decoder.packet(&packet);
        ControlFlow::Continue(())
    });
    ticked?;
    let end = end.with_context(|| format!("cannot import {}", source.name))?;
    if let Some(damage) = end.damage {
        say(format_args!(
            "warning: {}: {damage}; what comes before it was imported, {}",
            source.name,
            plural(end.packets, "packet")
        ));
    }
    Ok(())
}

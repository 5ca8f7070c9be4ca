//! `trackiops import pcap`: packet captures.

use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_import::account::print_account;
use trackiops_import::captures::{MessageFiles, pcap};

use super::outcome::{Backwards, tell};
use super::process::{OwnProcess, sources};
use super::target_flags::TargetFlags;
use crate::help_headings::{TARGET, WHAT};

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
    let messages = messages.transpose()?;
    let target = args.target.target("pcap", &sources, &args.ports);
    let imported = pcap::import(&sources, &args.ports, messages, target, &OwnProcess)?;
    let (mut hosts, report) = imported;
    let backwards = Backwards {
        number: report.backwards,
        what: "packet",
        advice: "name the files in order of time, or sort a capture with `reordercap`",
    };
    tell(&mut hosts, "client", &backwards, |out| {
        print_account(&report, out)
    })
}

//! `trackiops import`: puts what others recorded into a store.

mod account;
mod files;
mod hosts;
pub mod operations;
mod pcap;
pub mod source;
mod status;

use std::process::ExitCode;

use clap::Subcommand;

/// What `trackiops import` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Import captures of packets: pcap or pcapng, as they are, gzip or zstd
    ///
    /// NFS v2, v3 and v4.0 to v4.2 over TCP and UDP. Each client is a host of the store, with its requests, operations, and the names that
    /// were looked up. Latencies are those at the capture's place: from the first byte of a call to the last byte of its reply.
    ///
    /// Prints what was found, and for each connection where its bytes went. Exit status 0: there were requests; 1: none; 2: an error.
    Pcap(pcap::Args),
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Pcap(args) => pcap::run(args),
    }
}

//! `trackiops import`: imports other programs' recordings into a store.

mod csv;
mod listing;
mod nfsdump;
mod outcome;
mod pcap;
mod process;
mod target_flags;

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
    /// Import captures of packets: pcap or pcapng, as they are, gzip, bzip2 or zstd
    ///
    /// NFS v2, v3 and v4.0 to v4.2 over TCP and UDP. Each client is a host of the store, with its requests, operations, and the names that
    /// were looked up. Latencies are those at the capture's place: from the first byte of a call to the last byte of its reply.
    ///
    /// Prints what was found, and for each connection where its bytes went. Exit status 0: there were requests; 1: none; 2: an error.
    Pcap(pcap::Args),
    /// Import text of nfsdump: a line for each call and reply, as the traces of Harvard have it
    ///
    /// NFS v2 and v3, as they are, gzip, bzip2 or zstd. Each client is a host of the store, as in `trackiops import pcap`.
    ///
    /// Prints how many lines were read, how many were not understood and why, and for each client its calls and replies. Exit status 0:
    /// there were requests; 1: none; 2: an error.
    Nfsdump(nfsdump::Args),
    /// Import tables with a row for each request: CSV, or Parquet
    ///
    /// CSV as it is, gzip, bzip2 or zstd. Columns that have the names of `trackiops export --requests` are known; --map names others.
    ///
    /// Exit status 0: there were requests; 1: none; 2: an error, which names the line and the column.
    Csv(csv::Args),
    /// List where the bytes of imported captures went, by connection
    ///
    /// What `trackiops import pcap` printed, from the store: each direction of each connection in the time asked for. Exit status 0: there
    /// are some; 1: none; 2: an error.
    Account(listing::Args),
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Pcap(args) => pcap::run(args),
        Command::Nfsdump(args) => nfsdump::run(args),
        Command::Csv(args) => csv::run(args),
        Command::Account(args) => listing::run(args),
    }
}

//! `trackiops analyze`: analyses of single requests, messages and packets.

mod distribution_flags;
mod duration;
mod outcome;
mod sequentiality;
mod source_flags;

use std::process::ExitCode;

use clap::Subcommand;

/// What `trackiops analyze` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tell how sequentially files are read and written: runs, reordering, runs within random access
    #[command(long_about = sequentiality::ABOUT)]
    Sequentiality(sequentiality::Args),
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Sequentiality(args) => sequentiality::run(args),
    }
}

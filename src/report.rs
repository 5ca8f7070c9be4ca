//! `trackiops report`: reports about a range, each in a file to pass on.

mod billing;
mod by_flags;
mod carbon;
pub mod form;
mod incident;
mod noisy;
mod placement;
mod slow;

use std::process::ExitCode;

use clap::Subcommand;

/// What `trackiops report` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the page of `serve` with its data: one file that opens without a network
    #[command(long_about = incident::ABOUT)]
    Incident(incident::Args),
    /// Sum up what each tenant used in each period, at which percentile, and what it costs
    #[command(long_about = billing::ABOUT)]
    Billing(billing::Args),
    /// Name whose load rose when the others' latency rose, on each server and mount
    #[command(long_about = noisy::ABOUT)]
    Noisy(noisy::Args),
    /// Find what was slow, since when, where the time went, who suffered, and what changed
    #[command(long_about = slow::ABOUT)]
    Slow(slow::Args),
    /// Propose which files, trees or mounts fit together on a target, and check it against history
    #[command(long_about = placement::ABOUT)]
    Placement(placement::Args),
    /// Estimate energy and emission by your coefficients and the grid's intensity over time
    #[command(long_about = carbon::ABOUT)]
    Carbon(carbon::Args),
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.command {
        Command::Incident(args) => incident::run(args),
        Command::Billing(args) => billing::run(args),
        Command::Noisy(args) => noisy::run(args),
        Command::Slow(args) => slow::run(args),
        Command::Placement(args) => placement::run(args),
        Command::Carbon(args) => carbon::run(args),
    }
}

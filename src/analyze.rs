//! `trackiops analyze`: analyses of single requests, messages and packets.

mod burst;
mod contention;
mod cube;
mod distribution_flags;
mod duration;
mod event_flags;
mod files;
mod latency;
mod operations;
mod outcome;
mod outstanding;
mod paths;
mod rates;
mod reuse;
mod sequentiality;
mod sizes;
mod source_flags;
mod xids;

use std::process::ExitCode;

use clap::Subcommand;
use trackiops_process::progress::begin_reading;

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
    /// Tell the sizes and offsets of READs and WRITEs, and the sizes of files where they are known
    #[command(long_about = sizes::ABOUT)]
    Sizes(sizes::Args),
    /// Tell latencies by server, operation and others, with duplicates and unanswered calls
    #[command(long_about = latency::ABOUT)]
    Latency(latency::Args),
    /// Tell rates over intervals: their quantiles, with idle intervals as zeros, and peak to mean
    #[command(long_about = rates::ABOUT)]
    Rates(rates::Args),
    /// Tell how much comes at once: rates in windows of several lengths that roll
    #[command(long_about = burst::ABOUT)]
    Burst(burst::Args),
    /// Count requests, messages or packets and their bytes by any of their values, with all partial sums
    #[command(long_about = cube::ABOUT)]
    Cube(cube::Args),
    /// Tell how many requests were in flight over time: sent by a client, and not answered yet
    #[command(long_about = outstanding::ABOUT)]
    Outstanding(outstanding::Args),
    /// Tell how soon blocks and files are read again, and what a larger page cache would have saved
    #[command(long_about = reuse::ABOUT)]
    Reuse(reuse::Args),
    /// Tell whose requests were held up: what they took beyond the fastest of their class
    #[command(long_about = contention::ABOUT)]
    Contention(contention::Args),
    /// Count files; tell their sizes, how much of them was read, and their ages
    #[command(long_about = files::ABOUT)]
    Files(files::Args),
    /// Sum up what was done to each file or filesystem, from a capture with attributes
    #[command(long_about = operations::ABOUT)]
    Operations(operations::Args),
    /// Tell the paths of files, from the names by which a capture saw them looked up
    #[command(long_about = paths::ABOUT)]
    Paths(paths::Args),
    /// Estimate which calls a capture misses, by gaps in the xids of its clients
    #[command(long_about = xids::ABOUT)]
    Xids(xids::Args),
}

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    begin_reading("analyzing", None);
    match args.command {
        Command::Sequentiality(args) => sequentiality::run(args),
        Command::Sizes(args) => sizes::run(args),
        Command::Latency(args) => latency::run(args),
        Command::Rates(args) => rates::run(args),
        Command::Burst(args) => burst::run(args),
        Command::Cube(args) => cube::run(args),
        Command::Outstanding(args) => outstanding::run(args),
        Command::Reuse(args) => reuse::run(args),
        Command::Contention(args) => contention::run(args),
        Command::Files(args) => files::run(args),
        Command::Operations(args) => operations::run(args),
        Command::Paths(args) => paths::run(args),
        Command::Xids(args) => xids::run(args),
    }
}

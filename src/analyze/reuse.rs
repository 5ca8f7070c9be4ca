//! `trackiops analyze reuse`: how soon data are read again.

use std::process::ExitCode;

use std::time::Duration;

use trackiops_analyses::reuse::{Reuse, Settings};
use trackiops_analyses::source::Requests;

use super::distribution_flags::DistributionFlags;
use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze reuse --since 24h                           of a day of the store
  trackiops analyze reuse --mount nas:/home --block 1048576     of a mount, by the MiB
  trackiops analyze reuse day.parquet --table distributions     how soon blocks are read again";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Tell how soon blocks and files are read again, and what a larger page cache would have saved

A READ that reached the server was not in the page cache of its client. Had that been larger by as much as the client used in between, \
it would have been. Blocks are sampled where there are many; then numbers are estimates.";

const ANALYSIS: Analysis = Analysis {
    name: "reuse",
    title: "Reuse",
    method: &[
        "The stack distance of a READ is the data that its client used since it used the block before; an LRU cache larger by it would have had it.",
        "Blocks are sampled by hash in bounded memory: Waldspurger et al., Efficient MRC Construction with SHARDS, FAST 2015.",
    ],
};

/// What `trackiops analyze reuse` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// Length of a block, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, help_heading = ROWS)]
    block: u64,
    /// Blocks of a client that are followed, and files
    #[arg(long, value_name = "N", default_value_t = 65_536, help_heading = ROWS)]
    sample: usize,
    /// A file that rests for this long is used again
    #[arg(long, value_name = "LENGTH", default_value = "2s", value_parser = super::duration::parse, help_heading = ROWS)]
    gap: Duration,
    #[command(flatten)]
    distributions: DistributionFlags,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::new(args.tables, &Reuse::TABLES, &args.distributions)?;
    let source = args.source.source()?;
    let settings = Settings {
        block_bytes: args.block,
        sample: args.sample,
        gap_ns: i64::try_from(args.gap.as_nanos()).unwrap_or(i64::MAX),
    };
    let mut reuse = Reuse::new(settings, args.distributions.exact_values);
    let mut requests = Requests::default();
    let none = requests.read(&source, ANALYSIS.name, |request, _| reuse.add(request))?;
    let sheets = reuse.sheets(args.distributions.quantiles);
    outcome::write(&form, ANALYSIS, &requests.seen, none, Vec::new(), sheets)
}

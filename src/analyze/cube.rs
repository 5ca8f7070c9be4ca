//! `trackiops analyze cube`: counts and bytes over any axes.

use std::process::ExitCode;

use trackiops_analyses::cube::{Axis, Cube, Events, Pruning};

use super::event_flags::AxesFlags;
use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze cube --since 1h --by host,mount,op               who used what
  trackiops analyze cube --by file,time --interval 60 --min-bytes 1000000000
  trackiops analyze cube capture --of packets -o cube.csv            connections of a capture";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Count requests, messages or packets and their bytes by any of their values, with all partial sums

Rows with * are sums. A message counts twice: as sent by one host and as received by another. --only-whole, --alone and \
--min-bytes leave out partial sums.";

const ANALYSIS: Analysis = Analysis {
    name: "cube",
    title: "Cube",
    method: &[
        "Each row is a sum over what has its values; all subsets of the axes are added up over. Times are floors of seconds since the epoch.",
    ],
};

/// What `trackiops analyze cube` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    over: AxesFlags,
    /// Length of the intervals of --by time, s
    #[arg(long, value_name = "SECONDS", default_value_t = 1, help_heading = ROWS)]
    interval: u32,
    /// Leave out sums over others beside these
    #[arg(long, value_name = "WHAT,...", value_delimiter = ',', help_heading = ROWS)]
    only_whole: Vec<Axis>,
    /// Leave out rows with fewer bytes
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = ROWS)]
    min_bytes: u64,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::tables(args.tables, &Cube::TABLES)?;
    let source = args.source.source()?;
    let (kind, axes) = args.over.axes(&source)?;
    let mut cube = Cube::new(axes.clone());
    let mut events = Events::new(kind, axes, args.interval)?;
    events.read(&source, ANALYSIS.name, |_, key, cell| cube.add(key, cell))?;
    let pruning = Pruning {
        only_whole: args.only_whole,
        alone: args.over.alone,
        min_bytes: args.min_bytes,
    };
    let sheets = cube.sheets(&events, &pruning);
    outcome::write_of_events(&form, ANALYSIS, events, sheets)
}

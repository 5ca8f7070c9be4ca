//! `trackiops analyze contention`: whose requests waited for others, and where.

use std::process::ExitCode;

use trackiops_analyses::contention::{By, Contention};
use trackiops_analyses::distribution::EXACT_VALUES;
use trackiops_analyses::source::Requests;

use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze contention --since 1h                       by process
  trackiops analyze contention --level block --by file          by file, at the block devices
  trackiops analyze contention --by tenant --low 5 --csv        by tenant, for a program";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Tell whose requests were held up, by what they took beyond the fastest of their class

The fastest request of a class (one operation or function at one server or device, with sizes up to the next power of two) shows what a request takes by \
itself. What the others took beyond that is waiting: for others, for the network, or for the server. Divided by the time in which somebody had \
requests, it is the score. 0 is no contention; 1 is one request that waits all the time; several at a time may wait for more. Needs single \
requests (record --requests).";

const ANALYSIS: Analysis = Analysis {
    name: "contention",
    title: "Contention",
    method: &[
        "The score is the SCI of EZIOTracer: the sum over classes of (sum of latencies - number x the least latency of the class), divided by the time \
         from the first request's start to the last one's end.",
        "The waiting of a request is shared out among the requests in flight at the same server or device, by the time that they were: `waits` has beside \
         whom it was.",
        "The sturdy score takes a low percentile of the class (--low) in place of the least. Of the waiting, queue is what was spent beyond the least \
         until the request was sent or issued, network beyond the least until the reply (device: in the device), and rest what remains.",
    ],
};

/// Rows of tables for people, without `--top`.
const MOST_ROWS: usize = 20;

/// What `trackiops analyze contention` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// A row stands for a process, file, tenant, mount or client
    ///
    /// Requests to block devices have no process: a device is not told for whom it works.
    #[arg(long, value_name = "WHAT", default_value = "process", help_heading = ROWS)]
    by: By,
    /// Percentile that stands for the fastest in the sturdy score
    #[arg(long, value_name = "PERCENT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=50), help_heading = ROWS)]
    low: u64,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::tables(args.tables, &Contention::TABLES)?;
    let source = args.source.source()?;
    let mut contention = Contention::new(args.by, EXACT_VALUES);
    let mut requests = Requests::with_parts();
    if args.by == By::File {
        requests.paths = Some(Default::default());
    }
    let none = requests.read(&source, ANALYSIS.name, |request, names| {
        contention.add(request, names);
    })?;
    let sheets = contention.sheets(&requests, (args.low, 100), form.most_rows(MOST_ROWS));
    outcome::write(&form, ANALYSIS, &requests.seen, none, Vec::new(), sheets)
}

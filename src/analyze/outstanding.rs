//! `trackiops analyze outstanding`: requests in flight over time.

use std::process::ExitCode;

use std::time::Duration;

use anyhow::bail;
use trackiops_analyses::latency::By;
use trackiops_analyses::outstanding::{Outstanding, Settings};
use trackiops_analyses::source::Requests;

use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze outstanding --since 1h                         of all together
  trackiops analyze outstanding --by server --interval 1s          of each server, by the second
  trackiops analyze outstanding --table times -o in-flight.csv     over time, for a program";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Tell how many requests were in flight over time: sent by a client, and not answered yet

Numbers are weighted by the time for which they held. Requests are known when they complete: one that took longer than --horizon counts \
only from then on, and is counted in the table `counts`.";

const ANALYSIS: Analysis = Analysis {
    name: "outstanding",
    title: "Requests in flight",
    method: &[
        "A request is in flight from its start to its end. Numbers are weighted by time; p99 was not exceeded for 99 % of the time.",
    ],
};

/// What `trackiops analyze outstanding` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// A row stands for: server, client, mount, tenant or op [default: all]
    #[arg(long, value_name = "WHAT", help_heading = ROWS)]
    by: Option<By>,
    /// Length of the intervals of the table of times
    #[arg(long, value_name = "LENGTH", default_value = "1m", value_parser = super::duration::parse, help_heading = ROWS)]
    interval: Duration,
    /// Requests that take longer count only from then on
    #[arg(long, value_name = "LENGTH", default_value = "10s", value_parser = super::duration::parse, help_heading = ROWS)]
    horizon: Duration,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::tables(args.tables, &Outstanding::TABLES)?;
    let source = args.source.source()?;
    let ns = |length: Duration| i64::try_from(length.as_nanos()).unwrap_or(i64::MAX);
    if args.interval.is_zero() {
        bail!("--interval: an interval needs a length; write 1ms or more");
    }
    let mut outstanding = Outstanding::new(Settings {
        by: args.by,
        interval_ns: ns(args.interval),
        horizon_ns: ns(args.horizon),
    });
    let mut requests = Requests::default();
    let none = requests.read(&source, ANALYSIS.name, |request, _| {
        outstanding.add(request)
    })?;
    let sheets = outstanding.sheets(&requests);
    let remarks = vec![
        "READs and WRITEs alone: requests of other operations are in flight as well, of which only a capture has the times".to_owned(),
    ];
    outcome::write(&form, ANALYSIS, &requests.seen, none, remarks, sheets)
}

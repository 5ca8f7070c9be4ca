//! `trackiops analyze rates`: rates over intervals.

use std::process::ExitCode;

use anyhow::bail;
use trackiops_analyses::cube::{Axis, Events, Pruning, Rates, RatesSettings};

use super::distribution_flags::DistributionFlags;
use super::event_flags::AxesFlags;
use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze rates --since 24h --interval 1,3600          of a day, by the second and hour
  trackiops analyze rates --by mount,op --interval 60            of each mount
  trackiops analyze rates capture --of messages -o rates.json    of a capture, for a program";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Tell rates over intervals: their quantiles, with idle intervals as zeros, and peak to mean

The first and the last interval are incomplete, and left out. Of several lengths there is a table row for each. Of messages, each counts as \
sent and as received: operations are messages by direction `send`, halved.";

const ANALYSIS: Analysis = Analysis {
    name: "rates",
    title: "Rates",
    method: &[
        "Sums of each complete interval, divided by its length. Intervals in which a key does not occur are zeros.",
    ],
};

/// What `trackiops analyze rates` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    #[command(flatten)]
    over: AxesFlags,
    /// Lengths of intervals, s
    #[arg(long, value_name = "SECONDS,...", value_delimiter = ',', default_value = "1", help_heading = ROWS)]
    interval: Vec<u32>,
    #[command(flatten)]
    distributions: DistributionFlags,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::new(args.tables, &Rates::TABLES, &args.distributions)?;
    let source = args.source.source()?;
    let (kind, axes) = args.over.axes(&source)?;
    if axes.contains(&Axis::Time) {
        bail!("--by time: rates are over time; leave it out");
    }
    let settings = |interval_s: &u32| RatesSettings {
        interval_s: *interval_s,
        axes: axes.clone(),
        pruning: Pruning {
            alone: args.over.alone.clone(),
            ..Pruning::default()
        },
        exact_values: args.distributions.exact_values,
    };
    let mut rates: Vec<_> = args.interval.iter().map(settings).map(Rates::new).collect();
    let mut events = Events::new(kind, axes.clone(), 1)?;
    events.read(&source, ANALYSIS.name, |time_ns, key, cell| {
        rates
            .iter_mut()
            .for_each(|rates| rates.add(time_ns, key, cell));
    })?;
    let sheets = Rates::sheets(&rates, &events, args.distributions.quantiles);
    outcome::write_of_events(&form, ANALYSIS, events, sheets)
}

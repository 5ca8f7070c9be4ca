//! `trackiops report billing`: each tenant's usage and its cost.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use trackiops_process::progress::with_progress;
use trackiops_reports::billing::{Billing, Prices, TABLES, Terms};
use trackiops_reports::percentile::Percentile;
use trackiops_schemas::time::Granularity;

use super::by_flags::{ByFlags, PeriodFlags};
use super::form::FormFlags;
use crate::help_headings::{ROWS, WHEN};
use crate::input_file::read_file;
use crate::question_flags::SelectionFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops report billing --since 30d --prices eur.toml        what each tenant costs
  trackiops report billing --since 7d --period 1d -o week.csv   each day's use
  trackiops report billing --percentile 95 --percentile 99.9    levels of all that is recorded";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Sum up what each tenant used in each period, at which percentile, and what it costs

For each tenant and period: READ and WRITE requests, metadata operations, bytes, and percentiles of IOPS and throughput over the means of \
intervals. An interval without requests counts as 0 where a recorder ran; time that was not recorded does not count.

--prices FILE adds amounts. The file is TOML: `currency`, `decimals`, and the tables [per_million] (reads, writes, metadata), [per_gib] (read, \
written), [per_month] (iops, mib_per_second: at the first --percentile) and [free] (allowances of each period). Amounts are exact. \
docs/reference/reports.md has all of it.";

/// What `trackiops report billing` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    by: ByFlags,
    #[command(flatten)]
    period: PeriodFlags,
    /// Percentiles are of the means of intervals this long
    #[arg(long, value_name = "LENGTH", default_value = "5m", help_heading = WHEN)]
    interval: Granularity,
    /// Percentile of IOPS and bytes/s; repeatable
    #[arg(long, value_name = "P", default_value = "95", help_heading = ROWS)]
    percentile: Vec<Percentile>,
    /// Add amounts by the prices in this TOML file
    #[arg(long, value_name = "FILE", help_heading = ROWS)]
    prices: Option<PathBuf>,
    #[command(flatten)]
    form: FormFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let percentiles = args.percentile;
    for (at, percentile) in percentiles.iter().enumerate() {
        if percentiles[..at].contains(percentile) {
            bail!("--percentile {percentile} is given twice; give it once");
        }
    }
    let prices = match &args.prices {
        None => None,
        Some(path) => Some(Prices::parse(path, &read_file("--prices", path)?)?),
    };
    let terms = Terms {
        by: args.by.get()?,
        period: args.period.period,
        interval: args.interval,
        percentiles,
        prices,
    };
    let form = args.form.choose(TABLES)?;
    let question = args.selection.question()?;
    match with_progress(&question.explain, || Billing::make(&question, &terms))? {
        Ok(bill) => form.write(&bill.about, &[&bill.charges], question.zone),
        Err(nothing) => Ok(form.write_nothing(&nothing, question.zone)),
    }
}

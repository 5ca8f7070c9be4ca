//! `trackiops report noisy`: whose load rose when the others' latency rose.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use trackiops_process::progress::with_progress;
use trackiops_reports::noisy::report::{TABLES, make};
use trackiops_schemas::time::Granularity;

use super::by_flags::ByFlags;
use super::form::FormFlags;
use crate::counts::from_one;
use crate::help_headings::{ROWS, WHEN};
use crate::question_flags::SelectionFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops report noisy --since 24h                        by tenant, on each server and mount
  trackiops report noisy --since 24h --by dir --depth 2     which tree it is
  trackiops report noisy --since 7d --interval 1m -o week.html";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Name whose load rose when the others' latency rose, on each server and mount

For each candidate: the correlation of its load with the latency of all others, without what their own load explains; how often chance is as clear; \
how much longer the others wait while its load is high, at equal load of their own; and its share of the requests in the system.

A candidate is named only if all of it is clear: on days without a noisy neighbour nobody is. Where the data does not tell, the reason says why: too short \
a range, a load that never varied, or one that rises with the others'. A day at 10 s is enough. docs/reference/report-noisy.md has the method.";

/// What `trackiops report noisy` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    by: ByFlags,
    /// Length of the intervals that are compared
    #[arg(long, value_name = "LENGTH", default_value = "10s", help_heading = WHEN)]
    interval: Granularity,
    /// Only the first N by bytes are compared
    #[arg(long, value_name = "N", default_value = "50", value_parser = from_one, help_heading = ROWS)]
    top: NonZeroUsize,
    #[command(flatten)]
    form: FormFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let by = args.by.get()?;
    let form = args.form.choose(TABLES)?;
    let mut question = args.selection.question()?;
    question.top = Some(args.top);
    match with_progress(&question.explain, || make(&question, by, args.interval))? {
        Ok(noisy) => form.write(&noisy.about, &[&noisy.candidates], question.zone),
        Err(nothing) => Ok(form.write_nothing(&nothing, question.zone)),
    }
}

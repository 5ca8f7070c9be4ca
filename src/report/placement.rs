//! `trackiops report placement`: demand, and a packing that is checked against history.

use std::process::ExitCode;

use anyhow::bail;
use trackiops_process::progress::with_progress;
use trackiops_query::parse_size;
use trackiops_reports::by::ReportBy;
use trackiops_reports::percentile::Percentile;
use trackiops_reports::placement::{Placement, TABLES, Targets, Terms};
use trackiops_schemas::time::Granularity;

use super::by_flags::with_depth;
use super::form::FormFlags;
use crate::counts::{from_one, from_zero};
use crate::help_headings::{ROWS, WHEN};
use crate::question_flags::SelectionFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops report placement --since 7d --by mount --targets 4      on four servers
  trackiops report placement --capacity-iops 20000 -o places.html   on servers of 20,000 IOPS
  trackiops report placement --by dir --depth 2 --table correlations --format csv";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Propose which files, trees or mounts fit together on a target, and check it against history

For each: mean, percentile and peak of requests and bytes per second, the working set where single requests were kept, and the others that \
its demand is most and least correlated with.

With --targets or a capacity, a packing is made from the first part of the history: first fit decreasing, on the percentile of the summed \
demand. The rest of the history, --check-share of the intervals, says how often each target would have been over its capacity.";

/// What `trackiops report placement` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    selection: SelectionFlags,
    /// A row stands for: file, dir or mount
    #[arg(long, value_name = "WHAT", default_value = "file", help_heading = ROWS)]
    by: ReportBy,
    /// With --by dir: how many directories deep [default: 1]
    #[arg(long, value_name = "N", value_parser = from_zero, help_heading = ROWS)]
    depth: Option<usize>,
    /// Demand is the mean of intervals this long
    #[arg(long, value_name = "LENGTH", default_value = "5m", help_heading = WHEN)]
    interval: Granularity,
    /// Percentile of demand that must fit a target
    #[arg(long, value_name = "P", default_value = "95", help_heading = ROWS)]
    percentile: Percentile,
    /// Pack on this many targets, of the smallest capacity that suffices
    #[arg(
        long,
        value_name = "N",
        value_parser = from_one,
        conflicts_with_all = ["capacity_iops", "capacity_bytes"],
        help_heading = ROWS
    )]
    targets: Option<std::num::NonZeroUsize>,
    /// Pack on targets that can do this many requests per second
    #[arg(long, value_name = "IOPS", value_parser = capacity, help_heading = ROWS)]
    capacity_iops: Option<f64>,
    /// Pack on targets that can move this many bytes per second: 500MiB
    #[arg(long, value_name = "SIZE", value_parser = capacity_bytes, help_heading = ROWS)]
    capacity_bytes: Option<f64>,
    /// Check the packing against this last share of history
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = share, help_heading = ROWS)]
    check_share: f64,
    #[command(flatten)]
    form: FormFlags,
}

fn capacity(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number: &f64| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| format!("`{text}` is not a number above 0"))
}

fn capacity_bytes(text: &str) -> Result<f64, String> {
    match parse_size(text).map_err(|error| error.to_string())? {
        0 => Err("a target of 0 bytes per second holds nothing".to_owned()),
        bytes => Ok(bytes as f64),
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok();
    let share = share.filter(|share| (0.0..1.0).contains(share));
    share
        .ok_or_else(|| format!("`{text}` is not a share: write 0, or a number below 1 such as 0.5"))
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let targets = match (args.targets, args.capacity_iops, args.capacity_bytes) {
        (Some(count), _, _) => Some(Targets::Count(count.get())),
        (None, None, None) => None,
        (None, iops, bytes) => Some(Targets::Of([iops, bytes])),
    };
    let terms = Terms {
        by: with_depth(args.by, args.depth)?,
        interval: args.interval,
        percentile: args.percentile,
        targets,
        check_share: args.check_share,
    };
    if targets.is_none() && args.form.table() == Some("targets") {
        bail!("--table targets needs --targets, --capacity-iops or --capacity-bytes");
    }
    let form = args.form.choose(TABLES)?;
    let question = args.selection.question()?;
    match with_progress(&question.explain, || Placement::make(&question, &terms))? {
        Ok(report) => {
            let Placement {
                about,
                subjects,
                targets,
                correlations,
            } = &report;
            form.write(about, &[subjects, targets, correlations], question.zone)
        }
        Err(nothing) => Ok(form.write_nothing(&nothing, question.zone)),
    }
}

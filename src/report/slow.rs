//! `trackiops report slow`: slow moments, their beginning, where the time went, victims, and changes.

use std::process::ExitCode;

use anyhow::{Context, bail};
use trackiops_process::progress::with_progress;
use trackiops_query::coverage::Interval;
use trackiops_query::times::{Zone, parse};
use trackiops_reports::slow::report::{TABLES, make};
use trackiops_schemas::time::{Granularity, UtcMs};

use super::form::FormFlags;
use crate::help_headings::WHEN;
use crate::question_flags::SelectionFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops report slow --since 1h                                  against the hour before
  trackiops report slow --since 03:00 --until 04:00 --baseline 'yesterday 03:00..yesterday 04:00'
  trackiops report slow --since 24h --table sufferers -o who.csv    who lost how much time";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Find what was slow, since when, where the time went, who suffered, and what changed

Each mount is compared with a baseline: as long a time before the range, or --baseline. A slow time begins and ends with an interval. For each there are the \
parts of its latency before and now, the tenants, directories and files that lost most time, and what else changed: load, sizes, mix, errors, \
retransmissions, new tenants and files, stalls. Where nothing was slow, the report says so. docs/reference/report-slow.md has the method.";

/// What `trackiops report slow` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    selection: SelectionFlags,
    /// Compare with FROM..TO [default: as long a time before the range]
    ///
    /// Each of both is written as for --since.
    #[arg(long, value_name = "FROM..TO", help_heading = WHEN)]
    baseline: Option<String>,
    /// Length of the intervals that are compared
    #[arg(long, value_name = "LENGTH", default_value = "10s", help_heading = WHEN)]
    interval: Granularity,
    #[command(flatten)]
    form: FormFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = args.form.choose(TABLES)?;
    let question = args.selection.question()?;
    let baseline = args.baseline.as_deref();
    let baseline = baseline.map(|text| interval(text, question.now, question.zone));
    let baseline = baseline.transpose()?;
    let made = with_progress(&question.explain, || {
        make(&question, baseline, args.interval)
    })?;
    match made {
        Ok(slow) => {
            let tables: [&dyn trackiops_render::report::ReportTable; 3] =
                [&slow.times, &slow.sufferers, &slow.changes];
            form.write(&slow.about, &tables, question.zone)
        }
        Err(nothing) => Ok(form.write_nothing(&nothing, question.zone)),
    }
}

/// Parses `FROM..TO`.
fn interval(text: &str, now: UtcMs, zone: Zone) -> anyhow::Result<Interval> {
    let Some((from, to)) = text.split_once("..") else {
        bail!("--baseline: `{text}` is not a range; write FROM..TO, such as 3h..2h");
    };
    let at = |text| parse(text, now, zone).context("--baseline");
    let baseline = Interval::new(at(from)?.at, at(to)?.at);
    if baseline.is_empty() {
        bail!("--baseline: `{text}` ends before it begins; write the earlier time first");
    }
    Ok(baseline)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_is_two_times() {
        let of = |text| interval(text, UtcMs(10_000_000), Zone::utc());
        assert_eq!(
            of("2h..1h").unwrap(),
            Interval::new(UtcMs(2_800_000), UtcMs(6_400_000))
        );
        for (text, error) in [
            ("1h", "FROM..TO"),
            ("1h..2h", "earlier"),
            ("1h..soon", "--baseline"),
        ] {
            assert!(of(text).unwrap_err().to_string().contains(error), "{text}");
        }
    }
}

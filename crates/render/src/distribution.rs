//! The latency distribution of the requests of an answer: a table with bars, JSON, CSV.

use std::io::{self, Write};
use std::str::FromStr;

use serde::Serialize;
use trackiops_query::answer::Answer;
use trackiops_query::coverage::Interval;
use trackiops_query::times::{show_offset, show_range};
use trackiops_schemas::columns::DIRECTIONS;
use trackiops_schemas::histogram::{Histogram, octave_bound_us, octave_of, upper_bound_us};
use trackiops_schemas::row::{AppCalls, Direction, Row};

use crate::terminal_style::{Look, Style};
use crate::units;
use crate::visible;

/// Quantiles below the table, and their names in tables.
const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];
/// Cells of a line where the width of the target is not known.
const USUAL_WIDTH: usize = 80;
/// Least cells of the longest bar.
const LEAST_BAR: usize = 4;
/// Empty lines in a row that are drawn as one.
const MANY_EMPTY: usize = 3;

/// How a distribution is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DistributionFormat {
    /// A table for people: a line for each power of two.
    Table,
    /// One object per direction.
    Json,
    /// One line per direction and bucket.
    Csv,
}

/// The text of `--format` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format of a histogram: write table, csv or json")]
pub struct DistributionFormatError(String);

impl FromStr for DistributionFormat {
    type Err = DistributionFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "table" => Ok(Self::Table),
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            _ => Err(DistributionFormatError(text.into())),
        }
    }
}

/// The latency distribution of one direction in JSON.
#[derive(Serialize)]
struct Distribution<'d> {
    direction: &'d str,
    /// All requests.
    requests: u64,
    /// Number of requests in the buckets.
    count: u64,
    /// Number of requests without a known latency.
    untimed: u64,
    /// Number of requests whose latencies are known only as a sum.
    folded: u64,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p90_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
    max_us: Option<f64>,
    buckets: Vec<Bucket>,
}

#[derive(Serialize)]
struct Bucket {
    /// The upper, inclusive bound.
    le_us: f64,
    count: u64,
}

/// Writes the latency distributions of the rows of an answer, added up. `directions` are some of [`DIRECTIONS`]; a table omits directions
/// without requests.
///
/// Errors are those of `out`.
pub fn write_distribution(
    answer: &Answer,
    directions: &[&str],
    format: DistributionFormat,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut sum = Row::default();
    for row in &answer.rows {
        sum.read.merge(&row.sum.read());
        sum.write.merge(&row.sum.write());
    }
    let both = DIRECTIONS.into_iter().zip([&sum.read, &sum.write]);
    let asked: Vec<_> = both.filter(|(name, _)| directions.contains(name)).collect();
    write_distributions(answer.range, &asked, format, style, out)
}

/// Writes the distributions of the times of calls of applications, like [`write_distribution`].
pub fn write_call_distribution(
    answer: &Answer,
    directions: &[&str],
    format: DistributionFormat,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (mut read, mut write) = (AppCalls::default(), AppCalls::default());
    for row in &answer.rows {
        read.merge(&row.sum.app_read());
        write.merge(&row.sum.app_write());
    }
    let sums = [read, write].map(|calls| calls.as_direction());
    let both = DIRECTIONS.into_iter().zip(&sums);
    let asked: Vec<_> = both.filter(|(name, _)| directions.contains(name)).collect();
    write_distributions(answer.range, &asked, format, style, out)
}

/// Writes latency distributions with these names. A table omits distributions without requests.
///
/// Errors are those of `out`.
pub fn write_distributions(
    range: Interval,
    asked: &[(&str, &Direction)],
    format: DistributionFormat,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let asked = asked.iter().copied();
    match format {
        DistributionFormat::Table => {
            let offset = show_offset(range.start, style.zone);
            let range = show_range(range.start, range.end, style.zone);
            let title = format!("{range} ({offset})");
            writeln!(out, "{}", visible::wrap(&title, style.look.width, 0))?;
            for (name, direction) in asked.filter(|(_, direction)| direction.requests > 0) {
                writeln!(out)?;
                table(name, direction, style.look, out)?;
            }
            Ok(())
        }
        DistributionFormat::Json => {
            for (name, direction) in asked {
                let distribution = Distribution::new(name, direction);
                writeln!(out, "{}", visible::json(&distribution)?)?;
            }
            Ok(())
        }
        DistributionFormat::Csv => {
            writeln!(out, "direction,gt_us,le_us,count")?;
            for (name, direction) in asked {
                for (bucket, count) in direction.latency.buckets() {
                    let (above, upto) = (upper_bound_us(bucket - 1), upper_bound_us(*bucket));
                    writeln!(out, "{name},{above},{upto},{count}")?;
                }
            }
            Ok(())
        }
    }
}

impl<'d> Distribution<'d> {
    fn new(direction: &'d str, of: &Direction) -> Self {
        let quantile = |q| of.quantile_us(q).map(rounded);
        let [p50_us, p90_us, p95_us, p99_us, p999_us] = QUANTILES.map(|(_, q)| quantile(q));
        let bucket = |(bucket, count): &(i32, u64)| Bucket {
            le_us: upper_bound_us(*bucket),
            count: *count,
        };
        Self {
            direction,
            requests: of.requests,
            count: of.latency.total(),
            untimed: of.untimed,
            folded: of.folded,
            mean_us: of.latency_ns_mean().map(|ns| rounded(ns / 1000.0)),
            p50_us,
            p90_us,
            p95_us,
            p99_us,
            p999_us,
            max_us: of.latency_ns_mean().map(|_| max_us(of)),
            buckets: of.latency.buckets().iter().map(bucket).collect(),
        }
    }
}

/// Rounds like columns of answers.
fn rounded(us: f64) -> f64 {
    (us * 1e3).round() / 1e3
}

fn max_us(of: &Direction) -> f64 {
    of.latency_ns_max as f64 / 1000.0
}

/// A line for each power of two between the least and the largest latency, then percentiles.
fn table(name: &str, of: &Direction, look: Look, out: &mut dyn Write) -> io::Result<()> {
    let total = of.latency.total();
    let without = of.requests.saturating_sub(total);
    let lacking = match without {
        0 => String::new(),
        without => format!(", {without} without a latency of their own"),
    };
    let title = format!("{name}s: {}{lacking}", of.requests);
    writeln!(out, "{}", visible::wrap(&title, look.width, 0))?;
    let octaves = by_octave(&of.latency);
    let most = octaves.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let cells = most.to_string().len().max("count".len());
    if total > 0 {
        writeln!(out, "{:>22}  {:>cells$}   share", "latency", "count")?;
    }
    let width = look.width.unwrap_or(USUAL_WIDTH);
    let room = width
        .saturating_sub(22 + 2 + cells + 2 + 6 + 2)
        .max(LEAST_BAR);
    for run in octaves.chunk_by(|(_, a), (_, b)| *a == 0 && *b == 0) {
        if run.len() >= MANY_EMPTY {
            writeln!(out, "{:>22}  {:>cells$}", "...", 0)?;
            continue;
        }
        for (octave, count) in run {
            let above = units::time(octave_bound_us(octave - 1));
            let range = format!("{above} - {:>9}", units::time(octave_bound_us(*octave)));
            let share = units::share(*count as f64 / total as f64);
            let bar = look.bar_within(*count as f64 / most as f64, room);
            let line = format!("{range:>22}  {count:>cells$}  {share:>6}  {bar}");
            writeln!(out, "{}", line.trim_end())?;
        }
    }
    let shown = QUANTILES.map(|(name, q)| Some((name, units::time(of.quantile_us(q)?))));
    let mut figures: Vec<_> = shown.into_iter().flatten().collect();
    figures.extend(
        of.latency_ns_mean()
            .map(|_| ("max", units::time(max_us(of)))),
    );
    let mean = of.latency_ns_mean().map(|ns| units::time(ns / 1000.0));
    let below = [("count", Some(total.to_string())), ("mean", mean)];
    let below = below
        .map(|(name, value)| Some((name, value?)))
        .into_iter()
        .flatten();
    for figures in [figures, below.collect()] {
        let figures = figures
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        for line in packed(figures, width) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Lines of at most `width` cells, unless one text is longer. They break between texts.
fn packed(texts: impl Iterator<Item = String>, width: usize) -> Vec<String> {
    const GAP: &str = "  ";
    let mut lines: Vec<String> = Vec::new();
    for text in texts {
        match lines.last_mut() {
            Some(line) if line.len() + GAP.len() + text.len() <= width => {
                line.extend([GAP, &text]);
            }
            _ => lines.push(text),
        }
    }
    lines
}

/// Number of requests by octave, from the lowest octave to the highest that has any.
fn by_octave(latency: &Histogram) -> Vec<(i32, u64)> {
    let mut octaves: Vec<(i32, u64)> = Vec::new();
    for (bucket, count) in latency.buckets() {
        let octave = octave_of(*bucket);
        let next = octaves.last().map_or(octave, |(last, _)| last + 1);
        octaves.extend((next..=octave).map(|octave| (octave, 0)));
        if let Some((_, sum)) = octaves.last_mut() {
            *sum = sum.saturating_add(*count);
        }
    }
    octaves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_not_torn_apart() {
        let figures = || {
            ["p50 1.00 ms", "p90 2.00 ms"]
                .map(str::to_owned)
                .into_iter()
        };
        assert_eq!(packed(figures(), 24), ["p50 1.00 ms  p90 2.00 ms"]);
        assert_eq!(packed(figures(), 23), ["p50 1.00 ms", "p90 2.00 ms"]);
        assert_eq!(packed(figures(), 1).len(), 2);
    }

    #[test]
    fn titles_are_wrapped() {
        let mut of = Direction {
            requests: 1000,
            ..Direction::default()
        };
        of.latency.record(1_000_000);
        let look = Look {
            width: Some(40),
            ..Look::default()
        };
        let mut out = Vec::new();
        table("read", &of, look, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let title = "reads: 1000, 999 without a latency of\ntheir own\n";
        assert!(text.starts_with(title), "{text}");
    }

    #[test]
    fn octaves_follow_each_other_and_keep_the_counts() {
        let mut latency = Histogram::default();
        for ns in [1000, 1001, 2000, 9000] {
            latency.record(ns);
        }
        // Up to 1, 2, 4, 8 and 16 us.
        assert_eq!(
            by_octave(&latency),
            [(-1, 1), (0, 2), (1, 0), (2, 0), (3, 1)]
        );
        assert_eq!(by_octave(&Histogram::default()), []);
    }
}

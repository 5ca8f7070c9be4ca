//! The columns of CSV and JSON: those on disk, then those derived from them.

use trackiops_schemas::columns;
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::rollup::Direction;

use crate::answer::AnswerRow;
use crate::times::rfc3339;

/// Columns derived from those on disk, without the direction before them, in column order.
const DERIVED: [&str; 7] = [
    "iops",
    "throughput",
    "latency_us_mean",
    "latency_us_p50",
    "latency_us_p90",
    "latency_us_p99",
    "latency_us_p999",
];
/// The shares of requests that the percentile columns stand for.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The value of a column in a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'r> {
    /// Not known.
    Null,
    /// Text.
    Text(String),
    /// A count.
    Count(u64),
    /// A figure, to three decimals.
    Figure(f64),
    /// A histogram.
    Histogram(&'r Histogram),
}

impl From<Option<String>> for Value<'_> {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

impl From<Option<f64>> for Value<'_> {
    fn from(figure: Option<f64>) -> Self {
        let rounded = figure.map(|figure| (figure * 1000.0).round() / 1000.0);
        rounded.map_or(Self::Null, Self::Figure)
    }
}

/// Names of the columns, in order.
pub fn names() -> Vec<String> {
    let schema = columns::rollup_schema();
    let stored = schema.fields().iter().map(|field| field.name().clone());
    let derived = columns::DIRECTIONS
        .into_iter()
        .flat_map(|direction| DERIVED.map(|name| format!("{direction}_{name}")));
    stored.chain(derived).collect()
}

/// Values of the columns, in the order of [`names`].
pub fn values(row: &AnswerRow) -> Vec<Value<'_>> {
    let file = &row.file;
    let mut values = vec![
        Value::Text(rfc3339(row.time)),
        Value::Text(row.host.to_string()),
        file.mount.clone().into(),
        file.path.clone().into(),
        Value::Count(file.key.0),
        Value::Text(file.dev.to_string()),
        Value::Count(file.fileid),
        row.tenant.as_deref().map(str::to_owned).into(),
    ];
    values.extend(stored(&row.row.read));
    values.extend(stored(&row.row.write));
    values.extend(derived(&row.row.read, row.covered_ms));
    values.extend(derived(&row.row.write, row.covered_ms));
    values
}

/// In the order of [`columns::DIRECTION_COUNTERS`], with the histogram at the end.
fn stored(direction: &Direction) -> [Value<'_>; columns::DIRECTION_COUNTERS.len() + 1] {
    let d = direction;
    [
        Value::Count(d.requests),
        Value::Count(d.bytes),
        Value::Count(rounded_us(d.latency_ns_sum)),
        Value::Count(rounded_us(d.latency_ns_max)),
        Value::Count(d.errors),
        Value::Count(d.short),
        Value::Count(d.sequential),
        Value::Count(d.folded),
        Value::Count(d.untimed),
        Value::Histogram(&d.latency),
    ]
}

fn rounded_us(ns: u64) -> u64 {
    ns / 1000 + u64::from(ns % 1000 >= 500)
}

fn derived(direction: &Direction, covered_ms: u64) -> Vec<Value<'_>> {
    let mut values = vec![
        per_second(direction.requests, covered_ms).into(),
        per_second(direction.bytes, covered_ms).into(),
        direction.latency_ns_mean().map(|ns| ns / 1000.0).into(),
    ];
    values.extend(QUANTILES.map(|q| direction.latency.quantile_us(q).into()));
    values
}

/// A rate over the time that was recorded; not known where none was.
pub fn per_second(count: u64, covered_ms: u64) -> Option<f64> {
    (covered_ms > 0).then(|| count as f64 * 1000.0 / covered_ms as f64)
}

/// A histogram as JSON: `[{"bucket":12,"count":3}]`.
pub fn histogram_json(histogram: &Histogram) -> String {
    let bucket = |(bucket, count): &(i16, u64)| {
        let (b, c) = (columns::HIST_BUCKET, columns::HIST_COUNT);
        format!("{{\"{b}\":{bucket},\"{c}\":{count}}}")
    };
    let buckets: Vec<_> = histogram.buckets().iter().map(bucket).collect();
    format!("[{}]", buckets.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_divided_by_time_that_was_not_recorded() {
        assert_eq!(per_second(5, 0), None);
        assert_eq!(per_second(5, 500), Some(10.0));
    }

    #[test]
    fn sums_are_rounded_as_on_disk() {
        assert_eq!(
            [rounded_us(499), rounded_us(500), rounded_us(1499)],
            [0, 1, 1]
        );
        assert_eq!(rounded_us(u64::MAX), u64::MAX / 1000 + 1);
    }
}

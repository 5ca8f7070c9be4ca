//! The columns of CSV and JSON: those on disk, then those derived from them.

use std::fmt::Display;

use trackiops_schemas::columns;
use trackiops_schemas::errnos::Errnos;
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::rollup::Direction;

use crate::answer::AnswerRow;
use crate::times::rfc3339;

/// Columns derived from those on disk, without the direction before them, in column order.
const DERIVED: [&str; 10] = [
    "iops",
    "throughput",
    "latency_us_mean",
    "queue_us_mean",
    "rtt_us_mean",
    "completion_us_mean",
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
    /// Errors by errno.
    Errnos(&'r Errnos),
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
    let [read, write] = columns::DIRECTIONS;
    values.extend(stored(read, &row.row.read));
    values.extend(stored(write, &row.row.write));
    values.extend(derived(&row.row.read, row.covered_ms));
    values.extend(derived(&row.row.write, row.covered_ms));
    values
}

/// Counters in the order of [`columns::DIRECTION_COUNTERS`], then the lists.
fn stored<'r>(name: &str, direction: &'r Direction) -> Vec<Value<'r>> {
    let Direction {
        requests,
        bytes,
        latency_ns_sum,
        latency_ns_max,
        queue_ns_sum,
        rtt_ns_sum,
        errors,
        retrans,
        short,
        sequential,
        folded,
        untimed,
        unsplit,
        direct,
        stable,
        errnos,
        latency,
    } = direction;
    let counters: [u64; columns::DIRECTION_COUNTERS.len()] = [
        *requests,
        *bytes,
        rounded_us(*latency_ns_sum),
        rounded_us(*latency_ns_max),
        rounded_us(*queue_ns_sum),
        rounded_us(*rtt_ns_sum),
        *errors,
        *retrans,
        *short,
        *sequential,
        *folded,
        *untimed,
        *unsplit,
        *direct,
        *stable,
    ];
    let there = columns::DIRECTION_COUNTERS.into_iter().zip(counters);
    there
        .filter(|(counter, _)| columns::has_counter(name, counter))
        .map(|(_, count)| Value::Count(count))
        .chain([Value::Errnos(errnos), Value::Histogram(latency)])
        .collect()
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
    let parts = direction
        .parts_ns_mean()
        .map(|parts| parts.map(|ns| ns / 1000.0));
    values.extend(match parts {
        Some(parts) => parts.map(|us| Some(us).into()),
        None => [Value::Null, Value::Null, Value::Null],
    });
    values.extend(QUANTILES.map(|q| direction.latency.quantile_us(q).into()));
    values
}

/// A rate over the time that was recorded; not known where none was.
pub fn per_second(count: u64, covered_ms: u64) -> Option<f64> {
    (covered_ms > 0).then(|| count as f64 * 1000.0 / covered_ms as f64)
}

/// A histogram as JSON: `[{"bucket":12,"count":3}]`.
pub fn histogram_json(histogram: &Histogram) -> String {
    list_json(columns::HIST_BUCKET, histogram.buckets())
}

/// Errors as JSON: `[{"errno":5,"count":3}]`.
pub fn errnos_json(errnos: &Errnos) -> String {
    list_json(columns::ERRNO, errnos.counts())
}

fn list_json<K: Display>(what: &str, counts: &[(K, u64)]) -> String {
    let element = |(key, count): &(K, u64)| {
        let counted = columns::COUNT;
        format!("{{\"{what}\":{key},\"{counted}\":{count}}}")
    };
    let elements: Vec<_> = counts.iter().map(element).collect();
    format!("[{}]", elements.join(","))
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

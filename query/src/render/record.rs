//! The columns of CSV and JSON: those on disk, then those derived from them.

use std::sync::Arc;

use arrow::datatypes::Schema;
use trackiops_schemas::columns;
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::rollup::Direction;

use crate::answer::AnswerRow;
use crate::operations::OperationAnswer;
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
/// Columns derived from those of operations, in column order.
const OPERATION_DERIVED: [&str; 11] = [
    "iops",
    "throughput",
    "sent_bytes_mean",
    "received_bytes_mean",
    "queue_us_mean",
    "rtt_us_mean",
    "execute_us_mean",
    "execute_us_p50",
    "execute_us_p90",
    "execute_us_p99",
    "execute_us_p999",
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

/// A row as CSV and JSON have it.
pub trait Record {
    /// Names of the columns, in order.
    fn names() -> Vec<String>;

    /// Values of the columns, in the order of [`Self::names`].
    fn values(&self) -> Vec<Value<'_>>;
}

fn stored_names(schema: &Schema) -> impl Iterator<Item = String> {
    schema.fields().iter().map(|field| field.name().clone())
}

impl Record for AnswerRow {
    fn names() -> Vec<String> {
        let derived = columns::DIRECTIONS
            .into_iter()
            .flat_map(|direction| DERIVED.map(|name| format!("{direction}_{name}")));
        stored_names(&columns::rollup_schema())
            .chain(derived)
            .collect()
    }

    fn values(&self) -> Vec<Value<'_>> {
        let file = &self.file;
        let mut values = vec![
            Value::Text(rfc3339(self.time)),
            Value::Text(self.host.to_string()),
            file.mount.clone().into(),
            file.path.clone().into(),
            Value::Count(file.key.0),
            Value::Text(file.dev.to_string()),
            Value::Count(file.fileid),
            self.tenant.as_deref().map(str::to_owned).into(),
        ];
        values.extend(stored(&self.row.read));
        values.extend(stored(&self.row.write));
        values.extend(derived(&self.row.read, self.covered_ms));
        values.extend(derived(&self.row.write, self.covered_ms));
        values
    }
}

impl Record for OperationAnswer {
    fn names() -> Vec<String> {
        let derived = OPERATION_DERIVED.map(str::to_owned);
        stored_names(&columns::ops_schema())
            .chain(derived)
            .collect()
    }

    fn values(&self) -> Vec<Value<'_>> {
        let text = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned).into();
        let sums = &self.sums;
        let mut values = vec![
            Value::Text(rfc3339(self.time)),
            Value::Text(self.host.to_string()),
            text(&self.mount),
            Value::Text(self.op.to_string()),
            text(&self.transport),
            Value::Count(sums.requests),
            Value::Count(sums.errors),
            Value::Count(sums.sent_bytes),
            Value::Count(sums.received_bytes),
            Value::Count(rounded_us(sums.queue_ns_sum)),
            Value::Count(rounded_us(sums.rtt_ns_sum)),
            Value::Count(rounded_us(sums.execute_ns_sum)),
            Value::Count(rounded_us(sums.execute_ns_max)),
            Value::Histogram(&sums.execute),
            per_second(sums.requests, self.covered_ms).into(),
            per_second(sums.bytes(), self.covered_ms).into(),
            sums.per_request(sums.sent_bytes).into(),
            sums.per_request(sums.received_bytes).into(),
        ];
        let times = [sums.queue_ns_sum, sums.rtt_ns_sum, sums.execute_ns_sum];
        values.extend(times.map(|ns| sums.per_request(ns).map(|ns| ns / 1000.0).into()));
        values.extend(QUANTILES.map(|q| sums.execute.quantile_us(q).into()));
        values
    }
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

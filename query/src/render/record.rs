//! The columns of CSV and JSON: those on disk, then those derived from them.

use std::fmt::Display;
use std::sync::Arc;

use arrow::datatypes::Schema;
use trackiops_schemas::columns;
use trackiops_schemas::errnos::Errnos;
use trackiops_schemas::file_ops::{FileOp, FileOps};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::rollup::Direction;
use trackiops_store::{MountSeen, Seen};

use crate::answer::AnswerRow;
use crate::files::FileActivity;
use crate::operations::OperationAnswer;
use crate::times::rfc3339;
use crate::volume::Volume;

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
/// Columns of files: start of the first and end of the last window with requests of a file, or under a name. Of mounts: when they were
/// first and last there.
const FIRST_SEEN: &str = "first_seen";
const LAST_SEEN: &str = "last_seen";
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
    /// Yes or no.
    Flag(bool),
    /// A figure, to three decimals.
    Figure(f64),
    /// Errors by errno.
    Errnos(&'r Errnos),
    /// Operations of a file.
    FileOps(&'r FileOps),
    /// A histogram.
    Histogram(&'r Histogram),
    /// The names of a file.
    Names(&'r [(String, Seen)]),
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
        let file = self.file.as_ref();
        let count = |count: Option<u64>| count.map_or(Value::Null, Value::Count);
        let mut values = vec![
            Value::Text(rfc3339(self.time)),
            Value::Text(self.host.to_string()),
            self.mount().map(str::to_owned).into(),
            self.path().map(str::to_owned).into(),
            file.and_then(|file| file.path_inferred)
                .map_or(Value::Null, Value::Flag),
            count(file.map(|file| file.key.0)),
            file.map(|file| file.dev.to_string()).into(),
            count(file.map(|file| file.fileid)),
            self.tenant.as_deref().map(str::to_owned).into(),
        ];
        let [read, write] = columns::DIRECTIONS;
        values.extend(stored(read, &self.row.read));
        values.extend(stored(write, &self.row.write));
        values.push(Value::FileOps(&self.row.ops));
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
        values.extend(times.map(|ns| self.per_timed(ns).map(|ns| ns / 1000.0).into()));
        values.extend(QUANTILES.map(|q| sums.execute.quantile_us(q).into()));
        values
    }
}

impl Record for FileActivity {
    fn names() -> Vec<String> {
        let file = [
            columns::HOST,
            columns::MOUNT,
            columns::PATH,
            columns::FILE_KEY,
            columns::DEV,
            columns::FILEID,
            FIRST_SEEN,
            LAST_SEEN,
            "names",
        ];
        let counters = columns::DIRECTIONS.into_iter().flat_map(|direction| {
            ["requests", "bytes"].map(|counter| format!("{direction}_{counter}"))
        });
        file.map(str::to_owned)
            .into_iter()
            .chain(counters)
            .collect()
    }

    fn values(&self) -> Vec<Value<'_>> {
        let file = &self.file;
        let (first, last) = self.history.seen;
        vec![
            Value::Text(self.host.to_string()),
            file.mount.clone().into(),
            file.path.clone().into(),
            Value::Count(file.key.0),
            Value::Text(file.dev.to_string()),
            Value::Count(file.fileid),
            Value::Text(rfc3339(first)),
            Value::Text(rfc3339(last)),
            Value::Names(&self.history.names),
            Value::Count(self.read_requests),
            Value::Count(self.read_bytes),
            Value::Count(self.write_requests),
            Value::Count(self.write_bytes),
        ]
    }
}

impl Record for MountSeen {
    fn names() -> Vec<String> {
        let names = [
            columns::HOST,
            columns::DEV,
            columns::MOUNT,
            "source",
            columns::PATH,
            "version",
            "options",
            "foreign_namespace",
            FIRST_SEEN,
            LAST_SEEN,
        ];
        names.map(str::to_owned).into()
    }

    fn values(&self) -> Vec<Value<'_>> {
        let mount = &self.mount;
        let (first, last) = self.seen;
        vec![
            Value::Text(self.host.clone()),
            Value::Text(mount.dev.to_string()),
            Value::Text(mount.mount.clone()),
            Value::Text(mount.source.clone()),
            Value::Text(mount.path.clone()),
            mount.version.clone().into(),
            Value::Text(mount.options.clone()),
            Value::Flag(mount.is_foreign),
            Value::Text(rfc3339(first)),
            Value::Text(rfc3339(last)),
        ]
    }
}

impl Record for Volume {
    fn names() -> Vec<String> {
        let names = [
            "dataset",
            "granularity_ms",
            "segments",
            "entries",
            "bytes",
            "bytes_per_entry",
            "paper_bytes",
            "bytes_per_day",
            "bytes_at_most",
        ];
        names.map(str::to_owned).into()
    }

    fn values(&self) -> Vec<Value<'_>> {
        vec![
            Value::Text(self.dataset.to_owned()),
            Value::Count(self.granularity.ms().unsigned_abs()),
            Value::Count(self.segments),
            Value::Count(self.entries),
            Value::Count(self.bytes),
            self.bytes_per_entry().into(),
            self.paper_bytes.map_or(Value::Null, Value::Count),
            Some(self.bytes_per_day).into(),
            self.bytes_at_most.into(),
        ]
    }
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

/// Names as JSON: `[{"path":"/mnt/a","first_seen":"...","last_seen":"..."}]`.
pub fn names_json(names: &[(String, Seen)]) -> String {
    let element = |(path, (first, last)): &(String, Seen)| {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        format!(
            "{{\"{}\":{},\"{FIRST_SEEN}\":{},\"{LAST_SEEN}\":{}}}",
            columns::PATH,
            text(path),
            text(&rfc3339(*first)),
            text(&rfc3339(*last)),
        )
    };
    let elements: Vec<_> = names.iter().map(element).collect();
    format!("[{}]", elements.join(","))
}

/// Operations of a file as JSON: `[{"op":"GETATTR","requests":3,...}]`.
pub fn file_ops_json(ops: &FileOps) -> String {
    let element = |op: &FileOp| {
        let FileOp {
            op,
            requests,
            errors,
            queue_ns_sum,
            rtt_ns_sum,
            latency_ns_sum,
            latency_ns_max,
        } = op;
        let [queue, rtt, latency, max] =
            [queue_ns_sum, rtt_ns_sum, latency_ns_sum, latency_ns_max].map(|ns| rounded_us(*ns));
        let counters = [*requests, *errors, queue, rtt, latency, max];
        let counters = columns::FILE_OP_COUNTERS.into_iter().zip(counters);
        let counters: String = counters
            .map(|(name, count)| format!(",\"{name}\":{count}"))
            .collect();
        let name = serde_json::Value::from(op.as_str());
        format!("{{\"{}\":{name}{counters}}}", columns::OP)
    };
    let elements: Vec<_> = ops.as_slice().iter().map(element).collect();
    format!("[{}]", elements.join(","))
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

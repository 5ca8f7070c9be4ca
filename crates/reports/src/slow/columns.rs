//! Columns of the report's tables.

use arrow::datatypes::DataType;
use trackiops_query::columns::{Column, Unit, Value};

use super::comparison::Parts;
use super::report::{Changed, SlowTime, Sufferer};
use crate::columns::{count, rounded};
use crate::network_or_server::Tcp;
use crate::subject;

/// Reads one of the parts.
type PartOf = fn(&Parts) -> f64;
/// Reads one of the figures of connections.
type TcpOf = fn(&Tcp) -> f64;

/// Columns for people, in order.
pub const SHOWN_TIMES: &[&str] = &[
    "number",
    "mount",
    "since",
    "mean_us_before",
    "mean_us",
    "ratio",
    "added_s",
    "latency",
    "queue_us_added",
    "rtt_us_added",
    "completion_us_added",
    "network_or_server",
    "tcp_rtt_us_before",
    "tcp_rtt_us",
    "tcp_retrans_share",
    "until",
    "p99_us_before",
    "p99_us",
];

/// All columns of the table.
pub fn of_times() -> Vec<Column<SlowTime>> {
    let us = |name, get: fn(&SlowTime) -> Option<f64>| rounded(name, Unit::Microseconds, get);
    let mut columns = vec![
        count("number", Unit::Count, |row: &SlowTime| Some(row.number)),
        Column::text("mount", |row: &SlowTime| Value::text(&*row.mount)),
        Column::time("since", |row: &SlowTime| Value::Time(row.time.start)),
        Column::time("until", |row: &SlowTime| Value::Time(row.time.end)),
        Column::new("lasts", DataType::Boolean, Unit::None, |row: &SlowTime| {
            Value::Flag(row.lasts)
        }),
        Column::text("latency", |row: &SlowTime| {
            Value::text(row.slow.latency.name())
        }),
        rounded("ratio", Unit::None, |row: &SlowTime| Some(row.slow.ratio)),
        count("requests", Unit::Count, |row: &SlowTime| Some(row.requests)),
        rounded("added_s", Unit::None, |row: &SlowTime| Some(row.added_s)),
        us("mean_us_before", |row| row.before.mean_us),
        us("mean_us", |row| row.now.mean_us),
        us("p99_us_before", |row| row.before.p99_us),
        us("p99_us", |row| row.now.p99_us),
        us("mix_us_added", |row| row.mix_us),
    ];
    let parts: [(&str, PartOf); 3] = [
        ("queue_us", |of| of.queue_us),
        ("rtt_us", |of| of.rtt_us),
        ("completion_us", |of| of.completion_us),
    ];
    for (name, part) in parts {
        let before = move |row: &SlowTime| row.before.parts.as_ref().map(part);
        let now = move |row: &SlowTime| row.now.parts.as_ref().map(part);
        columns.push(rounded(
            &format!("{name}_before"),
            Unit::Microseconds,
            before,
        ));
        columns.push(rounded(name, Unit::Microseconds, now));
        columns.push(rounded(
            &format!("{name}_added"),
            Unit::Microseconds,
            move |row| Some(now(row)? - before(row)?),
        ));
    }
    columns.push(Column::text("network_or_server", |row: &SlowTime| {
        Value::some_text(row.network_or_server.map(|of| of.split.name()))
    }));
    columns.push(us("network_or_server_us", |row| {
        Some(row.network_or_server?.bounds?.surely_us)
    }));
    let tcp: [(&str, Unit, TcpOf); 4] = [
        ("tcp_rtt_us_before", Unit::Microseconds, |of| of.rtt_us[0]),
        ("tcp_rtt_us", Unit::Microseconds, |of| of.rtt_us[1]),
        ("tcp_retrans_share_before", Unit::Share, |of| {
            of.retrans_share[0]
        }),
        ("tcp_retrans_share", Unit::Share, |of| of.retrans_share[1]),
    ];
    columns.extend(tcp.map(|(name, unit, get)| {
        rounded(name, unit, move |row: &SlowTime| {
            row.network_or_server?.tcp.as_ref().map(get)
        })
    }));
    columns
}

/// Columns for people, in order.
pub const SHOWN_SUFFERERS: &[&str] = &[
    "number",
    "kind",
    "name",
    "requests",
    "mean_us_before",
    "mean_us",
    "added_s",
    "raised_load",
    "bytes_per_second",
    "iops",
    "p99_us",
];

/// All columns of the table.
pub fn of_sufferers() -> Vec<Column<Sufferer>> {
    let mut columns = vec![
        count("number", Unit::Count, |row: &Sufferer| Some(row.number)),
        Column::text("kind", |row: &Sufferer| Value::text(row.kind)),
    ];
    columns.extend(subject::columns(|row: &Sufferer| &row.subject));
    columns.extend([
        count("requests", Unit::Count, |row: &Sufferer| {
            Some(row.suffering.requests)
        }),
        rounded("mean_us_before", Unit::Microseconds, |row: &Sufferer| {
            row.suffering.before_us
        }),
        rounded("mean_us", Unit::Microseconds, |row: &Sufferer| {
            row.suffering.now_us
        }),
        rounded("added_s", Unit::None, |row: &Sufferer| {
            row.suffering.added_s
        }),
        Column::new(
            "raised_load",
            DataType::Boolean,
            Unit::None,
            |row: &Sufferer| Value::Flag(row.raised_load),
        ),
        rounded(
            "bytes_per_second",
            Unit::BytesPerSecond,
            |row: &Sufferer| Some(row.figures.throughput),
        ),
        rounded("iops", Unit::PerSecond, |row: &Sufferer| {
            Some(row.figures.iops)
        }),
        rounded("p99_us", Unit::Microseconds, |row: &Sufferer| {
            row.figures.p99_us
        }),
    ]);
    columns
}

/// Columns for people, in order.
pub const SHOWN_CHANGES: &[&str] = &["number", "what", "before", "now", "which", "notable"];

/// All columns of the table.
pub fn of_changes() -> Vec<Column<Changed>> {
    vec![
        count("number", Unit::Count, |row: &Changed| Some(row.number)),
        Column::text("what", |row: &Changed| Value::text(row.change.what)),
        rounded("before", Unit::None, |row: &Changed| row.change.before),
        rounded("now", Unit::None, |row: &Changed| row.change.now),
        Column::text("which", |row: &Changed| {
            Value::some_text(row.which.as_deref())
        }),
        Column::new("notable", DataType::Boolean, Unit::None, |row: &Changed| {
            Value::Flag(row.change.is_notable)
        }),
    ]
}

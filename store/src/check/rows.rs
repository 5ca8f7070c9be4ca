//! Checks the rows of a segment: their order, their content, and their sums.

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use trackiops_schemas::captured::StreamBytes;
use trackiops_schemas::columns;
use trackiops_schemas::counter_macro::Counter;
use trackiops_schemas::file_ops::FileOp;
use trackiops_schemas::identity::FileKey;
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::row::{AppCalls, CachedBytes, Direction, Health, Row};
use trackiops_schemas::time::UtcMs;

use super::report::why;
use super::totals::Sum;
use crate::batch::{decode_health, decode_ops, decode_rows};
use crate::file_index::FileIndex;
use crate::layout::Dataset;
use crate::segment::Segment;
use crate::segment::reader::SegmentReader;

const BATCH_ROWS: usize = 4096;

/// Result of reading a segment's rows.
pub(super) struct CheckedRows {
    pub(super) rows: u64,
    /// Sums by window.
    pub(super) sums: BTreeMap<UtcMs, Sum>,
}

/// Reads the rows of a segment. An error says how they differ from the catalog, or that they are
/// not in order.
pub(super) fn of_segment(reader: SegmentReader, segment: &Segment) -> Result<CheckedRows, String> {
    segment.agrees_with(&reader)?;
    let mut seen = Seen::default();
    for batch in reader.batches(BATCH_ROWS).map_err(why)? {
        let batch = batch.map_err(why)?;
        match segment.dataset {
            Dataset::Rollup => decode_rows(&batch, |stored| {
                seen.files
                    .push_checked(stored.file_key, &mut seen.out_of_order);
                let order = (stored.file_key, stored.time);
                seen.row(order, stored.host, segment, sum_of(&stored.row));
            }),
            Dataset::Health => decode_health(&batch, |stored| {
                let mut sum = Sum::of(&counts(&Health::COUNTERS, &stored.health));
                let captured = stored.health.captured.total();
                sum.extend(&counts(&StreamBytes::COUNTERS, &captured));
                seen.row((FileKey(0), stored.time), stored.host, segment, sum);
            }),
            Dataset::Ops => decode_ops(&batch, |stored| {
                let mut sum = Sum::of(&counts(&OperationSums::COUNTERS, &stored.sums));
                let tcp = &stored.sums.tcp;
                sum.extend(&[
                    stored.sums.execute.total(),
                    tcp.readings,
                    tcp.reconnects,
                    tcp.segments,
                    tcp.retrans,
                ]);
                seen.row((FileKey(0), stored.time), stored.host, segment, sum);
            }),
        }
        .map_err(|error| error.to_string())?;
    }
    seen.fits(segment)?;
    Ok(CheckedRows {
        rows: seen.rows,
        sums: seen.sums,
    })
}

/// Checks that the rows of a segment of requests are ordered by time. Returns their number.
pub(super) fn requests(reader: SegmentReader) -> Result<u64, String> {
    let (mut rows, mut last) = (0, i64::MIN);
    for batch in reader.batches(BATCH_ROWS).map_err(why)? {
        let batch = batch.map_err(why)?;
        let times = batch.column_by_name(columns::END_TIME_NS);
        let times = times.and_then(|times| times.as_primitive_opt::<Int64Type>());
        let times = times.ok_or("its times are of another type")?;
        for i in 0..times.len() {
            if times.value(i) < last {
                return Err("its rows are not in order".into());
            }
            last = times.value(i);
        }
        rows += times.len() as u64;
    }
    Ok(rows)
}

#[derive(Default)]
struct Seen {
    rows: u64,
    files: FileIndex,
    last: Option<(FileKey, UtcMs)>,
    span: Option<(UtcMs, UtcMs)>,
    out_of_order: bool,
    misplaced: bool,
    sums: BTreeMap<UtcMs, Sum>,
}

impl Seen {
    fn row(&mut self, order: (FileKey, UtcMs), host: &str, segment: &Segment, sum: Sum) {
        let (_, time) = order;
        self.rows += 1;
        self.out_of_order |= self.last.is_some_and(|last| last > order);
        self.last = Some(order);
        self.misplaced |= host != segment.host || time.align(segment.granularity) != time;
        let end = time.plus(segment.granularity);
        let span = self.span.unwrap_or((time, end));
        self.span = Some((span.0.min(time), span.1.max(end)));
        self.sums.entry(time).or_default().add(sum);
    }

    fn fits(&self, segment: &Segment) -> Result<(), String> {
        let files = (segment.dataset == Dataset::Rollup).then(|| segment.files.unpack());
        let wrong = if self.out_of_order {
            "its rows are not in order"
        } else if self.misplaced {
            "it has rows of another host, or times that are not aligned to its granularity"
        } else if self
            .span
            .is_some_and(|span| span != (segment.start, segment.end))
        {
            "it covers another time than the catalog says"
        } else if files.is_some_and(|files| files != self.files) {
            "the catalog's index of its files does not match its rows"
        } else {
            return Ok(());
        };
        Err(wrong.to_owned())
    }
}

/// Counters of a row that add up exactly. Times do not: each row rounds them.
fn counts<R>(table: &[Counter<R>], row: &R) -> Vec<u64> {
    let counts = table.iter().filter(|counter| !counter.is_time());
    counts.map(|counter| (counter.get)(row)).collect()
}

fn sum_of(row: &Row) -> Sum {
    let mut sum = Sum::default();
    for direction in [&row.read, &row.write] {
        let mut exact = counts(&Direction::COUNTERS, direction);
        let errnos = direction.errnos.counts().iter();
        let errors = errnos.fold(0, |sum: u64, (_, count)| sum.wrapping_add(*count));
        exact.push(errors);
        exact.push(direction.latency.total());
        sum.extend(&exact);
    }
    let mut ops = vec![0; FileOp::COUNT + 1];
    for op in row.ops.as_slice() {
        let mut exact = counts(&FileOp::COUNTERS, op);
        exact.push(op.execute.total());
        for (sum, count) in ops.iter_mut().zip(exact) {
            *sum = u64::wrapping_add(*sum, count);
        }
    }
    sum.extend(&ops);
    for calls in [&row.app_read, &row.app_write] {
        let mut exact = counts(&AppCalls::COUNTERS, calls);
        exact.push(calls.latency.total());
        sum.extend(&exact);
    }
    sum.extend(&counts(&CachedBytes::COUNTERS, &row.cache));
    sum
}

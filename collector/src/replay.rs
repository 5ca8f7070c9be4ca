//! Adds up requests from other sources than a kernel, in the same way as recorded ones: into windows of
//! the finest granularity.

use std::sync::Arc;

use trackiops_schemas::captured::{Stream, StreamBytes};
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::identity::{FileAttributes, FileId, TenantId};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, FileRow, Health};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::clock::{Clock, ClockSample, MonotonicNs};
use crate::kernel_sums::by_file::FileOpInWindow;
use crate::rollup::row_key::RowKey;
use crate::rollup::{OpenWindow, Rollup};

/// Rolls up requests whose times are UTC, ns since the epoch.
pub struct Replay<A> {
    rollup: Rollup,
    clock: Clock,
    attributes: A,
    /// Whether [`Self::cover`] marks the recorded time; otherwise all of it counts as recorded.
    is_covered_in_parts: bool,
}

impl<A> Replay<A>
where
    A: FnMut(FileId, TenantId) -> Arc<FileAttributes>,
{
    /// With windows of this length. `attributes` returns a file's attributes in rows.
    pub fn new(granularity: Granularity, attributes: A) -> Self {
        Self {
            rollup: Rollup::new(granularity),
            clock: Clock::new(ClockSample {
                now: MonotonicNs(0),
                offset_ns: 0,
            }),
            attributes,
            is_covered_in_parts: false,
        }
    }

    /// Marks a time as recorded, including operations: from and until are UTC, ns since the epoch. Call it for all recorded time, or
    /// never.
    pub fn cover(&mut self, mut from_ns: i64, until_ns: i64) {
        self.is_covered_in_parts = true;
        let granularity = self.rollup.granularity();
        while from_ns < until_ns {
            let at = UtcMs(from_ns.div_euclid(1_000_000));
            let end = at.align(granularity).plus(granularity);
            let until_ns = until_ns.min(end.0.saturating_mul(1_000_000));
            self.rollup.window(at).covered_ns += (until_ns - from_ns).unsigned_abs();
            from_ns = until_ns;
        }
    }

    /// Counts an operation that completed at `end_ns`; READ and WRITE are counted by [`Self::add`] as well. `file` is its file, if known,
    /// and its user: pass none for READ and WRITE.
    pub fn add_operation(
        &mut self,
        end_ns: i64,
        operation: &Operation,
        sums: &OperationSums,
        file: Option<(FileId, TenantId)>,
    ) {
        let end = UtcMs(end_ns.div_euclid(1_000_000));
        let granularity = self.rollup.granularity();
        let window = self.rollup.window(end);
        window.health.ops_seen += sums.requests;
        match window.ops.get_mut(operation) {
            Some(known) => known.merge(sums),
            None => drop(window.ops.insert(operation.clone(), sums.clone())),
        }
        let Some((file, tenant)) = file else {
            return;
        };
        let op = FileOp {
            op: OpName::new(&operation.op),
            requests: sums.requests,
            errors: sums.errors,
            queue_ns_sum: sums.queue_ns_sum,
            rtt_ns_sum: sums.rtt_ns_sum,
            execute_ns_sum: sums.execute_ns_sum,
            execute_ns_max: sums.execute_ns_max,
            execute: sums.execute.clone(),
        };
        let in_window = FileOpInWindow {
            row: RowKey {
                file,
                tenant,
                level: IoLevel::Wire,
            },
            window: end.0.div_euclid(granularity.ms()).cast_unsigned(),
            pid: 0,
            op,
        };
        let now = MonotonicNs(end_ns.cast_unsigned());
        self.rollup.add_operations(vec![in_window], now, |_, _| {});
    }

    /// Adds bytes of a captured stream whose last packet was captured at `at_ns`. If their window is closed, it gets another
    /// part with nothing else.
    pub fn add_captured(&mut self, at_ns: i64, stream: Stream, bytes: &StreamBytes) {
        let window = self.rollup.window(UtcMs(at_ns.div_euclid(1_000_000)));
        window.health.captured.add(Some(stream), bytes);
    }

    /// Counts requests. They must come in the order of completion, or nearly so.
    pub fn add(&mut self, mut requests: &[RequestRecord]) {
        self.rollup.add(&self.clock, &mut requests, |_, _| {});
    }

    /// Closes the windows that end by `until`, oldest first. No more requests may come for them.
    pub fn close(&mut self, until: UtcMs) -> Vec<ClosedWindow> {
        let windows = self.rollup.take_windows(|_, end| end <= until);
        windows
            .into_iter()
            .map(|window| self.closed(window))
            .collect()
    }

    fn closed(&mut self, window: OpenWindow) -> ClosedWindow {
        let rows = window
            .rows
            .into_iter()
            .map(|(RowKey { file, tenant, .. }, row)| FileRow {
                file: (self.attributes)(file, tenant),
                row,
            });
        let mut rows: Vec<FileRow> = rows.collect();
        rows.sort_by_key(|row| row.file.key);
        let ops = window.ops.into_iter();
        let ops = ops.map(|(operation, sums)| OperationRow { operation, sums });
        let whole_ms = self.rollup.granularity().ms().unsigned_abs();
        let (covered_ms, ops_covered_ms) = match self.is_covered_in_parts {
            true => {
                // A part of a millisecond is one, so that a window with requests is never uncovered.
                let least_ms = u64::from(window.health.seen + window.health.ops_seen > 0);
                let covered_ms = window.covered_ns.div_ceil(1_000_000);
                let covered_ms = covered_ms.clamp(least_ms, whole_ms);
                (covered_ms, covered_ms)
            }
            false => (whole_ms, 0),
        };
        ClosedWindow {
            start: window.start,
            rows,
            ops: ops.collect(),
            health: Health {
                covered_ms,
                ops_covered_ms,
                ..window.health
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::identity::FileKey;

    #[test]
    fn operations_stand_beside_requests_and_time_may_be_covered_in_parts() {
        let file = FileId {
            dev: trackiops_schemas::identity::Dev(1),
            fileid: 7,
            handle_hash: 3,
        };
        let tenant = TenantId { uid: 5, cgroup: 0 };
        let mut replay = Replay::new("1s".parse().unwrap(), |file, _| {
            Arc::new(FileAttributes {
                key: FileKey::new(None, file),
                id: file,
                mount: None,
                path: None,
                path_inferred: false,
                tenant: Default::default(),
                level: Default::default(),
            })
        });
        let operation = Operation {
            op: "LOOKUP".to_owned(),
            ..Operation::default()
        };
        let sums = OperationSums {
            requests: 1,
            execute_ns_sum: 5000,
            ..OperationSums::default()
        };
        replay.add_operation(5_100_000_000, &operation, &sums, Some((file, tenant)));
        replay.add_operation(5_200_000_000, &operation, &sums, None);
        replay.cover(5_000_000_000, 5_750_000_000);
        replay.cover(5_750_000_000, 6_250_000_000);
        let windows = replay.close(UtcMs(i64::MAX));
        let [first, second] = &windows[..] else {
            panic!("{windows:?}")
        };
        assert_eq!(first.ops[0].sums.requests, 2);
        assert_eq!(first.rows[0].row.ops.as_slice()[0].requests, 1);
        let covered = [first, second].map(|window| window.health.ops_covered_ms);
        assert_eq!(covered, [1000, 250]);
    }

    #[test]
    fn requests_are_in_the_windows_in_which_they_complete() {
        let second: Granularity = "1s".parse().unwrap();
        let mut replay = Replay::new(second, |file, _| {
            Arc::new(FileAttributes {
                key: FileKey::new(None, file),
                id: file,
                mount: None,
                path: None,
                path_inferred: false,
                tenant: Default::default(),
                level: Default::default(),
            })
        });
        let request = |end_ns, fileid| RequestRecord {
            end_ns,
            fileid,
            done_bytes: 4096,
            asked_bytes: 4096,
            ..RequestRecord::default()
        };
        replay.add(&[
            request(5_000_000_000, 1),
            request(5_999_999_999, 1),
            request(6_000_000_000, 2),
        ]);
        let windows = replay.close(UtcMs(6_000));
        let shown: Vec<_> = windows
            .iter()
            .map(|w| (w.start, w.rows.len(), w.health.recorded))
            .collect();
        assert_eq!(shown, [(UtcMs(5_000), 1, 2)]);
        let rest = replay.close(UtcMs(i64::MAX));
        assert_eq!((rest.len(), rest[0].rows[0].file.id.fileid), (1, 2));
    }
}

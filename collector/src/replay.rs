//! Adds up requests that do not come from a kernel, the same way as recorded ones: into windows of
//! the finest granularity.

use std::sync::Arc;

use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::identity::{FileAttributes, FileId, TenantId};
use trackiops_schemas::row::{ClosedWindow, FileRow, Health};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::clock::{Clock, ClockSample, MonotonicNs};
use crate::rollup::row_key::RowKey;
use crate::rollup::{OpenWindow, RequestStream, Rollup};

/// Rolls up requests whose times are UTC, ns since the epoch.
pub struct Replay<A> {
    rollup: Rollup,
    clock: Clock,
    attributes: A,
}

impl<A> Replay<A>
where
    A: FnMut(FileId, TenantId) -> Arc<FileAttributes>,
{
    /// With windows of this length. `attributes` returns what rows say about a file.
    pub fn new(granularity: Granularity, attributes: A) -> Self {
        Self {
            rollup: Rollup::new(granularity),
            clock: Clock::new(ClockSample {
                now: MonotonicNs(0),
                offset_ns: 0,
            }),
            attributes,
        }
    }

    /// Counts requests. They must come in the order of completion, or nearly so.
    pub fn add(&mut self, requests: &[RequestRecord]) {
        self.rollup
            .add(&self.clock, &mut RequestSlice(requests), |_, _| {});
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
            .map(|(RowKey { file, tenant }, row)| FileRow {
                file: (self.attributes)(file, tenant),
                row,
            });
        let mut rows: Vec<FileRow> = rows.collect();
        rows.sort_by_key(|row| row.file.key);
        ClosedWindow {
            start: window.start,
            rows,
            ops: Vec::new(),
            health: Health {
                covered_ms: self.rollup.granularity().ms().unsigned_abs(),
                ..window.health
            },
        }
    }
}

/// The requests that are not counted yet.
struct RequestSlice<'a>(&'a [RequestRecord]);

impl RequestStream for RequestSlice<'_> {
    fn peek(&mut self) -> Option<&RequestRecord> {
        self.0.first()
    }

    fn pass(&mut self) {
        self.0 = self.0.get(1..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::identity::FileKey;

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

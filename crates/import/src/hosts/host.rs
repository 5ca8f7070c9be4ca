//! A host of an import: a client of a capture, or a host that rows of a table name.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use trackiops_capture::Peers;
use trackiops_collector::Replay;
use trackiops_schemas::ebpf::ring::RequestRecord;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, TenantId};
use trackiops_schemas::request::{Request as SingleRequest, RequestBatch};
use trackiops_schemas::row::{ClosedWindow, Health};
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{Counts, StoreError};

use super::before::Before;
use super::writers::Writers;
use crate::names::Names;

pub const SECOND_NS: i64 = 1_000_000_000;
/// A longer pause without packets counts as not captured.
pub const LONGEST_PAUSE_NS: i64 = 300 * SECOND_NS;
const BACK_NS: i64 = -LONGEST_PAUSE_NS;
/// Rows of a window to write together: as many as a journal has room for.
const MOST_ROWS_OF_PART: usize = 1 << 16;
/// Single requests to write at once.
const BATCH: usize = 16 << 10;
/// Connections of a host with separate names.
const MOST_CONNECTIONS: usize = 1024;

/// Returns the attributes that rows store about a file.
pub type Attributes = Box<dyn FnMut(FileId, TenantId) -> Arc<FileAttributes>>;

/// A host with its closed windows and single requests that are not written yet.
pub struct Host {
    pub replay: Replay<Attributes>,
    /// The end of the time that is covered, ns.
    covered_ns: i64,
    connections: BTreeMap<(SocketAddr, SocketAddr), usize>,
    pub windows: Vec<ClosedWindow>,
    /// Number of rows in `windows`.
    pub rows: usize,
    pub requests: Vec<RequestRecord>,
    /// A host without requests has only connections.
    pub has_requests: bool,
}

impl Host {
    /// A host with windows of this length, whose time begins at `begin_ns`.
    pub fn new(granularity: Granularity, attributes: Attributes, begin_ns: i64) -> Self {
        Self {
            replay: Replay::new(granularity, attributes),
            covered_ns: begin_ns,
            connections: BTreeMap::new(),
            windows: Vec::new(),
            rows: 0,
            requests: Vec::new(),
            has_requests: false,
        }
    }

    /// Covers the time up to `until_ns`, unless there was a pause, or time went back.
    pub fn cover(&mut self, until_ns: i64) {
        match until_ns.saturating_sub(self.covered_ns) {
            1..=LONGEST_PAUSE_NS => self.replay.cover(self.covered_ns, until_ns),
            // Packets that several CPUs captured are not exactly in order.
            BACK_NS..=0 => return,
            _ => {}
        }
        self.covered_ns = until_ns;
    }

    /// `tcp-1` is its first connection.
    pub fn transport(&mut self, peers: &Peers) -> Option<String> {
        let next = self.connections.len() + 1;
        let ends = (peers.client, peers.server);
        let number = match self.connections.get(&ends) {
            Some(number) => *number,
            None if next > MOST_CONNECTIONS => return None,
            None => *self.connections.entry(ends).or_insert(next),
        };
        Some(format!("{}-{number}", peers.transport))
    }

    /// Closes windows that end by this time.
    pub fn close(&mut self, until: UtcMs) {
        for window in self.replay.close(until).into_iter().flat_map(in_parts) {
            self.rows += 1 + window.rows.len() + window.ops.len();
            self.windows.push(window);
        }
    }

    /// Writes closed windows, except windows that the store already has. Stops when `is_over`: windows of many days go to as many journals,
    /// and each journal waits for the disk. Returns the start of the first window that is not written, or of the first of all if only single
    /// requests are missing.
    pub fn write(
        &mut self,
        to: &mut Writers,
        name: &str,
        names: &impl Names,
        before: &mut Before,
        is_over: &mut impl FnMut() -> bool,
    ) -> Result<Option<UtcMs>, StoreError> {
        let Writers {
            windows,
            requests,
            import,
            ..
        } = to;
        let next = Counts {
            windows: self.windows.len() as u64,
            requests: requests.as_ref().map_or(0, |_| self.requests.len() as u64),
        };
        let had = import.as_mut().map(|import| import.skip(name, next));
        let had = had.unwrap_or_default();
        windows.set_host(name)?;
        let finest = windows.options().granularities.finest();
        let new = &self.windows[had.windows as usize..];
        let mut appended = Counts::default();
        let mut left = new;
        while !left.is_empty() {
            let count = windows.append_first(finest, left)?;
            appended.windows += count as u64;
            left = &left[count..];
            if is_over() {
                break;
            }
        }
        let mut unwritten = left.first().map(|window| window.start);
        before.added(name, &new[..new.len() - left.len()]);
        if let Some(requests) = requests
            && unwritten.is_none()
        {
            requests.set_host(name)?;
            for records in self.requests[had.requests as usize..].chunks(BATCH) {
                if is_over() {
                    unwritten = self.first();
                    break;
                }
                requests.append(&batch(records, names))?;
                appended.requests += records.len() as u64;
            }
        }
        if let Some(import) = import {
            import.appended(name, appended);
        }
        self.windows.clear();
        self.requests.clear();
        self.rows = 0;
        Ok(unwritten)
    }

    /// The start of the first window to write, or without windows the time of the first request.
    pub fn first(&self) -> Option<UtcMs> {
        let request = |record: &RequestRecord| UtcMs((record.end_ns / 1_000_000) as i64);
        let window = self.windows.first().map(|window| window.start);
        window.or_else(|| self.requests.first().map(request))
    }
}

/// Splits a window into parts, which add up to it. The first part has the operations and the account.
fn in_parts(mut window: ClosedWindow) -> Vec<ClosedWindow> {
    let mut parts = Vec::new();
    while window.rows.len() > MOST_ROWS_OF_PART {
        let rows = window.rows.split_off(window.rows.len() - MOST_ROWS_OF_PART);
        parts.push(ClosedWindow {
            start: window.start,
            rows,
            ops: Vec::new(),
            health: Health::default(),
        });
    }
    parts.insert(0, window);
    parts
}

fn batch(records: &[RequestRecord], names: &impl Names) -> RequestBatch {
    let mut batch = RequestBatch::default();
    let mut places = HashMap::new();
    for record in records {
        let file = FileId {
            dev: Dev(record.dev),
            fileid: record.fileid,
            handle_hash: record.handle_hash,
        };
        let place = *places
            .entry((file, record.uid, record.cgroup))
            .or_insert_with(|| {
                let tenant = TenantId {
                    uid: record.uid,
                    cgroup: record.cgroup,
                };
                batch.files.push(names.attributes(file, tenant));
                batch.files.len() as u32 - 1
            });
        let end_ns = record.end_ns.cast_signed();
        batch
            .requests
            .push(SingleRequest::new(record, end_ns, place));
    }
    batch
}

#[cfg(test)]
mod tests {
    use trackiops_schemas::row::{FileRow, Row};

    use super::*;
    use crate::captures::Files;

    #[test]
    fn parts_of_a_window_have_all_of_its_rows_and_its_account_once() {
        for count in [
            0,
            1,
            MOST_ROWS_OF_PART,
            MOST_ROWS_OF_PART + 1,
            3 * MOST_ROWS_OF_PART + 5,
        ] {
            let files = Files::default();
            let row = |number: usize| FileRow {
                file: files.attributes(
                    FileId {
                        fileid: number as u64,
                        ..FileId::others(Dev(1))
                    },
                    TenantId { uid: 1, cgroup: 0 },
                ),
                row: Row::default(),
            };
            let window = ClosedWindow {
                start: UtcMs(1000),
                rows: (0..count).map(row).collect(),
                ops: Vec::new(),
                health: Health {
                    covered_ms: 7,
                    ..Health::default()
                },
            };
            let parts = in_parts(window.clone());
            let mut covered = parts.iter().map(|part| part.health.covered_ms);
            assert_eq!(covered.next(), Some(7));
            assert_eq!(covered.sum::<u64>(), 0);
            assert!(parts.iter().all(|part| part.start == window.start));
            assert!(
                parts
                    .iter()
                    .all(|part| part.rows.len() <= MOST_ROWS_OF_PART)
            );
            let mut rows: Vec<_> = parts.into_iter().flat_map(|part| part.rows).collect();
            rows.sort_by_key(|row| row.file.id.fileid);
            assert_eq!(rows, window.rows);
        }
    }
}

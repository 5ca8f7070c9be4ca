//! Windows of the finest granularity: one hash operation per request.
//!
//! The coarser granularities are fed by closing these windows, so they cost nothing here.

pub(crate) mod sequential;
pub(crate) mod single_requests;

use std::cmp::Reverse;
use std::mem;
use std::sync::Arc;

use ahash::AHashMap;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, TenantId};
use trackiops_schemas::ring::{FoldKey, FoldValue, RequestRecord, flags};
use trackiops_schemas::rollup::{Direction, FileRow, Health, Row};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::clock::{Clock, MonotonicNs};
use crate::generations::Generations;
use crate::kernel_sums::by_file::{Budget, Taken};
use crate::operations::WindowOps;
use crate::rollup::sequential::History;

/// What requests have in common that are added up in one row of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// The file.
    pub file: FileId,
    /// Who used it.
    pub tenant: TenantId,
}

impl From<&RequestRecord> for RowKey {
    fn from(record: &RequestRecord) -> Self {
        Self {
            file: FileId {
                dev: Dev(record.dev),
                fileid: record.fileid,
                handle_hash: record.handle_hash,
            },
            tenant: TenantId {
                uid: record.uid,
                cgroup: record.cgroup,
            },
        }
    }
}

impl From<&FoldKey> for RowKey {
    fn from(key: &FoldKey) -> Self {
        Self {
            file: FileId {
                dev: Dev(key.dev),
                fileid: key.fileid,
                handle_hash: key.handle_hash,
            },
            tenant: TenantId {
                uid: key.uid,
                cgroup: key.cgroup,
            },
        }
    }
}

/// A window that takes in requests.
pub struct OpenWindow {
    /// Its start.
    pub start: UtcMs,
    /// One row per file and tenant, or rarely two; a settled one is empty.
    pub rows: Vec<(RowKey, Row)>,
    /// Rows of files whose mount is gone, with what it was.
    pub settled: Vec<FileRow>,
    /// Its operations.
    pub ops: WindowOps,
    /// The recorder's own account; `covered_ms` is filled in when it closes.
    pub health: Health,
    /// Covered time, ns.
    pub covered_ns: u64,
    /// Unique among all windows ever opened, unlike its start.
    serial: u64,
}

/// Files and tenants that are followed at a time, and rows of a window, at most: both together take 0.5 KiB, or 1.3 where there are reads and
/// writes. What is beyond is counted as the file `(other)` of its mount.
const MOST: usize = 65_536;

/// What outlives a window: the recent requests, and where the row is.
#[derive(Default)]
struct RowState {
    history: Histories,
    window: u64,
    index: usize,
}

/// The recent reads and the recent writes. Beside the map: many files are only read, or not even that, and half of the map's places are empty.
type Histories = [Option<Box<History>>; 2];

/// Requests to be counted.
pub trait Requests {
    /// The next one.
    fn peek(&mut self) -> Option<&RequestRecord>;
    /// Leaves it behind.
    fn pass(&mut self);
}

/// The open windows, and the files that were active lately.
pub struct Rollup {
    granularity: Granularity,
    /// Ascending by start: one or two.
    open: Vec<OpenWindow>,
    states: Generations<RowKey, RowState>,
    budget: Budget,
    serials: u64,
    /// There was no room for a file.
    is_full: bool,
}

impl Rollup {
    /// No window is open yet.
    pub fn new(granularity: Granularity) -> Self {
        Self {
            granularity,
            open: Vec::new(),
            states: Generations::new(),
            budget: Budget::new(),
            serials: 0,
            is_full: false,
        }
    }

    /// The length of its windows.
    pub fn granularity(&self) -> Granularity {
        self.granularity
    }

    /// The window that holds `at`, opened if need be.
    pub fn window(&mut self, at: UtcMs) -> &mut OpenWindow {
        let index = self.window_index(at);
        &mut self.open[index]
    }

    fn window_index(&mut self, at: UtcMs) -> usize {
        let start = at.align(self.granularity);
        // Nearly always the last one.
        let after = self
            .open
            .iter()
            .rposition(|w| w.start <= start)
            .map_or(0, |i| i + 1);
        if let Some(index) = after.checked_sub(1)
            && self.open[index].start == start
        {
            return index;
        }
        self.serials += 1;
        let new = OpenWindow {
            start,
            rows: Vec::new(),
            settled: Vec::new(),
            ops: WindowOps::new(),
            health: Health::default(),
            covered_ns: 0,
            serial: self.serials,
        };
        self.open.insert(after, new);
        after
    }

    /// Counts `requests` by the time of their completion. Those with which a row begins are told to `newcomer`.
    ///
    /// Requests of a file often come in runs; a run costs one hash operation.
    pub fn add(
        &mut self,
        clock: &Clock,
        requests: &mut impl Requests,
        mut newcomer: impl FnMut(RowKey, &RequestRecord),
    ) {
        let (mut window, mut index) = (0..0, 0);
        while let Some(mut record) = requests.peek() {
            let key = RowKey::from(record);
            if !window.contains(&record.end_ns) {
                let end = clock.utc(MonotonicNs(record.end_ns));
                window = clock.monotonic(end.align(self.granularity), self.granularity);
                index = self.window_index(end);
            }
            let (own, row, state, health, first) = self.row(key, index);
            if first {
                newcomer(own, record);
            }
            let mut counted = 0;
            loop {
                count(row, &mut state.history, record);
                counted += 1;
                requests.pass();
                match requests.peek() {
                    Some(r) if window.contains(&r.end_ns) && RowKey::from(r) == key => record = r,
                    _ => break,
                }
            }
            health.recorded += counted;
            health.seen += counted;
        }
    }

    /// Counts requests that the kernel has added up because there was no room for them, and that completed in the window of `end`.
    pub fn add_folded(&mut self, key: &FoldKey, sum: &FoldValue, end: UtcMs) -> bool {
        let index = self.window_index(end);
        let (_, row, _, health, first) = self.row(key.into(), index);
        let direction = match key.direction {
            flags::WRITE => &mut row.write,
            _ => &mut row.read,
        };
        direction.merge(&folded(sum));
        health.folded += sum.requests;
        health.seen += sum.requests;
        first
    }

    /// Counts operations that the kernel has added up by file. Those with which a row begins are told to `newcomer`.
    ///
    /// Where the cgroup is not known it is that of the only tenant of the same user who used the file in the window, if there is
    /// one. A file of which nothing is known yet is followed as long as there is a [`Budget`] for it; what is beyond is of
    /// [`FileId::others`].
    pub fn add_operations(
        &mut self,
        mut taken: Vec<Taken>,
        now: MonotonicNs,
        mut newcomer: impl FnMut(RowKey, u32),
    ) {
        self.budget.refill(now);
        // First those of whom tenants are known, then the busiest.
        taken.sort_by_key(|taken| (taken.row.tenant.cgroup == 0, Reverse(taken.op.requests)));
        let mut tenants: AHashMap<u64, Tenants> = AHashMap::new();
        for Taken {
            mut row,
            window,
            pid,
            op,
        } in taken
        {
            let start = window.cast_signed().saturating_mul(self.granularity.ms());
            let index = self.window_index(UtcMs(start));
            let open = &self.open[index];
            if row.tenant.cgroup == 0 {
                let tenants = tenants
                    .entry(open.serial)
                    .or_insert_with(|| tenants_of(open));
                let only = tenants.get(&(row.file, row.tenant.uid)).copied().flatten();
                row.tenant.cgroup = only.unwrap_or(0);
            }
            if self.states.peek(&row).is_none() && !self.budget.spend() {
                row.file = FileId::others(row.file.dev);
            }
            let (row, counters, _, _, first) = self.row(row, index);
            counters.ops.add(&op);
            if first {
                newcomer(row, pid);
            }
        }
    }

    /// The row of `key` in the open window `index`, if there is room for it, or else that of the others of its mount, with the key that the row
    /// has; the last is whether it begins with this.
    #[inline]
    fn row(
        &mut self,
        mut key: RowKey,
        index: usize,
    ) -> (RowKey, &mut Row, &mut RowState, &mut Health, bool) {
        let window = &mut self.open[index];
        if (self.states.len() >= MOST || window.rows.len() >= MOST)
            && self
                .states
                .peek(&key)
                .is_none_or(|known| window.rows.len() >= MOST && known.window != window.serial)
        {
            self.is_full = true;
            key.file = FileId::others(key.file.dev);
            // Requests of different files are no sequence.
            self.states.entry(key, RowState::default).history = Default::default();
        }
        let state = self.states.entry(key, RowState::default);
        let first = state.window != window.serial;
        if first {
            state.window = window.serial;
            state.index = window.rows.len();
            window.rows.push((key, Row::default()));
        }
        let (_, row) = &mut window.rows[state.index];
        (key, row, state, &mut window.health, first)
    }

    /// Whether there was no room for a file since the last rotation.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Forgets the files that were idle since the last call but one; their open rows stay.
    pub fn rotate(&mut self) {
        self.states.rotate();
        self.is_full = false;
    }

    /// The files that have rows in the open windows.
    pub fn open_files(&self) -> impl Iterator<Item = FileId> {
        let rows = self.open.iter().flat_map(|window| &window.rows);
        rows.map(|(key, _)| key.file)
    }

    /// Settles the rows counted so far of files for which `wanted` holds: whatever comes later under
    /// the same numbers begins a new row.
    pub fn settle(
        &mut self,
        wanted: impl Fn(&FileId) -> bool,
        mut attributes: impl FnMut(RowKey) -> Arc<FileAttributes>,
    ) {
        for window in &mut self.open {
            for (key, row) in window.rows.iter_mut().filter(|(key, _)| wanted(&key.file)) {
                let row = mem::take(row);
                if row != Row::default() {
                    let file = attributes(*key);
                    window.settled.push(FileRow { file, row });
                }
            }
        }
    }

    /// Whether there is a window for which `closed` holds (given start and end).
    pub fn has_window(&self, closed: impl Fn(UtcMs, UtcMs) -> bool) -> bool {
        let length = self.granularity;
        self.open
            .iter()
            .any(|w| closed(w.start, w.start.plus(length)))
    }

    /// Takes the windows, oldest first, for which `closed` holds (given start and end).
    pub fn take_windows(&mut self, closed: impl Fn(UtcMs, UtcMs) -> bool) -> Vec<OpenWindow> {
        let granularity = self.granularity;
        let (taken, kept) = mem::take(&mut self.open)
            .into_iter()
            .partition(|w| closed(w.start, w.start.plus(granularity)));
        self.open = kept;
        taken
    }
}

/// By file and user: the cgroup, `None` if there are several.
type Tenants = AHashMap<(FileId, u32), Option<u64>>;

/// Those that are known in a window.
fn tenants_of(window: &OpenWindow) -> Tenants {
    let mut tenants = Tenants::new();
    for (RowKey { file, tenant }, _) in &window.rows {
        if tenant.cgroup != 0 {
            let cgroup = tenants
                .entry((*file, tenant.uid))
                .or_insert(Some(tenant.cgroup));
            *cgroup = cgroup.filter(|known| *known == tenant.cgroup);
        }
    }
    tenants
}

#[inline]
fn count(row: &mut Row, history: &mut Histories, record: &RequestRecord) {
    let write = record.flags & flags::WRITE != 0;
    let direction = if write { &mut row.write } else { &mut row.read };
    direction.requests += 1;
    direction.bytes += u64::from(record.done_bytes);
    direction.sequential += history[usize::from(write)]
        .get_or_insert_default()
        .judge(record);
    if record.error < 0 {
        direction.errors += 1;
        direction.errnos.add(record.error.saturating_neg(), 1);
    } else if record.done_bytes < record.asked_bytes && record.flags & flags::EOF == 0 {
        direction.short += 1;
    }
    if record.flags & flags::UNTIMED != 0 {
        direction.untimed += 1;
    } else {
        direction.latency_ns_sum = direction.latency_ns_sum.saturating_add(record.latency_ns);
        direction.latency_ns_max = direction.latency_ns_max.max(record.latency_ns);
        direction.latency.record(record.latency_ns);
        direction.queue_ns_sum = direction.queue_ns_sum.saturating_add(record.queue_ns);
        direction.rtt_ns_sum = direction.rtt_ns_sum.saturating_add(record.rtt_ns);
        direction.unsplit += u64::from(record.flags & flags::UNSPLIT != 0);
    }
    direction.retrans += u64::from(record.retransmissions);
    direction.direct += u64::from(record.flags & flags::DIRECT != 0);
    direction.stable += u64::from(record.flags & flags::STABLE != 0);
}

/// Requests that the kernel has added up, as a row counts them.
fn folded(sum: &FoldValue) -> Direction {
    let FoldValue {
        requests,
        bytes,
        latency_ns_sum,
        latency_ns_max,
        errors,
        short,
        untimed,
        queue_ns_sum,
        rtt_ns_sum,
        unsplit,
        retransmissions,
        direct,
        stable,
    } = *sum;
    Direction {
        requests,
        bytes,
        latency_ns_sum,
        latency_ns_max,
        errors,
        short,
        folded: requests.saturating_sub(untimed),
        untimed,
        queue_ns_sum,
        rtt_ns_sum,
        retrans: retransmissions,
        unsplit,
        direct,
        stable,
        ..Direction::default()
    }
}

#[cfg(test)]
mod tests {
    use std::iter::Peekable;

    use super::*;
    use crate::clock::Sample;
    use trackiops_schemas::file_ops::{FileOp, OpName};
    use trackiops_schemas::identity::FileKey;

    impl<I: Iterator<Item = RequestRecord>> Requests for Peekable<I> {
        fn peek(&mut self) -> Option<&RequestRecord> {
            Peekable::peek(self)
        }

        fn pass(&mut self) {
            self.next();
        }
    }

    fn record(fileid: u64, flags: u32, done_bytes: u32, error: i32) -> RequestRecord {
        RequestRecord {
            end_ns: 1_000_000,
            latency_ns: 1000,
            fileid,
            offset: 0,
            asked_bytes: 4096,
            done_bytes,
            dev: 49,
            handle_hash: 1,
            error,
            pid: 1,
            flags,
            uid: 1000,
            cgroup: 1,
            ..RequestRecord::default()
        }
    }

    /// Adds one request that completes at `end`; whether it begins a row.
    fn add(rollup: &mut Rollup, record: &RequestRecord, end: UtcMs) -> bool {
        let clock = Clock::new(Sample {
            now: MonotonicNs(0),
            offset_ns: 0,
        });
        let record = RequestRecord {
            end_ns: end.0.cast_unsigned() * 1_000_000,
            ..*record
        };
        let mut first = false;
        let mut requests = [record].into_iter().peekable();
        rollup.add(&clock, &mut requests, |_, _| first = true);
        first
    }

    fn rollup() -> Rollup {
        Rollup::new("1s".parse().unwrap())
    }

    fn all(rollup: &mut Rollup) -> Vec<OpenWindow> {
        rollup.take_windows(|_, _| true)
    }

    #[test]
    fn a_request_is_counted_once_in_the_window_of_its_completion() {
        let mut rollup = rollup();
        assert!(add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(1999)));
        assert!(add(
            &mut rollup,
            &record(1, flags::WRITE, 100, 0),
            UtcMs(2000)
        ));
        assert!(!add(&mut rollup, &record(1, 0, 0, -5), UtcMs(2001)));
        let windows = all(&mut rollup);
        assert_eq!(
            windows.iter().map(|w| w.start.0).collect::<Vec<_>>(),
            [1000, 2000]
        );
        let (read, write) = (&windows[1].rows[0].1.read, &windows[1].rows[0].1.write);
        assert_eq!(
            (read.requests, read.errors, read.short, read.bytes),
            (1, 1, 0, 0)
        );
        assert_eq!(
            (write.requests, write.errors, write.short, write.bytes),
            (1, 0, 1, 100)
        );
        assert_eq!(windows[1].health.recorded, 2);
    }

    fn operation(fileid: u64, uid: u32, cgroup: u64, name: &str, requests: u64) -> Taken {
        Taken {
            row: RowKey {
                file: FileId {
                    dev: Dev(49),
                    fileid,
                    handle_hash: 1,
                },
                tenant: TenantId { uid, cgroup },
            },
            window: 1,
            pid: 7,
            op: FileOp {
                op: OpName::new(name),
                requests,
                ..FileOp::default()
            },
        }
    }

    #[test]
    fn an_operation_of_an_unknown_cgroup_is_of_the_users_only_tenant_there_is() {
        let mut rollup = rollup();
        for cgroup in [1, 2] {
            let shared = RequestRecord {
                cgroup,
                ..record(2, 0, 1, 0)
            };
            add(&mut rollup, &shared, UtcMs(1500));
        }
        add(&mut rollup, &record(1, 0, 1, 0), UtcMs(1500));
        let taken = vec![
            operation(1, 1000, 0, "COMMIT", 3),
            operation(2, 1000, 0, "COMMIT", 4),
            operation(3, 7, 0, "CLOSE", 5),
            operation(3, 7, 9, "GETATTR", 6),
            operation(1, 7, 0, "GETATTR", 7),
        ];
        let mut begun = Vec::new();
        rollup.add_operations(taken, MonotonicNs(0), |row, pid| begun.push((row, pid)));
        let window = &all(&mut rollup)[0];
        let told = window.rows.iter().flat_map(|(key, row)| {
            let ops = row.ops.as_slice().iter();
            let TenantId { uid, cgroup } = key.tenant;
            ops.map(move |op| (key.file.fileid, uid, cgroup, op.op.as_str(), op.requests))
        });
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        let expected = [
            (1, 7, 0, "GETATTR", 7),
            (1, 1000, 1, "COMMIT", 3),
            (2, 1000, 0, "COMMIT", 4),
            (3, 7, 9, "CLOSE", 5),
            (3, 7, 9, "GETATTR", 6),
        ];
        assert_eq!(told, expected);
        assert_eq!(begun.len(), 3, "{begun:?}");
        assert_eq!(window.health.seen, 3, "the requests alone");
    }

    #[test]
    fn a_walk_through_a_tree_leaves_the_files_that_are_known_and_no_more_than_there_is_room_for() {
        let mut rollup = rollup();
        let known = 1_000_000;
        add(&mut rollup, &record(known, 0, 1, 0), UtcMs(1500));
        let mut walk: Vec<_> = (1..=10_000)
            .map(|fileid| operation(fileid, 1000, 1, "GETATTR", 1))
            .collect();
        walk.push(operation(known, 1000, 1, "GETATTR", 1));
        rollup.add_operations(walk, MonotonicNs(0), |_, _| {});
        let window = &all(&mut rollup)[0];
        assert!(window.rows.len() < 5000, "{}", window.rows.len());
        let sum_of = |fileid| {
            let mut rows = window.rows.iter();
            let (_, row) = rows.find(|(key, _)| key.file.fileid == fileid).unwrap();
            row.ops.as_slice()[0].requests
        };
        assert_eq!(sum_of(known), 1);
        let all: u64 = window
            .rows
            .iter()
            .flat_map(|(_, row)| row.ops.as_slice())
            .map(|op| op.requests)
            .sum();
        assert_eq!(all, 10_001, "none is lost");
        assert_eq!(sum_of(0), 10_001 - window.rows.len() as u64 + 1);
    }

    #[test]
    fn folded_requests_stand_in_their_window_and_row_without_a_histogram() {
        let mut rollup = rollup();
        let key = FoldKey {
            fileid: 1,
            cgroup: 1,
            window: 1,
            dev: 49,
            handle_hash: 1,
            uid: 1000,
            direction: flags::WRITE,
        };
        let sum = FoldValue {
            requests: 5,
            bytes: 5000,
            latency_ns_sum: 900,
            latency_ns_max: 500,
            errors: 1,
            short: 2,
            untimed: 2,
            queue_ns_sum: 200,
            rtt_ns_sum: 300,
            unsplit: 1,
            retransmissions: 4,
            direct: 5,
            stable: 3,
        };
        add(&mut rollup, &record(1, flags::WRITE, 4096, 0), UtcMs(1500));
        assert!(
            !rollup.add_folded(&key, &sum, UtcMs(1000)),
            "the row was there"
        );
        let other = FoldKey { uid: 7, ..key };
        assert!(
            rollup.add_folded(&other, &sum, UtcMs(1000)),
            "another tenant, another row"
        );
        let window = &all(&mut rollup)[0];
        let health = &window.health;
        assert_eq!((health.seen, health.recorded, health.folded), (11, 1, 10));
        let write = &window.rows[0].1.write;
        assert_eq!(
            (write.requests, write.bytes, write.folded, write.untimed),
            (6, 9096, 3, 2)
        );
        assert_eq!((write.latency_ns_sum, write.latency_ns_max), (1900, 1000));
        assert_eq!((write.queue_ns_sum, write.rtt_ns_sum), (200, 300));
        assert_eq!(
            (write.unsplit, write.retrans, write.direct, write.stable),
            (1, 4, 5, 3)
        );
        assert_eq!(write.errnos.counts(), [], "folding keeps no errno");
        assert_eq!(
            write.latency.total(),
            write.requests - write.folded - write.untimed
        );
    }

    #[test]
    fn where_the_time_went_and_how_is_added_up() {
        let mut rollup = rollup();
        let split = RequestRecord {
            queue_ns: 100,
            rtt_ns: 700,
            retransmissions: 2,
            ..record(1, flags::WRITE | flags::DIRECT | flags::STABLE, 4096, 0)
        };
        let unsplit = record(1, flags::WRITE | flags::UNSPLIT, 0, -116);
        for one in [split, split, unsplit] {
            add(&mut rollup, &one, UtcMs(0));
        }
        let write = &all(&mut rollup)[0].rows[0].1.write;
        assert_eq!(
            (write.queue_ns_sum, write.rtt_ns_sum, write.unsplit),
            (200, 1400, 1)
        );
        assert_eq!((write.retrans, write.direct, write.stable), (4, 2, 2));
        assert_eq!(write.errnos.counts(), [(116, 1)]);
        let parts = write.parts_ns_mean().unwrap();
        let mean = write.latency_ns_mean().unwrap();
        assert!((parts.iter().sum::<f64>() - mean).abs() < 1e-9, "{parts:?}");
    }

    #[test]
    fn end_of_file_is_not_a_short_transfer() {
        let mut rollup = rollup();
        add(&mut rollup, &record(1, flags::EOF, 10, 0), UtcMs(0));
        assert_eq!(all(&mut rollup)[0].rows[0].1.read.short, 0);
    }

    #[test]
    fn untimed_requests_are_counted_without_a_latency() {
        let mut rollup = rollup();
        add(&mut rollup, &record(1, flags::UNTIMED, 4096, 0), UtcMs(0));
        add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(0));
        let read = &all(&mut rollup)[0].rows[0].1.read;
        assert_eq!(
            (read.requests, read.untimed, read.latency.total()),
            (2, 1, 1)
        );
        assert_eq!(read.latency_ns_mean(), Some(1000.0));
    }

    #[test]
    fn a_run_of_requests_ends_with_its_file_and_with_its_window() {
        let clock = Clock::new(Sample {
            now: MonotonicNs(0),
            offset_ns: 500_000_000,
        });
        // Fileid and completion in ms; the windows end at 500, 1500 ...
        let requests = [
            (1, 100),
            (1, 499),
            (1, 500),
            (2, 600),
            (1, 700),
            (1, 450),
            (1, 1600),
        ];
        let records = requests.iter().map(|(fileid, end_ms)| RequestRecord {
            end_ns: end_ms * 1_000_000,
            ..record(*fileid, 0, 1, 0)
        });
        let mut rollup = rollup();
        let mut newcomers = Vec::new();
        rollup.add(&clock, &mut records.peekable(), |row, record| {
            newcomers.push((row.file.fileid, record.end_ns / 1_000_000))
        });
        assert_eq!(
            newcomers,
            [(1, 100), (1, 500), (2, 600), (1, 450), (1, 1600)]
        );
        let windows = all(&mut rollup);
        let counts = windows.iter().map(|w| {
            let requests = |id| w.rows.iter().filter(move |(k, _)| k.file.fileid == id);
            let sum = |id| requests(id).map(|(_, r)| r.read.requests).sum::<u64>();
            (w.start.0, sum(1), sum(2), w.health.recorded)
        });
        let counts: Vec<_> = counts.collect();
        assert_eq!(counts, [(0, 3, 0, 3), (1000, 2, 1, 3), (2000, 1, 0, 1)]);
    }

    #[test]
    fn a_late_request_opens_one_more_partial_window() {
        let mut rollup = rollup();
        add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(1500));
        assert_eq!(rollup.take_windows(|_, end| end <= UtcMs(2000)).len(), 1);
        assert!(add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(1600)));
        add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(2500));
        add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(1700));
        let windows = all(&mut rollup);
        let requests = |w: &OpenWindow| w.rows.iter().map(|(_, r)| r.read.requests).sum::<u64>();
        assert_eq!(
            windows
                .iter()
                .map(|w| (w.start.0, requests(w)))
                .collect::<Vec<_>>(),
            [(1000, 2), (2000, 1)]
        );
    }

    #[test]
    fn what_was_seen_before_a_mount_left_keeps_its_mount() {
        let mut rollup = rollup();
        add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(0));
        let attributes = |row: RowKey| {
            let id = row.file;
            let mount = Some("s:/old".to_owned());
            let key = FileKey::new(mount.as_deref(), id);
            Arc::new(FileAttributes {
                key,
                id,
                mount,
                path: None,
                path_inferred: false,
                tenant: Default::default(),
            })
        };
        rollup.settle(|file| file.dev == Dev(50), attributes);
        assert!(rollup.window(UtcMs(0)).settled.is_empty());
        rollup.settle(|file| file.dev == Dev(49), attributes);
        rollup.settle(|file| file.dev == Dev(49), attributes);
        add(&mut rollup, &record(1, 0, 100, 0), UtcMs(1));
        let window = all(&mut rollup).remove(0);
        let settled: Vec<_> = window.settled.iter().map(|r| r.row.read.bytes).collect();
        let rows: Vec<_> = window.rows.iter().map(|(_, r)| r.read.bytes).collect();
        assert_eq!((settled, rows), (vec![4096], vec![100]));
    }

    #[test]
    fn files_for_which_there_is_no_room_are_counted_as_others() {
        let mut rollup = rollup();
        let more = 7;
        for fileid in 1..=MOST as u64 + more {
            add(&mut rollup, &record(fileid, 0, 100, 0), UtcMs(0));
        }
        assert!(rollup.is_full());
        assert!(
            !add(&mut rollup, &record(1, 0, 100, 0), UtcMs(1)),
            "it is known"
        );
        let window = all(&mut rollup).remove(0);
        assert_eq!(window.rows.len(), MOST + 1);
        let requests = window.rows.iter().map(|(_, row)| row.read.requests);
        assert_eq!(requests.sum::<u64>(), MOST as u64 + more + 1);
        let others = |(key, _): &&(RowKey, Row)| key.file == FileId::others(Dev(49));
        let (key, row) = window.rows.iter().find(others).unwrap();
        assert_eq!(
            (key.tenant.uid, row.read.requests, row.read.sequential),
            (1000, more, 0)
        );
        rollup.rotate();
        rollup.rotate();
        assert!(!rollup.is_full());
        add(
            &mut rollup,
            &record(MOST as u64 + more, 0, 100, 0),
            UtcMs(1000),
        );
        let window = all(&mut rollup).remove(0);
        assert_eq!(
            window.rows[0].0.file.fileid,
            MOST as u64 + more,
            "there is room again"
        );
    }

    #[test]
    fn idle_files_are_forgotten_without_losing_their_open_rows() {
        let mut rollup = rollup();
        add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(0));
        rollup.rotate();
        rollup.rotate();
        assert_eq!(all(&mut rollup)[0].rows.len(), 1);
    }
}

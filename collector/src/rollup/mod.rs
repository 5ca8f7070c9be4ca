//! Windows of the finest granularity: one hash operation per request.
//!
//! The coarser granularities are fed by closing these windows, so they cost nothing here.

mod counting;
mod other_files;
pub(crate) mod row_key;
pub(crate) mod sequential;
pub(crate) mod single_requests;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::mem;
use std::sync::Arc;

use ahash::AHashMap;
use trackiops_schemas::ebpf::ring::{FoldKey, FoldValue, RequestRecord, flags};
use trackiops_schemas::identity::{Dev, FileAttributes, FileId};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::{FileRow, Health, Row};
use trackiops_schemas::shed::{Detail, Details};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::audit::transfers::{DISKS, Transfers};
use crate::clock::{Clock, MonotonicNs};
use crate::generations::Generations;
use crate::kernel_sums::by_call::{CallsInWindow, Summed};
use crate::kernel_sums::by_file::FileOpInWindow;
use crate::operations::WindowOps;
use crate::rollup::counting::{RequestHistories, count, folded, written_from_cache};
use crate::rollup::other_files::{MOST, NewFileBudget, divert, has_no_room};
use crate::rollup::row_key::{RowKey, have_same_row};

/// How long each of [`Detail::ALL`] was shed, ns.
pub type ShedNs = [u64; Detail::ALL.len()];

/// A window that still counts requests.
pub struct OpenWindow {
    /// Its start.
    pub start: UtcMs,
    /// One row per file and tenant, rarely two. A settled row stays here, empty.
    pub rows: Vec<(RowKey, Row)>,
    /// Rows of files whose mount is gone or whose path has changed, with their previous attributes.
    pub settled: Vec<FileRow>,
    /// Its operations.
    pub ops: WindowOps,
    /// The recorder's health; `covered_ms` is filled in when the window closes.
    pub health: Health,
    /// Covered time, ns.
    pub covered_ns: u64,
    /// Part of the covered time in which details were shed, ns.
    pub shed_ns: ShedNs,
    /// Unique among all windows ever opened, unlike its start.
    serial: u64,
}

impl OpenWindow {
    /// Marks some of its time as covered; these details were shed in it.
    pub fn cover(&mut self, ns: u64, shed: Details) {
        self.covered_ns += ns;
        for (detail, shed_ns) in Detail::ALL.into_iter().zip(&mut self.shed_ns) {
            if shed.has(detail) {
                *shed_ns += ns;
            }
        }
    }

    /// The transfers of its rows, each with the device whose counters include them, beside [`FileId::missed`].
    pub fn transfers(&self) -> impl Iterator<Item = (Dev, Transfers)> {
        let rows = self.rows.iter();
        let rows = rows.map(|(key, row)| (key.file, key.level, row));
        let settled = self.settled.iter();
        let settled = settled.map(|row| (row.file.id, row.file.level, &row.row));
        let counted = rows.chain(settled);
        let counted = counted.filter(|(file, ..)| *file != FileId::missed(file.dev));
        counted.map(|(file, level, row)| {
            let dev = match level {
                IoLevel::Wire => file.dev,
                _ => DISKS,
            };
            (dev, Transfers::of_row(level, row))
        })
    }
}

/// The state of a row that outlives a window: the recent requests, and the place of the current row.
#[derive(Default)]
struct RowState {
    history: RequestHistories,
    window: u64,
    index: usize,
}

/// A row in an open window.
struct OpenRow<'r> {
    /// Its key. Without room for another row it is the key of the mount's other files.
    key: RowKey,
    row: &'r mut Row,
    state: &'r mut RowState,
    /// The health of its window.
    health: &'r mut Health,
    /// Whether this call has made it.
    is_new: bool,
}

/// Requests to be counted.
pub trait RequestStream {
    /// Some of the next requests; empty at the end.
    fn peek(&mut self) -> &[RequestRecord];
    /// Moves past the first `count` of these.
    fn pass(&mut self, count: usize);
}

impl RequestStream for &[RequestRecord] {
    fn peek(&mut self) -> &[RequestRecord] {
        self
    }

    fn pass(&mut self, count: usize) {
        *self = &self[count..];
    }
}

/// The open windows, and the recently active files.
pub struct Rollup {
    granularity: Granularity,
    /// Ascending by start; usually one or two.
    open: Vec<OpenWindow>,
    states: Generations<RowKey, RowState>,
    new_files: NewFileBudget,
    serials: u64,
    /// Most followed files, and most rows of a window.
    most: usize,
    /// Whether there was no room for a file.
    is_full: bool,
    /// Whether the page cache is recorded: then bytes written from it are counted.
    has_cache: bool,
}

impl Rollup {
    /// No window is open yet.
    pub fn new(granularity: Granularity) -> Self {
        Self {
            granularity,
            open: Vec::new(),
            states: Generations::new(),
            new_files: NewFileBudget::new(),
            serials: 0,
            most: MOST,
            is_full: false,
            has_cache: false,
        }
    }

    /// Sets whether bytes written from the page cache are counted.
    pub fn with_cache(self, has_cache: bool) -> Self {
        Self { has_cache, ..self }
    }

    /// Limits the number of followed files, to at most [`MOST`].
    pub fn follow_at_most(&mut self, files: usize) {
        self.most = files.min(MOST);
    }

    /// The largest number of followed files.
    pub fn most(&self) -> usize {
        self.most
    }

    /// The length of its windows.
    pub fn granularity(&self) -> Granularity {
        self.granularity
    }

    /// The window that holds `at`, opened if necessary.
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
            shed_ns: ShedNs::default(),
            serial: self.serials,
        };
        self.open.insert(after, new);
        after
    }

    /// Counts `requests` by the time of their completion. Calls `newcomer` for the first request of each
    /// new row.
    ///
    /// Requests of a file often come in runs; a run costs one hash operation.
    pub fn add(
        &mut self,
        clock: &Clock,
        requests: &mut impl RequestStream,
        mut newcomer: impl FnMut(RowKey, &RequestRecord),
    ) {
        let (mut window, mut index) = (0..0, 0);
        loop {
            let mut next = requests.peek();
            let arrived = next.len();
            while let Some(record) = next.first() {
                if !window.contains(&record.end_ns) {
                    let end = clock.utc(MonotonicNs(record.end_ns));
                    window = clock.monotonic(end.align(self.granularity), self.granularity);
                    index = self.window_index(end);
                }
                // Each is compared with its neighbour, which costs less than with the first one.
                let pairs = next.iter().zip(&next[1..]);
                let alike = pairs
                    .take_while(|(a, b)| window.contains(&b.end_ns) && have_same_row(a, b))
                    .count();
                let (run, others) = next.split_at(1 + alike);
                let has_cache = self.has_cache;
                let OpenRow {
                    key,
                    row,
                    state,
                    health,
                    is_new,
                } = self.row(RowKey::from(record), index);
                if is_new {
                    newcomer(key, record);
                }
                count(row, &mut state.history, run);
                if has_cache {
                    row.cache.written += written_from_cache(run);
                }
                health.recorded += run.len() as u64;
                health.seen += run.len() as u64;
                next = others;
            }
            if arrived == 0 {
                return;
            }
            requests.pass(arrived);
        }
    }

    /// Counts folded requests that completed in the window of `end`. Returns whether they begin a
    /// row.
    pub fn add_folded(&mut self, key: &FoldKey, sum: &FoldValue, end: UtcMs) -> bool {
        let index = self.window_index(end);
        let has_cache = self.has_cache;
        let OpenRow {
            row,
            health,
            is_new,
            ..
        } = self.row(key.into(), index);
        if has_cache && key.direction & flags::WRITE != 0 {
            row.cache.written += sum.bytes.saturating_sub(sum.direct_bytes);
        }
        let direction = match key.direction & flags::WRITE {
            0 => &mut row.read,
            _ => &mut row.write,
        };
        direction.merge(&folded(sum));
        health.folded += sum.requests;
        health.seen += sum.requests;
        is_new
    }

    /// Counts operations that the kernel has added up by file. Calls `newcomer` for the first one of each
    /// new row.
    ///
    /// An unknown cgroup is assumed to be that of the user's only known tenant of the file in the
    /// window, if there is exactly one. New files are followed as far as the [`NewFileBudget`]
    /// allows; operations on others count for [`FileId::others`].
    pub fn add_operations(
        &mut self,
        mut taken: Vec<FileOpInWindow>,
        now: MonotonicNs,
        mut newcomer: impl FnMut(RowKey, u32),
    ) {
        self.new_files.refill(now);
        // Known cgroups first, so that they can stand in for unknown ones; then the busiest.
        taken.sort_by_key(|taken| (taken.row.tenant.cgroup == 0, Reverse(taken.op.requests)));
        let mut tenants: AHashMap<u64, CgroupOfUser> = AHashMap::new();
        for FileOpInWindow {
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
                    .or_insert_with(|| cgroups_of(open));
                let only = tenants.get(&(row.file, row.tenant.uid)).copied().flatten();
                row.tenant.cgroup = only.unwrap_or(0);
            }
            if self.states.peek(&row).is_none() && !self.new_files.spend() {
                row = divert(row);
            }
            let OpenRow {
                key, row, is_new, ..
            } = self.row(row, index);
            row.ops.add(&op);
            if is_new {
                newcomer(key, pid);
            }
        }
    }

    /// Counts calls of applications and page cache changes that the kernel has added up. Calls `newcomer` for the first one of each new row.
    pub fn add_calls(&mut self, taken: Vec<CallsInWindow>, mut newcomer: impl FnMut(RowKey, u32)) {
        for CallsInWindow {
            row,
            window,
            pid,
            what,
            calls,
        } in taken
        {
            let start = window.cast_signed().saturating_mul(self.granularity.ms());
            let index = self.window_index(UtcMs(start));
            let OpenRow {
                key, row, is_new, ..
            } = self.row(row, index);
            match what {
                Summed::Reads => row.app_read.merge(&calls),
                Summed::Writes => row.app_write.merge(&calls),
                Summed::PagesAdded => row.cache.added += calls.bytes,
                Summed::PagesEvicted => row.cache.evicted += calls.bytes,
                Summed::PagesDirtied => row.cache.dirtied += calls.bytes,
                Summed::Syncs => row.ops.add(&calls.as_operation("fsync")),
                Summed::Opens => row.ops.add(&calls.as_operation("open")),
            }
            if is_new {
                newcomer(key, pid);
            }
        }
    }

    /// The row of `key` in the open window `index`, or that of its mount's other files if there is
    /// no room.
    #[inline]
    fn row(&mut self, mut key: RowKey, index: usize) -> OpenRow<'_> {
        let window = &mut self.open[index];
        let has_row = || Some(self.states.peek(&key)?.window == window.serial);
        if has_no_room(self.most, self.states.len(), window.rows.len(), has_row) {
            self.is_full = true;
            key = divert(key);
            // Requests of different files must not look sequential.
            self.states.entry(key, RowState::default).history = Default::default();
        }
        let state = self.states.entry(key, RowState::default);
        let is_new = state.window != window.serial;
        if is_new {
            state.window = window.serial;
            state.index = window.rows.len();
            window.rows.push((key, Row::default()));
        }
        let (_, row) = &mut window.rows[state.index];
        OpenRow {
            key,
            row,
            state,
            health: &mut window.health,
            is_new,
        }
    }

    /// Whether there was no room for a file since the last rotation.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Forgets the files that were idle since the previous call; their open rows stay.
    pub fn rotate(&mut self) {
        self.states.rotate();
        self.is_full = false;
    }

    /// The files that have rows in the open windows.
    pub fn open_files(&self) -> impl Iterator<Item = FileId> {
        let rows = self.open.iter().flat_map(|window| &window.rows);
        rows.map(|(key, _)| key.file)
    }

    /// Settles the existing rows of files for which `wanted` holds, with their current attributes.
    /// Later requests under the same numbers are counted from zero.
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

    /// The transfers of each device in the open windows. Reads all their rows.
    pub fn open_transfers(&self) -> AHashMap<Dev, Transfers> {
        let mut sums: AHashMap<Dev, Transfers> = AHashMap::new();
        for (dev, rows) in self.open.iter().flat_map(OpenWindow::transfers) {
            sums.entry(dev).or_default().add(rows);
        }
        sums
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

/// By file and user: the only cgroup, or `None` if there are several.
type CgroupOfUser = AHashMap<(FileId, u32), Option<u64>>;

/// The known cgroups of a window.
fn cgroups_of(window: &OpenWindow) -> CgroupOfUser {
    let mut tenants = CgroupOfUser::new();
    for (RowKey { file, tenant, .. }, _) in &window.rows {
        if tenant.cgroup != 0 {
            let cgroup = tenants
                .entry((*file, tenant.uid))
                .or_insert(Some(tenant.cgroup));
            *cgroup = cgroup.filter(|known| *known == tenant.cgroup);
        }
    }
    tenants
}

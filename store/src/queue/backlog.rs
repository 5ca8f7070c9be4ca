//! Windows that wait for a store that is slow or cannot be written.
//!
//! Their memory is limited. When it is full, the oldest windows are added up to a window of the next coarser
//! granularity, then to still coarser ones. So coarse windows survive longest. If that is not enough, the oldest
//! windows are dropped and counted.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::options::GranularitySet;

/// Memory of a window without its rows.
const WINDOW_BYTES: usize = 512;
/// Bytes of windows that are written together. On a disk that takes seconds to sync, more of them take no longer.
const AT_ONCE_BYTES: usize = 4 << 20;
/// Memory of a list's element: a bucket of a histogram, or an error. An operation of a file counts
/// as four.
const ELEMENT_BYTES: usize = 16;

/// Waiting windows of all granularities.
#[derive(Debug)]
pub(super) struct Backlog {
    granularities: GranularitySet,
    most_bytes: usize,
    bytes: usize,
    /// One queue per granularity. Each item has its memory. The finest queue is ordered by when windows were closed,
    /// the others by window time.
    levels: Vec<VecDeque<(ClosedWindow, usize)>>,
    coarsened: u64,
    dropped: u64,
}

impl Backlog {
    /// An empty backlog. Windows have the finest of these granularities.
    pub(super) fn new(granularities: GranularitySet, most_bytes: usize) -> Self {
        let levels = granularities.as_slice().iter().map(|_| VecDeque::new());
        Self {
            levels: levels.collect(),
            granularities,
            most_bytes,
            bytes: 0,
            coarsened: 0,
            dropped: 0,
        }
    }

    /// Adds a window.
    pub(super) fn push(&mut self, window: ClosedWindow) {
        self.put(0, window);
        while self.bytes > self.most_bytes && self.make_room() {}
    }

    /// Takes the windows that have waited longest, in order: as many as are written together, all of one granularity.
    /// Coarse windows are older than fine ones.
    pub(super) fn pop(&mut self) -> Option<(Granularity, Vec<ClosedWindow>)> {
        let level = self.oldest()?;
        let (mut windows, mut taken) = (Vec::new(), 0);
        while taken < AT_ONCE_BYTES
            && let Some((window, bytes)) = self.levels[level].pop_front()
        {
            taken += bytes;
            windows.push(window);
        }
        self.bytes -= taken;
        Some((self.granularities.as_slice()[level], windows))
    }

    /// Index of the granularity whose first window has waited longest.
    fn oldest(&self) -> Option<usize> {
        self.levels.iter().rposition(|level| !level.is_empty())
    }

    /// Puts back windows that could not be written.
    pub(super) fn put_back(&mut self, granularity: Granularity, windows: Vec<ClosedWindow>) {
        let levels = self.granularities.as_slice();
        let level = levels.iter().position(|g| *g == granularity).unwrap_or(0);
        for window in windows.into_iter().rev() {
            let bytes = size(&window);
            self.bytes += bytes;
            self.levels[level].push_front((window, bytes));
        }
        while self.bytes > self.most_bytes && self.make_room() {}
    }

    /// Number of waiting windows.
    pub(super) fn len(&self) -> usize {
        self.levels.iter().map(VecDeque::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate memory, bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Numbers of windows that were added up to coarser ones, and of dropped windows, since the last call.
    pub(super) fn take_losses(&mut self) -> (u64, u64) {
        (mem::take(&mut self.coarsened), mem::take(&mut self.dropped))
    }

    fn put(&mut self, level: usize, window: ClosedWindow) {
        let bytes = size(&window);
        self.bytes += bytes;
        self.levels[level].push_back((window, bytes));
    }

    /// Adds up the oldest windows of the finest possible granularity to one coarser window. If none can be added up,
    /// drops the oldest window. Always keeps the newest one. Returns whether it freed memory.
    fn make_room(&mut self) -> bool {
        let granularities = self.granularities.as_slice().to_vec();
        for (level, pair) in granularities.windows(2).enumerate() {
            let coarse = pair[1];
            let Some((oldest, _)) = self.levels[level].front() else {
                continue;
            };
            let start = oldest.start.align(coarse);
            let is_within = |window: &ClosedWindow| window.start.align(coarse) == start;
            // Windows of the coarse window that is still growing stay fine.
            if level == 0 && self.levels[0].iter().all(|(window, _)| is_within(window)) {
                continue;
            }
            let mut sum = Sum::new(start);
            let mut left = VecDeque::new();
            for (window, bytes) in mem::take(&mut self.levels[level]) {
                if is_within(&window) {
                    self.bytes -= bytes;
                    self.coarsened += u64::from(level == 0);
                    sum.add(window);
                } else {
                    left.push_back((window, bytes));
                }
            }
            self.levels[level] = left;
            // Late windows may follow after their coarse window was created.
            let known = self.levels[level + 1]
                .iter()
                .position(|(known, _)| known.start == start);
            if let Some((known, bytes)) = known.and_then(|at| self.levels[level + 1].remove(at)) {
                self.bytes -= bytes;
                sum.add(known);
            }
            self.put(level + 1, sum.finish());
            return true;
        }
        if self.len() < 2 {
            return false;
        }
        let oldest = self.oldest();
        let Some((_, bytes)) = oldest.and_then(|level| self.levels[level].pop_front()) else {
            return false;
        };
        self.bytes -= bytes;
        self.dropped += 1;
        true
    }
}

/// Adds up windows.
pub(crate) struct Sum {
    window: ClosedWindow,
    rows: HashMap<Arc<FileAttributes>, Row>,
    ops: BTreeMap<Operation, OperationSums>,
}

impl Sum {
    pub(crate) fn new(start: UtcMs) -> Self {
        let window = ClosedWindow {
            start,
            rows: Vec::new(),
            ops: Vec::new(),
            health: Default::default(),
        };
        Self {
            window,
            rows: HashMap::new(),
            ops: BTreeMap::new(),
        }
    }

    pub(crate) fn add(&mut self, window: ClosedWindow) {
        self.window.health.merge(&window.health);
        for FileRow { file, row } in window.rows {
            match self.rows.get_mut(&file) {
                Some(sum) => sum.merge(&row),
                None => {
                    self.rows.insert(file, row);
                }
            }
        }
        for OperationRow { operation, sums } in window.ops {
            self.ops.entry(operation).or_default().merge(&sums);
        }
    }

    pub(crate) fn finish(self) -> ClosedWindow {
        let rows = self.rows.into_iter();
        let mut rows: Vec<_> = rows.map(|(file, row)| FileRow { file, row }).collect();
        rows.sort_by_key(|row| row.file.key);
        let ops = self.ops.into_iter();
        let ops = ops.map(|(operation, sums)| OperationRow { operation, sums });
        ClosedWindow {
            rows,
            ops: ops.collect(),
            ..self.window
        }
    }
}

/// Approximate memory of a window, without attributes of files, which are shared.
fn size(window: &ClosedWindow) -> usize {
    let rows = window.rows.iter().map(|FileRow { row, .. }| {
        let lists =
            [&row.read, &row.write].map(|d| d.latency.buckets().len() + d.errnos.counts().len());
        let calls = [&row.app_read, &row.app_write].map(|calls| calls.latency.buckets().len());
        let ops = row.ops.as_slice().len() * 4;
        let elements = lists.iter().chain(&calls).sum::<usize>() + ops;
        mem::size_of::<FileRow>() + ELEMENT_BYTES * elements
    });
    let ops = window.ops.iter().map(|row| {
        mem::size_of::<OperationRow>() + ELEMENT_BYTES * row.sums.execute.buckets().len()
    });
    WINDOW_BYTES + rows.sum::<usize>() + ops.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use trackiops_testkit::content::Content;
    use trackiops_testkit::windows::{granularity, windows};

    use super::*;

    fn backlog(most_bytes: usize) -> Backlog {
        Backlog::new("1s,10s,1m".parse().unwrap(), most_bytes)
    }

    fn drain(backlog: &mut Backlog) -> Vec<(Granularity, ClosedWindow)> {
        let taken = std::iter::from_fn(|| backlog.pop());
        taken
            .flat_map(|(granularity, windows)| windows.into_iter().map(move |w| (granularity, w)))
            .collect()
    }

    #[test]
    fn with_room_windows_come_out_as_they_went_in() {
        let mut backlog = backlog(usize::MAX);
        let windows = windows(30);
        windows
            .iter()
            .cloned()
            .for_each(|window| backlog.push(window));
        let (granularity, mut first) = backlog.pop().unwrap();
        assert_eq!(first, windows[..first.len()]);
        let written = first.remove(0);
        backlog.put_back(granularity, first);
        let out = drain(&mut backlog).into_iter().map(|(_, window)| window);
        assert_eq!(
            [written].into_iter().chain(out).collect::<Vec<_>>(),
            windows
        );
        assert_eq!((backlog.bytes(), backlog.take_losses()), (0, (0, 0)));
    }

    #[test]
    fn without_room_coarse_windows_survive_and_sums_are_kept() {
        let windows = windows(300);
        let most_bytes = 60 * size(&windows[0]);
        let mut backlog = backlog(most_bytes);
        for window in windows.iter().cloned() {
            backlog.push(window);
            assert!(backlog.bytes() <= most_bytes);
        }
        let (coarsened, dropped) = backlog.take_losses();
        assert!(coarsened > 200 && dropped == 0, "{coarsened} {dropped}");
        let out = drain(&mut backlog);
        assert!(
            out.iter().any(|(g, _)| *g == granularity("1s")),
            "the newest are fine"
        );
        let all: Vec<_> = out.into_iter().map(|(_, window)| window).collect();
        let minute = granularity("1m");
        assert_eq!(Content::of(&all, minute), Content::of(&windows, minute));
    }

    #[test]
    fn what_finds_no_room_at_all_is_dropped_and_counted() {
        let windows = windows(300);
        let mut backlog = backlog(3 * size(&windows[0]));
        windows
            .iter()
            .cloned()
            .for_each(|window| backlog.push(window));
        let (_, dropped) = backlog.take_losses();
        assert!(dropped > 0);
        assert!(backlog.bytes() <= 3 * size(&windows[0]));
        let newest = drain(&mut backlog).pop().unwrap().1;
        assert!(newest.start.plus(granularity("1m")) > windows[299].start);
    }
}

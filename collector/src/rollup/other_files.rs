//! Decides when a file has no row and is counted as the file `(other)` of its mount.
//!
//! There are two limits: the room for files and rows ([`has_no_room`]), and the budget for files that are newly followed because of
//! operations alone ([`NewFileBudget`]). The kernel side diverts as well; [`OTHERS`](trackiops_schemas::identity::OTHERS) lists
//! every way into such a row.

use std::time::Duration;

use trackiops_schemas::identity::FileId;

use crate::clock::MonotonicNs;
use crate::rollup::row_key::RowKey;

/// Most pairs of file and tenant that are followed at a time, and most rows of a window, if memory allows it. One of
/// each takes 0.5 KiB, or 1.3 KiB with reads and writes. Further files are counted as the file
/// `(other)` of their mount.
pub const MOST: usize = 65_536;

/// Whether there is no room for a new row. `most` limits both the `followed` pairs of file and tenant and the `rows`
/// of the window. `has_row` is `Some` for a pair that is already followed: whether it has a row in
/// this window.
#[inline]
pub fn has_no_room(
    most: usize,
    followed: usize,
    rows: usize,
    has_row: impl FnOnce() -> Option<bool>,
) -> bool {
    (followed >= most || rows >= most) && has_row().is_none_or(|has_row| rows >= most && !has_row)
}

/// The row of the other files of its mount.
#[inline]
pub fn divert(key: RowKey) -> RowKey {
    RowKey {
        file: FileId::others(key.file.dev),
        ..key
    }
}

/// Limits how many files are newly followed because of metadata operations alone. So a walk through a million
/// files does not add them all to memory, where the journal keeps its files by
/// name, or to the disk.
#[derive(Debug)]
pub struct NewFileBudget {
    left: u64,
    refilled: MonotonicNs,
}

/// Most files at once: enough for a directory, or for the files of a program.
const AT_ONCE: u64 = 4096;
/// One more file each time this has passed: 64 a second, 58,000 in a rotation of 15 minutes.
const EACH: Duration = Duration::from_nanos(15_625_000);

impl NewFileBudget {
    /// The full budget.
    pub fn new() -> Self {
        Self {
            left: AT_ONCE,
            refilled: MonotonicNs(0),
        }
    }

    /// Call this before [`Self::spend`].
    pub fn refill(&mut self, now: MonotonicNs) {
        let each_ns = EACH.as_nanos() as u64;
        let new = now.0.saturating_sub(self.refilled.0) / each_ns;
        self.left = self.left.saturating_add(new).min(AT_ONCE);
        self.refilled.0 += new * each_ns;
    }

    /// Takes one file from the budget; false if none is left.
    pub fn spend(&mut self) -> bool {
        let there = self.left > 0;
        self.left = self.left.saturating_sub(1);
        there
    }
}

impl Default for NewFileBudget {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_at_once_and_fills_up_slowly_and_no_further() {
        let second = 1_000_000_000;
        let mut budget = NewFileBudget::new();
        let spent =
            |budget: &mut NewFileBudget| (0..10_000).filter(|_| budget.spend()).count() as u64;
        budget.refill(MonotonicNs(100 * second));
        assert_eq!(spent(&mut budget), AT_ONCE);
        budget.refill(MonotonicNs(101 * second));
        assert_eq!(spent(&mut budget), 64);
        budget.refill(MonotonicNs(101 * second + 10_000_000));
        assert_eq!(spent(&mut budget), 0);
        budget.refill(MonotonicNs(101 * second + 20_000_000));
        assert_eq!(spent(&mut budget), 1, "what was left over counts");
        budget.refill(MonotonicNs(9000 * second));
        assert_eq!(spent(&mut budget), AT_ONCE);
    }
}

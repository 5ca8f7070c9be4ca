//! Merging the windows of a journal, each ordered by file key, into one stream ordered by
//! (file key, time).

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::rollup::Row;
use trackiops_schemas::time::UtcMs;

use crate::error::StoreError;
use crate::journal::cursor::Cursor;
use crate::journal::scan::Scan;

/// Read buffers of all windows together.
pub(super) const READ_BUFFER_BYTES: usize = 4 << 20;
/// Shorter reads would cost more in system calls than they save in memory.
const SHORTEST_READ_BYTES: usize = 1 << 10;
/// Longer reads gain nothing.
const LONGEST_READ_BYTES: usize = 64 << 10;

/// A row of the merged stream.
pub(crate) struct Merged<F> {
    /// What stands for the file: its local id, or what is known of it.
    pub(crate) file: F,
    pub(crate) key: FileKey,
    /// Start of the window.
    pub(crate) time: UtcMs,
    pub(crate) row: Row,
}

/// The merged stream of a journal.
pub(super) struct Merge<'a> {
    scan: &'a Scan,
    cursors: Vec<Cursor>,
    heads: BinaryHeap<Reverse<Head>>,
}

/// The next row of one window.
struct Head {
    row: Merged<u32>,
    window: usize,
}

impl Head {
    /// The window's number makes the order total, so that sealing again writes the same.
    fn order(&self) -> (FileKey, UtcMs, usize) {
        (self.row.key, self.row.time, self.window)
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl<'a> Merge<'a> {
    pub(super) fn new(scan: &'a Scan) -> Result<Self, StoreError> {
        let chunk = READ_BUFFER_BYTES / scan.windows.len().max(1);
        let chunk = chunk.clamp(SHORTEST_READ_BYTES, LONGEST_READ_BYTES);
        let cursors = scan.windows.iter().map(|window| Cursor::new(window, chunk));
        let mut merge = Self {
            scan,
            cursors: cursors.collect(),
            heads: BinaryHeap::new(),
        };
        for window in 0..scan.windows.len() {
            merge.advance(window)?;
        }
        Ok(merge)
    }

    pub(super) fn next(&mut self) -> Result<Option<Merged<u32>>, StoreError> {
        let Some(Reverse(head)) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(head.window)?;
        Ok(Some(head.row))
    }

    fn advance(&mut self, window: usize) -> Result<(), StoreError> {
        if let Some((id, file, row)) = self.cursors[window].next(self.scan)? {
            let row = Merged {
                file: id,
                key: file.key,
                time: self.scan.windows[window].head.start,
                row,
            };
            self.heads.push(Reverse(Head { row, window }));
        }
        Ok(())
    }
}

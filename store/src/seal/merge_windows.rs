//! Merges the windows of a journal, each ordered by file key, into one stream ordered by file key
//! and time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trackiops_schemas::identity::FileKey;
use trackiops_schemas::row::Row;
use trackiops_schemas::time::UtcMs;

use crate::error::StoreError;
use crate::journal::cursor::Cursor;
use crate::journal::scan::JournalScan;

/// Memory for the read buffers of all windows.
pub(super) const READ_BUFFER_BYTES: usize = 1 << 20;
/// Shorter reads cost more in system calls than they save in memory.
const SHORTEST_READ_BYTES: usize = 1 << 10;
/// Longer reads gain nothing.
const LONGEST_READ_BYTES: usize = 64 << 10;

/// A row of the merged stream.
pub(crate) struct Merged<F> {
    /// Identifies the file: its local id, or its attributes.
    pub(crate) file: F,
    pub(crate) key: FileKey,
    /// Start of the window.
    pub(crate) time: UtcMs,
    pub(crate) row: Row,
}

/// Rows ordered by file key and time.
pub(super) trait Rows {
    /// The next row. `None` after the last.
    fn next(&mut self) -> Result<Option<Merged<u32>>, StoreError>;
}

/// The merged stream of a journal.
pub(super) struct Merge<'a> {
    scan: &'a JournalScan,
    cursors: Vec<Cursor>,
    /// The next row of each window. Rows are large, so the heap holds only their sort keys.
    heads: Vec<Option<(u32, Row)>>,
    order: BinaryHeap<Reverse<Order>>,
}

/// The window's index makes the order unique, so that sealing again writes the same bytes.
type Order = (FileKey, UtcMs, usize);

impl<'a> Merge<'a> {
    pub(super) fn new(scan: &'a JournalScan) -> Result<Self, StoreError> {
        let windows = scan.windows.len();
        let chunk = READ_BUFFER_BYTES / windows.max(1);
        let chunk = chunk.clamp(SHORTEST_READ_BYTES, LONGEST_READ_BYTES);
        let cursors = scan.windows.iter().map(|window| Cursor::new(window, chunk));
        let mut merge = Self {
            scan,
            cursors: cursors.collect(),
            heads: (0..windows).map(|_| None).collect(),
            order: BinaryHeap::with_capacity(windows),
        };
        for window in 0..windows {
            merge.advance(window)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, window: usize) -> Result<(), StoreError> {
        if let Some((id, file, row)) = self.cursors[window].next(self.scan)? {
            self.heads[window] = Some((id, row));
            let time = self.scan.windows[window].head.start;
            self.order.push(Reverse((file.key, time, window)));
        }
        Ok(())
    }
}

impl Rows for Merge<'_> {
    fn next(&mut self) -> Result<Option<Merged<u32>>, StoreError> {
        let Some(Reverse((key, time, window))) = self.order.pop() else {
            return Ok(None);
        };
        let head = self.heads[window].take();
        self.advance(window)?;
        Ok(head.map(|(file, row)| Merged {
            file,
            key,
            time,
            row,
        }))
    }
}

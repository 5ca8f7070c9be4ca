//! Reads the rows of a window from a journal as a stream.

use std::sync::Arc;

use trackiops_schemas::identity::{FileAttributes, FileKey};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};

use super::bytes::read_at;
use super::payload;
use super::scan::{JournalScan, WindowFrame};
use crate::error::StoreError;
use crate::varint::{DecodeError, Input};

/// A row with the local id of its file, and the file.
pub(crate) type FrameRow<'s> = (u32, &'s Arc<FileAttributes>, Row);

/// Limit on the length of a row. Histograms have at most 2,560 buckets, and files have few
/// operations and errors.
const MAX_ROW_BYTES: usize = 1 << 20;

/// Reads a window's rows, ordered by file key, through a buffer of a chosen size.
pub(crate) struct Cursor {
    /// Offset in the file of the first byte after the buffer.
    at: u64,
    end: u64,
    rows_left: u64,
    last_key: Option<FileKey>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are already decoded.
    used: usize,
    chunk: usize,
}

impl Cursor {
    pub(crate) fn new(window: &WindowFrame, chunk: usize) -> Self {
        Self {
            at: window.rows_at,
            end: window.end,
            rows_left: window.head.rows,
            last_key: None,
            buffer: Vec::new(),
            used: 0,
            chunk: chunk.max(1),
        }
    }

    /// The next row. `None` after the last. Skips rows whose file definition may have been in a
    /// damaged part.
    pub(crate) fn next<'s>(
        &mut self,
        scan: &'s JournalScan,
    ) -> Result<Option<FrameRow<'s>>, StoreError> {
        loop {
            if self.rows_left == 0 {
                let over = self.used < self.buffer.len() || self.at < self.end;
                let behind = "bytes follow the last row of a window";
                return match over {
                    true => Err(self.damaged(scan, behind)),
                    false => Ok(None),
                };
            }
            let mut input = Input::new(&self.buffer[self.used..]);
            match payload::row(&mut input) {
                Ok((id, row)) => {
                    self.used = self.buffer.len() - input.remaining();
                    self.rows_left -= 1;
                    match scan.file(id) {
                        Some(file) if Some(file.key) >= self.last_key => {
                            self.last_key = Some(file.key);
                            return Ok(Some((id, file, row)));
                        }
                        None if scan.may_lack_files() => {}
                        _ => {
                            let why = "a row is out of order or of no known file";
                            return Err(self.damaged(scan, why));
                        }
                    }
                }
                Err(DecodeError::Truncated) if self.at < self.end => self.refill(scan)?,
                Err(error) => return Err(self.damaged(scan, error.why())),
            }
        }
    }

    fn damaged(&self, scan: &JournalScan, why: &'static str) -> StoreError {
        StoreError::Damaged {
            path: scan.journal.path.clone(),
            offset: self.at,
            why,
        }
    }

    /// Drops decoded bytes and reads on. The buffer exceeds its chunk only for a longer row, and never exceeds the
    /// frame.
    fn refill(&mut self, scan: &JournalScan) -> Result<(), StoreError> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let kept = self.buffer.len();
        if kept > MAX_ROW_BYTES {
            return Err(self.damaged(scan, "a row is too long"));
        }
        // Reads at least as many bytes as are kept. An incomplete row is decoded again from its start, and this bounds
        // how often.
        let room = self.chunk.saturating_sub(kept).max(kept).max(1);
        self.buffer.resize(kept + room.min(left), 0);
        let got = read_at(&scan.journal.file, &mut self.buffer[kept..], self.at)
            .map_err(StoreError::io("read", &scan.journal.path))?;
        self.buffer.truncate(kept + got);
        self.at += got as u64;
        if got == 0 {
            // The file was cut after it was scanned.
            self.end = self.at;
        }
        Ok(())
    }
}

/// Reads one window into memory, without its operations.
pub(crate) fn window(scan: &JournalScan, frame: &WindowFrame) -> Result<ClosedWindow, StoreError> {
    const CHUNK_BYTES: usize = 64 * 1024;
    let mut cursor = Cursor::new(frame, CHUNK_BYTES);
    let mut rows = Vec::new();
    while let Some((_, file, row)) = cursor.next(scan)? {
        rows.push(FileRow {
            file: Arc::clone(file),
            row,
        });
    }
    Ok(ClosedWindow {
        start: frame.head.start,
        rows,
        ops: Vec::new(),
        health: frame.head.health.clone(),
    })
}

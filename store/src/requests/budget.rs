//! How much room requests may take.

use std::fs;
use std::path::Path;

use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// Journals, which are sealed a piece at a time, are so many times shorter than all together may be.
const PIECES: u64 = 32;
/// As many pieces are there beside the segments: a journal that is being sealed, what it is sealed to, and the journal
/// after it.
const PIECES_UNSEALED: u64 = 3;

/// The most bytes for all files of requests together, journals included.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskBudget {
    most_bytes: u64,
}

impl DiskBudget {
    pub(super) fn new(most_bytes: u64) -> Self {
        Self { most_bytes }
    }

    pub(super) fn most_bytes(self) -> u64 {
        self.most_bytes
    }

    /// A journal that is so long is full.
    pub(super) fn journal_bytes(self) -> u64 {
        self.most_bytes / PIECES
    }

    /// Deletes the oldest segments until the others leave room for the journals. Whether there was one to delete.
    pub(super) fn enforce(self, store: &Path) -> Result<bool, StoreError> {
        let most_bytes = self.most_bytes - PIECES_UNSEALED * self.journal_bytes();
        let segments = layout::requests_segments(store)?;
        let sizes: Vec<u64> = segments
            .iter()
            .map(|(_, path)| fs::symlink_metadata(path).map_or(0, |metadata| metadata.len()))
            .collect();
        let mut bytes: u64 = sizes.iter().sum();
        let mut deleted = false;
        for ((_, path), size) in segments.iter().zip(sizes) {
            if bytes <= most_bytes {
                break;
            }
            beneath::remove(store, path).map_err(StoreError::io("delete", path))?;
            // Fails, as it should, as long as there are others of its date.
            let _ = path.parent().map(|date| beneath::remove_dir(store, date));
            bytes -= size;
            deleted = true;
        }
        Ok(deleted)
    }
}

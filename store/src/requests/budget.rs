//! The budget for files of single requests.

use std::fs;
use std::path::Path;

use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// A journal is sealed when it reaches the budget divided by this.
const PIECES: u64 = 32;
/// Room of this many journals is reserved beside the segments: for a journal that is being sealed,
/// for its segments, and for the next journal.
const PIECES_UNSEALED: u64 = 3;

/// Limit on the size of all files of requests, including journals.
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

    /// The length at which a journal is sealed.
    pub(super) fn journal_bytes(self) -> u64 {
        self.most_bytes / PIECES
    }

    /// Deletes the oldest segments until the rest leaves room for journals. Returns whether any was
    /// deleted.
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
            // This fails, and should, while the directory has other segments.
            let _ = path.parent().map(|date| beneath::remove_dir(store, date));
            bytes -= size;
            deleted = true;
        }
        Ok(deleted)
    }
}

//! The budget for files of single requests.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// A journal is sealed when it reaches the budget divided by this.
const PIECES: u64 = 32;
/// Room of this many journals is reserved beside the segments: for a journal that is being sealed,
/// for its segments, and for the next journal.
const PIECES_UNSEALED: u64 = 3;

/// Limit on the size of all files of requests, including journals. Clones share it.
#[derive(Clone, Debug)]
pub struct DiskBudget {
    most_bytes: Arc<AtomicU64>,
}

impl DiskBudget {
    pub(super) fn new(most_bytes: u64) -> Self {
        Self {
            most_bytes: Arc::new(AtomicU64::new(most_bytes)),
        }
    }

    /// Changes the limit. What exceeds it is deleted within half a minute.
    pub fn set(&self, most_bytes: u64) {
        self.most_bytes.store(most_bytes, Ordering::Relaxed);
    }

    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes.load(Ordering::Relaxed)
    }

    /// The length at which a journal is sealed.
    pub(super) fn journal_bytes(&self) -> u64 {
        self.most_bytes() / PIECES
    }

    /// Deletes the oldest segments until the rest leaves room for journals. Returns whether any was
    /// deleted.
    pub(super) fn enforce(&self, store: &Path) -> Result<bool, StoreError> {
        // Read once: another thread may change it.
        let most_bytes = self.most_bytes();
        let most_bytes = most_bytes - PIECES_UNSEALED * (most_bytes / PIECES);
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

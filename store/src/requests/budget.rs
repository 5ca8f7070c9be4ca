//! The budget for files of single requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use trackiops_threads::fail_point;

use crate::beneath;
use crate::catalog::Catalog;
use crate::error::StoreError;

/// A journal is sealed when it reaches the budget divided by this.
const PIECES: u64 = 32;
/// Room for this many journals is reserved beside the segments: a journal being sealed, its segments, and the next
/// journal.
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

    /// Changes the limit. Excess data is deleted within half a minute.
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

    /// Deletes the oldest segments until the rest leaves room for journals. Returns whether it deleted any.
    pub(super) fn enforce(&self, catalog: &Catalog) -> Result<bool, StoreError> {
        // Read once: another thread may change it.
        let most_bytes = self.most_bytes();
        let most_bytes = most_bytes - PIECES_UNSEALED * (most_bytes / PIECES);
        let kept = catalog.kept_requests()?;
        let mut bytes: u64 = kept.iter().map(|segment| segment.bytes).sum();
        let mut expired = Vec::new();
        for segment in kept {
            if bytes <= most_bytes {
                break;
            }
            bytes -= segment.bytes;
            expired.push(segment.path);
        }
        if expired.is_empty() {
            return Ok(false);
        }
        // A reader that misses one of them reads the catalog again.
        catalog.expire_requests(&expired)?;
        fail_point::hit("requests: expired");
        delete_removed(catalog)?;
        Ok(true)
    }
}

/// Deletes segments of requests that no longer count.
pub(crate) fn delete_removed(catalog: &Catalog) -> Result<u64, StoreError> {
    let store = catalog.store();
    let removed = catalog.removed_requests()?;
    let mut deleted = 0;
    for path in &removed {
        let path = store.join(path);
        let existed = beneath::remove(store, &path).map_err(StoreError::io("delete", &path))?;
        deleted += u64::from(existed);
        // This fails, and should, while the directory has other segments.
        let _ = path.parent().map(|date| beneath::remove_dir(store, date));
    }
    if !removed.is_empty() {
        catalog.clone().deleted(&removed)?;
    }
    Ok(deleted)
}

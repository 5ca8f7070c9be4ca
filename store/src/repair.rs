//! Completes the interrupted steps of a recorder, without recording.

use std::path::Path;

use crate::catalog::{Catalog, CatalogView};
use crate::error::StoreError;
use crate::file_backoff::FileBackoff;
use crate::housekeeping::tidy;
use crate::lock::StoreLock;
use crate::snapshot::check_is_store;
use crate::warning::Warning;

/// Result of [`repair`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Steps that failed.
    pub left: Vec<Warning>,
    /// Merged or expired segments that were still visible to globs, and are now hidden.
    pub hidden: u64,
    /// Segments that were not visible to globs, and are now shown.
    pub shown: u64,
    /// Files of merged and expired segments that were deleted.
    pub deleted: u64,
}

/// Makes globs over the store's `*.parquet` match each segment once, and deletes merged and expired segments. No
/// recorder may be running. Queries may be running.
pub fn repair(store: &Path) -> Result<Repaired, StoreError> {
    check_is_store(store)?;
    let _lock = StoreLock::of_files(store)?;
    // The catalog decides which files are deleted, so it must not be damaged.
    let damage = CatalogView::open(store)?.damage()?;
    if !damage.is_empty() {
        return Err(StoreError::DamagedCatalog {
            store: store.to_owned(),
            why: damage.join("; "),
        });
    }
    let mut backoff = FileBackoff::default();
    let (settled, deleted) = tidy(store, &mut Catalog::open(store)?, &mut backoff)?;
    Ok(Repaired {
        left: backoff.take_warnings(),
        hidden: settled.hidden,
        shown: settled.shown,
        deleted,
    })
}

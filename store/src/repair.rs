//! Finishing what an interrupted recorder has left, without recording.

use std::path::Path;

use crate::catalog::{Catalog, CatalogView};
use crate::error::StoreError;
use crate::file_backoff::FileBackoff;
use crate::housekeeping::tidy;
use crate::lock::StoreLock;
use crate::snapshot::check_is_store;
use crate::warning::Warning;

/// What [`repair`] came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What could not be done.
    pub left: Vec<Warning>,
    /// Segments that were merged or have expired, and that a glob saw until now.
    pub hidden: u64,
    /// Segments that no glob saw until now.
    pub shown: u64,
    /// Files of merged and expired segments that were deleted.
    pub deleted: u64,
}

/// Has a glob over the store's `*.parquet` see each segment once, and deletes segments that were merged or have expired, while
/// nobody records. Queries may be at work meanwhile.
pub fn repair(store: &Path) -> Result<Repaired, StoreError> {
    check_is_store(store)?;
    let _lock = StoreLock::of_files(store)?;
    // It says what is deleted.
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

//! Removing journals that were sealed, and telling those from journals that somebody has deleted before.

use std::path::{Path, PathBuf};

use trackiops_threads::fail_point;

use super::end::Extent;
use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// Removes a journal that is in segments, and what is beside it. It may be gone already.
pub(crate) fn remove(store: &Path, journal: &Path) -> Result<(), StoreError> {
    // In this order: without what is beside it, a damaged one would look whole.
    for path in [journal, &layout::journal_end(journal)] {
        beneath::remove(store, path).map_err(StoreError::io("remove journal", path))?;
        fail_point::hit("journal: removed");
    }
    layout::sync_dir(store, &layout::journal_dir(store))
}

/// Removes what was beside journals that are gone, if whoever removed them was interrupted.
pub(crate) fn remove_orphaned_ends(
    store: &Path,
    is_sealed: impl Fn(u64) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    for end in layout::orphaned_ends(store)? {
        if deleted_unsealed(store, &end, &is_sealed)?.is_none() {
            beneath::remove(store, &end).map_err(StoreError::io("remove", &end))?;
        }
    }
    Ok(())
}

/// The journal of windows that somebody has deleted, although it had windows and was never sealed. `end` is what was
/// beside it, and says so; it was found before the catalog was read, as a journal is removed after the catalog knows it.
pub(crate) fn deleted_unsealed(
    store: &Path,
    end: &Path,
    is_sealed: impl Fn(u64) -> Result<bool, StoreError>,
) -> Result<Option<PathBuf>, StoreError> {
    let Some(number) = layout::number_of_end(store, end) else {
        return Ok(None);
    };
    let journal = layout::journal(store, number);
    let is_lost = Extent::read(&journal).is_some() && !is_sealed(number)?;
    Ok(is_lost.then_some(journal))
}

//! Removes sealed journals, and detects journals that someone else has deleted.

use std::path::{Path, PathBuf};

use trackiops_threads::fail_point;

use super::end::Extent;
use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// Removes a sealed journal and its `.end` file. Either may be missing already.
pub(crate) fn remove(store: &Path, journal: &Path) -> Result<(), StoreError> {
    // In this order, because a damaged journal without its `.end` file could look whole.
    for path in [journal, &layout::journal_end(journal)] {
        beneath::remove(store, path).map_err(StoreError::io("remove journal", path))?;
        fail_point::hit("journal: removed");
    }
    layout::sync_dir(store, &layout::journal_dir(store))
}

/// Removes `.end` files without a journal, which an interrupted removal left behind.
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

/// The journal of an `.end` file, if it was deleted before it was sealed. List `.end` files before you read the
/// catalog: a journal is removed only after the catalog lists it as sealed.
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

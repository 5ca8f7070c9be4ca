//! Damaged journals: they are renamed, so that nothing of them is lost, and not read again.

use std::io;
use std::path::{Path, PathBuf};

use crate::beneath;
use crate::catalog::Catalog;
use crate::error::StoreError;
use crate::journal::end::Extent;
use crate::layout;
use trackiops_threads::fail;

/// Renames a damaged journal, to the path that is returned, and what is beside it, which says what it covers.
pub(crate) fn set_aside(store: &Path, journal: &Path) -> Result<PathBuf, StoreError> {
    let aside = layout::aside(journal);
    let rename = |from: &Path, to: &Path| match beneath::rename(store, from, to) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && from != journal => Ok(()),
        renamed => renamed.map_err(StoreError::io("rename damaged journal to", to)),
    };
    // First: without what is beside it, it would not look damaged.
    rename(journal, &aside)?;
    rename(&layout::journal_end(journal), &layout::journal_end(&aside))?;
    layout::sync_dir(store, &layout::journal_dir(store))?;
    Ok(aside)
}

/// Removes a journal that is in segments, and what is beside it. It may be gone already.
pub(crate) fn remove_journal(store: &Path, journal: &Path) -> Result<(), StoreError> {
    // In this order: without what is beside it, a damaged one would look whole.
    for path in [journal, &layout::journal_end(journal)] {
        beneath::remove(store, path).map_err(StoreError::io("remove journal", path))?;
        fail::point("journal: removed");
    }
    layout::sync_dir(store, &layout::journal_dir(store))
}

/// Removes what was beside journals that are gone, if whoever removed them was interrupted.
pub(crate) fn remove_orphans(store: &Path, catalog: &Catalog) -> Result<(), StoreError> {
    for end in layout::orphaned_ends(store)? {
        if lost(store, &end, |number| catalog.is_sealed(number))?.is_none() {
            beneath::remove(store, &end).map_err(StoreError::io("remove", &end))?;
        }
    }
    Ok(())
}

/// The journal of windows that somebody has deleted, although it had windows and was never sealed. `end` is what was
/// beside it, and says so; it was found before the catalog was read, as a journal is removed after the catalog knows it.
pub(crate) fn lost(
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

/// As [`set_aside`], of one that could not be sealed for this error, if the error is that nothing of it can be read.
pub(crate) fn set_unreadable_aside(
    store: &Path,
    journal: &Path,
    error: StoreError,
) -> Result<PathBuf, StoreError> {
    match error {
        StoreError::Damaged { path, .. } if path == journal => set_aside(store, journal),
        error => Err(error),
    }
}

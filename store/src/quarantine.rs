//! The quarantine of damaged journals: they are renamed, so that nothing of them is lost, and not read again.

use std::io;
use std::path::{Path, PathBuf};

use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// Renames a damaged journal, to the path that is returned, and what is beside it, which says what it covers.
pub(crate) fn quarantine(store: &Path, journal: &Path) -> Result<PathBuf, StoreError> {
    let quarantined = layout::quarantined(journal);
    let rename = |from: &Path, to: &Path| match beneath::rename(store, from, to) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && from != journal => Ok(()),
        renamed => renamed.map_err(StoreError::io("rename damaged journal to", to)),
    };
    // First: without what is beside it, it would not look damaged.
    rename(journal, &quarantined)?;
    rename(
        &layout::journal_end(journal),
        &layout::journal_end(&quarantined),
    )?;
    layout::sync_dir(store, &layout::journal_dir(store))?;
    Ok(quarantined)
}

/// As [`quarantine`], of one that could not be sealed for this error, if the error is that nothing of it can be read.
pub(crate) fn quarantine_unreadable(
    store: &Path,
    journal: &Path,
    error: StoreError,
) -> Result<PathBuf, StoreError> {
    match error {
        StoreError::Damaged { path, .. } if path == journal => quarantine(store, journal),
        error => Err(error),
    }
}

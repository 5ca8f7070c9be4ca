//! Damaged journals: they are renamed, so that nothing of them is lost, and not read again.

use std::path::{Path, PathBuf};

use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// Renames a damaged journal, to the path that is returned.
pub(crate) fn set_aside(store: &Path, journal: &Path) -> Result<PathBuf, StoreError> {
    let mut aside = journal.as_os_str().to_owned();
    aside.push(".");
    aside.push(layout::SET_ASIDE_EXTENSION);
    let aside = PathBuf::from(aside);
    let renamed = beneath::rename(store, journal, &aside);
    renamed.map_err(StoreError::io("rename damaged journal to", &aside))?;
    layout::sync_dir(store, &layout::journal_dir(store))?;
    Ok(aside)
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

//! Sets damaged journals aside by renaming them. So nothing is lost, and they are not read again.

use std::io;
use std::path::{Path, PathBuf};

use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// Renames a damaged journal and its `.end` file. Returns the journal's new path.
pub(crate) fn quarantine(store: &Path, journal: &Path) -> Result<PathBuf, StoreError> {
    let quarantined = layout::quarantined(journal);
    let rename = |from: &Path, to: &Path| match beneath::rename(store, from, to) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && from != journal => Ok(()),
        renamed => renamed.map_err(StoreError::io("rename damaged journal to", to)),
    };
    // In this order: without its `.end` file, the journal might not look damaged.
    rename(journal, &quarantined)?;
    rename(
        &layout::journal_end(journal),
        &layout::journal_end(&quarantined),
    )?;
    layout::sync_dir(store, &layout::journal_dir(store))?;
    Ok(quarantined)
}

/// Sets a journal aside if `error`, which stopped its sealing, is damage of this journal. Otherwise returns the error.
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

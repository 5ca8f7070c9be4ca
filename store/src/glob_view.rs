//! Which segments a glob over `*.parquet` sees: those that the catalog counts, each once.
//!
//! A segment `X.parquet` is `.X.parquet.tmp` while it is written, and `.X.parquet.removed` from when it was merged into
//! another one, or has expired, until it is deleted. The catalog says what counts, and names follow it: first what counts no
//! longer is hidden, then what counts is shown. So a glob sees a segment or what was merged into it, for an instant neither,
//! and never both. Where that was interrupted, whoever writes to the store next finishes it.
//!
//! Readers that have a segment's path from the catalog find it by any of the three names.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use trackiops_threads::fail_point;

use crate::beneath;
use crate::error::StoreError;
use crate::file_backoff::FileBackoff;
use crate::layout;

/// How many files got another name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) hidden: u64,
    pub(crate) shown: u64,
}

/// Opens a segment, whichever name it has at the moment.
pub(crate) fn open(store: &Path, segment: &Path) -> io::Result<File> {
    let names = [
        segment.to_owned(),
        layout::hidden(segment),
        layout::temporary(segment),
    ];
    // Once more: it may have been renamed to a name that was tried just before.
    for name in names.iter().chain(&names) {
        match beneath::read(store, name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    beneath::read(store, segment)
}

/// Hides some segments from globs, then shows others, and makes that durable. Paths are relative to the store. Where one could not be
/// hidden none is shown: it may have been merged into that.
pub(crate) fn settle<'p>(
    store: &Path,
    removed: impl IntoIterator<Item = &'p String>,
    counted: impl IntoIterator<Item = &'p String>,
    backoff: &mut FileBackoff,
) -> Result<Settled, StoreError> {
    let mut renamed = Vec::new();
    let mut held_up = HashSet::new();
    let dir_of = |segment: &'p String| Path::new(segment).parent();
    for segment in removed {
        match backoff.try_with(segment, || hide(store, &store.join(segment))) {
            Some(true) => {
                renamed.push(segment);
                fail_point::hit("settle: hidden");
            }
            Some(false) => {}
            None => {
                held_up.insert(dir_of(segment));
            }
        }
    }
    let hidden = renamed.len();
    for segment in counted {
        if held_up.contains(&dir_of(segment)) {
            continue;
        }
        if backoff.try_with(segment, || show(store, &store.join(segment))) == Some(true) {
            renamed.push(segment);
            fail_point::hit("settle: shown");
        }
    }
    layout::sync_names(store, renamed.iter().copied())?;
    Ok(Settled {
        hidden: hidden as u64,
        shown: (renamed.len() - hidden) as u64,
    })
}

/// Whether it was to be seen.
fn hide(store: &Path, segment: &Path) -> Result<bool, StoreError> {
    rename(store, segment, &layout::hidden(segment))
}

/// Whether it was not to be seen. One that is missing is for a check to report.
fn show(store: &Path, segment: &Path) -> Result<bool, StoreError> {
    let is_shown = beneath::exists(store, segment);
    if is_shown.map_err(StoreError::io("look for", segment))? {
        return Ok(false);
    }
    // What was hidden is complete for certain.
    Ok(rename(store, &layout::hidden(segment), segment)?
        || rename(store, &layout::temporary(segment), segment)?)
}

/// Whether there was something to rename.
fn rename(store: &Path, from: &Path, to: &Path) -> Result<bool, StoreError> {
    match beneath::rename(store, from, to) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io("rename segment to", to)(e)),
    }
}

/// Deletes a segment, whichever names it has. The number of files.
pub(crate) fn delete(store: &Path, segment: &Path) -> Result<u64, StoreError> {
    let names: [PathBuf; 3] = [
        layout::temporary(segment),
        layout::hidden(segment),
        segment.to_owned(),
    ];
    let mut deleted = 0;
    for file in &names {
        let removed = beneath::remove(store, file);
        deleted += u64::from(removed.map_err(StoreError::io("delete", file))?);
    }
    // Fails, as it should, as long as there are others of its date.
    let _ = segment
        .parent()
        .map(|date| beneath::remove_dir(store, date));
    Ok(deleted)
}

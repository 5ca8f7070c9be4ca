//! Makes globs over `*.parquet` match exactly the segments that the catalog counts.
//!
//! A segment has one of three names. Names follow the catalog:
//!
//! ```text
//! .X.parquet.tmp      while it is written, until the catalog lists it
//! X.parquet           while the catalog lists it
//! .X.parquet.removed  after it has expired or was merged, until it is deleted
//! ```
//!
//! Segments that no longer count are hidden first, then the others are shown. So a glob matches a merged segment or its
//! inputs, briefly neither, and never both. The next writer completes an interrupted step.
//!
//! Readers that have a segment's path from the catalog try all three names.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use trackiops_threads::fail_point;

use crate::beneath;
use crate::error::StoreError;
use crate::file_backoff::FileBackoff;
use crate::layout;

/// Numbers of renamed files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    pub(crate) hidden: u64,
    pub(crate) shown: u64,
}

/// Opens a segment under its current name.
pub(crate) fn open(store: &Path, segment: &Path) -> io::Result<File> {
    let names = [
        segment.to_owned(),
        layout::hidden(segment),
        layout::temporary(segment),
    ];
    // Tries all names twice: the file may have been renamed to a name that was just tried.
    for name in names.iter().chain(&names) {
        match beneath::read(store, name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
    }
    beneath::read(store, segment)
}

/// Hides some segments from globs, then shows others, and syncs the renames. Paths are relative to the store. If a
/// segment cannot be hidden, all segments in its directory stay hidden, because one of them may contain its rows.
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

/// Returns whether the segment was visible.
fn hide(store: &Path, segment: &Path) -> Result<bool, StoreError> {
    rename(store, segment, &layout::hidden(segment))
}

/// Returns whether the segment was hidden. `store check` reports a missing one.
fn show(store: &Path, segment: &Path) -> Result<bool, StoreError> {
    let is_shown = beneath::exists(store, segment);
    if is_shown.map_err(StoreError::io("look for", segment))? {
        return Ok(false);
    }
    // A hidden segment is certainly complete, so it comes first.
    Ok(rename(store, &layout::hidden(segment), segment)?
        || rename(store, &layout::temporary(segment), segment)?)
}

/// Returns whether there was a file to rename.
fn rename(store: &Path, from: &Path, to: &Path) -> Result<bool, StoreError> {
    match beneath::rename(store, from, to) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io("rename segment to", to)(e)),
    }
}

/// Deletes a segment under all of its names. Returns the number of deleted files.
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
    // This fails, and should, while the directory has other segments.
    let _ = segment
        .parent()
        .map(|date| beneath::remove_dir(store, date));
    Ok(deleted)
}

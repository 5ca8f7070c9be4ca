//! What is done beside recording, when a journal was sealed and from time to time: expiring, merging, deleting.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use trackiops_schemas::time::UtcMs;
use trackiops_threads::fail_point;

use crate::beneath;
use crate::catalog::Catalog;
use crate::compact;
use crate::error::StoreError;
use crate::file_backoff::FileBackoff;
use crate::glob_view::{self, Settled};
use crate::layout;
use crate::options::RetentionPolicy;
use crate::retention;
use crate::warning::Warning;

/// Readers that have planned to read a file have so long to open it.
const GRACE_MS: i64 = 5 * 60 * 1000;

/// Keeps a store as its options say.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    store: PathBuf,
    keep: RetentionPolicy,
    backoff: FileBackoff,
    warnings: Vec<Warning>,
    /// Whether that was told.
    has_spared: bool,
}

impl Housekeeping {
    pub(crate) fn new(store: &Path, keep: RetentionPolicy) -> Self {
        Self {
            store: store.to_owned(),
            keep,
            backoff: FileBackoff::default(),
            warnings: Vec::new(),
            has_spared: false,
        }
    }

    /// What a person should know.
    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(self.backoff.take_warnings());
        warnings
    }

    /// What is due when segments have come: expires them, then goes on as [`Self::idle`] does.
    pub(crate) fn after_sealing(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        let other_bytes = match self.keep.most_bytes {
            None => 0,
            Some(_) => retention::other_bytes(&self.store)?,
        };
        let expired = retention::expired(&catalog.kept_segments()?, &self.keep, other_bytes);
        if expired.spared > 0 && !self.has_spared {
            self.has_spared = true;
            self.warnings.push(Warning::Spared(expired.spared));
        }
        if !expired.paths.is_empty() {
            catalog.expire(&expired.paths, self.at())?;
            fail_point::hit("retention: committed");
        }
        self.idle(catalog)
    }

    /// What is due from time to time: hides what has expired, deletes, and merges once. Merging more at a time would keep
    /// journals waiting, and whoever wants the recorder to end.
    pub(crate) fn idle(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        let removed = catalog.removed()?;
        if !removed.is_empty() {
            // A merge that was interrupted has put segments beside those that it removed.
            let dirs: HashSet<_> = removed.iter().map(|path| dir_of(path)).collect();
            let mut kept = paths(catalog)?;
            kept.retain(|path| dirs.contains(&dir_of(path)));
            glob_view::settle(&self.store, &removed, &kept, &mut self.backoff)?;
            let due = catalog.due((self.keep.now)())?;
            delete(&self.store, catalog, &due, &mut self.backoff)?;
        }
        compact::step(&self.store, catalog, self.at(), &mut self.backoff)
    }

    /// What is due when a recorder begins, and when it ends: all that was removed is deleted. Readers that meet a vanished
    /// file plan again.
    pub(crate) fn tidy(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        tidy(&self.store, catalog, &mut self.backoff).map(drop)
    }

    /// When what is removed now may be deleted.
    fn at(&self) -> UtcMs {
        UtcMs((self.keep.now)().0.saturating_add(GRACE_MS))
    }
}

/// Finishes whatever was interrupted, and deletes all that was removed. How many files were deleted.
pub(crate) fn tidy(
    store: &Path,
    catalog: &mut Catalog,
    backoff: &mut FileBackoff,
) -> Result<(Settled, u64), StoreError> {
    let removed = catalog.removed()?;
    let settled = glob_view::settle(store, &removed, &paths(catalog)?, backoff)?;
    let mut deleted = delete(store, catalog, &removed, backoff)?;
    // Of what is still unfinished nothing counts: its journal, or the segments that it was to be merged from, are there.
    let counted: HashSet<_> = paths(catalog)?.into_iter().collect();
    for segment in layout::temporary_segments(store)? {
        if counted.contains(&segment) {
            continue;
        }
        let temporary = layout::temporary(&store.join(&segment));
        let remove = || {
            let removed = beneath::remove(store, &temporary);
            removed.map_err(StoreError::io("delete", &temporary))
        };
        deleted += u64::from(backoff.try_with(&segment, remove) == Some(true));
    }
    catalog.publish()?;
    Ok((settled, deleted))
}

/// Deletes what was removed. The number of files.
fn delete(
    store: &Path,
    catalog: &mut Catalog,
    paths: &[String],
    backoff: &mut FileBackoff,
) -> Result<u64, StoreError> {
    let mut deleted = 0;
    let mut done = Vec::new();
    for path in paths {
        let delete = || glob_view::delete(store, &store.join(path));
        if let Some(files) = backoff.try_with(path, delete) {
            deleted += files;
            done.push(path.clone());
        }
        fail_point::hit("delete: file");
    }
    if !done.is_empty() {
        catalog.deleted(&done)?;
        fail_point::hit("delete: noted");
    }
    Ok(deleted)
}

/// Of all segments, relative to the store.
fn paths(catalog: &Catalog) -> Result<Vec<String>, StoreError> {
    let kept = catalog.kept_segments()?.into_iter();
    Ok(kept.map(|segment| segment.path).collect())
}

fn dir_of(path: &str) -> Option<&Path> {
    Path::new(path).parent()
}

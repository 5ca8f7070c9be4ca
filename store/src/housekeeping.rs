//! What is done beside recording, when a journal was sealed and from time to time: expiring, merging, deleting.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use trackiops_schemas::time::UtcMs;
use trackiops_threads::fail;

use crate::beneath;
use crate::catalog::Catalog;
use crate::compact;
use crate::error::StoreError;
use crate::layout;
use crate::notice::Notice;
use crate::options::Keep;
use crate::retention;
use crate::setbacks::Setbacks;
use crate::visible::{self, Settled};

/// Readers that have planned to read a file have so long to open it.
const GRACE_MS: i64 = 5 * 60 * 1000;

/// Keeps a store as its options say.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    store: PathBuf,
    keep: Keep,
    setbacks: Setbacks,
    news: Vec<Notice>,
    /// Whether that was told.
    has_spared: bool,
}

impl Housekeeping {
    pub(crate) fn new(store: &Path, keep: Keep) -> Self {
        Self {
            store: store.to_owned(),
            keep,
            setbacks: Setbacks::default(),
            news: Vec::new(),
            has_spared: false,
        }
    }

    /// What a person should know.
    pub(crate) fn news(&mut self) -> Vec<Notice> {
        let mut news = std::mem::take(&mut self.news);
        news.extend(self.setbacks.news());
        news
    }

    /// What is due when segments have come: expires them, then goes on as [`Self::idle`] does.
    pub(crate) fn after_sealing(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        let other_bytes = match self.keep.most_bytes {
            None => 0,
            Some(_) => retention::other_bytes(&self.store)?,
        };
        let expired = retention::expired(&catalog.kept()?, &self.keep, other_bytes);
        if expired.spared > 0 && !self.has_spared {
            self.has_spared = true;
            self.news.push(Notice::Spared(expired.spared));
        }
        if !expired.paths.is_empty() {
            catalog.expire(&expired.paths, self.at())?;
            fail::point("retention: committed");
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
            visible::settle(&self.store, &removed, &kept, &mut self.setbacks)?;
            let due = catalog.due((self.keep.now)())?;
            delete(&self.store, catalog, &due, &mut self.setbacks)?;
        }
        compact::step(&self.store, catalog, self.at(), &mut self.setbacks)
    }

    /// What is due when a recorder begins, and when it ends: all that was removed is deleted. Readers that meet a vanished
    /// file plan again.
    pub(crate) fn tidy(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        tidy(&self.store, catalog, &mut self.setbacks).map(drop)
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
    setbacks: &mut Setbacks,
) -> Result<(Settled, u64), StoreError> {
    let removed = catalog.removed()?;
    let settled = visible::settle(store, &removed, &paths(catalog)?, setbacks)?;
    let mut deleted = delete(store, catalog, &removed, setbacks)?;
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
        deleted += u64::from(setbacks.try_with(&segment, remove) == Some(true));
    }
    catalog.publish()?;
    Ok((settled, deleted))
}

/// Deletes what was removed. The number of files.
fn delete(
    store: &Path,
    catalog: &mut Catalog,
    paths: &[String],
    setbacks: &mut Setbacks,
) -> Result<u64, StoreError> {
    let mut deleted = 0;
    let mut done = Vec::new();
    for path in paths {
        let delete = || visible::delete(store, &store.join(path));
        if let Some(files) = setbacks.try_with(path, delete) {
            deleted += files;
            done.push(path.clone());
        }
        fail::point("delete: file");
    }
    if !done.is_empty() {
        catalog.deleted(&done)?;
        fail::point("delete: noted");
    }
    Ok(deleted)
}

/// Of all segments, relative to the store.
fn paths(catalog: &Catalog) -> Result<Vec<String>, StoreError> {
    let kept = catalog.kept()?.into_iter();
    Ok(kept.map(|segment| segment.path).collect())
}

fn dir_of(path: &str) -> Option<&Path> {
    Path::new(path).parent()
}

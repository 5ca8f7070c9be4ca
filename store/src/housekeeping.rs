//! Expires, merges and deletes segments: after each sealing, and from time to time.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use trackiops_schemas::time::UtcMs;
use trackiops_threads::fail_point;

use crate::beneath;
use crate::catalog::Catalog;
use crate::compact;
use crate::error::StoreError;
use crate::file_backoff::FileBackoff;
use crate::glob_view::{self, Settled};
use crate::layout;
use crate::marks;
use crate::options::RetentionPolicy;
use crate::requests::delete_removed;
use crate::retention;
use crate::warning::Warning;

/// Time in which readers can still open a removed segment that is in their plan.
const GRACE_MS: i64 = 5 * 60 * 1000;

/// Hands a new policy to the sealing thread, which applies it before its next task.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewPolicy(Arc<Mutex<Option<RetentionPolicy>>>);

impl NewPolicy {
    pub(crate) fn put(&self, keep: RetentionPolicy) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(keep);
    }

    fn take(&self) -> Option<RetentionPolicy> {
        let mut new = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        new.take()
    }
}

/// The size of a store when journals were last sealed, or when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct StoreBytes(Arc<AtomicU64>);

impl StoreBytes {
    const UNKNOWN: u64 = u64::MAX;

    /// Bytes of segments, journals and catalog, if known.
    pub(crate) fn get(&self) -> Option<u64> {
        let bytes = self.0.load(Ordering::Relaxed);
        (bytes != Self::UNKNOWN).then_some(bytes)
    }

    fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }
}

impl Default for StoreBytes {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(Self::UNKNOWN)))
    }
}

/// Applies a store's retention.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    store: PathBuf,
    keep: RetentionPolicy,
    new: NewPolicy,
    backoff: FileBackoff,
    warnings: Vec<Warning>,
    /// Whether [`Warning::Spared`] was reported.
    has_spared: bool,
    bytes: StoreBytes,
}

impl Housekeeping {
    pub(crate) fn new(store: &Path, keep: RetentionPolicy, new: NewPolicy) -> Self {
        Self {
            store: store.to_owned(),
            keep,
            new,
            backoff: FileBackoff::default(),
            warnings: Vec::new(),
            has_spared: false,
            bytes: StoreBytes::default(),
        }
    }

    /// A handle to the size of the store.
    pub(crate) fn bytes(&self) -> StoreBytes {
        self.bytes.clone()
    }

    pub(crate) fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = std::mem::take(&mut self.warnings);
        warnings.extend(self.backoff.take_warnings());
        warnings
    }

    /// Expires segments, then hides, deletes and merges.
    pub(crate) fn after_sealing(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        self.take_new_policy();
        self.expire(catalog)?;
        self.measure(catalog)?;
        marks::enter(&self.store, catalog)?;
        self.delete_and_merge(catalog)
    }

    /// Hides and deletes removed segments, and merges once. Expires segments only if the policy has changed: otherwise
    /// nothing can expire before the next sealing.
    pub(crate) fn idle(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        if self.take_new_policy() {
            self.expire(catalog)?;
        }
        if self.bytes.get().is_none() {
            self.measure(catalog)?;
        }
        self.delete_and_merge(catalog)
    }

    fn take_new_policy(&mut self) -> bool {
        let new = self.new.take();
        let is_new = new.is_some();
        if let Some(keep) = new {
            self.keep = keep;
        }
        is_new
    }

    fn expire(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
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
            let first_unsealed = layout::journals(&self.store)?.first().copied();
            catalog.expire(&expired.paths, self.at(), first_unsealed)?;
            fail_point::hit("retention: committed");
        }
        Ok(())
    }

    fn measure(&self, catalog: &Catalog) -> Result<(), StoreError> {
        let kept = catalog.kept_segments()?;
        let segments: u64 = kept.iter().map(|segment| segment.bytes).sum();
        self.bytes
            .set(segments + retention::other_bytes(&self.store)?);
        Ok(())
    }

    /// Only one merge: more in a row would delay sealing and the end of the recorder.
    fn delete_and_merge(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        let removed = catalog.removed()?;
        if !removed.is_empty() {
            // An interrupted merge may have hidden its inputs, and not yet shown the merged
            // segment.
            let dirs: HashSet<_> = removed.iter().map(|path| dir_of(path)).collect();
            let mut kept = paths(catalog)?;
            kept.retain(|path| dirs.contains(&dir_of(path)));
            glob_view::settle(&self.store, &removed, &kept, &mut self.backoff)?;
            let due = catalog.due((self.keep.now)())?;
            delete(&self.store, catalog, &due, &mut self.backoff)?;
        }
        compact::step(&self.store, catalog, self.at(), &mut self.backoff)
    }

    /// Deletes all removed segments, when the recorder begins and ends. A reader that meets a
    /// vanished file plans again.
    pub(crate) fn tidy(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        tidy(&self.store, catalog, &mut self.backoff).map(drop)
    }

    /// When segments that are removed now may be deleted.
    fn at(&self) -> UtcMs {
        UtcMs((self.keep.now)().0.saturating_add(GRACE_MS))
    }
}

/// Completes interrupted steps, and deletes all removed segments. Returns the number of deleted
/// files.
pub(crate) fn tidy(
    store: &Path,
    catalog: &mut Catalog,
    backoff: &mut FileBackoff,
) -> Result<(Settled, u64), StoreError> {
    let removed = catalog.removed()?;
    let settled = glob_view::settle(store, &removed, &paths(catalog)?, backoff)?;
    let mut deleted = delete(store, catalog, &removed, backoff)?;
    deleted += delete_removed(catalog)?;
    // An unfinished segment that is not in the catalog does not count: its journal or its inputs
    // exist.
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
    marks::enter(store, catalog)?;
    catalog.publish()?;
    Ok((settled, deleted))
}

/// Deletes segments. Returns the number of deleted files.
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

/// Paths of all segments, relative to the store.
fn paths(catalog: &Catalog) -> Result<Vec<String>, StoreError> {
    let kept = catalog.kept_segments()?.into_iter();
    Ok(kept.map(|segment| segment.path).collect())
}

fn dir_of(path: &str) -> Option<&Path> {
    Path::new(path).parent()
}

#[cfg(test)]
mod tests {
    use trackiops_testkit::windows::windows;

    use super::*;
    use crate::Writer;
    use crate::unit_tests::options;

    #[test]
    fn a_new_policy_is_applied_without_waiting_for_a_journal_to_seal() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(dir.path(), options("h")).unwrap();
        writer.append(&windows(1)[0]).unwrap();
        writer.finish().unwrap();
        let mut catalog = Catalog::open(dir.path()).unwrap();
        let new = NewPolicy::default();
        let mut housekeeping = Housekeeping::new(dir.path(), Default::default(), new.clone());
        housekeeping.idle(&mut catalog).unwrap();
        assert!(!catalog.kept_segments().unwrap().is_empty());
        new.put(RetentionPolicy {
            most_bytes: Some(0),
            ..RetentionPolicy::default()
        });
        housekeeping.idle(&mut catalog).unwrap();
        assert!(catalog.kept_segments().unwrap().is_empty());
    }
}

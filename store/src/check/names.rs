//! Checks that names of files agree with the catalog: a glob must match each segment that counts,
//! and nothing else.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::journals::settled;
use super::report::{Report, TAKE_IN, fresh, of_date};
use crate::catalog::CatalogView;
use crate::error::StoreError;
use crate::layout::{self, Dataset};

/// What to do about a wrong name.
const REPAIR: &str =
    "`trackiops store check --repair` renames it, and so does the next `trackiops record`";
const SEEN: &str = "it was merged into another segment or has expired, and `*.parquet` still matches it: \
                    a glob may count its rows twice";
const NOT_SEEN: &str =
    "it is hidden: `*.parquet` does not match it, and a glob misses its rows; queries do not";

pub(super) fn check(store: &Path, report: &mut Report) -> Result<(), StoreError> {
    // Tries again, because a recorder may be about to rename them.
    for (segment, why) in settled(|| Ok(wrong(store)), BTreeMap::is_empty)? {
        let path = store.join(segment);
        report.find(&path, why, None, REPAIR);
    }
    let hidden = layout::hidden_segments(store)?;
    // Opened after the files were listed, so it includes every change of them.
    let Some((removed, segments)) = fresh(store).and_then(|view| known(store, &view)) else {
        return Ok(());
    };
    for segment in hidden {
        let path = layout::hidden(&store.join(&segment));
        let Ok(file) = path.metadata() else {
            continue;
        };
        if removed.contains(&segment) {
            report.waiting += 1;
            report.waiting_bytes += file.len();
        } else if !segments.contains(&segment) {
            let why = "it is hidden, and the catalog does not know it";
            report.find(&path, why, of_date(&path), TAKE_IN);
        }
    }
    Ok(())
}

/// Segments with wrong names, relative to the store, and why. Empty if the catalog cannot be read.
fn wrong(store: &Path) -> BTreeMap<String, &'static str> {
    let Some((removed, segments)) = fresh(store).and_then(|view| known(store, &view)) else {
        return BTreeMap::new();
    };
    let is_there = |path: &Path| path.exists();
    let seen = removed
        .into_iter()
        .filter(|path| is_there(&store.join(path)));
    let not_seen = segments.into_iter().filter(|path| {
        let path = store.join(path);
        let others = [layout::hidden(&path), layout::temporary(&path)];
        !is_there(&path) && others.iter().any(|other| is_there(other))
    });
    let seen = seen.map(|path| (path, SEEN));
    seen.chain(not_seen.map(|path| (path, NOT_SEEN))).collect()
}

/// Segments to delete, and segments that count, relative to the store. `None` if the catalog cannot
/// be read.
pub(super) fn known(
    store: &Path,
    view: &CatalogView,
) -> Option<(HashSet<String>, HashSet<String>)> {
    let removed = view.removed().ok()?.into_iter();
    let mut segments = HashSet::new();
    for dataset in Dataset::ALL {
        for segment in view.segments(dataset, None).ok()? {
            let relative = segment.path.strip_prefix(store).unwrap_or(&segment.path);
            segments.insert(relative.to_string_lossy().into_owned());
        }
    }
    Some((removed.collect(), segments))
}

//! Detects segments that the catalog lacks: the catalog is older than they are, for example because it was restored
//! alone, or they belong to another store.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use trackiops_schemas::columns;
use trackiops_schemas::time::UtcMs;

use crate::beneath;
use crate::catalog::CatalogView;
use crate::chain::Link;
use crate::error::StoreError;
use crate::identity::{Identity, StoreId};
use crate::layout::{self, Series};
use crate::names::{Seen, hull};
use crate::segment::metadata::{self, JournalSpan};
use crate::segment::reader::SegmentReader;
use crate::unread::Unread;

/// The largest number of a sealed journal whose segments the catalog lacks.
pub(crate) fn last_journal(store: &Path) -> Result<Option<u64>, StoreError> {
    let catalog = CatalogView::open(store)?;
    let mut known = catalog.sealed_journals()?;
    known.extend(layout::journals(store)?);
    let newer = journals(store, &catalog, &known)?;
    let own = newer.iter().filter(|(is_own, _)| *is_own);
    Ok(own.map(|(_, span)| span.number).max())
}

/// Segments that the catalog lacks: their journals are neither in `known`, which has sealed and unsealed ones, nor
/// removed. Looks at the last day that the catalog knows and at later days.
pub(crate) fn than_catalog(
    store: &Path,
    catalog: &CatalogView,
    known: &HashSet<u64>,
) -> Result<Vec<Unread>, StoreError> {
    let journals = journals(store, catalog, known)?.into_iter();
    let journals = journals.map(|(is_own, span)| (is_own, (span.start, span.end)));
    Ok(beside(store, "segments of N journals", journals.collect()))
}

/// Messages about segments that the catalog lacks. Each item says whether the segment is of this store, and its time.
fn beside(store: &Path, what: &str, segments: Vec<(bool, Seen)>) -> Vec<Unread> {
    let of = |own: bool| {
        let times = segments.iter().filter(|(is_own, _)| *is_own == own);
        let times: Vec<_> = times.map(|(_, time)| *time).collect();
        let covers = times.iter().copied().reduce(hull)?;
        let what = what.replace('N', &times.len().to_string());
        let why = match own {
            true => format!(
                "it is older than the {what} beside it; `trackiops store rebuild-catalog` takes them in"
            ),
            false => format!(
                "{what} beside it are of another store, or of a copy of this one; move them out"
            ),
        };
        let path = layout::catalog(store);
        let covers = Some(covers);
        Some(Unread { path, why, covers })
    };
    [true, false].into_iter().filter_map(of).collect()
}

/// The same for segments of single requests, given their sealed and unsealed journals.
pub(crate) fn than_catalog_by_requests(
    store: &Path,
    sealed: &HashSet<u64>,
    unsealed: &[Link],
) -> Result<Vec<Unread>, StoreError> {
    let mut unknown = layout::requests_segments(store)?;
    let is_known = |number: &u64| {
        sealed.contains(number) || unsealed.iter().any(|link| link.number == *number)
    };
    unknown.retain(|(number, path)| !is_known(number) && requests_of(store, path).is_some());
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    // A recorder may have sealed a journal, or deleted segments, in the meantime.
    let fresh = CatalogView::open(store)?;
    let (sealed, removed) = (fresh.sealed(Series::Requests)?, fresh.all_removed()?);
    unknown.retain(|(number, path)| !sealed.contains(number) && !is_listed(store, path, &removed));
    let ids = fresh.ids()?;
    let times = unknown.iter().filter_map(|(_, path)| {
        let is_own = ids.contains(&requests_of(store, path)?.id);
        Some((is_own, layout::date_of(path)?))
    });
    Ok(beside(
        store,
        "N segments of single requests",
        times.collect(),
    ))
}

/// The store of a segment of requests that still has its original name.
fn requests_of(store: &Path, path: &Path) -> Option<Identity> {
    let reader = SegmentReader::open(beneath::read(store, path).ok()?, path).ok()?;
    metadata::check_requests(reader.metadata(), path).ok()?;
    metadata::identity(reader.metadata())
}

/// Journals that only segments know, each with whether it is of this store.
fn journals(
    store: &Path,
    catalog: &CatalogView,
    known: &HashSet<u64>,
) -> Result<Vec<(bool, JournalSpan)>, StoreError> {
    let last = catalog.span()?.map(|(_, end)| UtcMs(end.0 - 1));
    let mut unknown = layout::health_since(store, last)?;
    unknown.retain(|path| layout::number_of(path).is_some_and(|number| !known.contains(&number)));
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    // A recorder may have sealed a journal in the meantime.
    let fresh = CatalogView::open(store)?;
    let (sealed, removed, ids) = (fresh.sealed_journals()?, fresh.removed()?, fresh.ids()?);
    let journals: BTreeSet<_> = unknown
        .iter()
        .filter(|path| !is_listed(store, path, &removed))
        .filter_map(|path| journal_of(store, path, &ids))
        .collect();
    let journals = journals
        .into_iter()
        .filter(|(_, span)| !sealed.contains(&span.number));
    Ok(journals.collect())
}

fn is_listed(store: &Path, path: &Path, listed: &[String]) -> bool {
    let relative = path.strip_prefix(store).ok().and_then(Path::to_str);
    relative.is_some_and(|relative| listed.iter().any(|path| path == relative))
}

/// The last journal of a segment, and whether it is of a store with these ids. `None` if the segment was renamed.
fn journal_of(store: &Path, path: &Path, ids: &[StoreId]) -> Option<(bool, JournalSpan)> {
    let reader = SegmentReader::open(beneath::read(store, path).ok()?, path).ok()?;
    let journals = metadata::value(reader.metadata(), columns::META_JOURNALS)?;
    let last = metadata::journals(journals)?.pop()?;
    let is_own = metadata::is_of(reader.metadata(), ids);
    (Some(last.number) == layout::number_of(path)).then_some((is_own, last))
}

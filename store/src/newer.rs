//! Notices a catalog that is older than segments beside it, such as one that was restored alone.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use trackiops_schemas::columns;
use trackiops_schemas::time::UtcMs;

use crate::beneath;
use crate::catalog::CatalogView;
use crate::chain::Link;
use crate::error::StoreError;
use crate::layout::{self, Series};
use crate::names::hull;
use crate::segment::metadata::{self, JournalSpan};
use crate::segment::reader::SegmentReader;
use crate::unread::Unread;

/// The largest number of a journal that is sealed into segments which the catalog lacks.
pub(crate) fn last_journal(store: &Path) -> Result<Option<u64>, StoreError> {
    let catalog = CatalogView::open(store)?;
    let mut known = catalog.sealed_journals()?;
    known.extend(layout::journals(store)?);
    let newer = journals(store, &catalog, &known)?;
    Ok(newer.last().map(|span| span.number))
}

/// What the catalog lacks, if a segment is of a journal that is neither `known`, sealed or not, nor
/// was removed. Looks at the last day that the catalog knows and at later ones.
pub(crate) fn than_catalog(
    store: &Path,
    catalog: &CatalogView,
    known: &HashSet<u64>,
) -> Result<Option<Unread>, StoreError> {
    let journals = journals(store, catalog, known)?;
    let covers = journals
        .iter()
        .map(|span| (span.start, span.end))
        .reduce(hull);
    Ok(covers.map(|covers| {
        let why = format!("it is older than the segments of {} journals beside it; `trackiops store rebuild-catalog` takes them in", journals.len());
        Unread { path: layout::catalog(store), why, covers: Some(covers) }
    }))
}

/// The same for segments of single requests, whose sealed and unsealed journals are known.
pub(crate) fn than_catalog_by_requests(
    store: &Path,
    sealed: &HashSet<u64>,
    unsealed: &[Link],
) -> Result<Option<Unread>, StoreError> {
    let mut unknown = layout::requests_segments(store)?;
    let is_known = |number: &u64| {
        sealed.contains(number) || unsealed.iter().any(|link| link.number == *number)
    };
    unknown.retain(|(number, path)| !is_known(number) && is_of_requests(store, path));
    if unknown.is_empty() {
        return Ok(None);
    }
    // A recorder may have sealed a journal, or deleted segments, in the meantime.
    let fresh = CatalogView::open(store)?;
    let (sealed, removed) = (fresh.sealed(Series::Requests)?, fresh.all_removed()?);
    unknown.retain(|(number, path)| !sealed.contains(number) && !is_listed(store, path, &removed));
    let days = unknown.iter().filter_map(|(_, path)| layout::date_of(path));
    Ok(days.reduce(hull).map(|covers| {
        let why = format!("it is older than {} segments of single requests beside it; `trackiops store rebuild-catalog` takes them in", unknown.len());
        Unread { path: layout::catalog(store), why, covers: Some(covers) }
    }))
}

/// Whether a segment of requests has the name that it was written under.
fn is_of_requests(store: &Path, path: &Path) -> bool {
    let reader = beneath::read(store, path)
        .ok()
        .map(|file| SegmentReader::open(file, path));
    let reader = reader.and_then(Result::ok);
    reader.is_some_and(|reader| metadata::check_requests(reader.metadata(), path).is_ok())
}

/// Journals that only segments know, by number.
fn journals(
    store: &Path,
    catalog: &CatalogView,
    known: &HashSet<u64>,
) -> Result<Vec<JournalSpan>, StoreError> {
    let last = catalog.span()?.map(|(_, end)| UtcMs(end.0 - 1));
    let mut unknown = layout::health_since(store, last)?;
    unknown.retain(|path| layout::number_of(path).is_some_and(|number| !known.contains(&number)));
    if unknown.is_empty() {
        return Ok(Vec::new());
    }
    // A recorder may have sealed a journal in the meantime.
    let fresh = CatalogView::open(store)?;
    let (sealed, removed) = (fresh.sealed_journals()?, fresh.removed()?);
    let journals: BTreeSet<_> = unknown
        .iter()
        .filter(|path| !is_listed(store, path, &removed))
        .filter_map(|path| journal_of(store, path))
        .collect();
    let journals = journals
        .into_iter()
        .filter(|span| !sealed.contains(&span.number));
    Ok(journals.collect())
}

fn is_listed(store: &Path, path: &Path, listed: &[String]) -> bool {
    let relative = path.strip_prefix(store).ok().and_then(Path::to_str);
    relative.is_some_and(|relative| listed.iter().any(|path| path == relative))
}

/// The last journal of a segment, if its name is the one that it was written under.
fn journal_of(store: &Path, path: &Path) -> Option<JournalSpan> {
    let reader = SegmentReader::open(beneath::read(store, path).ok()?, path).ok()?;
    let journals = metadata::value(reader.metadata(), columns::META_JOURNALS)?;
    let last = metadata::journals(journals)?.pop()?;
    (Some(last.number) == layout::number_of(path)).then_some(last)
}

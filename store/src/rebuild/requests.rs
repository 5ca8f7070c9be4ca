//! Segments of single requests in a rebuilt catalog.

use std::collections::BTreeSet;
use std::path::Path;

use parquet::file::metadata::KeyValue;
use trackiops_schemas::columns;
use trackiops_schemas::time::UtcMs;

use super::{BATCH_ROWS, Rebuilt, is_whole};
use crate::beneath;
use crate::catalog::{Catalog, CatalogView, RequestsEntry};
use crate::error::StoreError;
use crate::identity::{FOREIGN, StoreId};
use crate::layout::{self, Series};
use crate::requests::ends_ns;
use crate::segment::metadata::{self, check_requests, is_of};
use crate::segment::reader::SegmentReader;
use crate::segment::verified::{cannot_open, damaged};

/// Enters all segments of requests on disk, and unreadable ones that counted.
pub(super) fn fill(
    store: &Path,
    catalog: &Catalog,
    old: Option<&CatalogView>,
    rebuilt: &mut Rebuilt,
) -> Result<(), StoreError> {
    let unsealed: BTreeSet<_> = layout::requests_journals(store)?.into_iter().collect();
    let listed = old
        .and_then(|old| old.requests_segments().ok())
        .unwrap_or_default();
    let (mut found, mut lost, mut links) = (Vec::new(), Vec::new(), Vec::new());
    for (number, path) in layout::requests_segments(store)? {
        // Their sealing was interrupted. It will be repeated over the same names.
        if unsealed.contains(&number) {
            continue;
        }
        let relative = path
            .strip_prefix(store)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        let why = match entry(store, &relative, number, catalog.ids()) {
            Ok((entry, previous)) => {
                links.push((entry.journal, previous));
                found.push(entry);
                continue;
            }
            Err(StoreError::DamagedSegment { why, .. }) => why,
            Err(StoreError::Io { source, .. }) => format!("it cannot be read: {source}"),
            Err(error) => return Err(error),
        };
        rebuilt.left_out.push((path, why));
        // An intact file is a copy, or from another program: it never counted.
        if !is_whole(store, &relative) {
            lost.extend(named(store, &relative, number));
        }
    }
    for entry in listed {
        let is_found = found.iter().any(|found| found.path == entry.path);
        if is_found || unsealed.contains(&entry.journal) {
            continue;
        }
        let path = store.join(&entry.path);
        if !rebuilt.left_out.iter().any(|(known, _)| *known == path) {
            rebuilt.left_out.push((path, "it is missing".to_owned()));
        }
        lost.retain(|lost: &RequestsEntry| lost.path != entry.path);
        lost.push(entry);
    }
    rebuilt
        .lost
        .extend(lost.iter().map(|lost| store.join(&lost.path)));
    rebuilt.segments += found.len() as u64;
    // Entries of the old catalog come first: it knows which journals have expired.
    let known = old.and_then(|old| old.links(Series::Requests).ok());
    let is_known = known.is_some();
    let mut sealed = known.unwrap_or_default();
    sealed.retain(|(number, _)| !unsealed.contains(number));
    links.extend(lost.iter().map(|entry| (entry.journal, None)));
    found.extend(lost);
    let numbers = sealed.iter().chain(&links).map(|(number, _)| *number);
    let first = numbers.min();
    // Journals before the first one may have been deleted to stay within the budget.
    sealed.extend(links.into_iter().map(|(number, previous)| {
        let previous = previous.filter(|previous| Some(*previous) >= first);
        (number, previous)
    }));
    let rebuilt = match old.filter(|_| is_known) {
        Some(old) => old.rebuilt().unwrap_or_default(),
        None => Some(first.unwrap_or(0)),
    };
    if let Some(first) = rebuilt {
        catalog.enter_rebuilt(first)?;
    }
    catalog.restore_requests(&found, &sealed)
}

/// A segment as its file describes it, and the journal before its own.
fn entry(
    store: &Path,
    relative: &str,
    journal: u64,
    ids: &[StoreId],
) -> Result<(RequestsEntry, Option<u64>), StoreError> {
    let path = store.join(relative);
    let file = beneath::read(store, &path).map_err(|error| cannot_open(&path, error))?;
    let reader = SegmentReader::open(file, &path)?;
    reader.verify()?;
    check_requests(reader.metadata(), &path).map_err(|why| damaged(&path, why))?;
    if !is_of(reader.metadata(), ids) {
        return Err(damaged(&path, FOREIGN));
    }
    let previous = previous(reader.metadata(), journal);
    let (rows, bytes, crc32c) = (reader.rows(), reader.bytes(), reader.crc32c());
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for batch in reader.batches(BATCH_ROWS)? {
        let batch = batch?;
        let ends = ends_ns(&batch).iter();
        (first, last) = ends.fold((first, last), |(first, last), end| {
            (first.min(*end), last.max(*end))
        });
    }
    let ms = |ns: i64| UtcMs(ns.div_euclid(1_000_000));
    let is_of_date = |ns| layout::is_of_date(&path, ms(ns));
    if first > last || !is_of_date(first) || !is_of_date(last) {
        let why = "its rows are not of the date of its directory: is it a copy?";
        return Err(damaged(&path, why));
    }
    let entry = RequestsEntry {
        journal,
        start: ms(first),
        end: UtcMs(ms(last).0 + 1),
        rows,
        bytes,
        crc32c,
        path: relative.to_owned(),
    };
    Ok((entry, previous))
}

/// The journal before the one of a segment.
fn previous(metadata: Option<&Vec<KeyValue>>, journal: u64) -> Option<u64> {
    let journals = metadata::value(metadata, columns::META_JOURNALS).and_then(metadata::journals);
    match journals.as_deref() {
        Some([own]) if own.number == journal => own.previous,
        // Early segments do not say it, and numbers of journals that were never used are skipped.
        _ => None,
    }
}

/// A damaged segment that no catalog describes. Its directory has its day.
fn named(store: &Path, relative: &str, journal: u64) -> Option<RequestsEntry> {
    let path = store.join(relative);
    layout::parse_requests_segment(relative)?;
    let (start, end) = layout::date_of(&path)?;
    Some(RequestsEntry {
        journal,
        start,
        end,
        rows: 1,
        bytes: path.symlink_metadata().map_or(0, |file| file.len()),
        crc32c: 0,
        path: relative.to_owned(),
    })
}

//! Segments of single requests in a rebuilt catalog.

use std::collections::BTreeSet;
use std::path::Path;

use trackiops_schemas::time::UtcMs;

use super::{BATCH_ROWS, Rebuilt, is_whole};
use crate::beneath;
use crate::catalog::{Catalog, CatalogView, RequestsEntry};
use crate::error::StoreError;
use crate::identity::{FOREIGN, StoreId};
use crate::layout::{self, Series};
use crate::requests::ends_ns;
use crate::segment::metadata::{check_requests, is_of};
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
    let (mut found, mut lost) = (Vec::new(), Vec::new());
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
            Ok(entry) => {
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
    // What the old catalog says of a journal comes first: it knows which ones have expired.
    let links = old.and_then(|old| old.links(Series::Requests).ok());
    let mut sealed = links.unwrap_or_default();
    sealed.retain(|(number, _)| !unsealed.contains(number));
    found.extend(lost);
    sealed.extend(found.iter().map(|entry| (entry.journal, None)));
    catalog.restore_requests(&found, &sealed)
}

/// A segment as its file describes it, and the journal before its own.
fn entry(
    store: &Path,
    relative: &str,
    journal: u64,
    ids: &[StoreId],
) -> Result<RequestsEntry, StoreError> {
    let path = store.join(relative);
    let file = beneath::read(store, &path).map_err(|error| cannot_open(&path, error))?;
    let reader = SegmentReader::open(file, &path)?;
    reader.verify()?;
    check_requests(reader.metadata(), &path).map_err(|why| damaged(&path, why))?;
    if !is_of(reader.metadata(), ids) {
        return Err(damaged(&path, FOREIGN));
    }
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
    Ok(RequestsEntry {
        journal,
        start: ms(first),
        end: UtcMs(ms(last).0 + 1),
        rows,
        bytes,
        crc32c,
        path: relative.to_owned(),
    })
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

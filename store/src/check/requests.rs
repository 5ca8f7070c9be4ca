//! Checks single requests, by themselves and against the catalog.

use std::io;
use std::path::Path;

use super::report::{Covers, MISSING, Report, TAKE_IN, UNKNOWN, fresh, of_date, stray, verified};
use super::{journals, rows};
use crate::beneath;
use crate::catalog::{CatalogView, RequestsEntry};
use crate::chain::Link;
use crate::error::StoreError;
use crate::layout::{self, Series};
use crate::requests::journal_damage;
use crate::segment::metadata::check_requests;
use crate::segment::reader::SegmentReader;

/// What to do about a damaged segment of requests.
const RESTORE_REQUESTS: &str = "restore it from a copy; until then, answers of its time say that it is damaged; windows have all of its requests as sums";

pub(super) fn check(
    store: &Path,
    view: Option<&CatalogView>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let ids = view.and_then(|view| view.ids().ok());
    let mut links = Vec::new();
    for number in layout::requests_journals(store)? {
        let path = layout::requests_journal(store, number);
        let is_whole = |damage: &Option<(Link, u64)>| matches!(damage, Some((_, 0)));
        match journals::settled(|| journal_damage(&path, ids.as_ref()), is_whole) {
            Ok(None) => links.push(Link::unused(number)),
            Ok(Some((link, damaged))) => {
                report.journals += 1;
                links.push(link);
                if damaged > 0 {
                    let why = format!(
                        "{damaged} bytes are not a whole batch: cut off while they were written, or damaged"
                    );
                    report.find(&path, why, None, journals::RECORD);
                }
            }
            Err(error @ StoreError::OtherFormat { .. }) => return Err(error),
            Err(error) => {
                links.push(Link::unreadable(number));
                report.find(&path, journals::why(&error), None, journals::RECORD);
            }
        }
    }
    if view.is_some() {
        journals::missing(store, Series::Requests, &links, report);
    }
    let listed = view.and_then(|view| view.requests_segments().ok());
    for entry in listed.iter().flatten() {
        one(store, entry, report);
    }
    strays(store, &links, report)
}

/// Checks a segment that the catalog lists.
fn one(store: &Path, entry: &RequestsEntry, report: &mut Report) {
    let path = store.join(&entry.path);
    let covers = Some(Covers::time(entry.start, entry.end));
    let file = match beneath::read(store, &path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // It may have been deleted in the meantime to stay within the budget.
            let fresh = fresh(store).and_then(|view| view.requests_segments().ok());
            if fresh.is_some_and(|fresh| fresh.contains(entry)) {
                report.find(&path, "it is missing", covers, MISSING);
            }
            return;
        }
        file => file,
    };
    let rows = verified(file, &path, Some(entry.bytes), report).and_then(|reader| {
        check_requests(reader.metadata(), &path)?;
        reader.check_crc32c(entry.crc32c)?;
        rows::requests(reader)
    });
    match rows {
        Ok(rows) => report.rows += rows,
        Err(why) => report.find(&path, why, covers, RESTORE_REQUESTS),
    }
}

/// Reports segments that are not in the catalog. A segment of an unsealed journal is being written.
fn strays(store: &Path, links: &[Link], report: &mut Report) -> Result<(), StoreError> {
    let files = layout::requests_segments(store)?;
    // Opened after the files were listed, so it includes every change of them.
    let Some(view) = fresh(store) else {
        return Ok(());
    };
    let (Ok(segments), Ok(removed)) = (view.requests_segments(), view.all_removed()) else {
        return Ok(());
    };
    let listed = segments.iter().map(|entry| &entry.path).chain(&removed);
    let listed: Vec<_> = listed.map(|path| store.join(path)).collect();
    for (number, path) in files {
        let is_being_sealed = links.iter().any(|link| link.number == number);
        if !is_being_sealed && !listed.contains(&path) && path.exists() {
            let reader = beneath::read(store, &path).map(|file| SegmentReader::open(file, &path));
            let (why, next) = match reader {
                Ok(Ok(reader)) => stray(reader.metadata(), view.ids().ok().as_deref()),
                _ => (UNKNOWN.to_owned(), TAKE_IN),
            };
            report.find(&path, why, of_date(&path), next);
        }
    }
    Ok(())
}

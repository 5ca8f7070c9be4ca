//! Finds journals that are gone or empty. Each journal names its predecessor, and the catalog names the last journal in
//! use:
//!
//! ```text
//! journal 1 <- journal 2 <- journal 3 <- catalog: last_begun
//! ```
//!
//! A journal is named only after its first windows or requests are durable. So a journal that is named but has none was
//! cut.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use trackiops_schemas::time::UtcMs;

use crate::catalog::{CatalogView, SealedRow};
use crate::error::StoreError;
use crate::journal::file::JournalFile;
use crate::journal::frame::Kind;
use crate::journal::frame_reader::Piece;
use crate::journal::header::Header;
use crate::layout::{self, Series};
use crate::names::Seen;
use crate::unread::Unread;

/// An unsealed journal, readable or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) number: u64,
    /// Its predecessor.
    previous: Option<u64>,
    /// Start of its first window.
    start: Option<UtcMs>,
    /// Whether it has windows or requests, or cannot be read, which is reported elsewhere.
    is_used: bool,
}

impl Link {
    /// A journal that is not readable.
    pub(crate) fn unreadable(number: u64) -> Self {
        Self {
            number,
            previous: None,
            start: None,
            is_used: true,
        }
    }

    /// A journal that ends within its header.
    pub(crate) fn unused(number: u64) -> Self {
        Self {
            is_used: false,
            ..Self::unreadable(number)
        }
    }

    /// A journal whose first window or request is at `start`. `None` if it has none.
    pub(crate) fn of(header: &Header, start: Option<UtcMs>) -> Self {
        Self {
            number: header.number,
            previous: header.previous.map(|previous| previous.number),
            start,
            is_used: start.is_some(),
        }
    }
}

/// Journals that another journal or the catalog names, but that are neither sealed nor in the directory, or have no
/// windows or requests. List the files before you open the catalog.
pub(crate) fn missing(
    store: &Path,
    series: Series,
    catalog: &CatalogView,
    unsealed: &[Link],
) -> Result<Vec<Unread>, StoreError> {
    let rows = catalog.sealed_rows(series)?;
    let named = rows.iter().filter_map(|row| row.previous);
    let named = named.chain(unsealed.iter().filter_map(|link| link.previous));
    let named: BTreeSet<_> = named.chain(catalog.last_begun(series)?).collect();
    let mut known = sealed(series, &rows);
    let used = unsealed.iter().filter(|link| link.is_used);
    known.extend(used.map(|link| link.number));
    let gone = named.into_iter().filter(|number| !known.contains(number));
    // A journal that was empty when it was opened may have windows by now.
    let gone = gone.filter(|number| !is_used(store, series, *number));
    let gone: Vec<_> = gone.collect();
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    // A journal that was begun in the meantime may be sealed by now.
    let sealed = sealed(series, &CatalogView::open(store)?.sealed_rows(series)?);
    let gone = gone.into_iter().filter(|number| !sealed.contains(number));
    let unread = gone.map(|number| {
        let path = series.journal(store, number);
        let around = around(&rows, unsealed, number);
        match series.has(store, number) {
            true => Unread::emptied(path, around),
            false => Unread::gone(path, around),
        }
    });
    Ok(unread.collect())
}

/// Sealed journals that have windows or requests. Segments of single requests are deleted from the oldest on, so journals
/// before the first kept one count, too.
fn sealed(series: Series, rows: &[SealedRow]) -> HashSet<u64> {
    let first = rows.iter().find(|row| row.seen.is_some());
    let first = first.map(|row| row.journal);
    let may_be_deleted = |row: &SealedRow| {
        series == Series::Requests && first.is_none_or(|first| row.journal < first)
    };
    let used = rows
        .iter()
        .filter(|row| row.seen.is_some() || may_be_deleted(row));
    used.map(|row| row.journal).collect()
}

/// Whether a journal has windows or requests now. Also true if it cannot be read or was set aside, which is reported
/// elsewhere.
fn is_used(store: &Path, series: Series, number: u64) -> bool {
    let path = series.journal(store, number);
    if layout::quarantined(&path).symlink_metadata().is_ok() {
        return true;
    }
    has_content(&path).unwrap_or(true)
}

fn has_content(path: &Path) -> Result<bool, StoreError> {
    let Some(journal) = JournalFile::open(path)? else {
        return Ok(false);
    };
    let Some((_, mut frames)) = Header::read(&journal, |kind| kind != 0)? else {
        return Ok(false);
    };
    let read = || StoreError::io("read", path);
    while let Some(piece) = frames.next(&journal.file).map_err(read())? {
        match piece {
            Piece::Whole(frame) if is_auxiliary(frame.kind) => {}
            Piece::Whole(_) | Piece::Damaged { .. } => return Ok(true),
        }
    }
    Ok(false)
}

/// Whether a frame counts only together with a later one.
fn is_auxiliary(kind: u8) -> bool {
    matches!(
        Kind::of(kind),
        Some(Kind::Definitions | Kind::Operations | Kind::Captured)
    )
}

/// The time range between the neighbours of a missing journal. `None` if unknown.
fn around(rows: &[SealedRow], unsealed: &[Link], number: u64) -> Option<Seen> {
    let before = rows.iter().rev().filter(|row| row.journal < number);
    let before = before.filter_map(|row| row.seen).map(|(_, end)| end).next();
    let sealed = rows.iter().filter(|row| row.previous == Some(number));
    let sealed = sealed.filter_map(|row| row.seen).map(|(start, _)| start);
    let unsealed = unsealed.iter().filter(|link| link.previous == Some(number));
    let after = sealed.chain(unsealed.filter_map(|link| link.start)).min();
    // If the clock was set back in between, the range is unknown.
    before.zip(after).filter(|(before, after)| before < after)
}

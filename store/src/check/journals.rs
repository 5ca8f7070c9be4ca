//! Checks journals of windows: checksums, and that every frame decodes.

use std::path::Path;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use trackiops_schemas::time::UtcMs;

use super::report::{Covers, Report, fresh};
use crate::catalog::CatalogView;
use crate::chain::{self, Link};
use crate::error::StoreError;
use crate::identity::Ids;
use crate::journal::cursor;
use crate::journal::end::Extent;
use crate::journal::file::JournalFile;
use crate::journal::removal::deleted_unsealed;
use crate::journal::scan::{Damage, JournalScan};
use crate::layout::{self, Series};
use crate::unread::{LOST, Unread};

/// What to do about a damaged journal.
pub(super) const RECORD: &str = "the rest is read as before; the next `trackiops record` seals it and sets the damaged file aside";
/// What to do about a journal that was set aside.
const REST_IS_LOST: &str = "the segments have what could be read of it, and the rest is lost; answers of its time say so until you move it out of the store";
/// What to do about an unsealed journal that was deleted.
const RESTORE: &str =
    "restore it from a copy; without one, delete the file beside it that ends in .end";
/// What to do about a journal that was deleted or emptied together with its `.end` file.
const RESTORE_BOTH: &str = "restore it from a copy, or the newer catalog; until then, answers of its time say that it is missing";
/// A recorder finishes an append within a few of these.
const APPENDING: Duration = Duration::from_millis(100);
/// Attempts to read the end of a journal that a recorder may be writing.
const LOOKS: usize = 5;

pub(super) fn check(
    store: &Path,
    view: Option<&CatalogView>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let sealed = view.and_then(|view| view.sealed_journals().ok());
    let sealed = sealed.unwrap_or_default();
    let ids = view.and_then(|view| view.ids().ok());
    let mut links = Vec::new();
    for number in layout::journals(store)? {
        if sealed.contains(&number) {
            continue;
        }
        let path = layout::journal(store, number);
        match scanned(&path, ids.as_ref()) {
            Ok(Some(scan)) => {
                report.journals += 1;
                links.push(Link::of(&scan.header, scan.span().map(|(start, _)| start)));
                scan_found(&path, &scan, report);
            }
            // The journal was sealed in the meantime, has just begun, or was emptied.
            Ok(None) => links.push(Link::unused(number)),
            Err(error @ StoreError::OtherFormat { .. }) => return Err(error),
            Err(error) => {
                links.push(Link::unreadable(number));
                report.find(&path, why(&error), written(store, view, &path), RECORD);
            }
        }
    }
    let ends = layout::orphaned_ends(store)?;
    // Opened after the `.end` files were listed, so it includes every journal that was sealed in the meantime.
    let sealed = fresh(store).and_then(|view| view.sealed_journals().ok());
    if let Some(sealed) = sealed {
        for end in ends {
            if let Some(path) =
                deleted_unsealed(store, &end, |number| Ok(sealed.contains(&number)))?
            {
                report.find(&path, LOST, written(store, view, &path), RESTORE);
            }
        }
    }
    // Includes every journal that was sealed while the others were read.
    missing(store, Series::Windows, &links, report);
    for path in layout::quarantined_journals(store)? {
        let why = "it was damaged when it was sealed, and was renamed to keep it";
        report.find(&path, why, written(store, view, &path), REST_IS_LOST);
    }
    Ok(())
}

/// Reports missing journals, unless they were already reported.
pub(super) fn missing(store: &Path, series: Series, links: &[Link], report: &mut Report) {
    // The check of the catalog reports its damage.
    let gone = fresh(store).and_then(|view| chain::missing(store, series, &view, links).ok());
    for Unread { path, why, covers } in gone.unwrap_or_default() {
        if !report.findings.iter().any(|known| known.path == path) {
            let covers = covers.map(|(start, end)| Covers::time(start, end));
            report.find(&path, why, covers, RESTORE_BOTH);
        }
    }
}

/// Scans a journal. `None` if it does not exist or ends within its header.
fn scanned(path: &Path, ids: Option<&Ids>) -> Result<Option<JournalScan>, StoreError> {
    let scan = || match JournalFile::open(path)? {
        Some(journal) => JournalScan::new(journal.of_any(ids)),
        None => Ok(None),
    };
    let is_whole =
        |scan: &Option<JournalScan>| scan.as_ref().is_none_or(|scan| scan.torn_bytes == 0);
    settled(scan, is_whole)
}

/// Tries again while the end is torn, because a recorder may be writing it.
pub(super) fn settled<T>(
    look: impl Fn() -> Result<T, StoreError>,
    is_whole: impl Fn(&T) -> bool,
) -> Result<T, StoreError> {
    let mut looks = 1;
    loop {
        let seen = look()?;
        if is_whole(&seen) || looks == LOOKS {
            return Ok(seen);
        }
        thread::sleep(APPENDING);
        looks += 1;
    }
}

fn scan_found(path: &Path, scan: &JournalScan, report: &mut Report) {
    report.bytes += scan.journal.bytes;
    let granularity = scan.header.granularities.finest();
    let files = scan.files().count() as u64;
    let covers = |start: UtcMs, end: UtcMs| Covers {
        files,
        ..Covers::time(start, end)
    };
    for damage in &scan.damage {
        let Damage { offset, bytes, .. } = damage;
        let why = match damage.is_cut {
            false => format!("{bytes} bytes at byte {offset} do not match their checksum"),
            true => format!("it is cut off: {bytes} bytes at byte {offset} are missing"),
        };
        let covers = damage.covers.map(|(start, end)| covers(start, end));
        report.find(path, why, covers, RECORD);
    }
    if scan.torn_bytes > 0 {
        let why = format!(
            "{} bytes at its end are not a whole window: cut off while it was written, or damaged",
            scan.torn_bytes
        );
        let end = scan
            .span()
            .map(|(_, end)| covers(end, end.plus(granularity)));
        report.find(path, why, end, RECORD);
    }
    for frame in &scan.windows {
        let read = cursor::window(scan, frame).map(drop);
        if let Err(error) = read.and_then(|()| scan.ops(frame).map(drop)) {
            let start = frame.head.start;
            let covers = covers(start, start.plus(granularity));
            report.find(path, why(&error), Some(covers), RECORD);
        }
    }
}

/// Why a journal is unreadable.
pub(super) fn why(error: &StoreError) -> String {
    match error {
        StoreError::Damaged { offset, why, .. } => format!("at byte {offset} {why}"),
        StoreError::Io { source, .. } => format!("it cannot be read: {source}"),
        other => other.to_string(),
    }
}

/// When an unreadable journal was written. Without a valid `.end` file, this is between the end of the journals sealed
/// before it and its last change.
fn written(store: &Path, view: Option<&CatalogView>, path: &Path) -> Option<Covers> {
    if let Some(Extent { span, .. }) = Extent::read(path) {
        return Some(Covers::time(span.0, span.1));
    }
    let number = layout::number_of_journal(path)?;
    let changed = path.metadata().ok()?.modified().ok()?;
    let changed = changed.duration_since(UNIX_EPOCH).ok()?.as_millis();
    let changed = UtcMs(i64::try_from(changed).ok()?);
    let sealed = view
        .and_then(|view| view.journals().ok())
        .unwrap_or_default();
    let before = sealed.iter().filter(|(_, span)| span.number < number);
    let before = before.map(|(_, span)| span.end).max();
    let begun = layout::catalog(store).metadata().ok()?.created().ok();
    let begun = begun.and_then(|begun| begun.duration_since(UNIX_EPOCH).ok());
    let begun = begun
        .and_then(|begun| i64::try_from(begun.as_millis()).ok())
        .map(UtcMs);
    let start = before.or(begun)?.min(changed);
    Some(Covers::time(start, changed))
}

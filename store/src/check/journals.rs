//! Journals of windows: their checksums, and that every frame decodes.

use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use trackiops_schemas::time::UtcMs;

use super::{Covers, Report};
use crate::beneath;
use crate::catalog::CatalogView;
use crate::error::StoreError;
use crate::journal::cursor;
use crate::journal::scan::{Damage, Scan};
use crate::layout;

/// What to do about a damaged journal.
pub(super) const RECORD: &str = "the rest is read as before; the next `trackiops record` seals it and sets the damaged file aside";
/// What to do about one that was set aside.
const MOVE_AWAY: &str = "what of it could be read is in the segments; move it out of the store";
/// A recorder appends within some of these.
const APPENDING: Duration = Duration::from_millis(100);
/// How often the end of a journal is looked at, which may be just being written.
const LOOKS: usize = 5;

pub(super) fn check(
    store: &Path,
    view: Option<&CatalogView>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let sealed = view.and_then(|view| view.sealed_journals().ok());
    let sealed = sealed.unwrap_or_default();
    for number in layout::journals(store)? {
        if sealed.contains(&number) {
            continue;
        }
        let path = layout::journal(store, number);
        match scanned(&path) {
            Ok(Some(scan)) => {
                report.journals += 1;
                scan_found(&path, &scan, report);
            }
            // Sealed meanwhile, or just begun.
            Ok(None) => {}
            Err(error @ StoreError::Damaged { .. }) => {
                report.find(&path, why(&error), written(store, view, &path), RECORD);
            }
            Err(error) => return Err(error),
        }
    }
    for path in layout::set_aside(store)? {
        let why = "it was found damaged and set aside";
        report.find(&path, why, written(store, view, &path), MOVE_AWAY);
    }
    Ok(())
}

/// Scans a journal; `None` if it is gone or ends within its header.
fn scanned(path: &Path) -> Result<Option<Scan>, StoreError> {
    let scan = || {
        let file = match beneath::read(layout::store_of(path), path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(StoreError::io("open journal", path))?,
        };
        Scan::new(file, path)
    };
    let is_whole = |scan: &Option<Scan>| scan.as_ref().is_none_or(|scan| scan.torn_bytes == 0);
    settled(scan, is_whole)
}

/// Looks again at a journal whose end is torn, as somebody may be writing it.
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

fn scan_found(path: &Path, scan: &Scan, report: &mut Report) {
    report.bytes += scan.file.metadata().map_or(0, |metadata| metadata.len());
    let granularity = scan.header.granularities.finest();
    let files = scan.files().count() as u64;
    let covers = |start: UtcMs, end: UtcMs| Covers {
        files,
        ..Covers::time(start, end)
    };
    for damage in &scan.damage {
        let Damage {
            offset,
            bytes,
            after,
            before,
        } = damage;
        let why = format!("{bytes} bytes at byte {offset} do not match their checksum");
        // At least one window, which is the one before the first that is whole where it begins the journal.
        let start = after.map(|after| after.plus(granularity));
        let start = start.or(before.map(|before| UtcMs(before.0.saturating_sub(granularity.ms()))));
        let covers = start.map(|start| {
            let least = start.plus(granularity);
            covers(start, before.map_or(least, |before| before.max(least)))
        });
        report.find(path, why, covers, RECORD);
    }
    if scan.torn_bytes > 0 {
        let why = format!(
            "{} bytes at its end are no whole window: cut off while it was written, or damaged",
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

/// What is wrong with a journal that cannot be read at all.
pub(super) fn why(error: &StoreError) -> String {
    match error {
        StoreError::Damaged { offset, why, .. } => format!("at byte {offset} {why}"),
        other => other.to_string(),
    }
}

/// When a journal was written of which nothing can be read: after all that was sealed before, and until it was last changed.
fn written(store: &Path, view: Option<&CatalogView>, path: &Path) -> Option<Covers> {
    let number = path.file_stem()?.to_str()?;
    let number: u64 = number.trim_end_matches(".tij").parse().ok()?;
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

//! Segments: each in itself, and against the catalog.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;

use super::totals::Totals;
use super::{Covers, RESTORE, Report, fresh, of_date, rows};
use crate::catalog::CatalogView;
use crate::checksum::{self, Checked};
use crate::error::StoreError;
use crate::layout::{self, Dataset};
use crate::snapshot::Segment;

/// What to do about a segment that the catalog does not know.
const TAKE_IN: &str =
    "`trackiops store rebuild-catalog` takes it in; if it is not of this store, move it away";
/// So many names of files are told.
const NAMES: usize = 3;

pub(super) fn check(
    store: &Path,
    view: Option<&CatalogView>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let mut known = HashSet::new();
    if let Some(view) = view {
        let mut totals = Totals::default();
        let mut granularities: BTreeMap<_, Vec<(u64, u64)>> = BTreeMap::new();
        for dataset in Dataset::ALL {
            let segments = match view.segments(dataset, None) {
                Ok(segments) => segments,
                // Which is told as damage to the catalog.
                Err(StoreError::Damaged { .. } | StoreError::Catalog { .. }) => return Ok(()),
                Err(error) => return Err(error),
            };
            for segment in segments {
                let of = (segment.host.clone(), segment.granularity);
                if dataset == Dataset::Health {
                    let journals = (segment.journal, segment.last_journal);
                    granularities.entry(of).or_default().push(journals);
                }
                if !one(store, view, &segment, &mut totals, report)? {
                    let series = (dataset, segment.host, segment.granularity);
                    totals.miss(series, segment.start, segment.end);
                }
                let relative = segment.path.strip_prefix(store).unwrap_or(&segment.path);
                known.insert(relative.to_string_lossy().into_owned());
            }
        }
        totals.miss_expired(
            &view.journals().unwrap_or_default(),
            |host, granularity, number| {
                let of = granularities.get(&(host.to_owned(), granularity));
                let mut ranges = of.into_iter().flatten();
                ranges.any(|(first, last)| (*first..=*last).contains(&number))
            },
        );
        totals.compare(store, report);
    }
    strays(store, known, report)
}

/// Checks a segment. Whether it could be read.
fn one(
    store: &Path,
    view: &CatalogView,
    segment: &Segment,
    totals: &mut Totals,
    report: &mut Report,
) -> Result<bool, StoreError> {
    let path = &segment.path;
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // Merged or expired meanwhile?
            if is_segment(store, segment) {
                report.find(path, "it is missing", Some(covers(view, segment)), RESTORE);
            }
            return Ok(false);
        }
        file => file.map_err(StoreError::io("open segment", path))?,
    };
    let read = || StoreError::io("read segment", path);
    let bytes = file.metadata().map_err(read())?.len();
    report.segments += 1;
    report.bytes += bytes;
    let checked = checksum::check(&file).map_err(read())?;
    let found = if bytes != segment.bytes {
        let expected = segment.bytes;
        Err(format!("it has {bytes} bytes, the catalog says {expected}"))
    } else if checked == Checked::Damaged {
        Err("it does not match its checksum".into())
    } else {
        rows::of_segment(file, segment, checked == Checked::Intact)
    };
    match found {
        Ok(found) => {
            report.rows += found.rows;
            report.without_checksum += u64::from(checked == Checked::NoChecksum);
            let series = (segment.dataset, segment.host.clone(), segment.granularity);
            totals.add(series, found.sums);
            Ok(true)
        }
        Err(why) => {
            report.find(path, why, Some(covers(view, segment)), RESTORE);
            Ok(false)
        }
    }
}

/// Whether the catalog still knows it.
fn is_segment(store: &Path, segment: &Segment) -> bool {
    let segments = fresh(store).and_then(|view| view.segments(segment.dataset, None).ok());
    segments.is_none_or(|segments| segments.iter().any(|s| s.path == segment.path))
}

fn covers(view: &CatalogView, segment: &Segment) -> Covers {
    let keys: Vec<_> = segment.files.unpack().keys().collect();
    let mut names = Vec::new();
    for key in keys.iter().take(NAMES) {
        let mut of_file = Vec::new();
        if view.names_of(*key, &mut of_file).is_ok() {
            names.extend(of_file.pop().map(|name| name.path));
        }
    }
    Covers {
        start: segment.start,
        end: segment.end,
        files: keys.len() as u64,
        names,
    }
}

/// Files that the catalog does not know. Those of a journal that is not sealed are just being written.
fn strays(store: &Path, mut known: HashSet<String>, report: &mut Report) -> Result<(), StoreError> {
    let mut files = layout::segment_files(store)?;
    files.retain(|file| !known.contains(file));
    if files.is_empty() {
        return Ok(());
    }
    // Some may have become segments meanwhile.
    let Some(view) = fresh(store) else {
        return Ok(());
    };
    let unsealed: BTreeSet<_> = layout::journals(store)?.into_iter().collect();
    for dataset in Dataset::ALL {
        for segment in view.segments(dataset, None).unwrap_or_default() {
            let relative = segment.path.strip_prefix(store).unwrap_or(&segment.path);
            known.insert(relative.to_string_lossy().into_owned());
        }
    }
    known.extend(view.removed()?.into_iter().map(|(path, _)| path));
    for file in files {
        let path = store.join(&file);
        let number = layout::number_of(&path);
        let is_being_sealed = number.is_some_and(|number| unsealed.contains(&number));
        if !known.contains(&file) && !is_being_sealed && path.exists() {
            report.find(
                &path,
                "the catalog does not know it",
                of_date(&path),
                TAKE_IN,
            );
        }
    }
    Ok(())
}

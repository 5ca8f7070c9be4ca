//! Checks segments, by themselves and against the catalog.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::Path;

use super::catalog::without_next_step;
use super::report::{
    Covers, MISSING, REBUILD, RESTORE, Report, UNKNOWN, fresh, of_date, stray, verified,
};
use super::totals::Totals;
use super::{names, rows};
use crate::beneath;
use crate::catalog::CatalogView;
use crate::error::StoreError;
use crate::layout::{self, Dataset};
use crate::segment::Segment;

/// What to do about a damaged segment that is not in the catalog.
const RESTORE_UNKNOWN: &str = "answers do not have its rows; restore it from a copy and run `trackiops store rebuild-catalog`, or move it out of the store";
/// Most names of files that a finding lists.
const NAMES: usize = 3;

pub(super) fn check(
    store: &Path,
    view: Option<&CatalogView>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let Some(view) = view else {
        return by_themselves(store, report);
    };
    let mut known = HashSet::new();
    let mut totals = Totals::default();
    let mut granularities: BTreeMap<_, Vec<(u64, u64)>> = BTreeMap::new();
    for dataset in Dataset::ALL {
        let segments = match view.segments(dataset, None) {
            Ok(segments) => segments,
            Err(error @ (StoreError::DamagedCatalog { .. } | StoreError::Catalog { .. })) => {
                let why = format!("its segments cannot be read: {}", without_next_step(&error));
                report.find(&layout::catalog(store), why, None, REBUILD);
                return Ok(());
            }
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
    strays(store, known, report)
}

/// Checks segments without comparing them with a catalog.
fn by_themselves(store: &Path, report: &mut Report) -> Result<(), StoreError> {
    for relative in layout::segment_files(store)? {
        let path = store.join(relative);
        if let Err(why) = verified(beneath::read(store, &path), &path, None, report) {
            report.find(&path, why, of_date(&path), RESTORE);
        }
    }
    Ok(())
}

/// Checks a segment. Returns whether it could be read.
fn one(
    store: &Path,
    view: &CatalogView,
    segment: &Segment,
    totals: &mut Totals,
    report: &mut Report,
) -> Result<bool, StoreError> {
    let path = &segment.path;
    let file = match segment.open() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            // It may have been merged or expired in the meantime.
            if is_segment(store, segment) {
                report.find(path, "it is missing", Some(covers(view, segment)), MISSING);
            }
            return Ok(false);
        }
        file => file,
    };
    let found = verified(file, path, Some(segment.bytes), report)
        .and_then(|reader| rows::of_segment(reader, segment));
    match found {
        Ok(found) => {
            report.rows += found.rows;
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

/// Whether the catalog still lists the segment.
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

/// Reports segments that are not in the catalog. A segment of an unsealed journal is being written.
fn strays(store: &Path, mut known: HashSet<String>, report: &mut Report) -> Result<(), StoreError> {
    let mut files = layout::segment_files(store)?;
    files.retain(|file| !known.contains(file));
    if files.is_empty() {
        return Ok(());
    }
    // In this order, so that the catalog includes segments that were sealed or expired in the meantime.
    let unsealed: BTreeSet<_> = layout::journals(store)?.into_iter().collect();
    let Some(view) = fresh(store) else {
        return Ok(());
    };
    let Some((removed, segments)) = names::known(store, &view) else {
        return Ok(());
    };
    let ids = view.ids().ok();
    known.extend(removed.into_iter().chain(segments));
    for file in files {
        let path = store.join(&file);
        let number = layout::number_of(&path);
        let is_being_sealed = number.is_some_and(|number| unsealed.contains(&number));
        if !known.contains(&file) && !is_being_sealed && path.exists() {
            let (why, next) = match verified(beneath::read(store, &path), &path, None, report) {
                Ok(reader) => stray(reader.metadata(), ids.as_deref()),
                Err(why) => (format!("{UNKNOWN}, and {why}"), RESTORE_UNKNOWN),
            };
            report.find(&path, why, of_date(&path), next);
        }
    }
    Ok(())
}

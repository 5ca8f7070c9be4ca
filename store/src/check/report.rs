//! Findings of a check, with their next steps.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use parquet::file::metadata::KeyValue;
use trackiops_schemas::time::UtcMs;

use crate::catalog::CatalogView;
use crate::error::StoreError;
use crate::identity::{FOREIGN, StoreId, StoreIds};
use crate::layout;
use crate::segment::metadata;
use crate::segment::reader::SegmentReader;

/// Result of [`check`](fn@crate::check).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The ids of the store. `None` without a readable catalog.
    pub ids: Option<StoreIds>,
    /// The problems that were found.
    pub findings: Vec<Finding>,
    /// Journals that were read, of windows and of requests.
    pub journals: u64,
    /// Segments that were read, of windows and of requests.
    pub segments: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of all files that were read.
    pub bytes: u64,
    /// Files of merged or expired segments. Globs do not match them, and they will be deleted.
    pub waiting: u64,
    /// Bytes of these.
    pub waiting_bytes: u64,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file or directory.
    pub path: PathBuf,
    /// The problem.
    pub why: String,
    /// The affected part of the recording, if known.
    pub covers: Option<Covers>,
    /// The next step.
    pub next: &'static str,
}

/// A part of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covers {
    /// Start.
    pub start: UtcMs,
    /// End.
    pub end: UtcMs,
    /// Number of files; 0 if unknown or if the problem does not concern files.
    pub files: u64,
    /// Names of some of them.
    pub names: Vec<String>,
}

impl Covers {
    /// A time range, without files.
    pub(super) fn time(start: UtcMs, end: UtcMs) -> Self {
        Self {
            start,
            end,
            files: 0,
            names: Vec::new(),
        }
    }
}

/// What to do about a damaged segment.
pub(super) const RESTORE: &str = "restore it from a copy; until then, answers that need it say that it is damaged; other granularities still answer";
/// What to do about a missing segment.
pub(super) const MISSING: &str = "restore it from a copy; until then, answers that need it say that it is missing; other granularities still answer";
/// What to do about a segment that is not in the catalog.
pub(super) const TAKE_IN: &str = "`trackiops store rebuild-catalog` adds it; if it is a copy, or not of this store, move it out of the store";
/// The problem with a segment that is not in the catalog.
pub(super) const UNKNOWN: &str = "the catalog does not know it";
/// What to do about a segment of another store.
const MOVE_OUT: &str = "move it out of the store; answers do not have its rows";
/// What to do about a damaged catalog.
pub(super) const REBUILD: &str =
    "`trackiops store rebuild-catalog` rebuilds the catalog from the segments";

impl Report {
    pub(super) fn find(
        &mut self,
        path: &Path,
        why: impl Into<String>,
        covers: Option<Covers>,
        next: &'static str,
    ) {
        self.findings.push(Finding {
            path: path.to_owned(),
            why: why.into(),
            covers,
            next,
        });
    }
}

/// Opens a segment and verifies all of its checksums. An error is the problem as text. Read errors count as findings,
/// so that one unreadable file does not end the check.
pub(super) fn verified(
    file: io::Result<File>,
    path: &Path,
    bytes: Option<u64>,
    report: &mut Report,
) -> Result<SegmentReader, String> {
    let cannot_be_read = |error: io::Error| format!("it cannot be read: {error}");
    let file = file.map_err(cannot_be_read)?;
    let found = file.metadata().map_err(cannot_be_read)?.len();
    report.segments += 1;
    report.bytes += found;
    let reader = SegmentReader::of_length(file, path, bytes.unwrap_or(found)).map_err(why)?;
    reader.verify().map_err(why)?;
    Ok(reader)
}

/// The problem with an intact segment that is not in the catalog of a store with these ids, and the next step.
pub(super) fn stray(
    metadata: Option<&Vec<KeyValue>>,
    ids: Option<&[StoreId]>,
) -> (String, &'static str) {
    match ids.is_none_or(|ids| metadata::is_of(metadata, ids)) {
        true => (UNKNOWN.to_owned(), TAKE_IN),
        false => (FOREIGN.to_owned(), MOVE_OUT),
    }
}

/// The problem with a segment, without its path.
pub(super) fn why(error: StoreError) -> String {
    match error {
        StoreError::DamagedSegment { why, .. } => why,
        other => other.to_string(),
    }
}

/// Opens the catalog again. `None` if it cannot be read, which an earlier finding reports.
pub(super) fn fresh(store: &Path) -> Option<CatalogView> {
    CatalogView::open(store).ok()
}

/// The time that the path of a segment implies: a day.
pub(super) fn of_date(segment: &Path) -> Option<Covers> {
    let (start, end) = layout::date_of(segment)?;
    Some(Covers::time(start, end))
}

//! What a check has found, and what to do about it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use trackiops_schemas::time::UtcMs;

use crate::catalog::CatalogView;
use crate::error::StoreError;
use crate::layout;
use crate::segment::reader::SegmentReader;

/// What [`check`](fn@crate::check) came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Journals that were read, of windows and of requests.
    pub journals: u64,
    /// Segments that were read, of windows and of requests.
    pub segments: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of all files that were read.
    pub bytes: u64,
    /// Files of segments that were merged or have expired, which are hidden from globs and wait to be deleted.
    pub waiting: u64,
    /// Bytes of these.
    pub waiting_bytes: u64,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Of which file or directory.
    pub path: PathBuf,
    /// What.
    pub why: String,
    /// What of the recording it concerns, as far as that is known.
    pub covers: Option<Covers>,
    /// What to do about it.
    pub next: &'static str,
}

/// A part of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covers {
    /// From when on.
    pub start: UtcMs,
    /// Until when.
    pub end: UtcMs,
    /// How many files; 0 where it is not of files, or not known.
    pub files: u64,
    /// Names of some of them.
    pub names: Vec<String>,
}

impl Covers {
    /// Of no files in particular.
    pub(super) fn time(start: UtcMs, end: UtcMs) -> Self {
        Self {
            start,
            end,
            files: 0,
            names: Vec::new(),
        }
    }
}

/// What to do about a segment that is not what was written.
pub(super) const RESTORE: &str = "restore it from a copy; or move it out of the store, and `trackiops store rebuild-catalog` forgets it; other granularities \
                       still answer";
/// What to do about a segment that is not there.
pub(super) const FORGET: &str = "restore it from a copy; without one, `trackiops store rebuild-catalog` forgets it; other granularities still answer";
/// What to do about a segment that the catalog does not know.
pub(super) const TAKE_IN: &str = "`trackiops store rebuild-catalog` takes it in; if it is a copy, or not of this store, move it away";
/// What to do about a catalog that is not what was written.
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

/// A segment all of whose checksums are right; or what is wrong with it. One of which not even the bytes are to be had must not keep
/// the others from being checked.
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

/// What is wrong with a segment, without its name.
pub(super) fn why(error: StoreError) -> String {
    match error {
        StoreError::DamagedSegment { why, .. } => why,
        other => other.to_string(),
    }
}

/// Opens the catalog once more; `None` where it cannot be read, which was told before.
pub(super) fn fresh(store: &Path) -> Option<CatalogView> {
    CatalogView::open(store).ok()
}

/// What a segment covers of which nothing is known but its path: a day.
pub(super) fn of_date(segment: &Path) -> Option<Covers> {
    let (start, end) = layout::date_of(segment)?;
    Some(Covers::time(start, end))
}

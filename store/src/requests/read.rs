//! Reads the single requests of a time range from segments and journals.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use trackiops_schemas::columns::{END_TIME_NS, request_schema};
use trackiops_schemas::time::UtcMs;

use super::STEP_BACK_NS;
use super::journal::RequestsScan;
use crate::batch::{RequestRow, request_batch};
use crate::beneath;
use crate::error::StoreError;
use crate::journal::file::JournalFile;
use crate::layout;
use crate::segment::metadata;
use crate::segment::reader::SegmentReader;
use crate::segment::verified::{cannot_open, damaged};
use crate::snapshot::check_is_store;
use crate::unread::Unread;

/// Rows per batch.
const BATCH_ROWS: usize = 8192;

/// The single requests of a store, as of when it was opened.
pub struct RequestsView {
    tails: Vec<RequestsScan>,
    segments: Vec<PathBuf>,
    damaged: BTreeMap<PathBuf, String>,
    unread: Vec<Unread>,
}

/// Receives rows, ordered by completion within each call. Returns whether it wants more.
pub type EachBatch<'a> = &'a mut dyn FnMut(RecordBatch) -> Result<bool, ArrowError>;

impl RequestsView {
    /// Opens a view. It opens journals before it lists segments. So it contains a journal that is
    /// sealed in the meantime, and skips the segments of that journal.
    pub fn open(store: &Path) -> Result<Self, StoreError> {
        check_is_store(store)?;
        let mut view = Self {
            tails: Vec::new(),
            segments: Vec::new(),
            damaged: BTreeMap::new(),
            unread: Vec::new(),
        };
        let mut read = BTreeSet::new();
        for number in layout::requests_journals(store)? {
            let path = layout::requests_journal(store, number);
            let Some(journal) = JournalFile::open(&path).transpose() else {
                continue;
            };
            match journal.and_then(RequestsScan::new) {
                Ok(Some(scan)) => {
                    if scan.damaged_bytes > 0 {
                        let why = format!("{} bytes are not a whole batch", scan.damaged_bytes);
                        view.damaged.insert(path, why);
                    }
                    read.insert(number);
                    view.tails.push(scan);
                }
                Ok(None) => {}
                Err(error) => view.unread.push(Unread::journal(path, error)?),
            }
        }
        let mut quarantined = layout::quarantined_journals(store)?;
        quarantined.retain(|path| layout::number_of_journal(path).is_none());
        let quarantined = quarantined.into_iter().map(|path| Unread::sealed(path, []));
        view.unread.extend(quarantined);
        let segments = layout::requests_segments(store)?.into_iter();
        let segments = segments.filter(|(number, _)| !read.contains(number));
        view.segments = segments.map(|(_, path)| path).collect();
        Ok(view)
    }

    /// A lower bound of the requests' times. `None` without requests.
    pub fn start(&self) -> Option<UtcMs> {
        let days = self
            .segments
            .iter()
            .filter_map(|path| layout::date_of(path));
        let days = days.map(|(start, _)| start);
        let tails = self.tails.iter().flat_map(|scan| &scan.batches);
        let tails = tails.map(|batch| UtcMs(batch.first_ns.div_euclid(1_000_000)));
        days.chain(tails).min()
    }

    /// Whether requests were kept at any time.
    pub fn has_any(&self) -> bool {
        !self.tails.is_empty() || !self.segments.is_empty()
    }

    /// The time of the oldest requests that are left, if older ones were deleted: numbers of journals and segments begin with 1.
    pub fn deleted_before(&self) -> Option<UtcMs> {
        let oldest = self.segments.first()?;
        let is_first = layout::number_of_requests(oldest).is_none_or(|number| number <= 1);
        let is_whole = self.unread.is_empty() && self.damaged.is_empty();
        (!is_first && is_whole).then(|| layout::start_of(oldest))?
    }

    /// Damaged files, and why they cannot be read completely.
    pub fn damaged(&self) -> &BTreeMap<PathBuf, String> {
        &self.damaged
    }

    /// Journals that cannot be read completely.
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    /// Passes on the requests that completed in a time range, ns since the epoch, file by file.
    /// Files that are found to be damaged are skipped from then on.
    pub fn read(&mut self, range: Range<i64>, each: EachBatch<'_>) -> Result<(), StoreError> {
        for path in &self.segments {
            if self.damaged.contains_key(path) || !may_overlap(path, &range) {
                continue;
            }
            match segment(path, &range, each) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(StoreError::DamagedSegment { path, why }) => {
                    self.damaged.insert(path, why);
                }
                Err(error) => return Err(error),
            }
        }
        for scan in &self.tails {
            let path = scan.path();
            if self.unread.iter().any(|unread| unread.path == path) {
                continue;
            }
            match tail(scan, &range, each) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error @ StoreError::Damaged { .. }) => {
                    self.unread.push(Unread::journal(path.to_owned(), error)?);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Compares the range with the day in the segment's path.
fn may_overlap(segment: &Path, range: &Range<i64>) -> bool {
    layout::date_of(segment).is_none_or(|(start, end)| {
        let ns = |time: UtcMs| time.0.saturating_mul(1_000_000);
        ns(start) < range.end && range.start < ns(end)
    })
}

fn segment(path: &Path, range: &Range<i64>, each: EachBatch<'_>) -> Result<bool, StoreError> {
    let file = match beneath::read(layout::store_of(path), path) {
        // The oldest segments are deleted when the budget is exceeded.
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(true),
        file => file.map_err(|error| cannot_open(path, error))?,
    };
    let reader = SegmentReader::with_statistics(file, path)?;
    metadata::check_requests(reader.metadata(), path).map_err(|why| damaged(path, why))?;
    let reader = reader.between(END_TIME_NS, range);
    for batch in reader.batches(BATCH_ROWS)? {
        let batch = batch?;
        let own = batch.schema();
        let columns = request_schema();
        let named = columns
            .fields()
            .iter()
            .map(|field| own.index_of(field.name()));
        let named: Result<Vec<_>, _> = named.collect();
        let batch = named
            .and_then(|places| batch.project(&places)?.with_schema(columns))
            .map_err(|error| damaged(path, error))?;
        let ends = ends_ns(&batch);
        let from = ends.partition_point(|end| *end < range.start);
        let to = ends.partition_point(|end| *end < range.end);
        if from < to && !each(batch.slice(from, to - from)).map_err(|e| damaged(path, e))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Completions of the requests of a batch of [`request_schema`], ns.
pub fn ends_ns(batch: &RecordBatch) -> &[i64] {
    let ends = batch.column_by_name(END_TIME_NS);
    let ends = ends.and_then(|ends| ends.as_primitive_opt::<Int64Type>());
    ends.map_or(&[], |ends| ends.values())
}

fn tail(scan: &RequestsScan, range: &Range<i64>, each: EachBatch<'_>) -> Result<bool, StoreError> {
    let next = scan.batches.iter().skip(1).map(|batch| batch.first_ns);
    // The end of a batch is at most this much after the start of the next. Otherwise, the writer
    // would have begun another journal.
    let over = next.map(|next| next.saturating_add(STEP_BACK_NS));
    let over = over.chain([i64::MAX]);
    for (batch, over) in scan.batches.iter().zip(over) {
        if over < range.start || batch.first_ns >= range.end {
            continue;
        }
        let mut requests = scan.requests(batch)?;
        requests.retain(|request| range.contains(&request.end_ns));
        requests.sort_by_key(|request| request.end_ns);
        let rows = requests.into_iter().filter_map(|request| {
            let file = Arc::clone(scan.definitions.get(request.file)?);
            Some(RequestRow { file, request })
        });
        let rows: Vec<_> = rows.collect();
        for rows in rows.chunks(BATCH_ROWS) {
            let rows = request_batch(&scan.header.host, rows);
            let wants_more = rows.and_then(&mut *each);
            if !wants_more.map_err(|error| damaged(scan.path(), error))? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

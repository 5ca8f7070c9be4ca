//! Reads the single requests of a time range from segments and journals.

use std::collections::BTreeMap;
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
use super::journal::{BatchFrame, RequestsScan};
use crate::batch::{RequestRow, request_batch};
use crate::beneath;
use crate::catalog::{CatalogView, RequestsEntry};
use crate::chain::{self, Link};
use crate::error::StoreError;
use crate::journal::end::Extent;
use crate::journal::file::JournalFile;
use crate::layout::{self, Series};
use crate::newer;
use crate::segment::metadata;
use crate::segment::reader::SegmentReader;
use crate::segment::verified::{cannot_open, damaged};
use crate::snapshot::check_is_store;
use crate::unread::{self, Unread};

/// Rows per batch.
const BATCH_ROWS: usize = 8192;

/// The single requests of a store, as of when it was opened.
pub struct RequestsView {
    store: PathBuf,
    tails: Vec<RequestsScan>,
    segments: Vec<RequestsEntry>,
    /// Whether journals before the first known one were deleted. Numbers begin with 1.
    begins_later: bool,
    /// Whether they may be lost: the catalog was rebuilt without an earlier one.
    is_start_unknown: bool,
    damaged: BTreeMap<PathBuf, String>,
    unread: Vec<Unread>,
}

/// Receives rows, ordered by completion within each call. Returns whether it wants more.
pub type EachBatch<'a> = &'a mut dyn FnMut(RecordBatch) -> Result<bool, ArrowError>;

impl RequestsView {
    /// Opens a view. It opens journals before the catalog. So a journal that is sealed in between is in the catalog,
    /// and journals that the catalog lists as sealed are not read.
    pub fn open(store: &Path) -> Result<Self, StoreError> {
        check_is_store(store)?;
        let mut opened = Vec::new();
        for number in layout::requests_journals(store)? {
            let path = layout::requests_journal(store, number);
            let journal = JournalFile::open(&path).transpose();
            opened.extend(journal.map(|journal| (number, path, journal)));
        }
        let catalog = CatalogView::open(store)?;
        let (sealed, ids) = (catalog.sealed(Series::Requests)?, catalog.ids()?);
        let first = sealed.iter().min().copied();
        // Journals that were deleted later were deleted to stay within the budget.
        let is_start = |found: u64| first.is_none_or(|first| first <= found);
        let mut view = Self {
            store: store.to_owned(),
            tails: Vec::new(),
            segments: catalog.requests_segments()?,
            // The catalog keeps journals without requests until later ones are deleted.
            begins_later: first.is_some_and(|first| first > 1),
            is_start_unknown: catalog.rebuilt()?.is_some_and(is_start),
            damaged: BTreeMap::new(),
            unread: Vec::new(),
        };
        let mut links = Vec::new();
        for (number, path, journal) in opened {
            match journal.and_then(|journal| RequestsScan::new(journal.of_store(&ids))) {
                Ok(Some(scan)) => {
                    if scan.damaged_bytes > 0 {
                        let why = format!("{} bytes are not a whole batch", scan.damaged_bytes);
                        view.damaged.insert(path, why);
                    } else if scan.torn_bytes > 0
                        && !scan.batches.is_empty()
                        && !sealed.contains(&number)
                        && Extent::is_unknown(&path)
                    {
                        view.damaged.insert(path, unread::torn(scan.torn_bytes));
                    }
                    links.push(scan.link());
                    if !sealed.contains(&number) {
                        view.tails.push(scan);
                    }
                }
                Ok(None) => links.push(Link::unused(number)),
                Err(error) => {
                    links.push(Link::unreadable(number));
                    view.unread.push(Unread::journal(path, error)?);
                }
            }
        }
        view.unread
            .extend(chain::missing(store, Series::Requests, &catalog, &links)?);
        view.unread
            .extend(newer::than_catalog_by_requests(store, &sealed, &links)?);
        let mut quarantined = layout::quarantined_journals(store)?;
        quarantined.retain(|path| layout::number_of_journal(path).is_none());
        let quarantined = quarantined.into_iter().map(|path| Unread::sealed(path, []));
        view.unread.extend(quarantined);
        Ok(view)
    }

    /// The store's directory.
    pub fn store(&self) -> &Path {
        &self.store
    }

    /// A lower bound of the completion times. `None` without requests.
    pub fn start(&self) -> Option<UtcMs> {
        let segments = self.segments.iter().map(|segment| segment.start);
        let tails = self.tails.iter().flat_map(|scan| &scan.batches);
        let tails = tails.map(|batch| UtcMs(batch.first_ns.div_euclid(1_000_000)));
        segments.chain(tails).min()
    }

    /// Parts of a time range that no file of requests covers, from its first completion to its last. A file that is not sealed yet covers all
    /// later time, because it still grows.
    pub fn holes(&self, range: Range<UtcMs>) -> Vec<Range<UtcMs>> {
        let sealed = self.segments.iter().map(|of| of.start..of.end);
        let tails = self.tails.iter().flat_map(|scan| &scan.batches);
        let tails = tails.map(|batch| UtcMs(batch.first_ns.div_euclid(1_000_000))..range.end);
        let mut kept: Vec<_> = sealed.chain(tails).collect();
        kept.sort_by_key(|kept| kept.start);
        let mut holes = Vec::new();
        let mut from = range.start;
        for Range { start, end } in kept {
            holes.push(from..start.min(range.end));
            from = from.max(end);
        }
        holes.push(from..range.end);
        holes.retain(|hole| hole.start < hole.end);
        holes
    }

    /// Whether files with requests cannot be read completely.
    pub fn is_incomplete(&self) -> bool {
        !self.damaged.is_empty() || !self.unread.is_empty()
    }

    /// Whether requests were ever kept.
    pub fn has_any(&self) -> bool {
        !self.tails.is_empty() || !self.segments.is_empty()
    }

    /// The time of the oldest remaining requests, if older ones were deleted.
    pub fn deleted_before(&self) -> Option<UtcMs> {
        let oldest = self.segments.first()?;
        let is_whole = self.unread.is_empty() && self.damaged.is_empty();
        let are_gone = self.begins_later && (is_whole || self.is_start_unknown);
        are_gone.then_some(oldest.start)
    }

    /// Whether the older ones may be lost instead of deleted: the catalog was rebuilt without an earlier one.
    pub fn is_start_unknown(&self) -> bool {
        self.is_start_unknown
    }

    /// Damaged files, and why they cannot be read completely.
    pub fn damaged(&self) -> &BTreeMap<PathBuf, String> {
        &self.damaged
    }

    /// Journals that cannot be read completely.
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    /// The files that may have requests of a time range, ns since the epoch. Each comes with its length up to the last of
    /// them: segments never change, and journals only grow.
    pub fn files(&self, range: &Range<i64>) -> Vec<(PathBuf, u64)> {
        let segments = self.segments.iter().filter(|of| may_overlap(of, range));
        let segments = segments.map(|of| (self.store.join(&of.path), of.bytes));
        let tails = self.tails.iter().filter_map(|scan| {
            let last = batches(scan, range).last()?;
            Some((scan.path().to_owned(), last.end))
        });
        segments.chain(tails).collect()
    }

    /// Passes on the requests that completed in a time range, ns since the epoch, file by file. Skips files once they
    /// are found to be damaged.
    pub fn read(&mut self, range: Range<i64>, each: EachBatch<'_>) -> Result<(), StoreError> {
        for entry in &self.segments {
            let path = self.store.join(&entry.path);
            if self.damaged.contains_key(&path) || !may_overlap(entry, &range) {
                continue;
            }
            match segment(&path, entry, &range, each) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(StoreError::DamagedSegment { path, why }) => {
                    self.damaged.insert(path, why);
                }
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                    // The oldest segments are deleted when the budget is exceeded.
                    let listed = CatalogView::open(&self.store)?.requests_segments()?;
                    if listed.iter().any(|listed| listed.path == entry.path) {
                        self.damaged.insert(path, "it is missing".to_owned());
                    }
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

fn may_overlap(segment: &RequestsEntry, range: &Range<i64>) -> bool {
    let ns = |time: UtcMs| time.0.saturating_mul(1_000_000);
    ns(segment.start) < range.end && range.start < ns(segment.end)
}

fn segment(
    path: &Path,
    entry: &RequestsEntry,
    range: &Range<i64>,
    each: EachBatch<'_>,
) -> Result<bool, StoreError> {
    let file = match beneath::read(layout::store_of(path), path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::io("open", path)(error));
        }
        file => file.map_err(|error| cannot_open(path, error))?,
    };
    let reader = SegmentReader::with_statistics(file, path, entry.bytes)?;
    let differs = reader.check_crc32c(entry.crc32c);
    differs.map_err(|why| damaged(path, why))?;
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

/// The batches that may have requests of a range.
fn batches<'s>(
    scan: &'s RequestsScan,
    range: &'s Range<i64>,
) -> impl Iterator<Item = &'s BatchFrame> {
    let next = scan.batches.iter().skip(1).map(|batch| batch.first_ns);
    // The end of a batch is at most this much after the start of the next. Otherwise, the writer would have begun
    // another journal.
    let over = next.map(|next| next.saturating_add(STEP_BACK_NS));
    let over = over.chain([i64::MAX]);
    let batches = scan.batches.iter().zip(over);
    let batches =
        batches.filter(move |(batch, over)| *over >= range.start && batch.first_ns < range.end);
    batches.map(|(batch, _)| batch)
}

fn tail(scan: &RequestsScan, range: &Range<i64>, each: EachBatch<'_>) -> Result<bool, StoreError> {
    for batch in batches(scan, range) {
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

//! Reads segments: only the pages of the wanted rows, and only the columns that are needed.

use std::fs::File as FsFile;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::file::metadata::{FileMetaData, PageIndexPolicy};
use trackiops_schemas::columns::{
    DEV, ERRNOS, FILE_KEY, FILE_OPS, FILEID, FORMAT_VERSION, LATENCY_HIST, META_FORMAT, MOUNT,
    PATH, PATH_INFERRED, TENANT, TIME, UNSPLIT, health_schema, ops_schema, rollup_schema,
};
use trackiops_schemas::rollup::{Health, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Segment;
use trackiops_store::batch::{StoredOps, StoredRow, decode_health, decode_ops, decode_rows};

use crate::error::QueryError;
use crate::group::By;
use crate::merge::File;
use crate::render::Figures;

/// Rows per batch: small beside the caches, large beside the cost of a batch.
const BATCH_ROWS: usize = 8192;

/// How much of a row is needed. What is not needed stays zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Bytes, to rank files.
    Bytes,
    /// Requests, bytes and latencies, only the sums.
    Totals,
    /// What a table shows.
    Figures(Figures),
    /// All columns.
    Full,
}

/// What decides which columns are read.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// How much of a row is needed.
    pub detail: Detail,
    /// What rows are told apart by.
    pub by: By,
    /// Rows are wanted for their names.
    pub by_name: bool,
}

impl Columns {
    fn include(self, column: &str) -> bool {
        match column {
            TIME | FILE_KEY | DEV | FILEID => true,
            PATH_INFERRED => self.detail == Detail::Full,
            TENANT => self.detail == Detail::Full || self.by == By::Tenant,
            MOUNT | PATH if self.by.needs_names() || self.by_name => true,
            _ => self.detail.includes(column),
        }
    }
}

impl Detail {
    fn includes(self, column: &str) -> bool {
        let plain = column
            .strip_prefix("read_")
            .or(column.strip_prefix("write_"));
        match self {
            Self::Full => true,
            Self::Figures(figures) => {
                let seldom = [
                    "latency_us_max",
                    "short",
                    "sequential",
                    "retrans",
                    "direct",
                    "stable",
                    ERRNOS,
                ];
                let rates = [LATENCY_HIST];
                let parts = ["queue_us_sum", "rtt_us_sum", UNSPLIT];
                let without = match figures {
                    Figures::Rates => parts.as_slice(),
                    Figures::Parts => rates.as_slice(),
                };
                column != FILE_OPS
                    && !plain
                        .is_some_and(|plain| seldom.contains(&plain) || without.contains(&plain))
            }
            Self::Totals => {
                let sums = ["requests", "bytes", "latency_us_sum"];
                matches!(column, MOUNT | PATH) || plain.is_some_and(|plain| sums.contains(&plain))
            }
            Self::Bytes => plain == Some("bytes"),
        }
    }
}

/// Takes a row with its window's start, its file, and its tenant, if that is needed and known.
pub type EachRow<'a> = &'a mut dyn FnMut(UtcMs, &Arc<File>, Option<&str>, Row);

/// Hands over the rows of a rollup segment, those of `ranges` or all.
pub fn rollup(
    segment: &Segment,
    ranges: Option<&[Range<u64>]>,
    columns: Columns,
    each: EachRow<'_>,
) -> Result<(), QueryError> {
    let needs = |column: &str| columns.include(column);
    let mut last: Option<Arc<File>> = None;
    for batch in read(segment, &rollup_schema(), needs, ranges)? {
        let batch = batch.map_err(|error| damaged(segment, error))?;
        let decoded = decode_rows(&batch, |stored| {
            let file = last.take().filter(|file| is_about(file, &stored));
            let file = last.insert(file.unwrap_or_else(|| Arc::new(file_of(&stored))));
            each(stored.time, file, stored.tenant, stored.row);
        });
        decoded.map_err(|error| damaged(segment, error))?;
    }
    Ok(())
}

/// Rows are sorted by file, so that the last file is nearly always the next one too.
fn is_about(file: &File, stored: &StoredRow<'_>) -> bool {
    (file.key, file.dev, file.fileid) == (stored.file_key, stored.dev, stored.fileid)
        && file.path.as_deref() == stored.path
        && file.path_inferred == stored.path_inferred
        && file.mount.as_deref() == stored.mount
}

fn file_of(stored: &StoredRow<'_>) -> File {
    File {
        key: stored.file_key,
        dev: stored.dev,
        fileid: stored.fileid,
        mount: stored.mount.map(Into::into),
        path: stored.path.map(Into::into),
        path_inferred: stored.path_inferred,
    }
}

/// The rows of a health segment.
pub fn health(segment: &Segment) -> Result<Vec<(UtcMs, Health)>, QueryError> {
    let mut rows = Vec::new();
    for batch in read(segment, &health_schema(), |_| true, None)? {
        let batch = batch.map_err(|error| damaged(segment, error))?;
        let decoded = decode_health(&batch, |stored| rows.push((stored.time, stored.health)));
        decoded.map_err(|error| damaged(segment, error))?;
    }
    Ok(rows)
}

/// Hands over the rows of a segment of operations.
pub fn ops(segment: &Segment, each: &mut dyn FnMut(StoredOps<'_>)) -> Result<(), QueryError> {
    for batch in read(segment, &ops_schema(), |_| true, None)? {
        let batch = batch.map_err(|error| damaged(segment, error))?;
        decode_ops(&batch, &mut *each).map_err(|error| damaged(segment, error))?;
    }
    Ok(())
}

/// Whether an earlier version of the format was written.
fn is_older(metadata: &FileMetaData) -> bool {
    let mut pairs = metadata.key_value_metadata().into_iter().flatten();
    let version = pairs.find(|pair| pair.key == META_FORMAT);
    let version = version.and_then(|pair| pair.value.as_deref()?.parse::<u32>().ok());
    version.is_some_and(|version| version < FORMAT_VERSION)
}

/// The batches of a segment: of `schema`, the columns that `needs` names; of these, the rows of
/// `ranges` or all.
fn read(
    segment: &Segment,
    schema: &Schema,
    needs: impl Fn(&str) -> bool,
    ranges: Option<&[Range<u64>]>,
) -> Result<ParquetRecordBatchReader, QueryError> {
    let file = FsFile::open(&segment.path).map_err(|source| cannot_open(segment, source))?;
    // Pages are found by row number, which takes the offset index; their statistics are not used.
    let offsets = match ranges {
        Some(_) => PageIndexPolicy::Optional,
        None => PageIndexPolicy::Skip,
    };
    let options = ArrowReaderOptions::new().with_offset_index_policy(offsets);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        .map_err(|error| damaged(segment, error))?;
    let older = is_older(builder.metadata().file_metadata());
    let mut wanted = Vec::new();
    for field in schema.fields().iter().filter(|field| needs(field.name())) {
        match builder.schema().index_of(field.name()) {
            Ok(index) => wanted.push(index),
            // Written before the column was there: what it holds is not known.
            Err(_) if older => {}
            Err(error) => return Err(damaged(segment, error)),
        }
    }
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
    let mut builder = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
    if let Some(ranges) = ranges {
        let rows = usize::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        builder = builder.with_row_selection(selection(segment, ranges, rows)?);
    }
    builder.build().map_err(|error| damaged(segment, error))
}

fn selection(
    segment: &Segment,
    ranges: &[Range<u64>],
    rows: usize,
) -> Result<RowSelection, QueryError> {
    let whole = ranges.iter().map(|range| {
        let end = usize::try_from(range.end).ok().filter(|end| *end <= rows);
        let start = usize::try_from(range.start).ok();
        start.zip(end).map(|(start, end)| start..end)
    });
    let whole: Option<Vec<_>> = whole.collect();
    let whole = whole.ok_or_else(|| damaged(segment, "it has fewer rows than the catalog says"))?;
    Ok(RowSelection::from_consecutive_ranges(
        whole.into_iter(),
        rows,
    ))
}

fn cannot_open(segment: &Segment, source: io::Error) -> QueryError {
    let path = segment.path.clone();
    match source.kind() {
        io::ErrorKind::NotFound => QueryError::Vanished(path),
        _ => QueryError::Open { path, source },
    }
}

fn damaged(segment: &Segment, why: impl ToString) -> QueryError {
    QueryError::Damaged {
        path: segment.path.clone(),
        why: why.to_string(),
    }
}

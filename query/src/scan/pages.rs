//! Opens a segment at the pages that are needed: the only module of this crate that knows Parquet's reader.
//!
//! Of a file is read its footer, where the pages of the wanted columns are in the wanted row groups, and those pages.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMask, PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions,
    ParquetMetaDataReader, ParquetStatisticsPolicy,
};
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::SchemaDescriptor;
use trackiops_store::{Segment, check_format};

use super::damaged;
use crate::error::QueryError;
use crate::explain::Read as ReadOf;

/// Rows per batch: small beside the caches, large beside the cost of a batch.
const BATCH_ROWS: usize = 8192;
/// A page's header without an offset index, with some of the page.
const HEADER_BYTES: usize = 4096;

/// The rows of a segment, in batches.
pub(super) struct Batches<'s> {
    segment: &'s Segment,
    reader: ParquetRecordBatchReader,
    counts: Arc<Counts>,
    rows: u64,
}

impl Iterator for Batches<'_> {
    type Item = Result<RecordBatch, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        // Parquet's reader panics on some pages that are damaged: of a wrong encoding, or outside of their column.
        let Ok(batch) = catch_unwind(AssertUnwindSafe(|| self.reader.next())) else {
            return Some(Err(damaged(self.segment, "its pages cannot be decoded")));
        };
        let batch = batch?;
        if let Ok(batch) = &batch {
            self.rows += batch.num_rows() as u64;
        }
        Some(batch.map_err(|error| damaged(self.segment, error)))
    }
}

impl Batches<'_> {
    /// What was read until now.
    pub(super) fn read(&self) -> ReadOf {
        ReadOf {
            path: self.segment.path.clone(),
            segments: 1,
            bytes_stored: self.segment.bytes,
            bytes: self.counts.bytes.load(Ordering::Relaxed),
            pages: self.counts.pages.load(Ordering::Relaxed),
            rows_stored: self.segment.rows,
            rows: self.rows,
        }
    }
}

/// The batches of a segment: of `schema`, the columns that `needs` names; of these, the rows of `ranges` or all.
pub(super) fn open<'s>(
    segment: &'s Segment,
    schema: &Schema,
    needs: impl Fn(&str) -> bool,
    ranges: Option<&[Range<u64>]>,
) -> Result<Batches<'s>, QueryError> {
    let damaged = |error: ParquetError| damaged(segment, error);
    let source = Source::open(segment)?;
    let metadata = ParquetMetaDataReader::new()
        .with_metadata_options(Some(without_statistics()))
        .parse_and_finish(&source)
        .map_err(damaged)?;
    let columns = columns(segment, &metadata, schema, needs)?;
    let (groups, selection) = match ranges {
        None => ((0..metadata.num_row_groups()).collect(), None),
        Some(ranges) => {
            let (groups, selection) = row_groups(segment, &metadata, ranges)?;
            (groups, Some(selection))
        }
    };
    let metadata = with_offsets(metadata, &source, &columns, &groups).map_err(damaged)?;
    // What has no page index is read as well.
    source.counts.pages.store(0, Ordering::Relaxed);
    let counts = Arc::clone(&source.counts);
    let metadata = ArrowReaderMetadata::try_new(Arc::new(metadata), ArrowReaderOptions::new());
    let metadata = metadata.map_err(damaged)?;
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata)
        .with_projection(columns)
        .with_row_groups(groups)
        .with_batch_size(BATCH_ROWS);
    if let Some(selection) = selection {
        builder = builder.with_row_selection(selection);
    }
    Ok(Batches {
        segment,
        reader: builder.build().map_err(damaged)?,
        counts,
        rows: 0,
    })
}

/// Nothing here looks at statistics, which are half of a footer.
fn without_statistics() -> ParquetMetaDataOptions {
    ParquetMetaDataOptions::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll)
}

/// The columns of a segment that are needed.
fn columns(
    segment: &Segment,
    metadata: &ParquetMetaData,
    schema: &Schema,
    needs: impl Fn(&str) -> bool,
) -> Result<ProjectionMask, QueryError> {
    let metadata = metadata.file_metadata();
    check_format(metadata.key_value_metadata()).map_err(|why| damaged(segment, why))?;
    let stored: &SchemaDescriptor = metadata.schema_descr();
    let fields = stored.root_schema().get_fields();
    let mut wanted = Vec::new();
    for field in schema.fields().iter().filter(|field| needs(field.name())) {
        match fields.iter().position(|own| own.name() == field.name()) {
            Some(index) => wanted.push(index),
            None => {
                return Err(damaged(
                    segment,
                    format!("it has no column {}", field.name()),
                ));
            }
        }
    }
    Ok(ProjectionMask::roots(stored, wanted))
}

/// The row groups that have something of ascending ranges of rows, and what of their rows that is.
fn row_groups(
    segment: &Segment,
    metadata: &ParquetMetaData,
    ranges: &[Range<u64>],
) -> Result<(Vec<usize>, RowSelection), QueryError> {
    let too_short = || damaged(segment, "it has fewer rows than the catalog says");
    let mut groups = Vec::new();
    let mut wanted: Vec<Range<usize>> = Vec::new();
    // Rows of the file before the group, and of the groups that were taken.
    let (mut start, mut taken) = (0_u64, 0_usize);
    let mut next = 0;
    for (place, group) in metadata.row_groups().iter().enumerate() {
        let rows = u64::try_from(group.num_rows()).map_err(|_| too_short())?;
        let end = start + rows;
        let before = wanted.len();
        while let Some(range) = ranges.get(next).filter(|range| range.start < end) {
            let here = range.start.max(start)..range.end.min(end);
            let within = |row: u64| Some(taken + usize::try_from(row - start).ok()?);
            let here = within(here.start).zip(within(here.end));
            let (from, to) = here.ok_or_else(too_short)?;
            wanted.push(from..to);
            if range.end > end {
                break;
            }
            next += 1;
        }
        if wanted.len() > before {
            groups.push(place);
            taken += usize::try_from(rows).map_err(|_| too_short())?;
        }
        start = end;
    }
    match ranges.last() {
        Some(last) if last.end > start => Err(too_short()),
        _ => {
            let selection = RowSelection::from_consecutive_ranges(wanted.into_iter(), taken);
            Ok((groups, selection))
        }
    }
}

/// Adds where the pages of some columns are in some row groups.
fn with_offsets(
    metadata: ParquetMetaData,
    source: &Source,
    columns: &ProjectionMask,
    groups: &[usize],
) -> Result<ParquetMetaData, ParquetError> {
    let leaves = metadata.file_metadata().schema_descr().num_columns();
    let leaves = (0..leaves).filter(|leaf| columns.leaf_included(*leaf));
    let mask = ColumnChunkMask::row_groups_and_columns(groups.iter().copied(), leaves);
    let mut reader = ParquetMetaDataReader::new_with_metadata(metadata)
        .with_column_index_policy(PageIndexPolicy::Skip)
        .with_offset_index_policy(PageIndexPolicy::Optional)
        .with_offset_index_mask(mask);
    reader.read_page_indexes(source)?;
    reader.finish()
}

/// What was read of a file.
#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    /// Once the footer is read, what is read at a time is a page.
    pages: AtomicU64,
}

/// A segment's file.
struct Source {
    file: Arc<File>,
    length: u64,
    counts: Arc<Counts>,
}

impl Source {
    fn open(segment: &Segment) -> Result<Self, QueryError> {
        let opened = segment.open().and_then(|file| {
            let length = file.metadata()?.len();
            Ok((file, length))
        });
        let (file, length) = opened.map_err(|source| cannot_open(segment, source))?;
        Ok(Self {
            file: Arc::new(file),
            length,
            counts: Arc::default(),
        })
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Source {
    type T = BufReader<From>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let from = From {
            file: Arc::clone(&self.file),
            at: start,
            counts: Arc::clone(&self.counts),
        };
        Ok(BufReader::with_capacity(HEADER_BYTES, from))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // A damaged file can name any length.
        if start.saturating_add(length as u64) > self.length {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        let Counts { bytes: sum, pages } = &*self.counts;
        sum.fetch_add(length as u64, Ordering::Relaxed);
        pages.fetch_add(1, Ordering::Relaxed);
        Ok(bytes.into())
    }
}

/// What stands behind a place in a file.
pub(super) struct From {
    file: Arc<File>,
    at: u64,
    counts: Arc<Counts>,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        self.counts.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

fn cannot_open(segment: &Segment, source: io::Error) -> QueryError {
    let path = segment.path.clone();
    match source.kind() {
        io::ErrorKind::NotFound => QueryError::Vanished(path),
        _ => QueryError::Open { path, source },
    }
}

//! Reads a segment in batches of rows.

use std::io;
use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use trackiops_store::{Segment, SegmentReader, StoreError};

use crate::error::QueryError;
use crate::explain::Read as ReadOf;

/// Rows per batch: small enough for the caches, large enough to hide the cost of a batch.
const BATCH_ROWS: usize = 8192;

/// Batches of one segment.
pub(super) struct Batches<'s> {
    segment: &'s Segment,
    batches: trackiops_store::Batches,
}

impl Iterator for Batches<'_> {
    type Item = Result<RecordBatch, QueryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.next()?;
        Some(batch.map_err(cannot_read))
    }
}

impl Batches<'_> {
    /// Statistics of the reads so far.
    pub(super) fn read(&self) -> ReadOf {
        ReadOf {
            path: self.segment.path.clone(),
            segments: 1,
            bytes_stored: self.segment.bytes,
            bytes: self.batches.bytes_read(),
            pages: self.batches.pages_read(),
            rows_stored: self.segment.rows,
            rows: self.batches.rows_read(),
        }
    }
}

/// Opens a segment. Reads the columns of `schema` that `needs` accepts, and the rows in `ranges`, or all.
pub(super) fn open<'s>(
    segment: &'s Segment,
    schema: &Schema,
    needs: impl Fn(&str) -> bool,
    ranges: Option<&[Range<u64>]>,
) -> Result<Batches<'s>, QueryError> {
    let fields = schema.fields().iter().map(|field| field.name().as_str());
    let open = || {
        let mut reader = segment.reader()?.only(fields.filter(|name| needs(name)))?;
        if let Some(ranges) = ranges {
            reader = reader.within(ranges)?;
        }
        Ok(reader)
    };
    batches(segment, open())
}

/// Opens a segment of few rows and many columns. Reads all rows. Reads the columns of `schema` that `needs` accepts and
/// that have a value other than 0 and null.
pub(super) fn open_filled<'s>(
    segment: &'s Segment,
    schema: &Schema,
    needs: impl Fn(&str) -> bool,
) -> Result<Batches<'s>, QueryError> {
    let fields = schema.fields().iter().map(|field| field.name().as_str());
    let open = || {
        let reader = segment.reader_with_statistics()?;
        let reader = reader.only(fields.filter(|name| needs(name)))?;
        Ok(reader.without_defaults())
    };
    batches(segment, open())
}

fn batches(
    segment: &Segment,
    reader: Result<SegmentReader, StoreError>,
) -> Result<Batches<'_>, QueryError> {
    let batches = reader.and_then(|reader| reader.batches(BATCH_ROWS));
    Ok(Batches {
        segment,
        batches: batches.map_err(cannot_read)?,
    })
}

fn cannot_read(error: StoreError) -> QueryError {
    match error {
        StoreError::DamagedSegment { path, why } => QueryError::Damaged { path, why },
        StoreError::Io { path, source, .. } => match source.kind() {
            io::ErrorKind::NotFound => QueryError::Vanished(path),
            _ => QueryError::Open { path, source },
        },
        error => error.into(),
    }
}

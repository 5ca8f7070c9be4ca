//! Reading segments whole: what checks them, rebuilds the catalog from them and merges them has in common.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, PageIndexPolicy, RowGroupMetaData};
use parquet::file::statistics::Statistics;

use crate::describe::check_format;
use crate::error::StoreError;

/// So much of a segment is a piece of it, as it is stored: what is merged is in memory as one piece of each segment, and a coarse row, of a
/// hundred buckets and more, takes ten times as much as a fine one.
const PIECE_BYTES: u64 = 32 << 10;
/// Fewer rows are no piece: to begin one takes a while, and so does unpacking the pages again that it shares with others.
const FEWEST_ROWS: usize = 128;
/// More rows make it no faster.
const MOST_ROWS: usize = 1024;

/// An open segment.
pub(crate) struct SegmentReader {
    path: PathBuf,
    builder: ParquetRecordBatchReaderBuilder<File>,
}

impl SegmentReader {
    pub(crate) fn open(file: File, path: &Path) -> Result<Self, StoreError> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file);
        let builder = builder.map_err(|error| damaged(path, error))?;
        let metadata = builder.metadata().file_metadata();
        check_format(metadata.key_value_metadata()).map_err(|why| damaged(path, why))?;
        Ok(Self {
            builder,
            path: path.to_owned(),
        })
    }

    /// What it says of itself.
    pub(crate) fn metadata(&self) -> Option<&Vec<KeyValue>> {
        self.builder.metadata().file_metadata().key_value_metadata()
    }

    /// Of its row groups those that may have something of a range of a column, as far as it says what they have.
    pub(crate) fn between(self, column: &str, range: &Range<i64>) -> Self {
        let overlaps = |group: &RowGroupMetaData| {
            let mut columns = group.columns().iter();
            let chunk = columns.find(|chunk| chunk.column_path().string() == column);
            let ends = chunk.and_then(|chunk| match chunk.statistics()? {
                Statistics::Int64(values) => values.min_opt().zip(values.max_opt()),
                _ => None,
            });
            ends.is_none_or(|(min, max)| *min < range.end && range.start <= *max)
        };
        let groups = self.builder.metadata().row_groups().iter().enumerate();
        let groups = groups.filter(|(_, group)| overlaps(group));
        let groups = groups.map(|(place, _)| place).collect();
        Self {
            builder: self.builder.with_row_groups(groups),
            ..self
        }
    }

    /// Its rows, one batch after the other. Between two batches nothing is open: a reader holds a decompressor of
    /// some 100 KB for each column.
    pub(crate) fn pieces(path: &Path, file: File) -> Result<Pieces, StoreError> {
        let bytes = file.metadata().map_err(StoreError::io("read", path))?.len();
        // Where its pages are. What is in them is not asked for here, and takes as much memory again.
        let options = ArrowReaderOptions::new()
            .with_column_index_policy(PageIndexPolicy::Skip)
            .with_offset_index_policy(PageIndexPolicy::Required);
        let metadata = ArrowReaderMetadata::load(&file, options);
        let metadata = metadata.map_err(|error| damaged(path, error))?;
        let own = metadata.metadata().file_metadata().key_value_metadata();
        check_format(own).map_err(|why| damaged(path, why))?;
        let rows = metadata.metadata().file_metadata().num_rows();
        let rows = PIECE_BYTES * rows.unsigned_abs() / bytes.max(1);
        Ok(Pieces {
            metadata,
            path: path.to_owned(),
            file,
            next: 0,
            rows: (rows as usize).clamp(FEWEST_ROWS, MOST_ROWS),
        })
    }

    /// With these columns alone.
    pub(crate) fn only(self, wanted: impl Fn(&str) -> bool) -> Self {
        let schema = self.builder.parquet_schema();
        let columns = schema.root_schema().get_fields().iter().enumerate();
        let columns = columns.filter(|(_, column)| wanted(column.name()));
        let mask = ProjectionMask::roots(schema, columns.map(|(place, _)| place));
        Self {
            builder: self.builder.with_projection(mask),
            ..self
        }
    }

    /// Its rows, in batches of so many.
    pub(crate) fn batches(self, rows: usize) -> Result<Batches, StoreError> {
        let Self { path, builder } = self;
        let reader = builder.with_batch_size(rows).build();
        Ok(Batches {
            reader: reader.map_err(|error| damaged(&path, error))?,
            path,
        })
    }
}

/// The rows of a segment.
pub(crate) struct Batches {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(batch.map_err(|error| damaged(&self.path, error)))
    }
}

/// The rows of a segment, of which one batch is read at a time.
pub(crate) struct Pieces {
    path: PathBuf,
    file: File,
    metadata: ArrowReaderMetadata,
    /// The next row.
    next: usize,
    rows: usize,
}

impl Iterator for Pieces {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = || -> Result<Option<RecordBatch>, ParquetError> {
            let file = self.file.try_clone()?;
            let metadata = self.metadata.clone();
            let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata)
                .with_offset(self.next)
                .with_limit(self.rows)
                .with_batch_size(self.rows)
                .build()?;
            Ok(reader.into_iter().next().transpose()?)
        };
        let batch = read().map_err(|error| damaged(&self.path, error));
        self.next += self.rows;
        batch.transpose()
    }
}

/// Says that a segment does not hold what it should.
pub(crate) fn damaged(path: &Path, why: impl ToString) -> StoreError {
    StoreError::DamagedSegment {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

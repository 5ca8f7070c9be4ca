//! Reading segments whole: what checks them, rebuilds the catalog from them and merges them has in common.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, PageIndexPolicy};

use crate::error::StoreError;

/// An open segment.
pub(crate) struct SegmentReader {
    path: PathBuf,
    builder: ParquetRecordBatchReaderBuilder<File>,
}

impl SegmentReader {
    pub(crate) fn open(file: File, path: &Path) -> Result<Self, StoreError> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(file);
        Ok(Self {
            builder: builder.map_err(|error| damaged(path, error))?,
            path: path.to_owned(),
        })
    }

    /// What it says of itself.
    pub(crate) fn metadata(&self) -> Option<&Vec<KeyValue>> {
        self.builder.metadata().file_metadata().key_value_metadata()
    }

    /// Its rows, one batch of so many after the other. Between two batches nothing is open: a reader holds a decompressor of
    /// some 100 KB for each column.
    pub(crate) fn pieces(path: &Path, file: File, rows: usize) -> Result<Pieces, StoreError> {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let metadata = ArrowReaderMetadata::load(&file, options);
        Ok(Pieces {
            metadata: metadata.map_err(|error| damaged(path, error))?,
            path: path.to_owned(),
            file,
            next: 0,
            rows,
        })
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

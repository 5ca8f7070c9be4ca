//! Reading segments whole: what checks them, rebuilds the catalog from them and merges them has in common.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::KeyValue;

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

/// Says that a segment does not hold what it should.
pub(crate) fn damaged(path: &Path, why: impl ToString) -> StoreError {
    StoreError::DamagedSegment {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

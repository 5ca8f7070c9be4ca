//! Reads several ordered segments as one ordered stream of rows.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::ops::{Operation, OperationRow};

use crate::batch::{
    BatchError, HealthRow, OpsRow, RollupRow, decode_health, decode_ops, decode_rows,
};
use crate::catalog::KeptSegment;
use crate::error::StoreError;
use crate::glob_view;
use crate::segment::reader::{Pieces, SegmentReader};
use crate::segment::verified::{cannot_open, damaged};

/// Decodes the rows of a batch.
type Decode<R> = fn(&RecordBatch, &mut VecDeque<R>) -> Result<(), BatchError>;

pub(super) struct Inputs<R, K> {
    inputs: Vec<Input<R>>,
    order: fn(&R) -> K,
}

struct Input<R> {
    path: PathBuf,
    batches: Pieces,
    decode: Decode<R>,
    rows: VecDeque<R>,
}

impl<R> Input<R> {
    fn open(store: &Path, kept: &KeptSegment, decode: Decode<R>) -> Result<Self, StoreError> {
        let path = store.join(&kept.path);
        let file = glob_view::open(store, &path).map_err(|error| cannot_open(&path, error))?;
        let reader = SegmentReader::of_length(file, &path, kept.bytes)?;
        // The merged segment gets a new checksum. It must not hide that an input was replaced.
        reader
            .check_crc32c(kept.crc32c)
            .map_err(|why| damaged(&path, why))?;
        Ok(Self {
            path,
            batches: reader.pieces()?,
            decode,
            rows: VecDeque::new(),
        })
    }

    fn head(&mut self) -> Result<Option<&R>, StoreError> {
        while self.rows.is_empty() {
            let Some(batch) = self.batches.next() else {
                return Ok(None);
            };
            (self.decode)(&batch?, &mut self.rows).map_err(|error| damaged(&self.path, error))?;
        }
        Ok(self.rows.front())
    }
}

impl<R, K: Ord> Inputs<R, K> {
    fn open(
        store: &Path,
        segments: &[&KeptSegment],
        decode: Decode<R>,
        order: fn(&R) -> K,
    ) -> Result<Self, StoreError> {
        let inputs = segments.iter().map(|kept| Input::open(store, kept, decode));
        Ok(Self {
            inputs: inputs.collect::<Result<_, _>>()?,
            order,
        })
    }

    /// The next row. Among equal rows, the first segment's comes first.
    pub(super) fn next(&mut self) -> Result<Option<R>, StoreError> {
        let mut first: Option<(K, usize)> = None;
        for (i, input) in self.inputs.iter_mut().enumerate() {
            if let Some(row) = input.head()? {
                let key = (self.order)(row);
                if first.as_ref().is_none_or(|(least, _)| key < *least) {
                    first = Some((key, i));
                }
            }
        }
        Ok(first.and_then(|(_, i)| self.inputs[i].rows.pop_front()))
    }
}

/// Sort key of rows of a rollup.
type RollupOrder = (
    trackiops_schemas::identity::FileKey,
    trackiops_schemas::time::UtcMs,
);

impl Inputs<RollupRow, RollupOrder> {
    pub(super) fn rollup(store: &Path, segments: &[&KeptSegment]) -> Result<Self, StoreError> {
        Self::open(store, segments, rollup, |row| (row.file.key, row.time))
    }
}

impl Inputs<HealthRow, trackiops_schemas::time::UtcMs> {
    pub(super) fn health(store: &Path, segments: &[&KeptSegment]) -> Result<Self, StoreError> {
        Self::open(store, segments, health, |row| row.time)
    }
}

impl Inputs<OpsRow, trackiops_schemas::time::UtcMs> {
    pub(super) fn ops(store: &Path, segments: &[&KeptSegment]) -> Result<Self, StoreError> {
        Self::open(store, segments, ops, |row| row.time)
    }
}

fn rollup(batch: &RecordBatch, rows: &mut VecDeque<RollupRow>) -> Result<(), BatchError> {
    let mut last: Option<Arc<FileAttributes>> = None;
    decode_rows(batch, |stored| {
        let same = last.take().filter(|last| stored.is_of(last));
        let file = Arc::clone(last.insert(same.unwrap_or_else(|| Arc::new(stored.file()))));
        rows.push_back(RollupRow {
            time: stored.time,
            file,
            row: stored.row,
        });
    })
}

fn health(batch: &RecordBatch, rows: &mut VecDeque<HealthRow>) -> Result<(), BatchError> {
    decode_health(batch, |stored| {
        rows.push_back(HealthRow {
            time: stored.time,
            health: stored.health,
        });
    })
}

fn ops(batch: &RecordBatch, rows: &mut VecDeque<OpsRow>) -> Result<(), BatchError> {
    decode_ops(batch, |stored| {
        let operation = Operation {
            mount: stored.mount.map(str::to_owned),
            op: stored.op.to_owned(),
            transport: stored.transport.map(str::to_owned),
        };
        let sums = stored.sums;
        rows.push_back(OpsRow {
            time: stored.time,
            row: OperationRow { operation, sums },
        });
    })
}

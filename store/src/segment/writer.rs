//! Writes a segment. Only this module knows the settings of Parquet's writer.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use trackiops_schemas::columns;
use trackiops_schemas::row::Direction;

use super::checksum::{Summed, created_by};
use super::metadata::{Description, JournalSpan, list_of};
use crate::allocator;
use crate::batch::{
    HealthRow, OpsRow, RequestRow, RollupRow, health_batch, ops_batch, request_batch, rollup_batch,
};
use crate::beneath;
use crate::error::StoreError;
use crate::file_index::FileIndex;
use crate::layout;

/// Numbers of rows that are written together.
pub(crate) struct Shape {
    /// Rows of the batches that Parquet's writer receives.
    batch_rows: usize,
    page_rows: usize,
    row_group_rows: usize,
}

/// Most rows of a page of a rollup.
pub(super) const ROLLUP_PAGE_ROWS: usize = 2048;

impl Shape {
    /// Parquet's writer unfolds the histograms of a batch into some 12 bytes per bucket, and coarse rows have a hundred
    /// buckets or more. A query of one file reads whole pages: 15 minutes of one file at 1 s are 900 rows. A row group
    /// limits the memory of Parquet's writer, and is long enough to compress well.
    const ROLLUP: Self = Self {
        batch_rows: 256,
        page_rows: ROLLUP_PAGE_ROWS,
        row_group_rows: 32 << 10,
    };
    /// Rows are narrow and many. Queries read a time range.
    const REQUESTS: Self = Self {
        batch_rows: 4096,
        page_rows: 8192,
        row_group_rows: 128 << 10,
    };
}

/// A row group is held in memory, packed, until it is full. Coarse rows have long histograms, so
/// they reach this limit first.
const ROW_GROUP_BYTES: usize = 4 << 20;
/// A page is held unpacked, 8 bytes per value, until it is full.
const PAGE_BYTES: usize = 64 << 10;
/// Values after which the writer checks whether a page is full.
const PAGE_CHECK_VALUES: usize = 512;
const ZSTD_LEVEL: i32 = 3;

/// Description and path of a new segment.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) description: Description,
    /// The final path.
    pub(crate) path: PathBuf,
}

/// A complete, durable segment under its temporary name.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) crc32c: u32,
    pub(crate) files: FileIndex,
}

/// Writes rows in order to a segment under its temporary name.
pub(crate) struct SegmentWriter<R> {
    target: Target,
    temporary: Temporary,
    writer: ArrowWriter<Summed<File>>,
    pending: Vec<R>,
    rows: u64,
    files: FileIndex,
}

/// A file that is removed unless it was completed. On a full disk, it would take the remaining
/// room.
struct Temporary {
    store: PathBuf,
    path: PathBuf,
    is_complete: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_complete {
            let _ = beneath::remove(&self.store, &self.path);
        }
    }
}

/// A row of a dataset.
pub(crate) trait SegmentRow: Sized {
    fn schema() -> SchemaRef;
    fn batch(host: &str, rows: &[Self]) -> Result<RecordBatch, ArrowError>;
    /// Adds the row to the index of its segment's files.
    fn index(&self, files: &mut FileIndex);
    /// Columns that order the rows.
    const ORDER: &'static [&'static str];
    /// Numbers of rows that are written together.
    const SHAPE: Shape = Shape::ROLLUP;

    /// Columns that no query selects rows by: their statistics would only take room.
    fn without_statistics() -> Vec<String> {
        Vec::new()
    }

    /// Columns that compress better as differences than with a dictionary.
    fn packed() -> Vec<String> {
        // Times advance evenly, and sums of times seldom repeat: see `make bench-encodings`.
        let times = Direction::COUNTERS
            .iter()
            .filter(|counter| counter.is_time());
        let of = |direction| {
            let times = times.clone();
            times.map(move |time| format!("{direction}_{}", time.name))
        };
        let times = columns::DIRECTIONS.into_iter().flat_map(of);
        [columns::TIME.to_owned()]
            .into_iter()
            .chain(times)
            .collect()
    }
}

impl SegmentRow for RollupRow {
    const ORDER: &'static [&'static str] = &[columns::FILE_KEY, columns::TIME];

    fn schema() -> SchemaRef {
        columns::rollup_schema()
    }

    fn batch(host: &str, rows: &[Self]) -> Result<RecordBatch, ArrowError> {
        rollup_batch(host, rows)
    }

    fn index(&self, files: &mut FileIndex) {
        files.push(self.file.key);
    }
}

impl SegmentRow for HealthRow {
    const ORDER: &'static [&'static str] = &[columns::TIME];

    fn schema() -> SchemaRef {
        columns::health_schema()
    }

    fn batch(host: &str, rows: &[Self]) -> Result<RecordBatch, ArrowError> {
        health_batch(host, rows)
    }

    fn index(&self, _: &mut FileIndex) {}
}

impl SegmentRow for OpsRow {
    const ORDER: &'static [&'static str] = &[columns::TIME];

    fn schema() -> SchemaRef {
        columns::ops_schema()
    }

    fn batch(host: &str, rows: &[Self]) -> Result<RecordBatch, ArrowError> {
        ops_batch(host, rows)
    }

    fn index(&self, _: &mut FileIndex) {}

    fn without_statistics() -> Vec<String> {
        let names = columns::tcp_fields().map(|field| field.name().clone());
        names.collect()
    }
}

impl SegmentRow for RequestRow {
    const ORDER: &'static [&'static str] = &[columns::END_TIME_NS];
    const SHAPE: Shape = Shape::REQUESTS;

    fn schema() -> SchemaRef {
        columns::request_schema()
    }

    fn batch(host: &str, rows: &[Self]) -> Result<RecordBatch, ArrowError> {
        request_batch(host, rows)
    }

    fn index(&self, _: &mut FileIndex) {}

    fn packed() -> Vec<String> {
        // XIDs count up.
        let packed = [
            columns::END_TIME,
            columns::END_TIME_NS,
            columns::OFFSET_BYTES,
            columns::LATENCY_NS,
            columns::QUEUE_NS,
            columns::RTT_NS,
            columns::XID,
        ];
        packed.map(str::to_owned).to_vec()
    }
}

impl<R: SegmentRow> SegmentWriter<R> {
    /// Creates the file. Replaces the file of an interrupted attempt.
    pub(crate) fn create(store: &Path, target: Target) -> Result<Self, StoreError> {
        let temporary = layout::temporary(&target.path);
        let file = beneath::create_anew(store, &temporary);
        let file = file.map_err(StoreError::io("create", &temporary))?;
        let temporary = Temporary {
            store: store.to_owned(),
            path: temporary,
            is_complete: false,
        };
        let schema = R::schema();
        let properties = properties::<R>(&schema, &target).map_err(parquet(&target.path))?;
        let writer = ArrowWriter::try_new(Summed::new(file), schema, Some(properties))
            .map_err(parquet(&target.path))?;
        Ok(Self {
            target,
            temporary,
            writer,
            pending: Vec::new(),
            rows: 0,
            files: FileIndex::default(),
        })
    }

    pub(crate) fn push(&mut self, row: R) -> Result<(), StoreError> {
        row.index(&mut self.files);
        self.rows += 1;
        self.pending.push(row);
        if self.pending.len() >= R::SHAPE.batch_rows {
            self.write_pending()?;
        }
        Ok(())
    }

    /// Adds the journal of the rows to the metadata, if the description has none.
    pub(crate) fn add_journal(&mut self, journal: JournalSpan) {
        self.writer.append_key_value_metadata(list_of(&[journal]));
    }

    fn write_pending(&mut self) -> Result<(), StoreError> {
        R::batch(&self.target.description.host, &self.pending)
            .map_err(ParquetError::from)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(parquet(&self.target.path))?;
        self.pending.clear();
        Ok(())
    }

    /// Completes and syncs the file.
    pub(crate) fn finish(mut self) -> Result<Written, StoreError> {
        self.write_pending()?;
        self.writer.flush().map_err(parquet(&self.target.path))?;
        self.writer.inner_mut().hold();
        // `into_inner` would reduce an error to its text.
        let finished = self.writer.finish();
        finished.map_err(parquet(&self.target.path))?;
        let synced = self.writer.inner_mut().enter().and_then(|(file, crc32c)| {
            beneath::finished(file)?;
            file.sync_all()?;
            Ok((file.metadata()?.len(), crc32c))
        });
        let (bytes, crc32c) = synced.map_err(StoreError::io("sync", &self.temporary.path))?;
        self.temporary.is_complete = true;
        // Otherwise, fragmented memory of this segment would remain while the next one is written.
        allocator::give_back();
        Ok(Written {
            rows: self.rows,
            bytes,
            crc32c,
            files: self.files,
        })
    }
}

/// Unwraps errors of the system, so that they get their hint.
fn parquet(path: &Path) -> impl FnOnce(ParquetError) -> StoreError + use<'_> {
    move |source| {
        let path = path.to_owned();
        let external = match source {
            ParquetError::External(external) => external,
            source => return StoreError::Parquet { path, source },
        };
        match external.downcast() {
            Ok(source) => StoreError::io("write segment", &path)(*source),
            Err(external) => StoreError::Parquet {
                path,
                source: ParquetError::External(external),
            },
        }
    }
}

fn properties<R: SegmentRow>(
    schema: &SchemaRef,
    target: &Target,
) -> Result<WriterProperties, ParquetError> {
    // Leaf columns have the indexes of fields, as long as the fields before them are flat, as here.
    let sorting: Result<Vec<_>, _> = R::ORDER.iter().map(|name| schema.index_of(name)).collect();
    let sorting = sorting?.into_iter().map(|column| SortingColumn {
        column_idx: column as i32,
        descending: false,
        nulls_first: false,
    });
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_data_page_row_count_limit(R::SHAPE.page_rows)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_write_batch_size(PAGE_CHECK_VALUES)
        .set_max_row_group_row_count(Some(R::SHAPE.row_group_rows))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_sorting_columns(Some(sorting.collect()))
        .set_key_value_metadata(Some(target.description.metadata(schema, &target.path)))
        .set_created_by(created_by());
    // No query selects pages by these columns.
    for name in columns::TENANT_COLUMNS {
        let column = ColumnPath::from(name);
        builder = builder.set_column_statistics_enabled(column, EnabledStatistics::Chunk);
    }
    for name in R::without_statistics() {
        let column = ColumnPath::from(name);
        builder = builder.set_column_statistics_enabled(column, EnabledStatistics::None);
    }
    for name in R::packed() {
        let column = ColumnPath::from(name);
        builder = builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(builder.build())
}

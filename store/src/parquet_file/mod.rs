//! Parquet files from outside the store: exports, and files that other programs wrote. Parquet's reader trusts what a
//! file claims. So [`footer`] and [`claims`] check the claims first, and [`budget`] adds up the memory that reading
//! takes.

pub(crate) mod budget;
pub(crate) mod claims;
pub(crate) mod footer;
mod pages;
mod thrift;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::file::metadata::{KeyValue, ParquetMetaDataOptions, ParquetMetaDataReader};
use parquet::file::metadata::{ParquetMetaData, ParquetStatisticsPolicy};
use trackiops_schemas::regular_file::open_regular;

use self::budget::{MemoryBudget, Places};
use self::pages::{FilePages, Source};
use crate::decode_panic::caught;
use crate::error::StoreError;
use crate::read_memory::{beyond_limit, most_decoded_bytes};
use crate::segment::reader::is_within;

/// Rows of a batch, unless they would take too much memory.
const BATCH_ROWS: usize = 8192;
/// A batch that would take too much memory is read again with its rows divided by this.
const FEWER: usize = 4;
/// Most columns that are read at once. Each takes some 100 KB for decompression.
const MOST_COLUMNS: usize = 1000;
/// A file may claim `MOST_ROWS + MOST_ROWS_PER_BYTE * bytes` rows: even a constant column has a page per million rows.
const MOST_ROWS: u64 = 1 << 20;
const MOST_ROWS_PER_BYTE: u64 = 1 << 10;

/// A Parquet file.
#[derive(Clone)]
pub struct ParquetFile {
    path: PathBuf,
    source: Arc<Source>,
    metadata: ArrowReaderMetadata,
    places: Arc<Places>,
    rows: u64,
}

impl ParquetFile {
    /// Opens a regular file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = open_regular(path).map_err(StoreError::io("read", path))?;
        Self::of(file, path)
    }

    /// As [`Self::open`], for an open file.
    pub fn of(file: File, path: &Path) -> Result<Self, StoreError> {
        let failed = |why| unreadable(path, why);
        let (source, footer) = Source::of(file, path).map_err(failed)?;
        let needed = footer::decoded_bytes(&footer).map_err(|why| failed(why.to_owned()))?;
        if needed > most_decoded_bytes() {
            return Err(failed(format!("its footer takes {}", beyond_limit())));
        }
        let metadata = caught(|| decode(&footer)).map_err(failed)?;
        let created_by = metadata.metadata().file_metadata().created_by();
        source.check_writer(created_by).map_err(failed)?;
        let rows = check(metadata.metadata(), &source).map_err(failed)?;
        let places = Places::of(metadata.metadata());
        let places = places.ok_or_else(|| failed("two of its columns are in one place".into()))?;
        Ok(Self {
            path: path.to_owned(),
            source: Arc::new(source),
            metadata,
            places: Arc::new(places),
            rows,
        })
    }

    /// Its columns, without metadata.
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Its key-value metadata.
    pub fn key_values(&self) -> Option<&Vec<KeyValue>> {
        let metadata = self.metadata.metadata().file_metadata();
        metadata.key_value_metadata()
    }

    /// Reads its rows with the wanted columns.
    pub fn batches(&self, is_wanted: impl Fn(&str) -> bool) -> Result<ParquetBatches, StoreError> {
        let schema = self.metadata.parquet_schema();
        let fields = schema.root_schema().get_fields().iter().enumerate();
        let fields = fields.filter(|(_, field)| is_wanted(field.name()));
        let columns = ProjectionMask::roots(schema, fields.map(|(place, _)| place));
        let leaves = (0..schema.num_columns()).filter(|leaf| columns.leaf_included(*leaf));
        let leaves: Vec<_> = leaves.collect();
        self.check_columns(&leaves)
            .map_err(|why| unreadable(&self.path, why))?;
        let row_bytes = self.places.row_bytes(|leaf| columns.leaf_included(leaf));
        let at_once = usize::try_from(most_decoded_bytes() / row_bytes).unwrap_or(usize::MAX);
        let mut batches = ParquetBatches {
            file: self.clone(),
            columns,
            reader: None,
            budget: Arc::new(MemoryBudget::new(0, 0)),
            at_once: at_once.clamp(1, BATCH_ROWS),
            rows: 0,
        };
        batches.begin()?;
        Ok(batches)
    }

    fn check_columns(&self, leaves: &[usize]) -> Result<(), String> {
        if leaves.len() > MOST_COLUMNS {
            let count = leaves.len();
            return Err(format!(
                "it has {count} columns, of which at most {MOST_COLUMNS} are read; write fewer"
            ));
        }
        for group in self.metadata.metadata().row_groups() {
            for leaf in leaves {
                let column = group.column(*leaf);
                match column.compression() {
                    Compression::UNCOMPRESSED | Compression::ZSTD(_) => {}
                    other => {
                        let name = column.column_path();
                        return Err(format!(
                            "its column {name} is compressed with {other}; write the file with zstd, or uncompressed"
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

fn decode(footer: &[u8]) -> Result<ArrowReaderMetadata, parquet::errors::ParquetError> {
    let options = ParquetMetaDataOptions::new()
        .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll)
        .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
    let metadata = ParquetMetaDataReader::decode_metadata_with_options(footer, Some(&options))?;
    let metadata = Arc::new(metadata);
    let options = ArrowReaderOptions::new();
    let decoded = ArrowReaderMetadata::try_new(Arc::clone(&metadata), options.clone());
    match decoded {
        Ok(decoded)
            if decoded
                .schema()
                .fields()
                .iter()
                .all(|field| is_plain(field.data_type())) =>
        {
            Ok(decoded)
        }
        // Arrow's schema in the file describes types and units in more detail, but is not trusted.
        _ => ArrowReaderMetadata::try_new(metadata, options.with_skip_arrow_metadata(true)),
    }
}

/// Whether a value takes no more memory than its size in Parquet. A null of a fixed-size list takes as much as the
/// whole list.
fn is_plain(kind: &DataType) -> bool {
    match kind {
        DataType::List(of) | DataType::LargeList(of) | DataType::Map(of, _) => {
            is_plain(of.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_plain(field.data_type())),
        DataType::Dictionary(_, of) => is_plain(of),
        DataType::FixedSizeList(..) | DataType::RunEndEncoded(..) | DataType::Union(..) => false,
        other => !other.is_nested(),
    }
}

/// Checks that a footer fits its file. Returns the number of rows.
fn check(metadata: &ParquetMetaData, source: &Source) -> Result<u64, String> {
    let mut columns = metadata
        .row_groups()
        .iter()
        .flat_map(|group| group.columns());
    if !columns.all(|column| is_within(column, source.data_bytes())) {
        return Err("its footer names places that are not in it".to_owned());
    }
    let mut groups = metadata.row_groups().iter();
    let rows = groups.try_fold(0_u64, |sum, group| {
        sum.checked_add(u64::try_from(group.num_rows()).ok()?)
    });
    let rows = rows.ok_or("its numbers of rows do not add up")?;
    if rows > MOST_ROWS + MOST_ROWS_PER_BYTE * source.bytes() {
        let bytes = source.bytes();
        return Err(format!(
            "it claims {rows} rows in {bytes} bytes, which is more than can be"
        ));
    }
    Ok(rows)
}

fn unreadable(path: &Path, why: String) -> StoreError {
    StoreError::Unreadable {
        path: path.to_owned(),
        why,
    }
}

/// The next lower number of rows per batch. `None` below the minimum.
pub(crate) fn fewer(rows: usize, fewest: usize) -> Option<usize> {
    (rows > fewest).then(|| (rows / FEWER).max(fewest))
}

/// The rows of a Parquet file.
pub struct ParquetBatches {
    file: ParquetFile,
    columns: ProjectionMask,
    /// `None` after a failure.
    reader: Option<ParquetRecordBatchReader>,
    budget: Arc<MemoryBudget>,
    /// Most rows of a batch.
    at_once: usize,
    rows: u64,
}

impl ParquetBatches {
    /// Begins to read at the first unread row.
    fn begin(&mut self) -> Result<(), StoreError> {
        self.reader = None;
        self.budget = Arc::new(MemoryBudget::new(self.at_once, most_decoded_bytes()));
        let read = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let pages = FilePages::new(
            Arc::clone(&self.file.source),
            Arc::clone(&self.file.places),
            Arc::clone(&self.budget),
        );
        let (metadata, columns) = (self.file.metadata.clone(), self.columns.clone());
        let reader = caught(|| {
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(pages, metadata)
                .with_projection(columns)
                .with_batch_size(self.at_once);
            match read {
                0 => builder.build(),
                read => builder.with_offset(read).build(),
            }
        });
        self.reader = Some(reader.map_err(|why| self.unreadable(why))?);
        Ok(())
    }

    fn unreadable(&self, why: String) -> StoreError {
        let why = self.file.source.why(why);
        unreadable(&self.file.path, why)
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        loop {
            let Some(reader) = &mut self.reader else {
                return Ok(None);
            };
            self.budget.renew();
            let batch = caught(|| reader.next().transpose());
            let why = match batch {
                Ok(batch) => return self.counted(batch),
                Err(why) => why,
            };
            self.reader = None;
            if !self.budget.is_exceeded() {
                return Err(self.unreadable(why));
            }
            let Some(at_once) = fewer(self.at_once, 1) else {
                let why = format!("a row of it takes {}", beyond_limit());
                return Err(unreadable(&self.file.path, why));
            };
            self.at_once = at_once;
            self.begin()?;
        }
    }

    fn counted(&mut self, batch: Option<RecordBatch>) -> Result<Option<RecordBatch>, StoreError> {
        self.rows += batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
        let is_end = batch.is_none();
        if self.rows > self.file.rows || is_end && self.rows < self.file.rows {
            self.reader = None;
            let why = "its number of rows differs from its footer";
            return Err(unreadable(&self.file.path, why.to_owned()));
        }
        Ok(batch)
    }
}

impl Iterator for ParquetBatches {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

//! Reads segments; no other code does. Everything is verified before it is decoded, and its size is limited.
//!
//! It reads the footer, the offset indexes of the wanted columns and row groups, and the wanted
//! pages.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMask, ColumnChunkMetaData, KeyValue, PageIndexPolicy, ParquetMetaData,
    ParquetMetaDataOptions, ParquetMetaDataReader, ParquetStatisticsPolicy, RowGroupMetaData,
};
use parquet::file::statistics::Statistics;
use trackiops_schemas::columns;

use super::metadata::check_format;
use super::pages::{Indexes, MOST_BATCH_BYTES, Pages, TOO_MUCH};
use super::verified::{Trace, Verified, damaged};
use super::writer::ROLLUP_PAGE_ROWS;
use crate::decode_panic::caught;
use crate::error::StoreError;
use crate::parquet_file::budget::{MemoryBudget, Places};
use crate::parquet_file::{fewer, footer};

/// Size of a piece in the file. Merging keeps a piece of each segment in memory. A coarse row with its hundred buckets
/// or more takes ten times as much as a fine one.
const PIECE_BYTES: u64 = 32 << 10;
/// Fewest rows of a piece. Each piece costs time to begin, and to unpack the pages that it shares with other pieces.
const FEWEST_ROWS: usize = 128;
/// Most rows of a piece. More would not be faster.
const MOST_ROWS: usize = 1024;
/// Fewest rows of a batch, when more would take too much memory.
const FEWEST_AT_ONCE: usize = 32;
/// Fewest rows of a batch of a selection, where each row may be in separate pages.
const FEWEST_SELECTED: usize = 1;

/// An open segment.
#[derive(Debug)]
pub struct SegmentReader {
    file: Verified,
    metadata: ParquetMetaData,
    places: Arc<Places>,
    columns: ProjectionMask,
    /// Row groups to read. `None` for all.
    groups: Option<Vec<usize>>,
    /// Rows to read in these row groups. `None` for all.
    selection: Option<RowSelection>,
    rows: u64,
}

fn check_length(file: &File, path: &Path, expected: u64) -> Result<(), StoreError> {
    let found = file.metadata().map_err(StoreError::io("read", path))?.len();
    match found == expected {
        true => Ok(()),
        false => Err(damaged(
            path,
            format!("it has {found} bytes, the catalog says {expected}"),
        )),
    }
}

impl SegmentReader {
    pub(crate) fn open(file: File, path: &Path) -> Result<Self, StoreError> {
        // Statistics are half of the footer, and few readers use them.
        Self::decode(file, path, ParquetStatisticsPolicy::SkipAll)
    }

    /// Opens a segment, which must have `expected` bytes.
    pub(crate) fn of_length(file: File, path: &Path, expected: u64) -> Result<Self, StoreError> {
        check_length(&file, path, expected)?;
        Self::open(file, path)
    }

    /// Opens a segment with the statistics that [`Self::between`] and [`Self::without_defaults`]
    /// need. It must have `expected` bytes.
    pub(crate) fn with_statistics(
        file: File,
        path: &Path,
        expected: u64,
    ) -> Result<Self, StoreError> {
        check_length(&file, path, expected)?;
        Self::decode(file, path, ParquetStatisticsPolicy::KeepAll)
    }

    fn decode(
        file: File,
        path: &Path,
        statistics: ParquetStatisticsPolicy,
    ) -> Result<Self, StoreError> {
        let (file, footer) = Verified::open(file, path)?;
        let options = ParquetMetaDataOptions::new()
            .with_column_stats_policy(statistics)
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_encoding_stats_policy(ParquetStatisticsPolicy::SkipAll);
        footer::check_schema(&footer).map_err(|why| damaged(path, why))?;
        let metadata = decoding(path, &file.trace, || {
            ParquetMetaDataReader::decode_metadata_with_options(&footer, Some(&options))
        })?;
        let own = metadata.file_metadata();
        check_format(own.key_value_metadata()).map_err(|why| damaged(path, why))?;
        let mut columns = metadata
            .row_groups()
            .iter()
            .flat_map(|group| group.columns());
        if !columns.all(|column| is_within(column, file.data_bytes())) {
            return Err(damaged(path, "its footer names places that are not in it"));
        }
        let places = Places::of(&metadata);
        let places = places.ok_or_else(|| damaged(path, "two of its columns are in one place"))?;
        let mut groups = metadata.row_groups().iter();
        let rows = groups.try_fold(0_u64, |sum, group| {
            sum.checked_add(u64::try_from(group.num_rows()).ok()?)
        });
        let of_file = u64::try_from(own.num_rows()).ok();
        let rows = rows.filter(|rows| Some(*rows) == of_file);
        Ok(Self {
            rows: rows.ok_or_else(|| damaged(path, "its numbers of rows do not add up"))?,
            file,
            metadata,
            places: Arc::new(places),
            columns: ProjectionMask::all(),
            groups: None,
            selection: None,
        })
    }

    /// Its key-value metadata.
    pub(crate) fn metadata(&self) -> Option<&Vec<KeyValue>> {
        self.metadata.file_metadata().key_value_metadata()
    }

    /// Number of its rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Length of its file, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes
    }

    /// The checksum that covers the whole file.
    pub(crate) fn crc32c(&self) -> u32 {
        self.file.crc32c()
    }

    /// Checks the checksum against the catalog's.
    pub(crate) fn check_crc32c(&self, expected: u32) -> Result<(), String> {
        match self.crc32c() {
            found if found == expected => Ok(()),
            found => Err(format!(
                "its checksum is {found:08x}, the catalog says {expected:08x}"
            )),
        }
    }

    /// Verifies the whole file.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        self.file.verify()
    }

    /// Selects columns. An error if one does not exist, unless older segments lack it.
    pub fn only<'n>(self, wanted: impl Iterator<Item = &'n str>) -> Result<Self, StoreError> {
        let schema = self.metadata.file_metadata().schema_descr();
        let fields = schema.root_schema().get_fields();
        let mut places = Vec::new();
        for name in wanted {
            match fields.iter().position(|field| field.name() == name) {
                Some(place) => places.push(place),
                None if columns::ADDED.contains(&name) => {}
                None => return Err(damaged(self.path(), format!("it has no column {name}"))),
            }
        }
        Ok(Self {
            columns: ProjectionMask::roots(schema, places),
            ..self
        })
    }

    /// Drops columns whose every value is the default that decoders use for an absent column: 0, or null or an empty
    /// list where these are allowed. The footer's statistics show this. The first column always stays, because it has
    /// the number of rows.
    ///
    /// A column costs about the same for one row as for thousands, and most columns of a health segment are dropped.
    pub fn without_defaults(self) -> Self {
        let schema = self.metadata.file_metadata().schema_descr();
        let mut roots: Vec<usize> = (0..schema.num_columns())
            .filter(|leaf| self.columns.leaf_included(*leaf))
            .filter(|leaf| *leaf == 0 || !self.is_default(*leaf))
            .map(|leaf| schema.get_column_root_idx(leaf))
            .collect();
        roots.dedup();
        Self {
            columns: ProjectionMask::roots(schema, roots),
            ..self
        }
    }

    fn is_default(&self, leaf: usize) -> bool {
        let mut groups = self.metadata.row_groups().iter();
        groups.all(|group| {
            let chunk = group.column(leaf);
            let is_required = chunk.column_descr().max_def_level() == 0;
            match chunk.statistics() {
                // An optional 0 differs from an unknown value.
                Some(Statistics::Int64(values)) if is_required => {
                    values.min_opt().zip(values.max_opt()) == Some((&0, &0))
                }
                Some(values) if !is_required => {
                    let values_in_all = u64::try_from(chunk.num_values()).ok();
                    values
                        .null_count_opt()
                        .is_some_and(|nulls| Some(nulls) == values_in_all)
                }
                _ => false,
            }
        })
    }

    /// Selects row groups that may contain values of `range` in a column, by their statistics.
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
        let groups = self.metadata.row_groups().iter().enumerate();
        let groups = groups.filter(|(_, group)| overlaps(group));
        Self {
            groups: Some(groups.map(|(place, _)| place).collect()),
            ..self
        }
    }

    /// Selects rows by ascending ranges.
    pub fn within(self, ranges: &[Range<u64>]) -> Result<Self, StoreError> {
        let too_short = || damaged(self.path(), "it has fewer rows than the catalog says");
        let mut groups = Vec::new();
        let mut wanted: Vec<Range<usize>> = Vec::new();
        // Number of rows of the file before this group, and of rows in the selected groups.
        let (mut start, mut taken) = (0_u64, 0_usize);
        let mut next = 0;
        for (place, group) in self.metadata.row_groups().iter().enumerate() {
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
        if ranges.last().is_some_and(|last| last.end > start) {
            return Err(too_short());
        }
        let selection = RowSelection::from_consecutive_ranges(wanted.into_iter(), taken);
        Ok(Self {
            groups: Some(groups),
            selection: Some(selection),
            ..self
        })
    }

    fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads where the wanted pages are.
    fn located(self) -> Result<(Verified, Arc<Places>, ArrowReaderMetadata), StoreError> {
        let Self {
            file,
            metadata,
            places,
            columns,
            groups,
            ..
        } = self;
        let leaves = metadata.file_metadata().schema_descr().num_columns();
        let leaves = (0..leaves).filter(|leaf| columns.leaf_included(*leaf));
        let all = 0..metadata.num_row_groups();
        let groups = groups.unwrap_or_else(|| all.collect());
        let wanted = ColumnChunkMask::row_groups_and_columns(groups, leaves);
        let metadata = decoding(file.path(), &file.trace, || {
            let mut reader = ParquetMetaDataReader::new_with_metadata(metadata)
                .with_column_index_policy(PageIndexPolicy::Skip)
                .with_offset_index_policy(PageIndexPolicy::Required)
                .with_offset_index_mask(wanted);
            reader.read_page_indexes(&Indexes(&file))?;
            // Skips Arrow's schema in the file: it takes longer to decode than the rest of the footer, and has the same
            // types.
            let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
            ArrowReaderMetadata::try_new(Arc::new(reader.finish()?), options)
        })?;
        if !Places::have_pages_of(metadata.metadata()) {
            return Err(damaged(
                file.path(),
                "it names pages outside of their columns",
            ));
        }
        Ok((file, places, metadata))
    }

    /// Reads its rows, in batches of `rows` rows.
    pub fn batches(self, rows: usize) -> Result<Batches, StoreError> {
        let columns = self.columns.clone();
        let (groups, selection) = (self.groups.clone(), self.selection.clone());
        let of_group = |place: &usize| self.metadata.row_group(*place).num_rows().unsigned_abs();
        let expected = match (&groups, &selection) {
            (_, Some(selection)) => selection.row_count() as u64,
            (Some(groups), None) => groups.iter().map(of_group).sum(),
            (None, None) => self.rows,
        };
        let (at_once, fewest) = match &selection {
            Some(selection) => (rows_at_once(selection, rows), FEWEST_SELECTED),
            None => (rows, FEWEST_AT_ONCE),
        };
        let (file, places, metadata) = self.located()?;
        let mut batches = Batches {
            file,
            places,
            metadata,
            columns,
            groups,
            selection,
            reader: None,
            budget: Arc::new(MemoryBudget::new(at_once, MOST_BATCH_BYTES)),
            at_once,
            fewest,
            expected,
            rows: 0,
        };
        batches.begin()?;
        Ok(batches)
    }

    /// Reads its rows batch by batch. Between two batches no reader is open, because a reader takes some 100 KB per
    /// column for decompression.
    pub(crate) fn pieces(self) -> Result<Pieces, StoreError> {
        let rows = PIECE_BYTES.saturating_mul(self.rows) / self.bytes().max(1);
        let end = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let (file, places, metadata) = self.located()?;
        Ok(Pieces {
            file,
            places,
            metadata,
            next: 0,
            end,
            rows: usize::try_from(rows)
                .unwrap_or(MOST_ROWS)
                .clamp(FEWEST_ROWS, MOST_ROWS),
        })
    }
}

/// Whether a column of a row group is within the data.
pub(crate) fn is_within(column: &ColumnChunkMetaData, data_bytes: u64) -> bool {
    let data = column.data_page_offset();
    let start = column.dictionary_page_offset().unwrap_or(data);
    let end = start.checked_add(column.compressed_size());
    let end = end.filter(|end| u64::try_from(*end).is_ok_and(|end| end <= data_bytes));
    0 < start && start <= data && end.is_some_and(|end| data <= end)
}

/// Decodes a part of a segment. Parquet's reader panics on some invalid metadata and pages.
fn decoding<T, E: ToString>(
    path: &Path,
    trace: &Trace,
    decode: impl FnOnce() -> Result<T, E>,
) -> Result<T, StoreError> {
    caught(decode).map_err(|why| damaged(path, trace.why(why)))
}

/// The rows of a segment.
pub struct Batches {
    file: Verified,
    places: Arc<Places>,
    metadata: ArrowReaderMetadata,
    columns: ProjectionMask,
    groups: Option<Vec<usize>>,
    selection: Option<RowSelection>,
    /// `None` after a failure.
    reader: Option<ParquetRecordBatchReader>,
    budget: Arc<MemoryBudget>,
    /// Most rows of a batch, and the least that this may fall to.
    at_once: usize,
    fewest: usize,
    /// Expected number of rows.
    expected: u64,
    rows: u64,
}

impl Batches {
    /// Bytes of the file that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.file.trace.bytes.load(Ordering::Relaxed)
    }

    /// Pages that were read so far.
    pub fn pages_read(&self) -> u64 {
        self.file.trace.pages.load(Ordering::Relaxed)
    }

    /// Rows that were decoded so far.
    pub fn rows_read(&self) -> u64 {
        self.rows
    }

    /// Begins to read at the first unread row.
    fn begin(&mut self) -> Result<(), StoreError> {
        self.reader = None;
        self.budget = Arc::new(MemoryBudget::new(self.at_once, MOST_BATCH_BYTES));
        let read = usize::try_from(self.rows).unwrap_or(usize::MAX);
        let reader = decoding(self.file.path(), &self.file.trace, || {
            let pages = Pages {
                file: self.file.again(),
                places: Arc::clone(&self.places),
                budget: Arc::clone(&self.budget),
            };
            let metadata = self.metadata.clone();
            let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(pages, metadata)
                .with_projection(self.columns.clone())
                .with_batch_size(self.at_once);
            if let Some(groups) = &self.groups {
                builder = builder.with_row_groups(groups.clone());
            }
            if let Some(selection) = &self.selection {
                builder = builder.with_row_selection(selection.clone());
            }
            if read > 0 {
                builder = builder.with_offset(read);
            }
            builder.build()
        })?;
        self.reader = Some(reader);
        Ok(())
    }

    fn read(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        loop {
            let Some(reader) = &mut self.reader else {
                return Ok(None);
            };
            self.budget.renew();
            let next = || reader.next().transpose();
            let batch = decoding(self.file.path(), &self.file.trace, next);
            if batch.is_ok() {
                return batch;
            }
            self.reader = None;
            if !self.budget.is_exceeded() {
                return batch;
            }
            self.at_once = fewer(self.at_once, self.fewest)
                .ok_or_else(|| damaged(self.file.path(), TOO_MUCH))?;
            self.begin()?;
        }
    }
}

/// The number of selected rows that takes as many pages as `rows` consecutive rows. Each skipped run costs up to a
/// page, because the reader reads and holds it.
fn rows_at_once(selection: &RowSelection, rows: usize) -> usize {
    let (mut selected, mut read) = (0_usize, 0_usize);
    for run in selection.iter() {
        if run.skip {
            read += run.row_count.min(ROLLUP_PAGE_ROWS);
        } else {
            selected += run.row_count;
            read += run.row_count;
        }
    }
    let share = rows.saturating_mul(selected) / read.max(1);
    share.clamp(1, rows)
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.read();
        match &batch {
            Ok(Some(batch)) => self.rows += batch.num_rows() as u64,
            Ok(None) if self.rows != self.expected => {
                self.expected = self.rows;
                return Some(Err(other_rows(self.file.path())));
            }
            Ok(None) => {}
            // The iterator ends after an error.
            Err(_) => self.expected = self.rows,
        }
        batch.transpose()
    }
}

/// Reads the rows of a segment. Between two batches, no reader is open.
pub(crate) struct Pieces {
    file: Verified,
    places: Arc<Places>,
    metadata: ArrowReaderMetadata,
    /// The next row, and the number of rows.
    next: usize,
    end: usize,
    /// Rows of a batch.
    rows: usize,
}

impl Pieces {
    fn read(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        loop {
            let file = self.file.again();
            let trace = Arc::clone(&file.trace);
            let budget = Arc::new(MemoryBudget::new(self.rows, MOST_BATCH_BYTES));
            let pages = Pages {
                file,
                places: Arc::clone(&self.places),
                budget: Arc::clone(&budget),
            };
            let read = || -> Result<Option<RecordBatch>, ParquetError> {
                let metadata = self.metadata.clone();
                let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(pages, metadata)
                    .with_offset(self.next)
                    .with_limit(self.rows)
                    .with_batch_size(self.rows)
                    .build()?;
                Ok(reader.into_iter().next().transpose()?)
            };
            let batch = decoding(self.file.path(), &trace, read);
            if batch.is_ok() || !budget.is_exceeded() {
                return batch;
            }
            self.rows = fewer(self.rows, FEWEST_AT_ONCE)
                .ok_or_else(|| damaged(self.file.path(), TOO_MUCH))?;
        }
    }
}

impl Iterator for Pieces {
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.read();
        let expected = self.rows.min(self.end - self.next);
        self.next += expected;
        match batch {
            Ok(batch) if batch.as_ref().map_or(0, RecordBatch::num_rows) != expected => {
                Some(Err(other_rows(self.file.path())))
            }
            batch => batch.transpose(),
        }
    }
}

fn other_rows(path: &Path) -> StoreError {
    damaged(path, "its number of rows differs from its footer")
}

//! Positions of the columns of a Parquet file, and the memory for reading a batch of them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use parquet::basic::{Compression, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::offset_index::PageLocation;

use super::claims::Held;

/// A number, and the levels of a value.
const VALUE_BYTES: u64 = 12;
/// The offset of a list.
const LIST_BYTES: u64 = 8;

/// The positions of the columns of a file, in order.
#[derive(Debug)]
pub(crate) struct Places(Vec<Place>);

/// The position of a column of a row group.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) bytes: Range<u64>,
    pub(super) leaf: usize,
    pub(super) is_text: bool,
    /// A column with one value per row, not a list.
    pub(super) is_flat: bool,
    pub(super) codec: Compression,
    /// Memory of a value without its text.
    pub(super) value_bytes: u64,
    /// How many of repetition and definition levels its pages have.
    pub(super) kinds_of_levels: u8,
}

impl Place {
    fn of(leaf: usize, column: &ColumnChunkMetaData) -> Self {
        let (start, length) = column.byte_range();
        let kind = column.column_descr();
        let (lists, levels) = (kind.max_rep_level(), kind.max_def_level());
        let lists = u64::from(lists.unsigned_abs());
        Self {
            bytes: start..start.saturating_add(length),
            leaf,
            is_text: column.column_type() == Type::BYTE_ARRAY,
            is_flat: lists == 0,
            codec: column.compression(),
            value_bytes: value_bytes(column) + lists * LIST_BYTES,
            kinds_of_levels: u8::from(lists > 0) + u8::from(levels > 0),
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.bytes.end
    }
}

/// A null takes as much as a value.
fn value_bytes(column: &ColumnChunkMetaData) -> u64 {
    let of_type = match column.column_type() {
        Type::INT96 => 12,
        Type::FIXED_LEN_BYTE_ARRAY => column.column_descr().type_length().unsigned_abs().into(),
        _ => 0,
    };
    VALUE_BYTES + of_type
}

impl Places {
    /// `None` if two columns share bytes: the limits on a page depend on its column.
    pub(crate) fn of(metadata: &ParquetMetaData) -> Option<Self> {
        let groups = metadata.row_groups().iter();
        let columns = groups.flat_map(|group| group.columns().iter().enumerate());
        let mut places: Vec<_> = columns
            .map(|(leaf, column)| Place::of(leaf, column))
            .collect();
        places.sort_by_key(|place| (place.bytes.start, place.bytes.end));
        let are_apart = |pair: &[Place]| pair[0].bytes.end <= pair[1].bytes.start;
        places.windows(2).all(are_apart).then_some(Self(places))
    }

    /// Whether each page of the offset indexes is within its column.
    pub(crate) fn have_pages_of(metadata: &ParquetMetaData) -> bool {
        let is_within = |column: &ColumnChunkMetaData, page: &PageLocation| {
            let (start, length) = column.byte_range();
            let at = u64::try_from(page.offset).ok();
            let end = at.zip(u64::try_from(page.compressed_page_size).ok());
            let end = end.map(|(at, bytes)| at.saturating_add(bytes));
            at >= Some(start) && end.is_some_and(|end| end <= start.saturating_add(length))
        };
        let mut groups = metadata.row_groups().iter().enumerate();
        groups.all(|(number, group)| {
            let index = metadata.page_index_for_row_group(number);
            let mut columns = group.columns().iter().enumerate();
            columns.all(|(leaf, column)| {
                let mut pages = index.page_locations(leaf).into_iter().flatten();
                pages.all(|page| is_within(column, page))
            })
        })
    }

    /// The column that a page is in, and its number.
    pub(crate) fn at(&self, page: &Range<u64>) -> Option<(usize, &Place)> {
        let number = self
            .0
            .partition_point(|place| place.bytes.start <= page.start)
            .checked_sub(1)?;
        let place = self.0.get(number)?;
        (page.end <= place.bytes.end).then_some((number, place))
    }

    /// Memory of a row of some columns, without texts.
    pub(super) fn row_bytes(&self, is_wanted: impl Fn(usize) -> bool) -> u64 {
        let mut of_leaves = HashMap::new();
        for place in self.0.iter().filter(|place| is_wanted(place.leaf)) {
            of_leaves.insert(place.leaf, place.value_bytes);
        }
        of_leaves
            .values()
            .fold(1, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// Memory of the batch that is being read.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    rows: u64,
    most_bytes: u64,
    columns: Mutex<HashMap<usize, Column>>,
    is_exceeded: AtomicBool,
}

/// Memory of a column. Its reader holds a page and a dictionary, and the batch holds values of earlier pages.
#[derive(Debug, Default)]
struct Column {
    /// Index of the row group's column whose pages are read.
    place: usize,
    dictionary_bytes: u64,
    page_bytes: u64,
    page_values: u64,
    /// Length of the longest text that its pages may repeat.
    longest: u64,
    earlier_bytes: u64,
    earlier_values: u64,
    is_flat: bool,
    value_bytes: u64,
}

impl Column {
    /// Memory of the current page, and of earlier pages of the same batch.
    fn bytes(&self, rows: u64) -> u64 {
        let values = self.page_values.saturating_add(self.earlier_values);
        let values = if self.is_flat {
            values.min(rows)
        } else {
            values
        };
        let decoded = values.saturating_mul(self.value_bytes.saturating_add(self.longest));
        let pages = self.page_bytes.saturating_add(self.earlier_bytes);
        decoded
            .saturating_add(pages)
            .saturating_add(self.dictionary_bytes)
    }

    fn end_page(&mut self) {
        let bytes = std::mem::take(&mut self.page_bytes);
        let values = std::mem::take(&mut self.page_values);
        self.earlier_bytes = self.earlier_bytes.saturating_add(bytes);
        self.earlier_values = self.earlier_values.saturating_add(values);
    }

    fn begin_page(&mut self, page: Held) {
        // The batch may still have texts of earlier pages.
        self.longest = match (page.is_dictionary, self.earlier_values) {
            (true, 0) => page.longest,
            _ => page.longest.max(self.longest),
        };
        match page.is_dictionary {
            true => self.dictionary_bytes = page.bytes,
            false => (self.page_bytes, self.page_values) = (page.bytes, page.values),
        }
    }
}

impl MemoryBudget {
    /// The budget of batches with `rows` rows.
    pub(crate) fn new(rows: usize, most_bytes: u64) -> Self {
        Self {
            rows: rows as u64,
            most_bytes,
            columns: Mutex::default(),
            is_exceeded: AtomicBool::new(false),
        }
    }

    /// Whether a batch failed because of the budget. A batch with fewer rows may fit.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    /// Begins a batch.
    pub(crate) fn renew(&self) {
        for column in self.columns().values_mut() {
            (column.earlier_bytes, column.earlier_values) = (0, 0);
        }
    }

    fn columns(&self) -> MutexGuard<'_, HashMap<usize, Column>> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a page. Returns whether it fits.
    pub(crate) fn take(&self, (number, place): (usize, &Place), page: Held) -> bool {
        let mut columns = self.columns();
        let column = columns.entry(place.leaf).or_default();
        column.end_page();
        (column.is_flat, column.value_bytes) = (place.is_flat, place.value_bytes);
        if column.place != number {
            // The last dictionary counts until the batch ends, because values in the batch may use
            // it.
            let dictionary = std::mem::take(&mut column.dictionary_bytes);
            column.earlier_bytes = column.earlier_bytes.saturating_add(dictionary);
            column.place = number;
        }
        column.begin_page(page);
        let bytes = columns.values().map(|column| column.bytes(self.rows));
        let fits = bytes.fold(0, u64::saturating_add) <= self.most_bytes;
        if !fits {
            self.is_exceeded.store(true, Ordering::Relaxed);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(leaf: usize, is_flat: bool) -> Place {
        Place {
            bytes: 0..1,
            leaf,
            is_text: true,
            is_flat,
            codec: Compression::UNCOMPRESSED,
            value_bytes: VALUE_BYTES,
            kinds_of_levels: 1,
        }
    }

    fn page(bytes: u64, values: u64, longest: Option<u64>) -> Held {
        Held {
            is_dictionary: longest.is_some(),
            bytes,
            values,
            longest: longest.unwrap_or_default(),
        }
    }

    #[test]
    fn a_batch_takes_no_more_than_its_budget() {
        let budget = MemoryBudget::new(8192, 32 << 20);
        let large = page(8 << 20, 1, None);
        let taken = (0..100).take_while(|leaf| budget.take((*leaf, &column(*leaf, true)), large));
        assert_eq!(taken.count(), 3);
        // A new batch still holds the last page of each column.
        budget.renew();
        assert!(!budget.take((4, &column(4, true)), large));
        assert!(budget.is_exceeded());
    }

    #[test]
    fn a_text_counts_as_often_as_it_may_be_repeated() {
        for (rows, is_flat, fits) in [(8192, true, false), (128, true, true), (128, false, false)] {
            let budget = MemoryBudget::new(rows, 32 << 20);
            let column = column(0, is_flat);
            assert!(budget.take((0, &column), page(1 << 20, 0, Some(64 << 10))));
            assert_eq!(budget.take((0, &column), page(1 << 10, 4096, None)), fits);
        }
    }
}

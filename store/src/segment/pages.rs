//! Gives Parquet's reader the pages of a segment, within limits. That reader believes what a page
//! claims.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use bytes::buf::{Buf, Reader};
use parquet::basic::{Compression, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::reader::{ChunkReader, Length};

use super::verified::Verified;

/// Limit on a page, packed or unpacked. The writer ends pages at 64 KiB and dictionaries at 1 MiB,
/// each with up to 512 values more.
const MOST_PAGE_BYTES: u64 = 16 << 20;
/// Limit on the values of a page: 2048 rows with 2048 buckets each.
const MOST_PAGE_VALUES: u64 = 4 << 20;
/// Limit on the offset indexes. They take some 12 bytes per page, and twice as much when decoded.
const MOST_INDEX_BYTES: u64 = 16 << 20;
/// Memory of a batch with its pages. A query reads up to eight batches at a time, one per thread.
const MOST_BATCH_BYTES: u64 = 32 << 20;
/// Memory of a value without its text: a number and its levels.
const VALUE_BYTES: u64 = 12;
/// Encodings of text: plain, and indexes into a dictionary. The writer uses no others. Some others
/// repeat parts of texts.
const PLAIN: u64 = 0;
const IN_DICTIONARY: [u64; 2] = [2, 8];

/// The positions of the columns of a segment, in order.
#[derive(Debug)]
pub(crate) struct Places(Vec<Place>);

/// The position of a column of a row group.
#[derive(Clone, Debug)]
struct Place {
    bytes: Range<u64>,
    leaf: usize,
    is_text: bool,
    /// A column with one value per row, not a list.
    is_flat: bool,
    is_packed: bool,
}

impl Places {
    /// `None` if two columns share bytes: the limits on a page depend on its column.
    pub(crate) fn of(metadata: &ParquetMetaData) -> Option<Self> {
        let place = |(leaf, column): (usize, &ColumnChunkMetaData)| {
            let (start, length) = column.byte_range();
            Place {
                bytes: start..start.saturating_add(length),
                leaf,
                is_text: column.column_type() == Type::BYTE_ARRAY,
                is_flat: column.column_descr().max_rep_level() == 0,
                is_packed: column.compression() != Compression::UNCOMPRESSED,
            }
        };
        let groups = metadata.row_groups().iter();
        let columns = groups.flat_map(|group| group.columns().iter().enumerate());
        let mut places: Vec<_> = columns.map(place).collect();
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

    fn at(&self, page: &Range<u64>) -> Option<(usize, &Place)> {
        let number = self
            .0
            .partition_point(|place| place.bytes.start <= page.start)
            .checked_sub(1)?;
        let place = self.0.get(number)?;
        (page.end <= place.bytes.end).then_some((number, place))
    }
}

/// Memory of the batch that is being read.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    rows: u64,
    columns: Mutex<HashMap<usize, Column>>,
    is_exceeded: AtomicBool,
}

/// Memory of a column. Its reader holds a page and a dictionary, and the batch holds values of
/// earlier pages.
#[derive(Debug, Default)]
struct Column {
    /// Index of the row group's column that is being read.
    place: usize,
    dictionary_bytes: u64,
    page_bytes: u64,
    page_values: u64,
    /// Length of the longest text in its dictionaries.
    longest: u64,
    earlier_bytes: u64,
    earlier_values: u64,
    is_flat: bool,
}

impl Column {
    /// Memory of the current page, and of those before it in the same batch.
    fn bytes(&self, rows: u64) -> u64 {
        let values = self.page_values + self.earlier_values;
        let values = if self.is_flat {
            values.min(rows)
        } else {
            values
        };
        let decoded = values.saturating_mul(VALUE_BYTES + self.longest);
        decoded.saturating_add(self.dictionary_bytes + self.page_bytes + self.earlier_bytes)
    }

    fn end_page(&mut self) {
        self.earlier_bytes += std::mem::take(&mut self.page_bytes);
        self.earlier_values += std::mem::take(&mut self.page_values);
    }
}

impl MemoryBudget {
    /// The budget of batches of `rows` rows.
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            rows: rows as u64,
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

    /// Counts a page. Returns whether it fits. For a dictionary, `longest` is its longest text.
    fn take(&self, (number, place): (usize, &Place), page: &Claims, longest: u64) -> bool {
        let mut columns = self.columns();
        let column = columns.entry(place.leaf).or_default();
        column.end_page();
        column.is_flat = place.is_flat;
        if column.place != number {
            // The last dictionary counts until the batch ends, because values in the batch may use
            // it.
            column.earlier_bytes += std::mem::take(&mut column.dictionary_bytes);
            column.place = number;
        }
        match page.is_dictionary {
            true => {
                column.dictionary_bytes = page.bytes;
                // The batch may still have texts of the dictionary before.
                column.longest = match column.earlier_values {
                    0 => longest,
                    _ => longest.max(column.longest),
                };
            }
            false => {
                column.page_bytes = page.bytes;
                column.page_values = page.values;
            }
        }
        let bytes = columns.values().map(|column| column.bytes(self.rows));
        let fits = bytes.fold(0, u64::saturating_add) <= MOST_BATCH_BYTES;
        if !fits {
            self.is_exceeded.store(true, Ordering::Relaxed);
        }
        fits
    }
}

/// Gives Parquet's reader the offset indexes, which the footer refers to.
pub(crate) struct Indexes<'v>(pub(crate) &'v Verified);

impl Length for Indexes<'_> {
    fn len(&self) -> u64 {
        self.0.bytes
    }
}

impl ChunkReader for Indexes<'_> {
    type T = Reader<Bytes>;

    fn get_read(&self, _: u64) -> Result<Self::T, ParquetError> {
        Err(self.0.trace.fail(NO_INDEX).into())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        if length as u64 > MOST_INDEX_BYTES {
            return Err(self
                .0
                .trace
                .fail("its indexes are longer than any can be")
                .into());
        }
        Ok(self.0.read(start, length as u64)?)
    }
}

/// The pages of a segment. Each column has an offset index, so pages are read whole.
pub(crate) struct Pages {
    pub(crate) file: Verified,
    pub(crate) places: Arc<Places>,
    pub(crate) budget: Arc<MemoryBudget>,
}

impl Length for Pages {
    fn len(&self) -> u64 {
        self.file.bytes
    }
}

impl ChunkReader for Pages {
    type T = Reader<Bytes>;

    fn get_read(&self, _: u64) -> Result<Self::T, ParquetError> {
        Err(self.file.trace.fail(NO_INDEX).into())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let trace = &self.file.trace;
        if length as u64 > MOST_PAGE_BYTES {
            return Err(trace
                .fail("a page claims to be longer than any can be")
                .into());
        }
        let bytes = self.file.read(start, length as u64)?;
        let fail = |why: &str| ParquetError::from(trace.fail(why));
        let place = self.places.at(&(start..start + length as u64));
        let place = place.ok_or_else(|| fail("a page is in none of its columns"))?;
        let page = Claims::of(&bytes).ok_or_else(|| fail("the header of a page is damaged"))?;
        if page.bytes > MOST_PAGE_BYTES || page.values > MOST_PAGE_VALUES {
            return Err(fail("a page claims to hold more than any can"));
        }
        let longest = match place.1.is_text {
            true => page.longest(&bytes, place.1.is_packed),
            false => Some(0),
        };
        let longest = longest.ok_or_else(|| fail("a page of text cannot be decoded"))?;
        if !self.budget.take(place, &page, longest) {
            return Err(ParquetError::General(TOO_MUCH.to_owned()));
        }
        trace.pages.fetch_add(1, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// A batch with the fewest rows exceeds the budget.
pub(crate) const TOO_MUCH: &str = "its pages claim to hold more than they can";

/// Without an offset index, Parquet's reader asks for a range without an end.
const NO_INDEX: &str = "it does not say where its pages are";

/// The contents of a page's header.
#[derive(Debug, PartialEq, Eq)]
struct Claims {
    /// Unpacked size.
    bytes: u64,
    values: u64,
    encoding: u64,
    is_dictionary: bool,
    /// Length of the header. Only used for dictionaries.
    header_bytes: usize,
}

impl Claims {
    /// Parses the start of a `PageHeader` (`parquet.thrift`) in Thrift's compact protocol. A field
    /// is a byte, with the difference to the number of the field before and the type, and then a
    /// value. `None` if it is not as the writer of segments makes it.
    fn of(whole: &[u8]) -> Option<Self> {
        let mut page = whole;
        const NUMBER: u8 = 5;
        const STRUCT: u8 = 12;
        let number = |page: &mut &[u8]| {
            let is_next = page.try_get_u8().ok()? == 1 << 4 | NUMBER;
            u64::try_from(zigzag(page)?).ok().filter(|_| is_next)
        };
        // Fields 1 to 3: type, unpacked bytes, packed bytes.
        let kind = number(&mut page)?;
        let bytes = number(&mut page)?;
        number(&mut page)?;
        // Field 5 is the header of a data page, 7 that of a dictionary. Both begin with the number
        // of values.
        let (step, is_dictionary) = match kind {
            0 => (2, false),
            2 => (4, true),
            _ => return None,
        };
        if page.try_get_u8().ok()? != step << 4 | STRUCT {
            return None;
        }
        let values = number(&mut page)?;
        let encoding = number(&mut page)?;
        if is_dictionary {
            // Whether it is sorted, which is optional, and the ends of both structures.
            const IS_SORTED: [u8; 2] = [1 << 4 | 1, 1 << 4 | 2];
            let next = page.try_get_u8().ok()?;
            let end = match IS_SORTED.contains(&next) {
                true => page.try_get_u8().ok()?,
                false => next,
            };
            if end != 0 || page.try_get_u8().ok()? != 0 {
                return None;
            }
        }
        Some(Self {
            bytes,
            values,
            encoding,
            is_dictionary,
            header_bytes: whole.len() - page.len(),
        })
    }

    /// Length of the longest text, if this is a dictionary. Otherwise 0, because each text of a
    /// data page is used only once. `None` if it cannot be decoded.
    fn longest(&self, page: &[u8], is_packed: bool) -> Option<u64> {
        if !self.is_dictionary {
            let is_known = self.encoding == PLAIN || IN_DICTIONARY.contains(&self.encoding);
            return is_known.then_some(0);
        }
        let content = page.get(self.header_bytes..)?;
        let unpacked;
        let mut texts = match is_packed {
            true => {
                // The size is limited, so it fits `usize`.
                unpacked = zstd::bulk::decompress(content, self.bytes as usize).ok()?;
                &*unpacked
            }
            false => content,
        };
        let mut longest = 0;
        for _ in 0..self.values {
            let length = texts.try_get_u32_le().ok()?;
            texts = texts.get(length as usize..)?;
            longest = longest.max(length);
        }
        Some(u64::from(longest))
    }
}

/// Reads a signed number of 32 bits.
fn zigzag(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0_u64;
    for shift in (0..35).step_by(7) {
        let byte = bytes.try_get_u8().ok()?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_how_much_is_in_it() {
        // A data page with 64 values, 300 bytes in 200, and a dictionary with one value.
        let data = [
            0x15, 0, 0x15, 0xD8, 0x04, 0x15, 0x90, 0x03, 0x2C, 0x15, 0x80, 0x01, 0x15, 0,
        ];
        let claims = Claims {
            bytes: 300,
            values: 64,
            encoding: 0,
            is_dictionary: false,
            header_bytes: data.len(),
        };
        assert_eq!(Claims::of(&data), Some(claims));
        let dictionary = [
            0x15, 4, 0x15, 18, 0x15, 18, 0x4C, 0x15, 2, 0x15, 0, 0x12, 0, 0, 5, 0, 0, 0, b'a',
            b'b', b'c', b'd', b'e',
        ];
        let claims = Claims::of(&dictionary).unwrap();
        assert_eq!(
            (claims.bytes, claims.values, claims.header_bytes),
            (9, 1, 14)
        );
        assert_eq!(claims.longest(&dictionary, false), Some(5));
        assert_eq!(claims.longest(&dictionary[..20], false), None);
        for cut in 0..data.len() {
            assert_eq!(Claims::of(&data[..cut]), None);
        }
        for cut in 0..14 {
            assert_eq!(Claims::of(&dictionary[..cut]), None);
        }
        let negative = [0x15, 0, 0x15, 1, 0x15, 8, 0x2C, 0x15, 2];
        assert_eq!(Claims::of(&negative), None);
    }

    fn column(leaf: usize, is_flat: bool) -> Place {
        Place {
            bytes: 0..1,
            leaf,
            is_text: true,
            is_flat,
            is_packed: true,
        }
    }

    fn page(bytes: u64, values: u64, is_dictionary: bool) -> Claims {
        Claims {
            bytes,
            values,
            encoding: 0,
            is_dictionary,
            header_bytes: 14,
        }
    }

    #[test]
    fn a_batch_takes_no_more_than_its_budget() {
        let budget = MemoryBudget::new(8192);
        let large = page(MOST_PAGE_BYTES / 2, 1, false);
        let taken =
            (0..100).take_while(|leaf| budget.take((*leaf, &column(*leaf, true)), &large, 0));
        assert_eq!(taken.count(), 3);
        // A new batch still holds the last page of each column.
        budget.renew();
        assert!(!budget.take((4, &column(4, true)), &large, 0));
        assert!(budget.is_exceeded());
    }

    #[test]
    fn a_text_counts_as_often_as_it_may_be_repeated() {
        for (rows, is_flat, fits) in [(8192, true, false), (128, true, true), (128, false, false)] {
            let budget = MemoryBudget::new(rows);
            let column = column(0, is_flat);
            assert!(budget.take((0, &column), &page(1 << 20, 1000, true), 64 << 10));
            assert_eq!(
                budget.take((0, &column), &page(1 << 10, 4096, false), 0),
                fits
            );
        }
    }
}

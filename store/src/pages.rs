//! The pages of a segment as Parquet's reader asks for them, within bounds: what a page claims is believed by that reader.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use bytes::buf::{Buf, Reader};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use crate::verified::Verified;

/// No page is longer, packed or unpacked. The writer ends one at 64 KiB, a dictionary at 1 MiB, each with up to 512 values more.
const MOST_PAGE_BYTES: u64 = 16 << 20;
/// No page has more values: 2048 rows with all buckets of their histograms have fewer.
const MOST_PAGE_VALUES: u64 = 4 << 20;
/// The pages that a batch of rows takes have no more bytes and no more values, each of which takes some 12 bytes.
const MOST_BATCH_BYTES: u64 = 128 << 20;
const MOST_BATCH_VALUES: u64 = 16 << 20;
/// No batch has more rows.
const MOST_BATCH_ROWS: u64 = 8192;

/// What may still be unpacked for a batch.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    bytes: AtomicU64,
    values: AtomicU64,
}

impl Budget {
    /// Begins a batch.
    pub(crate) fn renew(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.values.store(0, Ordering::Relaxed);
    }

    fn take(&self, page: &Claims) -> Result<(), &'static str> {
        if page.bytes > MOST_PAGE_BYTES || page.values > MOST_PAGE_VALUES {
            return Err("a page claims to hold more than any can");
        }
        let add = |sum: &AtomicU64, more| sum.fetch_add(more, Ordering::Relaxed) + more;
        // Each row may repeat a value of a dictionary.
        let most = match page.is_dictionary {
            true => page.bytes / page.values.max(1) * MOST_BATCH_ROWS,
            false => 0,
        };
        let bytes = add(&self.bytes, page.bytes.max(most));
        let values = add(&self.values, page.values);
        match bytes > MOST_BATCH_BYTES || values > MOST_BATCH_VALUES {
            true => Err("its pages claim to hold more than they can"),
            false => Ok(()),
        }
    }
}

/// What the footer refers to beside pages: the offset indexes, which say where these are.
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
        Ok(self.0.read(start, length as u64)?)
    }
}

/// The pages of a segment. All have an offset index, by which they are read whole.
pub(crate) struct Pages {
    pub(crate) file: Verified,
    pub(crate) budget: Arc<Budget>,
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
        let page = self.file.read(start, length as u64)?;
        let claims = Claims::of(&page).ok_or("the header of a page is damaged");
        let taken = claims.and_then(|claims| self.budget.take(&claims));
        taken.map_err(|why| trace.fail(why))?;
        trace.pages.fetch_add(1, Ordering::Relaxed);
        Ok(page)
    }
}

/// Parquet's reader asks for what has no end where a column has no pages.
const NO_INDEX: &str = "it does not say where its pages are";

/// What the header of a page says of it.
#[derive(Debug, PartialEq, Eq)]
struct Claims {
    /// Unpacked.
    bytes: u64,
    values: u64,
    is_dictionary: bool,
}

impl Claims {
    /// Reads the beginning of a `PageHeader` (`parquet.thrift`) in Thrift's compact protocol: a field is a byte, the step from
    /// the number of the one before and its type, and its value. `None` if it is not as the writer of segments makes them.
    fn of(mut page: &[u8]) -> Option<Self> {
        const NUMBER: u8 = 5;
        const STRUCT: u8 = 12;
        let number = |page: &mut &[u8]| {
            let is_next = page.try_get_u8().ok()? == 1 << 4 | NUMBER;
            u64::try_from(zigzag(page)?).ok().filter(|_| is_next)
        };
        // Fields 1 to 3: type, bytes unpacked, bytes packed.
        let kind = number(&mut page)?;
        let bytes = number(&mut page)?;
        number(&mut page)?;
        // Field 5 is the header of a data page, 7 that of a dictionary. Either begins with how many values there are.
        let (step, is_dictionary) = match kind {
            0 => (2, false),
            2 => (4, true),
            _ => return None,
        };
        if page.try_get_u8().ok()? != step << 4 | STRUCT {
            return None;
        }
        let values = number(&mut page)?;
        Some(Self {
            bytes,
            values,
            is_dictionary,
        })
    }
}

/// A signed number of 32 bits.
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
        // A data page of 300 bytes in 200 with 64 values, and a dictionary of one value.
        let data = [
            0x15, 0, 0x15, 0xD8, 0x04, 0x15, 0x90, 0x03, 0x2C, 0x15, 0x80, 0x01,
        ];
        let claims = |bytes, values, is_dictionary| {
            Some(Claims {
                bytes,
                values,
                is_dictionary,
            })
        };
        assert_eq!(Claims::of(&data), claims(300, 64, false));
        let dictionary = [0x15, 4, 0x15, 8, 0x15, 8, 0x4C, 0x15, 2, 0x15];
        assert_eq!(Claims::of(&dictionary), claims(4, 1, true));
        for cut in 0..data.len() {
            assert_eq!(Claims::of(&data[..cut]), None);
        }
        let negative = [0x15, 0, 0x15, 1, 0x15, 8, 0x2C, 0x15, 2];
        assert_eq!(Claims::of(&negative), None);
    }

    #[test]
    fn a_batch_takes_no_more_than_its_budget() {
        let budget = Budget::default();
        let page = Claims {
            bytes: MOST_PAGE_BYTES,
            values: 1,
            is_dictionary: false,
        };
        let taken = (0..100).take_while(|_| budget.take(&page).is_ok()).count();
        assert_eq!(taken as u64, MOST_BATCH_BYTES / MOST_PAGE_BYTES);
        budget.renew();
        assert_eq!(budget.take(&page), Ok(()));
        let values = MOST_PAGE_VALUES + 1;
        assert!(budget.take(&Claims { values, ..page }).is_err());
        let dictionary = Claims {
            bytes: 1 << 20,
            values: 1,
            is_dictionary: true,
        };
        assert!(budget.take(&dictionary).is_err());
    }
}

//! Supplies Parquet's reader with the pages of a segment, within limits, because that reader trusts what a page claims.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use bytes::buf::Reader;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::verified::Verified;
use crate::parquet_file::budget::{MemoryBudget, Places};
use crate::parquet_file::claims::Claims;

/// Limit on a page, packed or unpacked. The writer ends pages at 64 KiB and dictionaries at 1 MiB,
/// each with up to 512 values more.
const MOST_PAGE_BYTES: u64 = 16 << 20;
/// Limit on the values of a page: 2048 rows with 2048 buckets each.
const MOST_PAGE_VALUES: u64 = 4 << 20;
/// Limit on the offset indexes. They take some 12 bytes per page, and twice as much when decoded.
const MOST_INDEX_BYTES: u64 = 16 << 20;
/// Memory of a batch with its pages. A query reads up to eight batches at a time, one per thread.
pub(crate) const MOST_BATCH_BYTES: u64 = 32 << 20;
/// Supplies Parquet's reader with the offset indexes that the footer refers to.
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
        if !page.is_within(MOST_PAGE_BYTES, MOST_PAGE_VALUES) {
            return Err(fail("a page claims to hold more than any can"));
        }
        let held = page.held(&bytes[page.header_bytes..], place.1);
        let held = held.ok_or_else(|| fail("a page of text cannot be decoded"))?;
        if !self.budget.take(place, held) {
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

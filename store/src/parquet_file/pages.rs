//! Supplies Parquet's reader with the pages of a file, within limits.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::budget::{MemoryBudget, Places};
use super::claims::Claims;
use crate::read_memory::{beyond_limit, most_decoded_bytes};
use crate::segment::checksum::{BlockSums, CREATED_BY, NoSums, TRAILER_BYTES, bytes_of, footer_at};
use crate::segment::verified::{Trace, Verified};

/// Longest header. It may hold the largest and the smallest text of its page.
const MOST_HEADER_BYTES: u64 = 1 << 20;
/// Most headers are shorter.
const HEADER_BYTES: u64 = 512;

/// A file with random access.
pub(super) enum Source {
    /// With checksums.
    Summed(Verified),
    Plain {
        file: File,
        bytes: u64,
        data_bytes: u64,
        trace: Trace,
        /// Why it has no checksums.
        unsummed: &'static str,
    },
}

impl Source {
    /// The file, and its footer.
    pub(super) fn of(file: File, path: &Path) -> Result<(Self, Vec<u8>), String> {
        let cannot = |error: io::Error| format!("it cannot be read: {error}");
        let bytes = file.metadata().map_err(cannot)?.len();
        let footer_at = footer_at(&file, bytes).map_err(cannot)?;
        let footer_at = footer_at
            .ok_or("it does not end as a Parquet file does; it is another file, or is cut off")?;
        if bytes - footer_at > most_decoded_bytes() {
            return Err(format!("its footer takes {}", beyond_limit()));
        }
        let unsummed = match BlockSums::read(&file, bytes) {
            Ok((sums, footer)) => {
                let verified = Verified::of(file, path, bytes, sums);
                return Ok((Self::Summed(verified), footer));
            }
            Err(NoSums::Damaged(why)) => why,
            Err(NoSums::Io(error)) => return Err(cannot(error)),
        };
        let footer = bytes_of(&file, footer_at, bytes - TRAILER_BYTES).map_err(cannot)?;
        let source = Self::Plain {
            file,
            bytes,
            data_bytes: footer_at,
            trace: Trace::default(),
            unsummed,
        };
        Ok((source, footer))
    }

    /// Checks that a file of this program has checksums. Other programs drop metadata that they do not know, or keep
    /// checksums that no longer match.
    pub(super) fn check_writer(&self, created_by: Option<&str>) -> Result<(), String> {
        match self {
            Self::Plain { unsummed, .. }
                if created_by.is_some_and(|name| name.starts_with(CREATED_BY)) =>
            {
                Err(format!(
                    "it is damaged: {unsummed}; export it again, or restore it from a copy"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Length of the file.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Summed(verified) => verified.bytes,
            Self::Plain { bytes, .. } => *bytes,
        }
    }

    /// Number of bytes before the footer.
    pub(super) fn data_bytes(&self) -> u64 {
        match self {
            Self::Summed(verified) => verified.data_bytes(),
            Self::Plain { data_bytes, .. } => *data_bytes,
        }
    }

    fn read(&self, start: u64, end: u64) -> io::Result<Bytes> {
        match self {
            Self::Summed(verified) => verified.read(start, end.saturating_sub(start)),
            Self::Plain { file, .. } => Ok(bytes_of(file, start, end.max(start))?.into()),
        }
    }

    fn trace(&self) -> &Trace {
        match self {
            Self::Summed(verified) => &verified.trace,
            Self::Plain { trace, .. } => trace,
        }
    }

    /// Records why reading fails.
    fn fail(&self, why: impl ToString) -> io::Error {
        self.trace().fail(why)
    }

    /// The recorded failure. Without one, the reader's error.
    pub(super) fn why(&self, error: String) -> String {
        let why = self.trace().why(error);
        match self {
            Self::Summed(_) => {
                format!("{why}; if it is damaged, export it again or restore it from a copy")
            }
            Self::Plain { .. } => why,
        }
    }
}

/// The pages of a file, for one reader of it.
#[derive(Clone)]
pub(super) struct FilePages {
    source: Arc<Source>,
    places: Arc<Places>,
    budget: Arc<MemoryBudget>,
    /// The claims of headers that were read, by page offset.
    headers: Arc<Mutex<HashMap<u64, Claims>>>,
}

impl FilePages {
    pub(super) fn new(source: Arc<Source>, places: Arc<Places>, budget: Arc<MemoryBudget>) -> Self {
        Self {
            source,
            places,
            budget,
            headers: Arc::default(),
        }
    }

    fn with_headers<T>(&self, act: impl FnOnce(&mut HashMap<u64, Claims>) -> T) -> T {
        act(&mut self.headers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads and remembers the header of a page.
    fn header(&self, start: u64) -> io::Result<Bytes> {
        let place = self.places.at(&(start..start + 1));
        let (_, place) =
            place.ok_or_else(|| self.source.fail("a page is in none of its columns"))?;
        let mut length = HEADER_BYTES;
        loop {
            let end = place.end().min(start + length);
            let bytes = self.source.read(start, end)?;
            if let Some(claims) = Claims::of(&bytes) {
                let header = bytes.slice(..claims.header_bytes);
                let page_at = start + header.len() as u64;
                self.with_headers(|headers| headers.insert(page_at, claims));
                return Ok(header);
            }
            if end < start + length || length >= MOST_HEADER_BYTES {
                return Err(self.source.fail("the header of a page is damaged"));
            }
            length *= 8;
        }
    }
}

impl Length for FilePages {
    fn len(&self) -> u64 {
        self.source.bytes()
    }
}

impl ChunkReader for FilePages {
    type T = HeaderReader;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(HeaderReader {
            pages: self.clone(),
            start,
            header: None,
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let source = &self.source;
        let fail = |why: &str| ParquetError::from(source.fail(why));
        let claims = self.with_headers(|headers| headers.remove(&start));
        let claims = claims.filter(|claims| claims.packed_bytes() == length as u64);
        let claims = claims.ok_or_else(|| fail("a page has no header"))?;
        let end = start + length as u64;
        let place = self.places.at(&(start..end));
        let place = place.ok_or_else(|| fail("a page is in none of its columns"))?;
        let most = most_decoded_bytes();
        if !claims.is_within(most, most) {
            return Err(fail(&format!("a page of it takes {}", beyond_limit())));
        }
        let page = source
            .read(start, end)
            .map_err(|error| source.fail(error))?;
        let held = claims.held(&page, place.1);
        let held = held.ok_or_else(|| fail("a page of it cannot be decoded"))?;
        if !self.budget.take(place, held) {
            let why = format!("a page of it takes {}", beyond_limit());
            return Err(ParquetError::General(why));
        }
        Ok(page)
    }
}

/// Reads the header of a page. The decoder also asks for readers that it does not use.
pub(super) struct HeaderReader {
    pages: FilePages,
    start: u64,
    header: Option<Cursor<Bytes>>,
}

impl Read for HeaderReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let header = match &mut self.header {
            Some(header) => header,
            None => {
                let header = self.pages.header(self.start)?;
                self.header.insert(Cursor::new(header))
            }
        };
        header.read(buffer)
    }
}

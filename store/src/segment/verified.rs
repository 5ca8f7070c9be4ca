//! A segment's file, of which nothing is handed out that does not match its checksum.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use super::checksum::{BlockSums, NoSums};
use crate::error::StoreError;

/// A file of so little data is read in one piece: its pages are small, and each read is of whole blocks.
const SMALL_BYTES: u64 = 64 << 10;
/// Nothing that is read at once is longer: pages have 64 KiB, and the offset indexes of a gigabyte some MB.
const MOST_BYTES: u64 = 64 << 20;
/// What is read at a time of a whole file.
const CHUNK_BYTES: u64 = 256 << 10;

/// What came of reading a file.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) bytes: AtomicU64,
    pub(crate) pages: AtomicU64,
    /// Why reading failed first. On its way through Parquet's reader an error becomes a text that names that reader.
    failure: OnceLock<String>,
}

impl Trace {
    /// Notes why reading fails.
    pub(crate) fn fail(&self, why: impl ToString) -> io::Error {
        let why = self.failure.get_or_init(|| why.to_string());
        io::Error::new(io::ErrorKind::InvalidData, why.clone())
    }

    /// Why reading failed; else what the reader says.
    pub(crate) fn why(&self, error: impl ToString) -> String {
        let failure = self.failure.get().cloned();
        failure.unwrap_or_else(|| error.to_string())
    }
}

/// A segment's file. Whatever is read of it was verified.
#[derive(Debug)]
pub(crate) struct Verified {
    file: Arc<File>,
    path: PathBuf,
    pub(crate) bytes: u64,
    sums: Arc<BlockSums>,
    pub(crate) trace: Arc<Trace>,
    /// What was read last, and where it begins: small pages share blocks.
    last: Mutex<(u64, Bytes)>,
}

impl Verified {
    /// Verifies the end of a file; returns its footer as well.
    pub(crate) fn open(file: File, path: &Path) -> Result<(Self, Vec<u8>), StoreError> {
        let cannot_be_read = |error| damaged(path, format!("it cannot be read: {error}"));
        let bytes = file.metadata().map_err(cannot_be_read)?.len();
        let (sums, footer) = BlockSums::read(&file, bytes).map_err(|error| match error {
            NoSums::Damaged(why) => damaged(path, why),
            NoSums::Io(error) => cannot_be_read(error),
        })?;
        let verified = Self {
            file: Arc::new(file),
            path: path.to_owned(),
            bytes,
            trace: Arc::default(),
            last: Mutex::default(),
            sums: Arc::new(sums),
        };
        verified.count(bytes - verified.sums.data_bytes);
        Ok((verified, footer))
    }

    /// The same, which remembers nothing that was read.
    pub(crate) fn again(&self) -> Self {
        Self {
            file: Arc::clone(&self.file),
            path: self.path.clone(),
            bytes: self.bytes,
            trace: Arc::clone(&self.trace),
            last: Mutex::default(),
            sums: Arc::clone(&self.sums),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Length of what is before the checksums.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.sums.data_bytes
    }

    /// The sum that stands for all of the file.
    pub(crate) fn crc32c(&self) -> u32 {
        self.sums.crc32c
    }

    /// Some of the data. A damaged file can name any range.
    pub(crate) fn read(&self, start: u64, length: u64) -> io::Result<Bytes> {
        let end = start.saturating_add(length);
        if end > self.sums.data_bytes || length > MOST_BYTES {
            let why = format!("it has no {length} bytes of data from byte {start} on");
            return Err(self.trace.fail(why));
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if start < last.0 || end > last.0 + last.1.len() as u64 {
            let (from, to) = match self.sums.data_bytes <= SMALL_BYTES {
                true => (0, self.sums.data_bytes),
                false => self.sums.blocks(start, end),
            };
            *last = (from, self.blocks(from, to)?.into());
        }
        // Neither is longer than what was read.
        let within = (start - last.0) as usize;
        Ok(last.1.slice(within..within + length as usize))
    }

    /// Whole blocks.
    fn blocks(&self, start: u64, end: u64) -> io::Result<Vec<u8>> {
        let length = usize::try_from(end - start).map_err(io::Error::other)?;
        let mut blocks = vec![0; length];
        let read = self.file.read_exact_at(&mut blocks, start);
        read.map_err(|error| self.trace.fail(format!("it cannot be read: {error}")))?;
        let verified = self.sums.verify(start, &blocks);
        verified.map_err(|why| self.trace.fail(why))?;
        self.count(end - start);
        Ok(blocks)
    }

    fn count(&self, bytes: u64) {
        self.trace.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Verifies all of it.
    pub(crate) fn verify(&self) -> Result<(), StoreError> {
        let mut start = 0;
        while start < self.sums.data_bytes {
            let (_, end) = self.sums.blocks(start, start + CHUNK_BYTES);
            let verified = self.blocks(start, end);
            verified.map_err(|error| damaged(&self.path, error))?;
            start = end;
        }
        Ok(())
    }
}

/// Says that a segment does not hold what it should.
pub(crate) fn damaged(path: &Path, why: impl ToString) -> StoreError {
    StoreError::DamagedSegment {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

/// Says that a segment's file cannot be opened; what is none is damage.
pub(crate) fn cannot_open(path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::InvalidData => damaged(path, error),
        _ => StoreError::io("open segment", path)(error),
    }
}

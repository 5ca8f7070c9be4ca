//! The file of a segment. It verifies everything that is read.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;

use super::checksum::{BlockSums, NoSums};
use crate::error::StoreError;

/// A file with at most this much data is read at once, because its pages are small and reads take whole blocks.
const SMALL_BYTES: u64 = 64 << 10;
/// Limit on one read: pages have 64 KiB, and the offset indexes of a gigabyte have some MB.
const MOST_BYTES: u64 = 64 << 20;
/// Bytes per read when a whole file is verified.
const CHUNK_BYTES: u64 = 256 << 10;

/// Statistics of reading a file, and the first failure.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) bytes: AtomicU64,
    pub(crate) pages: AtomicU64,
    /// The first failure. An error that passes through Parquet's reader becomes a text that blames that reader.
    failure: OnceLock<String>,
}

impl Trace {
    /// Records why reading fails.
    pub(crate) fn fail(&self, why: impl ToString) -> io::Error {
        let why = self.failure.get_or_init(|| why.to_string());
        io::Error::new(io::ErrorKind::InvalidData, why.clone())
    }

    /// The recorded failure. Without one, the reader's error.
    pub(crate) fn why(&self, error: impl ToString) -> String {
        let failure = self.failure.get().cloned();
        failure.unwrap_or_else(|| error.to_string())
    }
}

/// A segment's file. Everything that is read from it is verified.
#[derive(Debug)]
pub(crate) struct Verified {
    file: Arc<File>,
    path: PathBuf,
    pub(crate) bytes: u64,
    sums: Arc<BlockSums>,
    pub(crate) trace: Arc<Trace>,
    /// Offset and content of the last read, because small pages share blocks.
    last: Mutex<(u64, Bytes)>,
}

impl Verified {
    /// Verifies the end of a file. Also returns the footer.
    pub(crate) fn open(file: File, path: &Path) -> Result<(Self, Vec<u8>), StoreError> {
        let cannot_be_read = |error| damaged(path, format!("it cannot be read: {error}"));
        let bytes = file.metadata().map_err(cannot_be_read)?.len();
        let (sums, footer) = BlockSums::read(&file, bytes).map_err(|error| match error {
            NoSums::Damaged(why) => damaged(path, why),
            NoSums::Io(error) => cannot_be_read(error),
        })?;
        let verified = Self::of(file, path, bytes, sums);
        verified.count(bytes - verified.sums.data_bytes);
        Ok((verified, footer))
    }

    /// A file of `bytes` bytes whose end was verified.
    pub(crate) fn of(file: File, path: &Path, bytes: u64, sums: BlockSums) -> Self {
        Self {
            file: Arc::new(file),
            path: path.to_owned(),
            bytes,
            trace: Arc::default(),
            last: Mutex::default(),
            sums: Arc::new(sums),
        }
    }

    /// The same file, without its last read.
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

    /// Number of bytes before the checksums.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.sums.data_bytes
    }

    /// The checksum that covers the whole file.
    pub(crate) fn crc32c(&self) -> u32 {
        self.sums.crc32c
    }

    /// Reads data. A damaged file can ask for any range.
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
        // Both fit `usize`, because they are within the bytes of the last read.
        let within = (start - last.0) as usize;
        Ok(last.1.slice(within..within + length as usize))
    }

    /// Reads and verifies whole blocks.
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

    /// Verifies the whole file.
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

pub(crate) fn damaged(path: &Path, why: impl ToString) -> StoreError {
    StoreError::DamagedSegment {
        path: path.to_owned(),
        why: why.to_string(),
    }
}

/// The error of opening a segment's file. Anything but a regular file is damage.
pub(crate) fn cannot_open(path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::InvalidData => damaged(path, error),
        _ => StoreError::io("open segment", path)(error),
    }
}

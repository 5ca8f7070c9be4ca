//! Limits the length of records, such as lines of CSV, while a parser reads a text.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of a record. Paths have at most 4 KiB.
const MOST_BYTES: u64 = 4 << 20;
/// A parser reads ahead less than this.
const AHEAD_BYTES: u64 = 1 << 20;

/// A text whose parser calls [`RecordEnds::ended`] after each record.
pub struct RecordLimit<R> {
    input: R,
    since: Arc<AtomicU64>,
}

/// Reports the ends of records to the limit.
#[derive(Clone)]
pub struct RecordEnds(Arc<AtomicU64>);

impl<R: Read> RecordLimit<R> {
    /// Wraps a text.
    pub fn new(input: R) -> (Self, RecordEnds) {
        let since = Arc::new(AtomicU64::new(0));
        let ends = RecordEnds(Arc::clone(&since));
        (Self { input, since }, ends)
    }
}

impl RecordEnds {
    /// Call this after a record was read completely.
    pub fn ended(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl<R: Read> Read for RecordLimit<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.since.load(Ordering::Relaxed) > MOST_BYTES + AHEAD_BYTES {
            return Err(io::Error::other(
                "a line has more than 4 MiB; check that the file is CSV and its quotes are closed",
            ));
        }
        let read = self.input.read(buffer)?;
        self.since.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_does_not_end_is_an_error_and_many_are_not() {
        let (endless, _) = RecordLimit::new(io::repeat(b'x'));
        let why = io::copy(&mut { endless }, &mut io::sink()).unwrap_err();
        assert!(why.to_string().contains("4 MiB"), "{why}");
        let (mut many, ends) = RecordLimit::new(io::repeat(b'x').take(64 << 20));
        let mut buffer = [0; 8192];
        while many.read(&mut buffer).unwrap() > 0 {
            ends.ended();
        }
    }
}

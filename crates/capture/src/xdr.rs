//! XDR (RFC 4506) over a record whose bytes are only partly known.
//!
//! The data of a record is not kept: the reader asks for the next bytes it needs, and skips the others.

/// Why a value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdrError {
    /// The byte at this position of the record is not there (yet).
    Missing(u64),
    /// The protocol does not allow this value.
    Malformed,
}

/// Result of reading.
pub type Xdr<T> = Result<T, XdrError>;

/// A contiguous run of bytes in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Its position in the record.
    at: u64,
    /// Its position in [`SparseRecord::bytes`].
    from: usize,
}

/// The known bytes of a record, in ascending order.
#[derive(Clone, Debug, Default)]
pub struct SparseRecord {
    bytes: Vec<u8>,
    extents: Vec<Extent>,
    forgotten: usize,
}

/// Capacity that is kept for the next record.
const KEPT_CAPACITY: usize = 16 << 10;

impl SparseRecord {
    /// Starts another record.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.extents.clear();
        self.forgotten = 0;
    }

    /// Drops the bytes, but not their number.
    pub fn forget(&mut self) {
        let known = self.known();
        self.clear();
        self.forgotten = known;
    }

    /// Number of bytes that were added.
    pub fn known(&self) -> usize {
        self.bytes.len() + self.forgotten
    }

    /// Number of bytes in memory.
    pub fn kept(&self) -> usize {
        self.bytes.len()
    }

    /// The end of the last known byte in the record.
    fn end(&self) -> u64 {
        self.extents
            .last()
            .map_or(0, |last| last.at + (self.bytes.len() - last.from) as u64)
    }

    /// Adds bytes at `at`, which must not be before the end of the known bytes.
    pub fn push(&mut self, at: u64, bytes: &[u8]) {
        if self.extents.is_empty() || at != self.end() {
            let from = self.bytes.len();
            self.extents.push(Extent { at, from });
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The known bytes from `at` on, at most `len`.
    fn from(&self, at: u64, len: usize) -> &[u8] {
        let after = self.extents.partition_point(|extent| extent.at <= at);
        let Some(index) = after.checked_sub(1) else {
            return &[];
        };
        let extent = self.extents[index];
        let end = self
            .extents
            .get(after)
            .map_or(self.bytes.len(), |next| next.from);
        let Ok(skip) = usize::try_from(at - extent.at) else {
            return &[];
        };
        let begin = extent.from.saturating_add(skip).min(end);
        &self.bytes[begin..end.min(begin.saturating_add(len))]
    }
}

/// Reads a record from its beginning.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    record: &'a SparseRecord,
    at: u64,
}

impl<'a> Reader<'a> {
    /// A reader at the first byte of the record.
    pub fn new(record: &'a SparseRecord) -> Self {
        Self { record, at: 0 }
    }

    /// Position of the next value.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Moves to another position.
    pub fn seek(&mut self, at: u64) {
        self.at = at;
    }

    fn take(&mut self, len: usize) -> Xdr<&'a [u8]> {
        let bytes = self.record.from(self.at, len);
        if bytes.len() < len {
            return Err(XdrError::Missing(self.at + bytes.len() as u64));
        }
        self.at += len as u64;
        Ok(bytes)
    }

    /// A 32-bit number.
    pub fn u32(&mut self) -> Xdr<u32> {
        let bytes = self.take(4)?;
        Ok(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// A 64-bit number.
    pub fn u64(&mut self) -> Xdr<u64> {
        let high = u64::from(self.u32()?);
        Ok(high << 32 | u64::from(self.u32()?))
    }

    /// A Boolean: 0 or 1.
    pub fn bool(&mut self) -> Xdr<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(XdrError::Malformed),
        }
    }

    /// `len` bytes, with their padding.
    pub fn fixed(&mut self, len: usize) -> Xdr<&'a [u8]> {
        let bytes = self.take(len)?;
        self.at += padding(len as u64);
        Ok(bytes)
    }

    /// Bytes that follow their length, at most `most`.
    pub fn opaque(&mut self, most: usize) -> Xdr<&'a [u8]> {
        let len = self.u32()? as usize;
        if len > most {
            return Err(XdrError::Malformed);
        }
        self.fixed(len)
    }

    /// Skips `len` bytes and their padding. They need not be there.
    pub fn skip(&mut self, len: u64) {
        self.at = self.at.saturating_add(len).saturating_add(padding(len));
    }

    /// Skips bytes that follow their length. Returns the length.
    pub fn skip_opaque(&mut self) -> Xdr<u32> {
        let len = self.u32()?;
        self.skip(u64::from(len));
        Ok(len)
    }

    /// Reads a list of at most `most` elements. A Boolean before each element says whether there is one.
    pub fn list(&mut self, most: usize, mut element: impl FnMut(&mut Self) -> Xdr<()>) -> Xdr<()> {
        for _ in 0..most {
            if !self.bool()? {
                return Ok(());
            }
            element(self)?;
        }
        Err(XdrError::Malformed)
    }

    /// Reads an array of at most `most` elements that follow their number.
    pub fn array(&mut self, most: u32, mut element: impl FnMut(&mut Self) -> Xdr<()>) -> Xdr<u32> {
        let len = self.u32()?;
        if len > most {
            return Err(XdrError::Malformed);
        }
        for _ in 0..len {
            element(self)?;
        }
        Ok(len)
    }
}

fn padding(len: u64) -> u64 {
    len.wrapping_neg() & 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_in_the_middle_is_stepped_over_without_being_there() {
        let mut record = SparseRecord::default();
        record.push(0, &[0, 0, 0, 5, 1]);
        record.push(12, &[0, 0, 0, 7]);
        let mut reader = Reader::new(&record);
        assert_eq!(reader.skip_opaque(), Ok(5));
        assert_eq!(reader.u32(), Ok(7));
        assert_eq!(reader.u32(), Err(XdrError::Missing(16)));
        let mut reader = Reader::new(&record);
        assert_eq!(reader.opaque(8), Err(XdrError::Missing(5)));
        assert_eq!(Reader::new(&record).opaque(4), Err(XdrError::Malformed));
    }
}

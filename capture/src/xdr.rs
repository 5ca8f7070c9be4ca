//! XDR (RFC 4506) over a record of which only some bytes are known.
//!
//! A record's data is not kept: who reads it asks for what comes next, and may step over what it does not want.

/// Why a value cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdrError {
    /// The byte at this position of the record is not there (yet).
    Missing(u64),
    /// The value is none that the protocol has.
    Malformed,
}

/// Result of reading.
pub type Xdr<T> = Result<T, XdrError>;

/// Bytes of a record in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    /// Where it begins in the record.
    at: u64,
    /// Where it begins in [`SparseRecord::bytes`].
    from: usize,
}

/// The known bytes of a record, in ascending order.
#[derive(Clone, Debug, Default)]
pub struct SparseRecord {
    bytes: Vec<u8>,
    extents: Vec<Extent>,
    forgotten: usize,
}

/// Memory that is kept for the next record.
const KEPT_CAPACITY: usize = 16 << 10;

impl SparseRecord {
    /// Begins another record.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_CAPACITY);
        self.extents.clear();
        self.forgotten = 0;
    }

    /// Forgets the bytes, but not how many there were.
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

    /// Where the last known byte ends in the record.
    fn end(&self) -> u64 {
        self.extents
            .last()
            .map_or(0, |last| last.at + (self.bytes.len() - last.from) as u64)
    }

    /// Adds bytes that begin at `at`, which is not before the end of what is known.
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

/// Reads a record from its beginning on.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    record: &'a SparseRecord,
    at: u64,
}

impl<'a> Reader<'a> {
    /// At the record's first byte.
    pub fn new(record: &'a SparseRecord) -> Self {
        Self { record, at: 0 }
    }

    /// Where the next value begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Goes on at another byte.
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

    /// 0 or 1.
    pub fn bool(&mut self) -> Xdr<bool> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(XdrError::Malformed),
        }
    }

    /// Bytes of a known number, with their padding.
    pub fn fixed(&mut self, len: usize) -> Xdr<&'a [u8]> {
        let bytes = self.take(len)?;
        self.at += padding(len as u64);
        Ok(bytes)
    }

    /// Bytes with their number before them, at most `most`.
    pub fn opaque(&mut self, most: usize) -> Xdr<&'a [u8]> {
        let len = self.u32()? as usize;
        if len > most {
            return Err(XdrError::Malformed);
        }
        self.fixed(len)
    }

    /// Steps over bytes of a known number and their padding, whether they are there or not.
    pub fn skip(&mut self, len: u64) {
        self.at = self.at.saturating_add(len).saturating_add(padding(len));
    }

    /// Steps over bytes with their number before them, and returns it.
    pub fn skip_opaque(&mut self) -> Xdr<u32> {
        let len = self.u32()?;
        self.skip(u64::from(len));
        Ok(len)
    }

    /// Reads a list whose elements each follow a "there is another one", at most `most`.
    pub fn list(&mut self, most: usize, mut element: impl FnMut(&mut Self) -> Xdr<()>) -> Xdr<()> {
        for _ in 0..most {
            if !self.bool()? {
                return Ok(());
            }
            element(self)?;
        }
        Err(XdrError::Malformed)
    }

    /// Reads an array with its length before it, at most `most`.
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

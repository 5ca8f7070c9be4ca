//! Positions of each file's rows within a segment.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use trackiops_schemas::identity::FileKey;

use crate::varint::{DecodeError, Input, put_u64};

const ZSTD_LEVEL: i32 = 3;
/// Largest unpacked index: enough for a million files. A catalog may claim any number of rows.
const MOST_PLAIN_BYTES: u64 = 16 << 20;

/// Which rows of a segment belong to which file. The rows of a file are contiguous, because a
/// segment is ordered by file key. A file that is not in the index has no row in the segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileIndex {
    /// Ascending keys, each with the number of the row after its last.
    runs: Vec<(FileKey, u64)>,
    /// Rows that may belong to any file: all rows, or 0.
    unknown: u64,
}

/// A file index as the catalog stores it. Unpacking the indexes of all segments would be the
/// slowest part of planning, and a query needs few of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedIndex {
    blob: Option<Arc<[u8]>>,
    rows: u64,
}

impl PackedIndex {
    /// `blob` is the output of [`FileIndex::encode`] for a segment of `rows` rows. Without it, no
    /// row belongs to a file.
    pub(crate) fn new(blob: Option<Vec<u8>>, rows: u64) -> Self {
        Self {
            blob: blob.map(Into::into),
            rows,
        }
    }

    /// The index. If it is damaged or very large, each row may belong to any file.
    pub fn unpack(&self) -> FileIndex {
        match &self.blob {
            None => FileIndex::default(),
            Some(blob) => {
                FileIndex::decode(blob, self.rows).unwrap_or_else(|_| FileIndex::unknown(self.rows))
            }
        }
    }
}

impl FileIndex {
    /// Adds one row. Keys must not descend.
    pub(crate) fn push(&mut self, key: FileKey) {
        let end = self.rows() + 1;
        match self.runs.last_mut() {
            Some((last, last_end)) if *last == key => *last_end = end,
            _ => self.runs.push((key, end)),
        }
    }

    /// As [`Self::push`], but sets `out_of_order` if the key descends.
    pub(crate) fn push_checked(&mut self, key: FileKey, out_of_order: &mut bool) {
        match self.runs.last() {
            Some((last, _)) if *last > key => *out_of_order = true,
            _ => self.push(key),
        }
    }

    /// An index whose rows may belong to any file.
    pub(crate) fn unknown(rows: u64) -> Self {
        Self {
            runs: Vec::new(),
            unknown: rows,
        }
    }

    /// Whether it knows which rows belong to which files.
    pub(crate) fn is_known(&self) -> bool {
        self.unknown == 0
    }

    pub(crate) fn rows(&self) -> u64 {
        self.runs.last().map_or(0, |(_, end)| *end)
    }

    /// Whether it covers no row, as in health segments.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.unknown == 0
    }

    /// The rows of files, as ascending ranges that neither touch nor overlap. `keys` must ascend. For a damaged index,
    /// the ranges include rows of other files.
    pub fn rows_of(&self, keys: &[FileKey]) -> Vec<Range<u64>> {
        if !self.is_known() {
            return std::iter::once(0..self.unknown).collect();
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for key in keys {
            let Ok(at) = self.runs.binary_search_by_key(key, |(key, _)| *key) else {
                continue;
            };
            let start = at.checked_sub(1).map_or(0, |before| self.runs[before].1);
            let end = self.runs[at].1;
            match ranges.last_mut() {
                Some(last) if last.end >= start => last.end = last.end.max(end),
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// The files, ascending.
    pub fn keys(&self) -> impl Iterator<Item = FileKey> + '_ {
        self.runs.iter().map(|(key, _)| *key)
    }

    /// Per file, two varints: the difference to the key before (for the first, to the lowest
    /// possible key), and the number of rows. Compressed with zstd.
    pub(crate) fn encode(&self) -> std::io::Result<Vec<u8>> {
        let mut plain = Vec::new();
        let mut before = (i64::MIN, 0);
        for (key, end) in &self.runs {
            put_u64(&mut plain, key.0.abs_diff(before.0));
            put_u64(&mut plain, end - before.1);
            before = (key.0, *end);
        }
        zstd::bulk::compress(&plain, ZSTD_LEVEL)
    }

    /// Decodes the output of [`Self::encode`] for a segment of `rows` rows.
    pub(crate) fn decode(blob: &[u8], rows: u64) -> Result<Self, DecodeError> {
        // Each file takes two varints of at most 10 bytes and has at least one row, so a valid blob never unpacks to
        // more.
        let most = rows.saturating_mul(20).min(MOST_PLAIN_BYTES);
        let mut plain = Vec::new();
        zstd::stream::Decoder::new(blob)
            .and_then(|decoder| decoder.take(most).read_to_end(&mut plain))
            .map_err(|_| DecodeError::Malformed("a file index does not unpack"))?;
        let mut input = Input::new(&plain);
        let mut index = Self::default();
        let mut before = (i64::MIN, 0_u64);
        while input.remaining() > 0 {
            let (key, end) = (input.u64()?, input.u64()?);
            let is_new_key = key > 0 || index.runs.is_empty();
            before = before
                .0
                .checked_add_unsigned(key)
                .zip(before.1.checked_add(end))
                .filter(|(_, last)| is_new_key && end > 0 && *last <= rows)
                .ok_or(DecodeError::Malformed(
                    "a file index does not fit its segment",
                ))?;
            index.runs.push((FileKey(before.0), before.1));
        }
        if index.rows() == rows {
            Ok(index)
        } else {
            Err(DecodeError::Malformed(
                "a file index does not fit its segment",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(keys: &[i64]) -> FileIndex {
        let mut index = FileIndex::default();
        keys.iter().for_each(|key| index.push(FileKey(*key)));
        index
    }

    #[test]
    fn neighbouring_files_are_one_range() {
        let index = index(&[1, 1, 2, 5, 5, 5, 9]);
        let rows =
            |keys: &[i64]| index.rows_of(&keys.iter().map(|key| FileKey(*key)).collect::<Vec<_>>());
        assert_eq!(rows(&[1, 2]), vec![0..3]);
        assert_eq!(rows(&[1, 5, 7]), vec![0..2, 3..6]);
        assert_eq!(rows(&[0, 3, 10]), vec![]);
        assert_eq!(rows(&[9, 9]), vec![6..7]);
    }

    #[test]
    fn negative_keys_come_first_and_are_as_far_apart_as_any() {
        let keys = [i64::MIN, -1, 0, i64::MAX];
        let index = index(&keys);
        assert_eq!(index.rows_of(&[FileKey(-1), FileKey(0)]), vec![1..3]);
        let blob = index.encode().unwrap();
        assert_eq!(FileIndex::decode(&blob, 4), Ok(index));
    }

    #[test]
    fn an_index_that_unpacks_to_gigabytes_is_none() {
        let zeros = std::io::repeat(0).take(2 << 30);
        let ones = std::io::repeat(1).take(2 << 30);
        for bytes in [zeros, ones] {
            let packed = zstd::encode_all(bytes, 1).unwrap();
            let rows = 1 << 40;
            let before = resident_peak();
            assert!(FileIndex::decode(&packed, rows).is_err());
            let grown = resident_peak() - before;
            assert!(grown < 512 << 20, "{grown}");
            let index = PackedIndex::new(Some(packed), rows).unpack();
            assert_eq!(index, FileIndex::unknown(rows));
        }
    }

    /// The peak memory of the process, bytes.
    fn resident_peak() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.unwrap().split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() * 1024
    }

    proptest! {
        #[test]
        fn an_index_reads_back(mut keys: Vec<i64>) {
            keys.sort_unstable();
            let index = index(&keys);
            let rows = keys.len() as u64;
            let blob = index.encode().unwrap();
            prop_assert_eq!(FileIndex::decode(&blob, rows), Ok(index));
            prop_assert!(FileIndex::decode(&blob, rows + 1).is_err());
        }

        #[test]
        fn any_bytes_decode_to_an_index_or_an_error(bytes: Vec<u8>, rows: u64) {
            let _ = FileIndex::decode(&bytes, rows);
            let packed = zstd::bulk::compress(&bytes, 1).unwrap();
            let _ = FileIndex::decode(&packed, rows);
        }
    }
}

//! The checksums of a segment: a CRC32C of each block of its data, and one of these and of its footer.
//!
//! ```text
//! data | page indexes | sums | footer | length of the footer u32 | "PAR1"
//! ```
//!
//! `sums` is a CRC32C u32 for each block of 8 KiB of the bytes before it, and their number u32. The key-value metadata in the
//! footer has [`META_CRC32C`] with eight hexadecimal digits: the CRC32C of all from `sums` on, in which the digits count as
//! zeros. They are found without decoding the footer, so that damage to the footer is found before it is decoded.
//!
//! To other readers of Parquet `sums` are bytes that nothing refers to.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use trackiops_schemas::columns::META_CRC32C;

/// What stands in the place of the sum until it is known, and while it is computed.
pub(crate) const UNKNOWN: &str = "00000000";
/// What has a checksum of its own. A query reads whole blocks: larger ones cost more reading, smaller ones more sums.
const BLOCK_BYTES: usize = 8 << 10;
/// What Parquet's metadata have between a key and a value of eight bytes: "a string, the next field", its length
/// (Thrift's compact protocol).
const BETWEEN: [u8; 2] = [0x18, 0x08];
/// At the end of a Parquet file: length of the footer u32, magic.
const TRAILER_BYTES: u64 = 8;
const MAGIC: &[u8] = b"PAR1";
const SUM_BYTES: u64 = 4;

/// A file that is written from its start to its end, and the sums of its blocks.
#[derive(Debug)]
pub(crate) struct Summed {
    file: File,
    sums: Vec<u32>,
    /// Of the last block, which is not full yet.
    open: u32,
    open_bytes: usize,
}

impl Summed {
    pub(crate) fn new(file: File) -> Self {
        Self {
            file,
            sums: Vec::new(),
            open: 0,
            open_bytes: 0,
        }
    }

    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let here = bytes.len().min(BLOCK_BYTES - self.open_bytes);
            let (of_block, rest) = bytes.split_at(here);
            self.open = crc32c::crc32c_append(self.open, of_block);
            self.open_bytes += here;
            if self.open_bytes == BLOCK_BYTES {
                self.sums.push(self.open);
                (self.open, self.open_bytes) = (0, 0);
            }
            bytes = rest;
        }
    }

    /// Puts the sums into a complete Parquet file, before its footer; returns the sum of these. The file must have been opened
    /// for reading as well.
    pub(crate) fn enter(mut self) -> io::Result<(File, u32)> {
        let no_footer = || io::Error::other("it has no footer");
        let length = self.file.metadata()?.len();
        let footer_at = footer_at(&self.file, length)?.ok_or_else(no_footer)?;
        let mut footer = bytes_of(&self.file, footer_at, length)?;
        // Nothing in the footer says where it is, so it can move.
        let block = BLOCK_BYTES as u64;
        self.sums.truncate(to_usize(footer_at / block)?);
        let last = bytes_of(&self.file, footer_at / block * block, footer_at)?;
        if !last.is_empty() {
            self.sums.push(crc32c::crc32c(&last));
        }
        let mut tail = encode(&self.sums);
        let place = place(&footer).ok_or_else(no_footer)?;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&tail), &footer);
        footer[place..place + UNKNOWN.len()].copy_from_slice(format!("{sum:08x}").as_bytes());
        tail.append(&mut footer);
        self.file.write_all_at(&tail, footer_at)?;
        Ok((self.file, sum))
    }
}

impl Write for Summed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.add(&buffer[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn encode(sums: &[u32]) -> Vec<u8> {
    // As many as four bytes can count are of 32 TiB.
    let count = sums.len() as u32;
    let all = sums.iter().chain([&count]);
    all.flat_map(|sum| sum.to_le_bytes()).collect()
}

/// The sums of a segment, and what they are of.
#[derive(Clone, Debug)]
pub(crate) struct BlockSums {
    sums: Vec<u32>,
    /// The bytes of the file that the blocks are of, from its start.
    pub(crate) data_bytes: u64,
    /// The sum of the sums and of the footer.
    pub(crate) crc32c: u32,
}

/// Why the sums of a file are not to be had.
pub(crate) enum NoSums {
    Damaged(&'static str),
    Io(io::Error),
}

impl From<io::Error> for NoSums {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl BlockSums {
    /// Reads and verifies the end of a file of `length` bytes: the sums, and the footer.
    pub(crate) fn read(file: &File, length: u64) -> Result<(Self, Vec<u8>), NoSums> {
        let cut = NoSums::Damaged("its end is not that of a segment");
        let Some(footer_at) = footer_at(file, length)? else {
            return Err(cut);
        };
        // The sums' number follows from where the footer is, so that all can be read at once.
        let before = footer_at.saturating_sub(SUM_BYTES);
        let count = before.div_ceil(BLOCK_BYTES as u64 + SUM_BYTES);
        let Some(data_bytes) = before.checked_sub(count * SUM_BYTES) else {
            return Err(cut);
        };
        let footer_bytes = length - footer_at;
        // A footer has some 16 KB for each row group, which has some 400 KB: one that is longer would only cost memory.
        if footer_bytes > MOST_FOOTER_BYTES + data_bytes / 8 {
            return Err(NoSums::Damaged("its footer is longer than any can be"));
        }
        let mut tail = bytes_of(file, data_bytes, length)?;
        let footer = tail.split_off(to_usize(footer_at - data_bytes)?);
        let Some(place) = place(&footer) else {
            return Err(NoSums::Damaged("its checksum is missing"));
        };
        let digits = place..place + UNKNOWN.len();
        let mut sum = crc32c::crc32c_append(crc32c::crc32c(&tail), &footer[..digits.start]);
        sum = crc32c::crc32c_append(sum, UNKNOWN.as_bytes());
        sum = crc32c::crc32c_append(sum, &footer[digits.end..]);
        let mut sums: Vec<_> = tail
            .chunks_exact(SUM_BYTES as usize)
            .filter_map(|sum| Some(u32::from_le_bytes(sum.try_into().ok()?)))
            .collect();
        let stored = sums.pop();
        if footer[digits] != *format!("{sum:08x}").as_bytes()
            || stored.map(u64::from) != Some(count)
        {
            return Err(NoSums::Damaged("its footer does not match its checksum"));
        }
        let sums = Self {
            sums,
            data_bytes,
            crc32c: sum,
        };
        Ok((sums, footer))
    }

    /// The blocks that have something of a range of the data, in bytes.
    pub(crate) fn blocks(&self, start: u64, end: u64) -> (u64, u64) {
        let block = BLOCK_BYTES as u64;
        let end = end.div_ceil(block).saturating_mul(block);
        (start / block * block, end.min(self.data_bytes))
    }

    /// Whether whole blocks, from the start of one, are as they were written.
    pub(crate) fn verify(&self, start: u64, blocks: &[u8]) -> Result<(), String> {
        let first = usize::try_from(start / BLOCK_BYTES as u64).unwrap_or(usize::MAX);
        let sums = self.sums.iter().skip(first);
        for (i, (block, sum)) in blocks.chunks(BLOCK_BYTES).zip(sums).enumerate() {
            if crc32c::crc32c(block) != *sum {
                let at = start + (i * BLOCK_BYTES) as u64;
                let end = at + block.len() as u64;
                return Err(format!(
                    "its bytes from {at} to {end} do not match their checksum"
                ));
            }
        }
        Ok(())
    }
}

/// More than the footer of any small segment.
const MOST_FOOTER_BYTES: u64 = 1 << 20;

fn to_usize(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(io::Error::other)
}

fn bytes_of(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; to_usize(end - start)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Where the footer of a file of `length` bytes begins; `None` if it does not end as Parquet does.
fn footer_at(file: &File, length: u64) -> io::Result<Option<u64>> {
    let Some(trailer_at) = length.checked_sub(TRAILER_BYTES) else {
        return Ok(None);
    };
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact_at(&mut trailer, trailer_at)?;
    let [a, b, c, d, magic @ ..] = trailer;
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    let footer_at = trailer_at.checked_sub(footer_bytes);
    Ok(footer_at.filter(|_| magic == *MAGIC))
}

/// Where the digits are in a footer. The last place counts: names of files, which may look like it, are before the key-value
/// metadata.
fn place(footer: &[u8]) -> Option<usize> {
    let key: Vec<u8> = META_CRC32C.bytes().chain(BETWEEN).collect();
    let digits_fit = footer.len().checked_sub(UNKNOWN.len())?;
    // Arrow's schema behind it, some KB in base 64, has no byte like the last one of the key.
    let mut ends = memchr::memrchr_iter(BETWEEN[1], &footer[..digits_fit]).map(|last| last + 1);
    ends.find(|end| footer[..*end].ends_with(&key))
}

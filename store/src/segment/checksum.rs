//! Checksums of a segment or an export: a CRC32C per block of data, and one over these checksums and the footer.
//!
//! ```text
//! data | page indexes | sums | footer | length of the footer u32 | "PAR1"
//! ```
//!
//! `sums` has a CRC32C u32 for each 8 KiB of the bytes before it, then the number of these u32. The key-value metadata
//! in the footer have [`META_CRC32C`] with eight hexadecimal digits: the CRC32C of everything from `sums` on, with
//! zeros in place of the digits. The digits are found without decoding the footer, so a damaged footer is detected
//! before it is decoded.
//!
//! Other readers of Parquet ignore `sums`, because nothing refers to it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use trackiops_schemas::columns::{FORMAT_VERSION, META_CRC32C};

/// Prefix of the program's name in the footer of a file that has sums.
pub(crate) const CREATED_BY: &str = "trackiops ";

/// The name of this program, for the footer of a file that has sums. Readers of Parquet expect `NAME version VERSION
/// (build BUILD)`, to work around faults of known writers.
pub fn created_by() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("{CREATED_BY}version {version} (build format-{FORMAT_VERSION})")
}

/// Placeholder for the digits, and their value while the checksum is computed.
pub const UNKNOWN: &str = "00000000";
/// Size of a block. A query reads whole blocks: larger ones cost more reading, smaller ones more sums.
const BLOCK_BYTES: usize = 8 << 10;
/// Bytes between a key and a value of eight bytes in Parquet's metadata (Thrift's compact
/// protocol): the type of the next field, a string, and its length.
const BETWEEN: [u8; 2] = [0x18, 0x08];
/// The end of a Parquet file: length of the footer u32, magic.
pub(crate) const TRAILER_BYTES: u64 = 8;
const MAGIC: &[u8] = b"PAR1";
const SUM_BYTES: u64 = 4;

/// Parquet that is written from start to end, and the checksums of its blocks.
#[derive(Debug)]
pub struct Summed<W> {
    out: W,
    sums: Vec<u32>,
    /// Checksum of the last block, which is not full.
    open: u32,
    open_bytes: usize,
    /// Bytes written since [`Self::hold`].
    tail: Option<Vec<u8>>,
}

impl<W: Write> Summed<W> {
    /// Writes to `out`. The metadata need [`META_CRC32C`] with the value [`UNKNOWN`].
    pub fn new(out: W) -> Self {
        Self {
            out,
            sums: Vec::new(),
            open: 0,
            open_bytes: 0,
            tail: None,
        }
    }

    /// Call this after the last row and before the footer. The footer is held back from now on.
    pub fn hold(&mut self) {
        self.tail.get_or_insert_default();
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

    /// Writes the sums and the footer. Returns the output, and the checksum that covers the file.
    pub fn enter(&mut self) -> io::Result<(&mut W, u32)> {
        let no_footer = || io::Error::other("it has no footer");
        let mut data = self.tail.take().ok_or_else(no_footer)?;
        let footer_at = footer_start(&data, data.len() as u64).ok_or_else(no_footer)?;
        let mut footer = data.split_off(to_usize(footer_at)?);
        self.add(&data);
        self.out.write_all(&data)?;
        if self.open_bytes > 0 {
            self.sums.push(self.open);
        }
        let mut tail = encode(&self.sums);
        let place = place(&footer).ok_or_else(no_footer)?;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&tail), &footer);
        footer[place..place + UNKNOWN.len()].copy_from_slice(format!("{sum:08x}").as_bytes());
        // The footer can move, because nothing in it depends on its position.
        tail.append(&mut footer);
        self.out.write_all(&tail)?;
        self.out.flush()?;
        Ok((&mut self.out, sum))
    }

    /// The output.
    pub fn into_inner(self) -> W {
        self.out
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(buffer);
            return Ok(buffer.len());
        }
        let written = self.out.write(buffer)?;
        self.add(&buffer[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn encode(sums: &[u32]) -> Vec<u8> {
    // 2^32 blocks are 32 TiB.
    let count = sums.len() as u32;
    let all = sums.iter().chain([&count]);
    all.flat_map(|sum| sum.to_le_bytes()).collect()
}

/// The checksums of a segment.
#[derive(Clone, Debug)]
pub(crate) struct BlockSums {
    sums: Vec<u32>,
    /// Number of bytes, from the start of the file, that the blocks cover.
    pub(crate) data_bytes: u64,
    /// The checksum of the sums and the footer.
    pub(crate) crc32c: u32,
}

/// The checksums of a file cannot be read.
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
    /// Reads and verifies the end of a file of `length` bytes. Returns the sums and the footer.
    pub(crate) fn read(file: &File, length: u64) -> Result<(Self, Vec<u8>), NoSums> {
        let cut = NoSums::Damaged("its end is not that of a segment");
        let Some(footer_at) = footer_at(file, length)? else {
            return Err(cut);
        };
        // The number of sums follows from the footer's position, so that one read gets all.
        let before = footer_at.saturating_sub(SUM_BYTES);
        let count = before.div_ceil(BLOCK_BYTES as u64 + SUM_BYTES);
        let Some(data_bytes) = before.checked_sub(count * SUM_BYTES) else {
            return Err(cut);
        };
        let footer_bytes = length - footer_at;
        // A row group of some 400 KB adds some 16 KB to the footer. A longer footer would only cost
        // memory.
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

    /// The range of the whole blocks that contain a range of bytes.
    pub(crate) fn blocks(&self, start: u64, end: u64) -> (u64, u64) {
        let block = BLOCK_BYTES as u64;
        let end = end.div_ceil(block).saturating_mul(block);
        (start / block * block, end.min(self.data_bytes))
    }

    /// Verifies whole blocks. The first one is at `start`.
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

/// Longer than the footer of any small segment.
const MOST_FOOTER_BYTES: u64 = 1 << 20;

fn to_usize(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(io::Error::other)
}

pub(crate) fn bytes_of(file: &File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; to_usize(end - start)?];
    file.read_exact_at(&mut bytes, start)?;
    Ok(bytes)
}

/// Offset of the footer in a file of `length` bytes. `None` if it does not end like a Parquet file.
pub(crate) fn footer_at(file: &File, length: u64) -> io::Result<Option<u64>> {
    let Some(trailer_at) = length.checked_sub(TRAILER_BYTES) else {
        return Ok(None);
    };
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact_at(&mut trailer, trailer_at)?;
    Ok(footer_start(&trailer, length))
}

/// The same, from the last bytes of a file.
pub(crate) fn footer_start(last: &[u8], length: u64) -> Option<u64> {
    let (_, trailer) = last.split_last_chunk::<{ TRAILER_BYTES as usize }>()?;
    let [a, b, c, d, magic @ ..] = *trailer;
    let footer_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    let footer_at = length.checked_sub(TRAILER_BYTES + footer_bytes);
    footer_at.filter(|_| magic == *MAGIC)
}

/// Offset of the digits in a footer. The last match counts: texts of files, which could contain the key, come before
/// the key-value metadata.
fn place(footer: &[u8]) -> Option<usize> {
    let key: Vec<u8> = META_CRC32C.bytes().chain(BETWEEN).collect();
    let digits_fit = footer.len().checked_sub(UNKNOWN.len())?;
    // Arrow's schema follows, some KB in base 64, which never contains the byte searched for.
    let mut ends = memchr::memrchr_iter(BETWEEN[1], &footer[..digits_fit]).map(|last| last + 1);
    ends.find(|end| footer[..*end].ends_with(&key))
}

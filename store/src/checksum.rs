//! The checksum of a segment: CRC32C of the whole file, which is in its own metadata.
//!
//! Its key-value metadata has [`META_CRC32C`] with eight hexadecimal digits, which count as zeros in the sum. They are
//! found without decoding the metadata, so that damage to the metadata is found, too.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use trackiops_schemas::columns::META_CRC32C;

/// What stands in the place of the sum until it is known, and while it is computed.
pub(crate) const UNKNOWN: &str = "00000000";
/// What Parquet's metadata have between a key and a value of eight bytes: "a string, the next field", its length
/// (Thrift's compact protocol).
const BETWEEN: [u8; 2] = [0x18, 0x08];
/// At the end of a Parquet file: length of the metadata u32, magic.
const TRAILER_BYTES: u64 = 8;
const MAGIC: &[u8] = b"PAR1";
const CHUNK_BYTES: usize = 256 << 10;

/// A file that is written from its start to its end, and the sum of what was written.
#[derive(Debug)]
pub(crate) struct Summed {
    file: File,
    crc: u32,
}

impl Summed {
    pub(crate) fn new(file: File) -> Self {
        Self { file, crc: 0 }
    }

    /// Enters the sum of a complete Parquet file into it. The file must have been opened for reading as well.
    pub(crate) fn enter(self) -> io::Result<File> {
        let place = place(&self.file)?;
        let place = place.ok_or_else(|| io::Error::other("its metadata has no checksum"))?;
        let digits = format!("{:08x}", self.crc);
        self.file.write_all_at(digits.as_bytes(), place)?;
        Ok(self.file)
    }
}

impl Write for Summed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.crc = crc32c::crc32c_append(self.crc, &buffer[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Whether a file is as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// It is.
    Intact,
    /// It is not.
    Damaged,
    /// It has no checksum: its metadata is damaged.
    NoChecksum,
}

impl Checked {
    /// That it is intact, or what is wrong.
    pub(crate) fn intact(self) -> Result<(), &'static str> {
        match self {
            Self::Intact => Ok(()),
            Self::Damaged => Err("it does not match its checksum"),
            Self::NoChecksum => Err("its checksum is missing"),
        }
    }
}

/// Reads a segment's file from its start to its end.
pub(crate) fn check(file: &File) -> io::Result<Checked> {
    let Some(place) = place(file)? else {
        return Ok(Checked::NoChecksum);
    };
    let mut digits = [0; UNKNOWN.len()];
    file.read_exact_at(&mut digits, place)?;
    let length = file.metadata()?.len();
    let mut chunk = vec![0; CHUNK_BYTES];
    let (mut crc, mut at) = (0, 0);
    while at < length {
        let want = chunk
            .len()
            .min(usize::try_from(length - at).unwrap_or(CHUNK_BYTES));
        let chunk = &mut chunk[..want];
        file.read_exact_at(chunk, at)?;
        for (i, zero) in (place..).zip(UNKNOWN.bytes()) {
            let within = i.checked_sub(at).and_then(|i| usize::try_from(i).ok());
            if let Some(byte) = within.and_then(|i| chunk.get_mut(i)) {
                *byte = zero;
            }
        }
        crc = crc32c::crc32c_append(crc, chunk);
        at += want as u64;
    }
    let same = digits == *format!("{crc:08x}").as_bytes();
    Ok(if same {
        Checked::Intact
    } else {
        Checked::Damaged
    })
}

/// Where the digits are.
fn place(file: &File) -> io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    let Some(trailer_at) = length.checked_sub(TRAILER_BYTES) else {
        return Ok(None);
    };
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.read_exact_at(&mut trailer, trailer_at)?;
    let [a, b, c, d, magic @ ..] = trailer;
    let metadata_bytes = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(metadata_at) = trailer_at.checked_sub(metadata_bytes) else {
        return Ok(None);
    };
    if magic != *MAGIC {
        return Ok(None);
    }
    let mut metadata = vec![0; usize::try_from(metadata_bytes).map_err(io::Error::other)?];
    file.read_exact_at(&mut metadata, metadata_at)?;
    let key: Vec<u8> = META_CRC32C.bytes().chain(BETWEEN).collect();
    // The last one: names of files, which may look like it, are before the key-value metadata.
    let mut found = metadata.windows(key.len() + UNKNOWN.len());
    let found = found.rposition(|window| window.starts_with(&key));
    Ok(found.map(|at| metadata_at + (at + key.len()) as u64))
}

//! Checksums by `docs/reference/format.md`, computed for arbitrary bytes.

use crc32c::{crc32c, crc32c_append};
use trackiops_schemas::columns::META_CRC32C;

/// A journal in its file format.
pub struct Journal {
    version: [u8; 4],
    pub fields: Vec<u8>,
    pub frames: Vec<(u8, Vec<u8>)>,
    /// Bytes that are not a frame.
    pub rest: Vec<u8>,
}

const MAGIC: &[u8; 4] = b"TIOJ";

impl Journal {
    /// Parses a journal by its own lengths.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.strip_prefix(MAGIC)?;
        let (version, bytes) = bytes.split_first_chunk()?;
        let (length, bytes) = bytes.split_first_chunk()?;
        let (_crc, bytes) = bytes.split_first_chunk::<4>()?;
        let (fields, mut rest) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let mut frames = Vec::new();
        while let Some((frame, behind)) = frame(rest) {
            frames.push(frame);
            rest = behind;
        }
        Some(Self {
            version: *version,
            fields: fields.to_vec(),
            frames,
            rest: rest.to_vec(),
        })
    }

    /// The file with correct checksums.
    pub fn encode(&self) -> Vec<u8> {
        let seed = crc32c_append(crc32c(&self.fields), &self.version);
        let length = self.fields.len() as u32;
        let mut out = MAGIC.to_vec();
        out.extend(self.version);
        out.extend(length.to_le_bytes());
        out.extend(seed.to_le_bytes());
        out.extend(&self.fields);
        for (kind, payload) in &self.frames {
            let length = (payload.len() as u32).to_le_bytes();
            let crc = crc32c_append(seed, &(out.len() as u64).to_le_bytes());
            let crc = crc32c_append(crc32c_append(crc, &length), &[*kind]);
            out.extend(length);
            out.push(*kind);
            out.extend(crc.to_le_bytes());
            out.extend(crc32c_append(crc, payload).to_le_bytes());
            out.extend(payload);
        }
        out.extend(&self.rest);
        out
    }
}

type Frame = (u8, Vec<u8>);

fn frame(bytes: &[u8]) -> Option<(Frame, &[u8])> {
    let (length, bytes) = bytes.split_first_chunk()?;
    let (kind, bytes) = bytes.split_first()?;
    let (_crcs, bytes) = bytes.split_first_chunk::<8>()?;
    let (payload, rest) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some(((*kind, payload.to_vec()), rest))
}

/// Corrects the checksums in the slots of an `.end` file.
pub fn end(mut bytes: Vec<u8>) -> Vec<u8> {
    for at in [0, 512] {
        if let Some(slot) = bytes.get_mut(at..at + 28) {
            let crc = crc32c(&slot[..24]);
            slot[24..].copy_from_slice(&crc.to_le_bytes());
        }
    }
    bytes
}

/// A segment's data and footer.
pub struct Segment {
    pub data: Vec<u8>,
    pub footer: Vec<u8>,
}

const BLOCK: usize = 8 << 10;
const PARQUET: &[u8; 4] = b"PAR1";

impl Segment {
    /// A segment from a Parquet file without sums.
    pub fn without_sums(file: &[u8]) -> Option<Self> {
        let (rest, length) = file.strip_suffix(PARQUET)?.split_last_chunk()?;
        let footer_at = rest
            .len()
            .checked_sub(u32::from_le_bytes(*length) as usize)?;
        let (data, footer) = rest.split_at(footer_at);
        Some(Self {
            data: data.to_vec(),
            footer: footer.to_vec(),
        })
    }

    /// Parses a segment.
    pub fn parse(file: &[u8]) -> Option<Self> {
        let mut segment = Self::without_sums(file)?;
        let before = segment.data.len().checked_sub(4)?;
        let sums = before.div_ceil(BLOCK + 4) * 4;
        segment.data.truncate(before.checked_sub(sums)?);
        Some(segment)
    }

    /// The file with correct checksums.
    pub fn encode(&self) -> Vec<u8> {
        let sums: Vec<u32> = self.data.chunks(BLOCK).map(crc32c).collect();
        let mut tail: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        tail.extend((sums.len() as u32).to_le_bytes());
        let mut footer = self.footer.clone();
        let length = (footer.len() as u32).to_le_bytes();
        footer.extend(length);
        footer.extend(PARQUET);
        let key = [META_CRC32C.as_bytes(), &[0x18, 0x08]].concat();
        let found = footer.windows(key.len()).rposition(|bytes| bytes == key);
        if let Some(digits) = found.map(|at| at + key.len())
            && digits + 8 <= footer.len()
        {
            footer[digits..digits + 8].fill(b'0');
            let sum = crc32c_append(crc32c(&tail), &footer);
            footer[digits..digits + 8].copy_from_slice(format!("{sum:08x}").as_bytes());
        }
        [&*self.data, &tail, &footer].concat()
    }
}

const TRAILER: usize = 40;

/// The database in a catalog.
pub fn database(catalog: &[u8]) -> &[u8] {
    &catalog[..catalog.len().saturating_sub(TRAILER)]
}

/// A catalog with that database and a correct trailer.
pub fn catalog(mut database: Vec<u8>) -> Vec<u8> {
    let length = database.len() as u64;
    let crc = crc32c(&database);
    let mut trailer = b"TIOPends".to_vec();
    trailer.extend(length.to_le_bytes());
    // Zeros, as in a copy of a catalog.
    trailer.extend([0; 16]);
    trailer.extend(crc.to_le_bytes());
    let own = crc32c(&trailer);
    trailer.extend(own.to_le_bytes());
    database.extend(trailer);
    database
}

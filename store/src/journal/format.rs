//! The journal's header and the frames around its payloads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use trackiops_schemas::columns::FORMAT_VERSION;

use super::frames::next_frame;
use crate::error::StoreError;
use crate::options::{GranularitySet, Options};
use crate::varint::{DecodeError, Input, put_optional_str, put_str, put_u64};

const MAGIC: [u8; 4] = *b"TIOJ";
/// Magic, version, length and CRC.
const FIXED_HEADER_BYTES: usize = 16;
/// Longest fields of a header: far more than a host name and a list of granularities need.
const MAX_FIELDS_BYTES: u32 = 64 * 1024;
/// Length and CRC of a frame.
pub(crate) const FRAME_PREFIX_BYTES: u64 = 8;
/// Files are read in pieces of this size to check their CRC.
const CHECK_CHUNK_BYTES: usize = 64 * 1024;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// First local id, then file attributes; ids count up.
    Definitions = 1,
    /// A window head, then its rows.
    Window = 2,
    /// What was pending, then as [`Self::Window`].
    PendingWindow = 3,
    /// Operations of the window in the next frame, where they are recorded.
    Operations = 4,
}

impl Kind {
    pub(crate) fn of(byte: u8) -> Option<Self> {
        [
            Self::Definitions,
            Self::Window,
            Self::PendingWindow,
            Self::Operations,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

impl From<Kind> for u8 {
    fn from(kind: Kind) -> Self {
        kind as Self
    }
}

/// What a journal says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) granularities: GranularitySet,
    pub(crate) host: String,
    pub(crate) number: u64,
    /// Version of the program that wrote it.
    pub(crate) writer: String,
    /// Of all its windows.
    pub(crate) filter: Option<Arc<str>>,
}

impl Header {
    /// Of a journal that this program begins.
    pub(crate) fn new(options: &Options, number: u64) -> Self {
        Self {
            granularities: options.granularities.clone(),
            host: options.host.clone(),
            number,
            writer: env!("CARGO_PKG_VERSION").to_owned(),
            filter: options.filter.as_deref().map(Arc::from),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        put_str(&mut fields, &self.granularities.to_string());
        put_str(&mut fields, &self.host);
        put_u64(&mut fields, self.number);
        put_str(&mut fields, &self.writer);
        put_optional_str(&mut fields, self.filter.as_deref());
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        out.extend_from_slice(&checksum_of(FORMAT_VERSION, &fields).to_le_bytes());
        out.extend_from_slice(&fields);
        out
    }

    /// Reads the header of an open journal, and where its frames begin. `None` when the file ends
    /// within the header: such a journal was never used.
    pub(crate) fn read(file: &File, path: &Path) -> Result<Option<(Self, u64)>, StoreError> {
        let read = StoreError::io("read", path);
        let damaged = |offset: usize, why| StoreError::Damaged {
            path: path.to_owned(),
            offset: offset as u64,
            why,
        };
        let mut fixed = [0; FIXED_HEADER_BYTES];
        let got = read_at(file, &mut fixed, 0).map_err(read)?;
        if !MAGIC.starts_with(&fixed[..got.min(MAGIC.len())]) {
            return Err(damaged(0, "it does not begin like a journal"));
        }
        if got < FIXED_HEADER_BYTES {
            return Ok(None);
        }
        let [version, length, crc] = [4, 8, 12].map(|at| u32_at(&fixed, at));
        if length > MAX_FIELDS_BYTES {
            return Err(damaged(8, "its header is too long"));
        }
        let mut fields = vec![0; length as usize];
        let start = FIXED_HEADER_BYTES as u64;
        let got = read_at(file, &mut fields, start).map_err(StoreError::io("read", path))?;
        if got < fields.len() {
            // A header is durable before there are frames.
            let is_kind = |kind| kind != 0;
            let used = next_frame(file, start, start + got as u64, is_kind);
            return match used.map_err(StoreError::io("read", path))? {
                None => Ok(None),
                Some(_) => Err(damaged(8, "its header is shorter than it says")),
            };
        }
        if checksum_of(version, &fields) != crc {
            return Err(damaged(12, "its header does not match its checksum"));
        }
        // Not before: a flipped bit makes another version as well.
        if version != FORMAT_VERSION {
            return Err(StoreError::OtherFormat {
                path: path.to_owned(),
                found: version,
            });
        }
        let header =
            Self::decode(&fields).map_err(|error| damaged(FIXED_HEADER_BYTES, error.why()))?;
        Ok(Some((header, start + u64::from(length))))
    }

    fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Input::new(fields);
        let granularities = input.str()?.parse();
        Ok(Self {
            granularities: granularities
                .map_err(|_| DecodeError::Malformed("its granularities are not a list"))?,
            host: input.str()?.to_owned(),
            number: input.u64()?,
            writer: input.str()?.to_owned(),
            filter: input.optional_str()?.map(Arc::from),
        })
    }
}

/// The checksum of a header: of its fields, then the version.
fn checksum_of(version: u32, fields: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(fields), &version.to_le_bytes())
}

/// Appends a frame to `out`; `payload` appends its payload.
pub(crate) fn put_frame(
    out: &mut Vec<u8>,
    kind: impl Into<u8>,
    payload: impl FnOnce(&mut Vec<u8>),
) -> Result<(), StoreError> {
    let prefix = out.len();
    out.extend_from_slice(&[0; FRAME_PREFIX_BYTES as usize]);
    let body = out.len();
    out.push(kind.into());
    payload(out);
    let bytes = out.len() - body;
    let length = u32::try_from(bytes).map_err(|_| StoreError::WindowTooLarge(bytes))?;
    let crc = crc32c::crc32c(&out[body..]);
    out[prefix..prefix + 4].copy_from_slice(&length.to_le_bytes());
    out[prefix + 4..body].copy_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// A frame whose checksum holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    /// Where its payload begins in the file.
    pub(crate) payload: u64,
    /// Where it ends.
    pub(crate) end: u64,
}

/// The frame at `offset` of a file of `file_bytes`. `None` when it is not whole, or not a frame.
pub(crate) fn frame_at(file: &File, offset: u64, file_bytes: u64) -> io::Result<Option<Frame>> {
    let mut prefix = [0; FRAME_PREFIX_BYTES as usize + 1];
    if read_at(file, &mut prefix, offset)? < prefix.len() {
        return Ok(None);
    }
    let body = offset + FRAME_PREFIX_BYTES;
    let end = body + u64::from(u32_at(&prefix, 0));
    // A frame has at least its kind; a tail of zeros, as a power cut leaves it, is not a frame.
    if end == body || end > file_bytes {
        return Ok(None);
    }
    let checks = checksum(file, body, end)? == Some(u32_at(&prefix, 4));
    Ok(checks.then_some(Frame {
        kind: prefix[FRAME_PREFIX_BYTES as usize],
        payload: body + 1,
        end,
    }))
}

/// CRC of the bytes from `at` to `end`, `None` when the file is shorter.
fn checksum(file: &File, mut at: u64, end: u64) -> io::Result<Option<u32>> {
    let mut crc = 0;
    let size = CHECK_CHUNK_BYTES.min(usize::try_from(end - at).unwrap_or(CHECK_CHUNK_BYTES));
    let mut chunk = vec![0; size];
    while at < end {
        let want = chunk
            .len()
            .min(usize::try_from(end - at).unwrap_or(chunk.len()));
        if read_at(file, &mut chunk[..want], at)? < want {
            return Ok(None);
        }
        crc = crc32c::crc32c_append(crc, &chunk[..want]);
        at += want as u64;
    }
    Ok(Some(crc))
}

/// Fills `buffer` from `offset` as far as the file goes; returns how far that was.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], offset + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

//! The journal's header and the frames around its payloads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use trackiops_schemas::columns::FORMAT_VERSION;

use super::file::JournalFile;
use super::frames::Pieces;
use crate::error::StoreError;
use crate::options::{GranularitySet, Options};
use crate::varint::{DecodeError, Input, put_optional_str, put_str, put_u64};

const MAGIC: [u8; 4] = *b"TIOJ";
/// Magic, version, length and CRC.
const FIXED_HEADER_BYTES: usize = 16;
/// Longest fields of a header: far more than a host name and a list of granularities need.
const MAX_FIELDS_BYTES: u32 = 64 * 1024;
/// Length of a frame's payload, its kind, the checksum of these, and that of the payload.
pub(super) const FRAME_PREFIX_BYTES: usize = 13;
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

    /// Its bytes, and what the checksums of the frames behind it begin with.
    pub(crate) fn encode(&self) -> (Vec<u8>, Seed) {
        let mut fields = Vec::new();
        put_str(&mut fields, &self.granularities.to_string());
        put_str(&mut fields, &self.host);
        put_u64(&mut fields, self.number);
        put_str(&mut fields, &self.writer);
        put_optional_str(&mut fields, self.filter.as_deref());
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        let crc = checksum_of(FORMAT_VERSION, &fields);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&fields);
        (out, Seed(crc))
    }

    /// Reads the header of a journal; the pieces are what follows it, where `is_kind` knows the kinds of frames. `None` when
    /// the file ends within the header, or the power failed before the header was written: such a journal was never used.
    pub(crate) fn read(
        journal: &JournalFile,
        is_kind: fn(u8) -> bool,
    ) -> Result<Option<(Self, Pieces)>, StoreError> {
        let JournalFile { file, path, .. } = journal;
        let read = || StoreError::io("read", path);
        let damaged = |offset: usize, why| StoreError::Damaged {
            path: path.clone(),
            offset: offset as u64,
            why,
        };
        let too_short = |offset: usize| match journal.vouched() {
            // Nothing was ever appended.
            0 => Ok(None),
            _ => Err(damaged(offset, "it ends within its header")),
        };
        let mut fixed = [0; FIXED_HEADER_BYTES];
        let got = read_at(file, &mut fixed, 0).map_err(read())?;
        if !MAGIC.starts_with(&fixed[..got.min(MAGIC.len())]) {
            if journal.vouched() == 0 && is_unwritten(journal).map_err(read())? {
                return Ok(None);
            }
            return Err(damaged(0, "it does not begin like a journal"));
        }
        if got < FIXED_HEADER_BYTES {
            return too_short(got);
        }
        let [version, length, crc] = [4, 8, 12].map(|at| u32_at(&fixed, at));
        if length > MAX_FIELDS_BYTES {
            return Err(damaged(8, "its header is too long"));
        }
        let mut fields = vec![0; length as usize];
        let start = FIXED_HEADER_BYTES as u64;
        let got = read_at(file, &mut fields, start).map_err(read())?;
        if got < fields.len() {
            // A header is durable before there are frames.
            let mut pieces = Pieces::new(journal, start, Seed(crc), is_kind);
            return match pieces.next(file).map_err(read())? {
                None => too_short(FIXED_HEADER_BYTES + got),
                Some(_) => Err(damaged(8, "its header is shorter than it says")),
            };
        }
        if checksum_of(version, &fields) != crc {
            // A power cut may have torn a long one.
            if journal.vouched() == 0 && journal.bytes == start + u64::from(length) {
                return Ok(None);
            }
            return Err(damaged(12, "its header does not match its checksum"));
        }
        // Not before: a flipped bit makes another version as well.
        if version != FORMAT_VERSION {
            return Err(StoreError::OtherFormat {
                path: path.clone(),
                found: version,
            });
        }
        let header =
            Self::decode(&fields).map_err(|error| damaged(FIXED_HEADER_BYTES, error.why()))?;
        let at = start + u64::from(length);
        Ok(Some((header, Pieces::new(journal, at, Seed(crc), is_kind))))
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

/// Whether a journal may be a header that never reached the disk: zeros, as file systems can make a length durable before what
/// was written.
fn is_unwritten(journal: &JournalFile) -> io::Result<bool> {
    if journal.bytes > FIXED_HEADER_BYTES as u64 + u64::from(MAX_FIELDS_BYTES) {
        return Ok(false);
    }
    let mut bytes = vec![0; usize::try_from(journal.bytes).unwrap_or(usize::MAX)];
    let got = read_at(&journal.file, &mut bytes, 0)?;
    Ok(bytes[..got].iter().all(|byte| *byte == 0))
}

/// The checksum of a header: of its fields, then the version.
fn checksum_of(version: u32, fields: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(fields), &version.to_le_bytes())
}

/// What the checksums of a journal's frames begin with: that of its header. With it, and with where a frame is, a frame
/// counts in its own place of its own journal alone, whatever a disk may have written elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u32);

/// What a frame begins with.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    /// Length of the payload.
    length: u32,
    kind: u8,
}

impl Prefix {
    /// The checksum of a prefix at `offset` of a journal. It is apart from that of the payload, so that one damaged byte
    /// costs one frame, and a reader knows without reading on whether a length can be believed.
    fn checksum(self, seed: Seed, offset: u64) -> u32 {
        let crc = crc32c::crc32c_append(seed.0, &offset.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &self.length.to_le_bytes());
        crc32c::crc32c_append(crc, &[self.kind])
    }
}

/// Frames that are about to be appended to a journal.
#[derive(Debug)]
pub(crate) struct NewFrames {
    seed: Seed,
    /// Where the first of them will be.
    offset: u64,
    bytes: Vec<u8>,
}

impl NewFrames {
    pub(crate) fn new(seed: Seed) -> Self {
        Self {
            seed,
            offset: 0,
            bytes: Vec::new(),
        }
    }

    /// Begins anew, with frames that will be at `offset`.
    pub(crate) fn begin(&mut self, offset: u64) {
        self.offset = offset;
        self.bytes.clear();
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all frames behind the first `bytes` bytes.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
    }

    /// Adds a frame; `payload` appends its payload.
    pub(crate) fn put(
        &mut self,
        kind: impl Into<u8>,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), StoreError> {
        let kind = kind.into();
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; FRAME_PREFIX_BYTES]);
        let body = self.bytes.len();
        payload(&mut self.bytes);
        let length = self.bytes.len() - body;
        if length as u64 > longest_payload(kind) {
            self.bytes.truncate(begin);
            return Err(StoreError::WindowTooLarge(length));
        }
        self.seal(begin, length as u32, kind);
        Ok(())
    }

    /// Adds bytes that are no frame.
    #[cfg(test)]
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Makes what begins at `begin` a frame.
    pub(super) fn seal(&mut self, begin: usize, length: u32, kind: u8) {
        let prefix = Prefix { length, kind };
        let body = begin + FRAME_PREFIX_BYTES;
        let check = prefix.checksum(self.seed, self.offset + begin as u64);
        let crc = crc32c::crc32c_append(check, &self.bytes[body..]);
        let fields = &mut self.bytes[begin..body];
        fields[..4].copy_from_slice(&length.to_le_bytes());
        fields[4] = kind;
        fields[5..9].copy_from_slice(&check.to_le_bytes());
        fields[9..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The longest payload of a frame: windows are read as streams, all else is read into memory as a whole.
pub(crate) fn longest_payload(kind: u8) -> u64 {
    const IN_MEMORY: u64 = 32 << 20;
    match Kind::of(kind) {
        Some(Kind::Window | Kind::PendingWindow) => u64::from(u32::MAX),
        _ => IN_MEMORY,
    }
}

/// A frame whose prefix matches its checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    /// Where it begins in the file.
    pub(crate) offset: u64,
    /// Where its payload begins.
    pub(crate) payload: u64,
    /// Where it ends.
    pub(crate) end: u64,
    check: u32,
    crc: u32,
}

impl Frame {
    /// The frame whose first bytes are `bytes`, which are at `offset` of a journal. `None` if that is no frame.
    pub(super) fn parse(bytes: &[u8; FRAME_PREFIX_BYTES], seed: Seed, offset: u64) -> Option<Self> {
        let prefix = Prefix {
            length: u32_at(bytes, 0),
            kind: bytes[4],
        };
        let check = u32_at(bytes, 5);
        let payload = offset + FRAME_PREFIX_BYTES as u64;
        (prefix.checksum(seed, offset) == check).then_some(Self {
            kind: prefix.kind,
            offset,
            payload,
            end: payload + u64::from(prefix.length),
            check,
            crc: u32_at(bytes, 9),
        })
    }

    /// Whether its payload is there and matches its checksum.
    pub(super) fn is_whole(&self, file: &File) -> io::Result<bool> {
        let mut crc = self.check;
        let mut at = self.payload;
        let size = CHECK_CHUNK_BYTES.min(usize::try_from(self.end - at).unwrap_or(usize::MAX));
        let mut chunk = vec![0; size];
        while at < self.end {
            let left = usize::try_from(self.end - at).unwrap_or(usize::MAX);
            let want = chunk.len().min(left);
            if read_at(file, &mut chunk[..want], at)? < want {
                return Ok(false);
            }
            crc = crc32c::crc32c_append(crc, &chunk[..want]);
            at += want as u64;
        }
        Ok(crc == self.crc)
    }
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

//! Frames of a journal: length, kind and checksums around a payload.

use std::fs::File;
use std::io;

use super::bytes::{read_at, u32_at};
use crate::error::StoreError;

/// Length of the payload, kind, checksum of the prefix, checksum of the payload.
pub(super) const FRAME_PREFIX_BYTES: usize = 13;
/// Size of the reads that check a frame's checksum.
const CHECK_CHUNK_BYTES: usize = 64 * 1024;

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first local id, then the attributes of files. Ids count up.
    Definitions = 1,
    /// A window head, then its rows.
    Window = 2,
    /// Pending requests, then the same as [`Self::Window`].
    PendingWindow = 3,
    /// Operations of the window in the next frame.
    Operations = 4,
    /// Streams of a capture, of the window in the next frame.
    Captured = 5,
}

impl Kind {
    pub(crate) fn of(byte: u8) -> Option<Self> {
        [
            Self::Definitions,
            Self::Window,
            Self::PendingWindow,
            Self::Operations,
            Self::Captured,
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

/// Initial value of the checksums of a journal's frames: the header's checksum. The checksums also cover a frame's
/// offset. So a frame is valid only at its place in its journal, even if a disk writes it elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(pub(super) u32);

/// The first fields of a frame.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    /// Length of the payload.
    length: u32,
    kind: u8,
}

impl Prefix {
    /// The checksum of a prefix at `offset` of a journal, separate from the payload's checksum. So a reader can trust
    /// the length before it reads the payload, and a damaged byte costs one frame.
    fn checksum(self, seed: Seed, offset: u64) -> u32 {
        let crc = crc32c::crc32c_append(seed.0, &offset.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &self.length.to_le_bytes());
        crc32c::crc32c_append(crc, &[self.kind])
    }
}

/// Frames to be appended to a journal.
#[derive(Debug)]
pub(crate) struct NewFrames {
    seed: Seed,
    /// Offset of the first frame in the journal.
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

    /// Clears the frames. The next ones will be at `offset`.
    pub(crate) fn begin(&mut self, offset: u64) {
        self.offset = offset;
        self.bytes.clear();
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all frames after the first `bytes` bytes.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
    }

    /// Adds a frame. `payload` appends its payload.
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

    /// Adds bytes that are not a frame.
    #[cfg(test)]
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Fills in the prefix of the frame at `begin`.
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

/// Limit on a frame's payload. Windows are read as streams, all other frames as a whole.
pub(crate) fn longest_payload(kind: u8) -> u64 {
    const IN_MEMORY: u64 = 32 << 20;
    match Kind::of(kind) {
        Some(Kind::Window | Kind::PendingWindow) => u64::from(u32::MAX),
        _ => IN_MEMORY,
    }
}

/// A frame whose prefix matches its checksum. The payload may be damaged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    /// Its offset in the file.
    pub(crate) offset: u64,
    /// The payload's offset.
    pub(crate) payload: u64,
    /// The offset after it.
    pub(crate) end: u64,
    check: u32,
    crc: u32,
}

impl Frame {
    /// Parses the prefix of a frame at `offset` of a journal. `None` if the checksum does not
    /// match.
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

    /// Whether the whole payload exists and matches its checksum.
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

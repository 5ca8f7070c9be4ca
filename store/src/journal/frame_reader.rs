//! Reads the frames of a journal, and skips damaged parts between them.
//!
//! Each byte enters a checksum at most once, whatever the file claims. A reader trusts a length only if its prefix
//! matches the prefix's checksum. Then the bytes belong to one frame, intact or damaged.

use std::fs::File;
use std::io;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::bytes::read_at;
use super::frame::{FRAME_PREFIX_BYTES, Frame, Seed};

/// The next part of a journal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    /// A frame that matches its checksums.
    Whole(Frame),
    /// Damaged bytes: frames follow, or the `.end` file says that they were durable.
    Damaged {
        /// Their offset.
        offset: u64,
        /// Their number.
        bytes: u64,
        /// Whether the file ends within them.
        is_cut: bool,
    },
}

/// The frames of a journal in order, and the damaged parts between them.
pub(crate) struct FrameReader {
    /// Length of the file.
    bytes: u64,
    seed: Seed,
    is_kind: fn(u8) -> bool,
    at: u64,
    /// The frame after a damaged part that was returned.
    found: Option<Frame>,
    /// Bytes of the journal that were durable; 0 after the end of the file was handled.
    vouched: u64,
    /// Bytes after the last frame that are not known to have been durable.
    torn_bytes: u64,
}

/// The first byte from `at` on that is not in a hole of the file. Holes can have any length and contain no frame.
/// `None` if the rest is a hole.
fn data_from(file: &File, at: u64) -> io::Result<Option<u64>> {
    match seek(file, SeekFrom::Data(at)) {
        Ok(data) => Ok(Some(data)),
        Err(Errno::NXIO) => Ok(None),
        // Some file systems do not support holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some(at)),
        Err(error) => Err(error.into()),
    }
}

impl FrameReader {
    /// Reads frames from `at` on in a file of `bytes` bytes whose first `vouched` bytes were durable. `is_kind` returns
    /// whether a kind is valid.
    pub(super) fn new(
        bytes: u64,
        vouched: u64,
        at: u64,
        seed: Seed,
        is_kind: fn(u8) -> bool,
    ) -> Self {
        Self {
            bytes,
            seed,
            is_kind,
            at,
            found: None,
            vouched,
            torn_bytes: 0,
        }
    }

    /// Bytes after the last frame that are not known to have been durable. Complete after all
    /// frames were read.
    pub(crate) fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// The next part. `None` at the end.
    pub(crate) fn next(&mut self, file: &File) -> io::Result<Option<Piece>> {
        let begin = self.at;
        let frame = match self.found.take() {
            Some(frame) => Some(frame),
            None => self.whole_frame(file)?,
        };
        if let Some(frame) = frame {
            if frame.offset == begin {
                self.at = frame.end;
                return Ok(Some(Piece::Whole(frame)));
            }
            self.at = frame.offset;
            self.found = Some(frame);
            return Ok(Some(Piece::Damaged {
                offset: begin,
                bytes: frame.offset - begin,
                is_cut: false,
            }));
        }
        let bytes = self.bytes;
        let vouched = std::mem::take(&mut self.vouched);
        self.at = bytes;
        self.torn_bytes += bytes.saturating_sub(begin.max(vouched));
        Ok((begin < vouched).then(|| Piece::Damaged {
            offset: begin,
            bytes: vouched - begin,
            is_cut: bytes < vouched,
        }))
    }

    /// The next frame that matches its checksums.
    fn whole_frame(&self, file: &File) -> io::Result<Option<Frame>> {
        let mut at = self.at;
        while let Some(frame) = self.frame_from(file, at)? {
            if frame.is_whole(file)? {
                return Ok(Some(frame));
            }
            at = frame.end;
        }
        Ok(None)
    }

    /// The first frame from `at` on whose prefix matches its checksum. Tries every offset, because
    /// prefixes may be damaged.
    fn frame_from(&self, file: &File, mut at: u64) -> io::Result<Option<Frame>> {
        const CHUNK_BYTES: usize = 64 << 10;
        // Reads little at first, because a frame is usually at `at`.
        let mut size = FRAME_PREFIX_BYTES;
        loop {
            let mut chunk = vec![0; size];
            let got = read_at(file, &mut chunk, at)?;
            let mut places = 0;
            for bytes in chunk[..got].windows(FRAME_PREFIX_BYTES) {
                let Ok(bytes) = bytes.try_into() else { break };
                // The kind rules out most offsets cheaply.
                if let Some(frame) = self.frame_of(bytes, at + places) {
                    return Ok(Some(frame));
                }
                places += 1;
            }
            if places == 0 {
                return Ok(None);
            }
            at += places;
            size = CHUNK_BYTES;
            match data_from(file, at)? {
                // A prefix may begin with zeros.
                Some(data) => at = at.max(data.saturating_sub(FRAME_PREFIX_BYTES as u64)),
                None => return Ok(None),
            }
        }
    }

    fn frame_of(&self, bytes: &[u8; FRAME_PREFIX_BYTES], at: u64) -> Option<Frame> {
        let is_kind = (self.is_kind)(bytes[4]);
        let frame = is_kind.then(|| Frame::parse(bytes, self.seed, at))??;
        (frame.end <= self.bytes).then_some(frame)
    }
}

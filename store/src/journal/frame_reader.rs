//! Going through the frames of a journal, over what is damaged between them.
//!
//! Each byte's checksum is computed at most once, whatever the file says of itself: a length is believed only where the
//! prefix around it matches its own checksum, and then what it names is one frame, whole or damaged.

use std::fs::File;
use std::io;

use super::bytes::read_at;
use super::file::JournalFile;
use super::frame::{FRAME_PREFIX_BYTES, Frame, Seed};

/// What is next in a journal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    /// A frame whose checksums hold.
    Whole(Frame),
    /// Bytes that were frames: others follow, or it is vouched that they were there.
    Damaged {
        /// Where they begin.
        offset: u64,
        /// How many they are.
        bytes: u64,
        /// Whether the file ends before they do.
        is_cut: bool,
    },
}

/// The frames of a journal, in their order, and what is damaged between them.
pub(crate) struct FrameReader {
    /// Length of the file.
    bytes: u64,
    seed: Seed,
    is_kind: fn(u8) -> bool,
    at: u64,
    /// The frame at `at`, if it was found already.
    found: Option<Frame>,
    /// How far it is vouched that there are frames; 0 once that was told.
    vouched: u64,
    /// Bytes behind the last frame of which nobody knows that they were one.
    torn_bytes: u64,
}

impl FrameReader {
    /// Those from `at` on; `is_kind` knows the kinds of frames.
    pub(super) fn new(journal: &JournalFile, at: u64, seed: Seed, is_kind: fn(u8) -> bool) -> Self {
        Self {
            bytes: journal.bytes,
            seed,
            is_kind,
            at,
            found: None,
            vouched: journal.vouched(),
            torn_bytes: 0,
        }
    }

    /// Bytes behind the last frame of which nobody knows that they were one, once all frames were read.
    pub(crate) fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    /// The next piece of the file.
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

    /// The next frame whose checksums hold.
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

    /// The first frame from `at` on whose prefix matches its checksum. A prefix may be what is damaged, so every place is
    /// looked at.
    fn frame_from(&self, file: &File, mut at: u64) -> io::Result<Option<Frame>> {
        const CHUNK_BYTES: usize = 64 << 10;
        // Most frames are where they are looked for.
        let mut size = FRAME_PREFIX_BYTES;
        loop {
            let mut chunk = vec![0; size];
            let got = read_at(file, &mut chunk, at)?;
            let mut places = 0;
            for bytes in chunk[..got].windows(FRAME_PREFIX_BYTES) {
                let Ok(bytes) = bytes.try_into() else { break };
                // Few places get past the kind.
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
        }
    }

    fn frame_of(&self, bytes: &[u8; FRAME_PREFIX_BYTES], at: u64) -> Option<Frame> {
        let is_kind = (self.is_kind)(bytes[4]);
        let frame = is_kind.then(|| Frame::parse(bytes, self.seed, at))??;
        (frame.end <= self.bytes).then_some(frame)
    }
}

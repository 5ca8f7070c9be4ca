//! Going through the frames of a journal, over what is damaged between them.

use std::fs::File;
use std::io;

use super::format::{FRAME_PREFIX_BYTES, Frame, frame_at, read_at, u32_at};

/// What is at a place of a journal.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Piece {
    /// A frame whose checksum holds.
    Whole(Frame),
    /// Bytes that were a frame, or several: others follow.
    Damaged {
        /// Where the next frame begins.
        end: u64,
    },
    /// Nothing that follows is a frame.
    Torn,
}

/// What is at `at` of a journal of `file_bytes`, which is not its end. `is_kind` knows the kinds of its frames.
pub(crate) fn piece_at(
    file: &File,
    at: u64,
    file_bytes: u64,
    is_kind: impl Fn(u8) -> bool,
) -> io::Result<Piece> {
    if let Some(frame) = frame_at(file, at, file_bytes)? {
        return Ok(Piece::Whole(frame));
    }
    let next = next_frame(file, at + 1, file_bytes, is_kind)?;
    Ok(next.map_or(Piece::Torn, |end| Piece::Damaged { end }))
}

/// The first place from `at` on where there is a frame. Its length may be what is damaged of the one before, so every
/// place is looked at: few have a known kind and a length that fits, and of those the checksum tells.
pub(super) fn next_frame(
    file: &File,
    mut at: u64,
    file_bytes: u64,
    is_kind: impl Fn(u8) -> bool,
) -> io::Result<Option<u64>> {
    const CHUNK_BYTES: usize = 64 << 10;
    const PREFIX: usize = FRAME_PREFIX_BYTES as usize;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let got = read_at(file, &mut chunk, at)?;
        let Some(places) = got.checked_sub(PREFIX).filter(|places| *places > 0) else {
            return Ok(None);
        };
        for i in 0..places {
            let place = at + i as u64;
            let length = u64::from(u32_at(&chunk, i));
            let fits = length > 0 && place + FRAME_PREFIX_BYTES + length <= file_bytes;
            if fits && is_kind(chunk[i + PREFIX]) && frame_at(file, place, file_bytes)?.is_some() {
                return Ok(Some(place));
            }
        }
        at += places as u64;
    }
}

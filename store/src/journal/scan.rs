//! Scans a journal for the positions of its windows and for its definitions, without reading rows.

use std::io;
use std::mem;
use std::sync::Arc;

use trackiops_schemas::captured::Captured;
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::ops::OperationRow;
use trackiops_schemas::time::UtcMs;

use super::bytes::read_at;
use super::captured::captured;
use super::definitions::Defined;
use super::file::JournalFile;
use super::frame::{Frame, Kind, longest_payload};
use super::frame_reader::Piece;
use super::header::Header;
use super::ops;
use super::payload::{self, MAX_HEAD_BYTES, MAX_PENDING_BYTES, WindowHead};
use crate::error::StoreError;
use crate::varint::{DecodeError, Input};

/// The position of a window in a journal.
#[derive(Clone, Debug)]
pub(crate) struct WindowFrame {
    pub(crate) head: WindowHead,
    /// Offsets in the file of the start and the end of its rows.
    pub(crate) rows_at: u64,
    pub(crate) end: u64,
    /// The same for its operations.
    ops: Option<(u64, u64)>,
}

impl WindowFrame {
    pub(crate) fn has_ops(&self) -> bool {
        self.ops.is_some()
    }
}

/// The valid part of a journal at the time of the scan.
#[derive(Debug)]
pub(crate) struct JournalScan {
    pub(crate) journal: JournalFile,
    pub(crate) header: Header,
    definitions: Defined,
    /// In the order in which they were appended.
    pub(crate) windows: Vec<WindowFrame>,
    holes: Vec<Hole>,
    /// Whether definitions have been missing since the last window.
    misses_files: bool,
    /// Damaged parts, in order.
    pub(crate) damage: Vec<Damage>,
    /// Bytes after the last frame that are not known to have been durable.
    pub(crate) torn_bytes: u64,
}

/// Why the contents of a frame are unknown.
enum FrameError {
    Io(io::Error),
    Decode(DecodeError),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<DecodeError> for FrameError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// A damaged part of a journal: frames follow it, or it was durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its offset in the file, bytes.
    pub offset: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// Whether the file ends within it.
    pub is_cut: bool,
    /// Time range in which windows may be incomplete or missing. `None` if unknown.
    pub covers: Option<(UtcMs, UtcMs)>,
}

/// Data of the next window from the separate frames before it.
#[derive(Default)]
struct NextWindow {
    /// Offsets of its operations.
    ops: Option<(u64, u64)>,
    captured: Captured,
}

/// A damaged part, with the windows around it.
#[derive(Debug)]
struct Hole {
    offset: u64,
    bytes: u64,
    is_cut: bool,
    /// Start of the last window before it.
    after: Option<UtcMs>,
    /// Start of the first complete window after it.
    before: Option<UtcMs>,
    /// Whether definitions are lost. Any later window may refer to them.
    lost_files: bool,
}

impl JournalScan {
    /// Scans an open journal. `None` if it ends within its header.
    pub(crate) fn new(journal: JournalFile) -> Result<Option<Self>, StoreError> {
        let is_kind = |byte| Kind::of(byte).is_some();
        let Some((header, mut frames)) = Header::read(&journal, is_kind)? else {
            return Ok(None);
        };
        let mut scan = Self {
            journal,
            header,
            definitions: Defined::default(),
            windows: Vec::new(),
            holes: Vec::new(),
            misses_files: false,
            damage: Vec::new(),
            torn_bytes: 0,
        };
        let path = scan.journal.path.clone();
        let read = || StoreError::io("read", &path);
        let mut next = NextWindow::default();
        while let Some(piece) = frames.next(&scan.journal.file).map_err(read())? {
            match piece {
                Piece::Whole(frame) => {
                    let taken = scan.take(frame, &mut next);
                    taken.map_err(|error| match error {
                        FrameError::Io(error) => read()(error),
                        FrameError::Decode(error) => StoreError::Damaged {
                            path: path.clone(),
                            offset: frame.offset,
                            why: error.why(),
                        },
                    })?;
                }
                Piece::Damaged {
                    offset,
                    bytes,
                    is_cut,
                } => {
                    // Their window may be in the damaged part.
                    next = NextWindow::default();
                    scan.holes.push(Hole {
                        offset,
                        bytes,
                        is_cut,
                        after: scan.windows.last().map(|window| window.head.start),
                        before: None,
                        lost_files: false,
                    });
                }
            }
        }
        scan.torn_bytes = frames.torn_bytes();
        scan.damage = scan.holes.iter().map(|hole| scan.damage(hole)).collect();
        Ok(Some(scan))
    }

    fn damage(&self, hole: &Hole) -> Damage {
        let finest = self.header.granularities.finest();
        let extent = self.journal.extent.map(|extent| extent.span);
        let spans = || self.span().into_iter().chain(extent);
        let start = hole.after.map(|after| after.plus(finest));
        let start = start.or(extent.map(|(start, _)| start));
        let end = match hole.before {
            Some(before) if !hole.lost_files => Some(before),
            _ => spans().map(|(_, end)| end).max(),
        };
        // The clock may have been set back, and at least one window is missing.
        let covers = start.zip(end).map(|(a, b)| {
            let start = a.min(b);
            (start, a.max(b).max(start.plus(finest)))
        });
        Damage {
            offset: hole.offset,
            bytes: hole.bytes,
            is_cut: hole.is_cut,
            covers,
        }
    }

    /// Records the contents of a frame. Its checksum matches, so a frame that does not decode is an error, not a torn
    /// tail. `next` collects data of the next window.
    fn take(&mut self, frame: Frame, next: &mut NextWindow) -> Result<(), FrameError> {
        let file = &self.journal.file;
        // At most as long as the file, which was just read for the checksum.
        let payload = |most: usize| -> io::Result<Vec<u8>> {
            let bytes = usize::try_from(frame.end - frame.payload).map_err(io::Error::other)?;
            let mut payload = vec![0; bytes.min(most)];
            read_at(file, &mut payload, frame.payload)?;
            Ok(payload)
        };
        if frame.end - frame.payload > longest_payload(frame.kind) {
            return Err(DecodeError::Malformed("a frame is too long").into());
        }
        let is_damaged = !self.holes.is_empty();
        match Kind::of(frame.kind) {
            None => return Err(DecodeError::Malformed("a frame is of an unknown kind").into()),
            Some(Kind::Definitions) => {
                let payload = payload(usize::MAX)?;
                self.misses_files |= self.definitions.take(&payload, is_damaged)?;
            }
            Some(Kind::Operations) => next.ops = Some((frame.payload, frame.end)),
            Some(Kind::Captured) => {
                let payload = payload(usize::MAX)?;
                next.captured = captured(&mut Input::new(&payload))?;
            }
            Some(Kind::Window) => {
                let payload = payload(MAX_HEAD_BYTES)?;
                self.take_window(frame, &payload, mem::take(next), payload::window_head)?;
            }
            Some(Kind::PendingWindow) => {
                let payload = payload(MAX_PENDING_BYTES + MAX_HEAD_BYTES)?;
                let head = |input: &mut Input<'_>| {
                    let pending = payload::pending(input)?;
                    let mut head = payload::window_head(input)?;
                    head.health.pending = Some(pending);
                    Ok(head)
                };
                self.take_window(frame, &payload, mem::take(next), head)?;
            }
        }
        Ok(())
    }

    fn take_window(
        &mut self,
        frame: Frame,
        payload: &[u8],
        NextWindow { ops, captured }: NextWindow,
        head: impl FnOnce(&mut Input<'_>) -> Result<WindowHead, DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut input = Input::new(payload);
        let mut head = head(&mut input)?;
        head.health.filter = self.header.filter.clone();
        head.health.source = self.header.source.clone();
        head.health.captured = captured;
        let read = payload.len() - input.remaining();
        let misses = self.definitions.reach(head.files, !self.holes.is_empty())?;
        self.misses_files |= misses;
        let holes = self.holes.iter_mut().rev();
        for hole in holes.take_while(|hole| hole.before.is_none()) {
            hole.before = Some(head.start);
            hole.lost_files = self.misses_files;
            if ops.is_none() && head.health.ops_covered_ms > 0 {
                hole.before = Some(head.start.plus(self.header.granularities.finest()));
                // The operations may have been in the damaged part, so mark them as not recorded.
                head.health.ops_covered_ms = 0;
                head.health.ops_seen = 0;
                head.health.ops_missed = 0;
            }
        }
        self.misses_files = false;
        self.windows.push(WindowFrame {
            head,
            rows_at: frame.payload + read as u64,
            end: frame.end,
            ops,
        });
        Ok(())
    }

    /// Reads the operations of a window.
    pub(crate) fn ops(&self, window: &WindowFrame) -> Result<Vec<OperationRow>, StoreError> {
        let Some((start, end)) = window.ops else {
            return Ok(Vec::new());
        };
        // At most as long as the file, which was read for the checksum.
        let mut payload = vec![0; usize::try_from(end - start).unwrap_or(0)];
        let JournalFile { file, path, .. } = &self.journal;
        read_at(file, &mut payload, start).map_err(StoreError::io("read", path))?;
        ops::ops(&mut Input::new(&payload)).map_err(|error| StoreError::Damaged {
            path: path.clone(),
            offset: start,
            why: error.why(),
        })
    }

    /// The file of a local id. `None` if it has no known definition.
    pub(crate) fn file(&self, id: u32) -> Option<&Arc<FileAttributes>> {
        self.definitions.get(id)
    }

    /// Whether definitions may be missing that windows refer to.
    pub(crate) fn may_lack_files(&self) -> bool {
        !self.holes.is_empty()
    }

    /// The known files with their local ids.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u32, &Arc<FileAttributes>)> {
        self.definitions.iter()
    }

    /// Start of the first and end of the last window. `None` without windows.
    pub(crate) fn span(&self) -> Option<(UtcMs, UtcMs)> {
        let starts = || self.windows.iter().map(|window| window.head.start);
        let end = starts().max()?.plus(self.header.granularities.finest());
        Some((starts().min()?, end))
    }
}

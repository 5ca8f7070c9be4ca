//! Finding out what a journal holds: its windows' places and its definitions, without its rows.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::ops::OperationRow;
use trackiops_schemas::time::UtcMs;

use super::codec::{self, MAX_HEAD_BYTES, MAX_PENDING_BYTES, WindowHead};
use super::format::{Frame, Header, Kind, read_at};
use super::frames::{Piece, piece_at};
use super::ops;
use crate::error::StoreError;
use crate::varint::{DecodeError, Input};

/// More files than this are not in a journal.
pub(crate) const MOST_MISSING_FILES: usize = 1 << 24;

/// A window's place in a journal.
#[derive(Clone, Debug)]
pub(crate) struct WindowFrame {
    pub(crate) head: WindowHead,
    /// Where its rows begin and end in the file.
    pub(crate) rows_at: u64,
    pub(crate) end: u64,
    /// Where its operations begin and end, if there are any.
    ops: Option<(u64, u64)>,
}

impl WindowFrame {
    /// Whether there are operations.
    pub(crate) fn has_ops(&self) -> bool {
        self.ops.is_some()
    }
}

/// The valid part of a journal as it was when it was scanned.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    /// Files by local id. In a damaged journal some may not be known: see [`Self::file`].
    definitions: Vec<Option<Arc<FileAttributes>>>,
    /// In the order in which they were appended.
    pub(crate) windows: Vec<WindowFrame>,
    /// Parts of it that are damaged, in their order.
    pub(crate) damage: Vec<Damage>,
    /// Bytes behind the last valid frame.
    pub(crate) torn_bytes: u64,
}

/// A part of a journal that is no frame, although frames follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins, bytes.
    pub offset: u64,
    /// How long it is.
    pub bytes: u64,
    /// Start of the last window before it, if there is one.
    pub after: Option<UtcMs>,
    /// Start of the first window behind it, if there is one.
    pub before: Option<UtcMs>,
}

impl Scan {
    /// Scans an open journal. `None` when it ends within its header.
    pub(crate) fn new(file: File, path: &Path) -> Result<Option<Self>, StoreError> {
        let read = || StoreError::io("read", path);
        let file_bytes = file.metadata().map_err(read())?.len();
        let Some((header, mut at)) = Header::read(&file, path)? else {
            return Ok(None);
        };
        let mut scan = Self {
            file,
            path: path.to_owned(),
            header,
            definitions: Vec::new(),
            windows: Vec::new(),
            damage: Vec::new(),
            torn_bytes: 0,
        };
        let mut ops = None;
        let is_kind = |byte| Kind::of(byte).is_some();
        while at < file_bytes {
            match piece_at(&scan.file, at, file_bytes, is_kind).map_err(read())? {
                Piece::Whole(frame) => {
                    scan.take(frame, &mut ops)
                        .map_err(read())?
                        .map_err(|error| StoreError::Damaged {
                            path: path.to_owned(),
                            offset: at,
                            why: error.why(),
                        })?;
                    at = frame.end;
                }
                Piece::Damaged { end } => {
                    // What is damaged may be the window of these operations.
                    ops = None;
                    scan.damage.push(Damage {
                        offset: at,
                        bytes: end - at,
                        after: scan.windows.last().map(|window| window.head.start),
                        before: None,
                    });
                    at = end;
                }
                Piece::Torn => break,
            }
        }
        scan.torn_bytes = file_bytes.saturating_sub(at);
        Ok(Some(scan))
    }

    /// Notes what a frame holds. Its checksum holds, so what does not decode is no torn tail. `ops` is where the
    /// operations of the next window are: without the window they do not count.
    fn take(
        &mut self,
        frame: Frame,
        ops: &mut Option<(u64, u64)>,
    ) -> io::Result<Result<(), DecodeError>> {
        let file = &self.file;
        // No longer than the file, whose checksum was just read.
        let payload = |most: usize| -> io::Result<Vec<u8>> {
            let bytes = usize::try_from(frame.end - frame.payload).map_err(io::Error::other)?;
            let mut payload = vec![0; bytes.min(most)];
            read_at(file, &mut payload, frame.payload)?;
            Ok(payload)
        };
        match Kind::of(frame.kind) {
            None => Ok(Err(DecodeError::Malformed("a frame is of an unknown kind"))),
            Some(Kind::Definitions) => {
                let payload = payload(usize::MAX)?;
                Ok(self.take_definitions(&mut Input::new(&payload)))
            }
            Some(Kind::Operations) => {
                *ops = Some((frame.payload, frame.end));
                Ok(Ok(()))
            }
            Some(Kind::Window) => {
                let payload = payload(MAX_HEAD_BYTES)?;
                Ok(self.take_window(frame, &payload, ops.take(), codec::window_head))
            }
            Some(Kind::PendingWindow) => {
                let payload = payload(MAX_PENDING_BYTES + MAX_HEAD_BYTES)?;
                let head = |input: &mut Input<'_>| {
                    let pending = codec::pending(input)?;
                    let mut head = codec::window_head(input)?;
                    head.health.pending = Some(pending);
                    Ok(head)
                };
                Ok(self.take_window(frame, &payload, ops.take(), head))
            }
        }
    }

    fn take_window(
        &mut self,
        frame: Frame,
        payload: &[u8],
        ops: Option<(u64, u64)>,
        head: impl FnOnce(&mut Input<'_>) -> Result<WindowHead, DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut input = Input::new(payload);
        let mut head = head(&mut input)?;
        head.health.filter = self.header.filter.clone();
        let read = payload.len() - input.remaining();
        let not_told = self.damage.iter_mut().rev();
        for damage in not_told.take_while(|damage| damage.before.is_none()) {
            damage.before = Some(head.start);
            if ops.is_none() {
                // The operations may have been there: then nothing is known of them.
                head.health.ops_covered_ms = 0;
                head.health.ops_seen = 0;
                head.health.ops_missed = 0;
            }
        }
        self.windows.push(WindowFrame {
            head,
            rows_at: frame.payload + read as u64,
            end: frame.end,
            ops,
        });
        Ok(())
    }

    /// Reads the operations of a window, as many as there are.
    pub(crate) fn ops(&self, window: &WindowFrame) -> Result<Vec<OperationRow>, StoreError> {
        let Some((start, end)) = window.ops else {
            return Ok(Vec::new());
        };
        // No longer than the file, whose checksum was read.
        let mut payload = vec![0; usize::try_from(end - start).unwrap_or(0)];
        read_at(&self.file, &mut payload, start).map_err(StoreError::io("read", &self.path))?;
        ops::ops(&mut Input::new(&payload)).map_err(|error| StoreError::Damaged {
            path: self.path.clone(),
            offset: start,
            why: error.why(),
        })
    }

    /// The file of a local id; `None` if its definition was in a damaged part, or there is none.
    pub(crate) fn file(&self, id: u32) -> Option<&Arc<FileAttributes>> {
        self.definitions.get(id as usize)?.as_ref()
    }

    /// Whether the journal may lack definitions that its windows refer to.
    pub(crate) fn may_lack_files(&self) -> bool {
        !self.damage.is_empty()
    }

    /// The files that are defined, with their local ids.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u32, &Arc<FileAttributes>)> {
        let files = (0..).zip(&self.definitions);
        files.filter_map(|(id, file)| Some((id, file.as_ref()?)))
    }

    /// Start of the first and end of the last window; `None` without one.
    pub(crate) fn span(&self) -> Option<(UtcMs, UtcMs)> {
        let starts = || self.windows.iter().map(|window| window.head.start);
        let end = starts().max()?.plus(self.header.granularities.finest());
        Some((starts().min()?, end))
    }

    fn take_definitions(&mut self, input: &mut Input<'_>) -> Result<(), DecodeError> {
        let first = usize::try_from(input.u64()?).unwrap_or(usize::MAX);
        let missing = first.checked_sub(self.definitions.len());
        match missing {
            Some(0) => {}
            Some(1..=MOST_MISSING_FILES) if !self.damage.is_empty() => {
                self.definitions.resize(first, None);
            }
            _ => return Err(DecodeError::Malformed("file definitions are missing")),
        }
        while input.remaining() > 0 {
            let file = codec::definition(input)?;
            self.definitions.push(Some(Arc::new(file)));
        }
        Ok(())
    }
}

//! Finding out what a journal holds: its windows' places and its definitions, without its rows.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trackiops_schemas::identity::FileAttributes;

use super::codec::{self, MAX_HEAD_BYTES, MAX_PENDING_BYTES, WindowHead};
use super::format::{Frame, Header, Kind, frame_at, read_at};
use crate::error::StoreError;
use crate::varint::{DecodeError, Input};

/// A window's place in a journal.
#[derive(Clone, Debug)]
pub(crate) struct WindowFrame {
    pub(crate) head: WindowHead,
    /// Where its rows begin and end in the file.
    pub(crate) rows_at: u64,
    pub(crate) end: u64,
}

/// The valid part of a journal as it was when it was scanned.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    /// Files by local id.
    pub(crate) definitions: Vec<Arc<FileAttributes>>,
    /// In the order in which they were appended.
    pub(crate) windows: Vec<WindowFrame>,
    /// Bytes behind the last valid frame.
    pub(crate) torn_bytes: u64,
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
            torn_bytes: 0,
        };
        while let Some(frame) = frame_at(&scan.file, at, file_bytes).map_err(read())? {
            scan.take(frame)
                .map_err(read())?
                .map_err(|error| StoreError::Damaged {
                    path: path.to_owned(),
                    offset: at,
                    why: error.why(),
                })?;
            at = frame.end;
        }
        scan.torn_bytes = file_bytes.saturating_sub(at);
        Ok(Some(scan))
    }

    /// Notes what a frame holds. Its checksum holds, so what does not decode is no torn tail.
    fn take(&mut self, frame: Frame) -> io::Result<Result<(), DecodeError>> {
        let bytes = |most: u64| usize::try_from((frame.end - frame.payload).min(most));
        let Some(kind) = Kind::of(frame.kind) else {
            return Ok(Err(DecodeError::Malformed("a frame is of an unknown kind")));
        };
        let payload_bytes = match kind {
            Kind::Definitions => bytes(u64::MAX),
            Kind::Window => bytes(MAX_HEAD_BYTES as u64),
            Kind::PendingWindow => bytes((MAX_PENDING_BYTES + MAX_HEAD_BYTES) as u64),
        };
        // No longer than the file, whose checksum was just read.
        let mut payload = vec![0; payload_bytes.map_err(io::Error::other)?];
        read_at(&self.file, &mut payload, frame.payload)?;
        let mut input = Input::new(&payload);
        let head = match kind {
            Kind::Definitions => return Ok(self.take_definitions(&mut input)),
            Kind::Window => codec::window_head(&mut input),
            Kind::PendingWindow => codec::pending(&mut input).and_then(|pending| {
                let mut head = codec::window_head(&mut input)?;
                head.health.pending = Some(pending);
                Ok(head)
            }),
        };
        Ok(head.map(|head| {
            let read = payload.len() - input.remaining();
            self.windows.push(WindowFrame {
                head,
                rows_at: frame.payload + read as u64,
                end: frame.end,
            });
        }))
    }

    fn take_definitions(&mut self, input: &mut Input<'_>) -> Result<(), DecodeError> {
        if input.u64()? != self.definitions.len() as u64 {
            return Err(DecodeError::Malformed("file definitions are missing"));
        }
        while input.remaining() > 0 {
            self.definitions.push(Arc::new(codec::definition(input)?));
        }
        Ok(())
    }
}

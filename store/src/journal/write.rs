//! Appending to a journal.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use trackiops_schemas::rollup::{ClosedWindow, FileRow};

use super::codec::{put_pending, put_row, put_window_head};
use super::definitions::Definitions;
use super::format::{Header, Kind, put_frame};
use super::ops::{OpsHead, put_ops};
use crate::error::StoreError;
use crate::fail;
use crate::layout;

/// Files of a journal after which another one is begun: the writer remembers them, some 400 bytes each, and so does whoever seals it.
const MOST_FILES: usize = 65_536;

/// An open journal.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    file: File,
    path: PathBuf,
    /// Length of the file up to its last durable frame.
    durable_bytes: u64,
    definitions: Definitions,
    buffer: Vec<u8>,
}

/// Creates a journal and makes its header and its name durable. Returns it with its length.
pub(crate) fn create(
    store: &Path,
    path: &Path,
    header: &Header,
) -> Result<(File, u64), StoreError> {
    let encoded = header.encode();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o640);
    let mut file = options
        .open(path)
        .map_err(StoreError::io("create journal", path))?;
    fail::point("journal: created");
    let written = file.write_all(&encoded).and_then(|()| file.sync_all());
    if written.is_err() {
        // Nothing was appended; were it left, recovery would find an empty journal.
        let _ = std::fs::remove_file(path);
    }
    written.map_err(StoreError::io("write journal", path))?;
    layout::sync_dir(&layout::journal_dir(store))?;
    fail::point("journal: durable");
    Ok((file, encoded.len() as u64))
}

/// Why a window was not appended.
pub(crate) struct AppendError {
    pub(crate) cause: StoreError,
    /// Whether the journal ends with its last durable frame, so that it can be appended to again.
    pub(crate) usable: bool,
}

impl JournalWriter {
    /// Creates the journal and makes its header and its name durable.
    pub(crate) fn create(store: &Path, header: &Header) -> Result<Self, StoreError> {
        let path = layout::journal(store, header.number);
        let (file, durable_bytes) = create(store, &path, header)?;
        Ok(Self {
            file,
            path,
            durable_bytes,
            definitions: Definitions::default(),
            buffer: Vec::new(),
        })
    }

    /// Whether it knows as many files as it should.
    pub(crate) fn is_full(&self) -> bool {
        self.definitions.count() >= MOST_FILES
    }

    /// Appends a window with the definitions it needs, in one write, and makes it durable.
    pub(crate) fn append(&mut self, window: &ClosedWindow) -> Result<(), AppendError> {
        let known = self.definitions.count();
        match self.try_append(window) {
            Ok(()) => Ok(()),
            Err(cause) => {
                self.definitions.keep_first(known);
                Err(AppendError {
                    usable: self.cut_to_durable(&cause),
                    cause,
                })
            }
        }
    }

    fn try_append(&mut self, window: &ClosedWindow) -> Result<(), StoreError> {
        self.buffer.clear();
        self.encode(window)?;
        fail::point("append: encoded");
        self.file
            .write_all(&self.buffer)
            .map_err(StoreError::io("write journal", &self.path))?;
        fail::point("append: written");
        self.file
            .sync_data()
            .map_err(StoreError::io("sync journal", &self.path))?;
        let metadata = self.file.metadata();
        if metadata
            .map_err(StoreError::io("examine journal", &self.path))?
            .nlink()
            == 0
        {
            return Err(StoreError::Gone(self.path.clone()));
        }
        self.durable_bytes += self.buffer.len() as u64;
        fail::point("append: durable");
        Ok(())
    }

    fn encode(&mut self, window: &ClosedWindow) -> Result<(), StoreError> {
        let mut rows: Vec<&FileRow> = window.rows.iter().collect();
        rows.sort_by_key(|row| row.file.key);
        let files = rows.iter().map(|row| &row.file);
        let ids = self.definitions.ids(files, &mut self.buffer)?;
        if let Some(head) = OpsHead::of(window) {
            put_frame(&mut self.buffer, Kind::Operations, |out| {
                head.put(out);
                put_ops(out, &window.ops);
            })?;
        }
        let pending = window.health.pending.as_ref();
        let kind = match pending {
            Some(_) => Kind::PendingWindow,
            None => Kind::Window,
        };
        put_frame(&mut self.buffer, kind, |out| {
            if let Some(pending) = pending {
                put_pending(out, pending);
            }
            put_window_head(out, window);
            for (row, id) in rows.iter().zip(&ids) {
                put_row(out, *id, &row.row);
            }
        })
    }

    /// Removes what a failed append may have left, so that the next frame follows a whole one.
    /// After a failed sync the kernel may have dropped what it could not write: such a journal is
    /// not trusted again.
    fn cut_to_durable(&mut self, cause: &StoreError) -> bool {
        use std::io::{Seek, SeekFrom};
        let synced = !matches!(
            cause,
            StoreError::Io {
                doing: "sync journal",
                ..
            } | StoreError::Gone(_)
        );
        let cut = self.file.set_len(self.durable_bytes);
        let sought = self.file.seek(SeekFrom::Start(self.durable_bytes));
        synced && cut.is_ok() && sought.is_ok()
    }
}

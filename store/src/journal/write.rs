//! Appends to journals.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use trackiops_schemas::row::{ClosedWindow, FileRow};
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_threads::fail_point;

use super::captured::put_captured;
use super::definitions::Definitions;
use super::end::EndWriter;
use super::frame::{Kind, NewFrames};
use super::header::{Header, Previous};
use super::ops::{fits, put_ops};
use super::payload::{put_pending, put_row, put_window_head};
use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// Approximate bytes of windows in one write. Further windows go to the next write.
const AT_ONCE_BYTES: usize = 1 << 20;

/// An open journal.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    most_files: usize,
    file: File,
    path: PathBuf,
    number: u64,
    /// The granularity of its windows.
    finest: Granularity,
    /// Length up to the last durable frame.
    durable_bytes: u64,
    end: EndWriter,
    /// `durable_bytes` before an append that has not returned. It stays set after a panic.
    before: Option<u64>,
    definitions: Definitions,
    frames: NewFrames,
    /// Offsets at which the windows of the last append end.
    ends: Vec<u64>,
}

/// A new journal.
pub(crate) struct Created {
    pub(crate) file: File,
    /// Its length, bytes.
    pub(crate) bytes: u64,
    pub(crate) end: EndWriter,
    pub(crate) frames: NewFrames,
}

/// Creates a journal and its `.end` file. Both names and the header are durable when this returns.
pub(crate) fn create(store: &Path, path: &Path, header: &Header) -> Result<Created, StoreError> {
    let (encoded, seed) = header.encode();
    let end = EndWriter::create(path)?;
    fail_point::hit("journal: end created");
    let mut file = beneath::create(store, path).map_err(StoreError::io("create journal", path))?;
    fail_point::hit("journal: created");
    let written = file.write_all(&encoded).and_then(|()| {
        beneath::finished(&file)?;
        file.sync_all()
    });
    if written.is_err() {
        // Otherwise recovery would find an empty journal.
        let _ = beneath::remove(store, path);
        let _ = beneath::remove(store, &layout::journal_end(path));
    }
    written.map_err(StoreError::io("write journal", path))?;
    layout::sync_dir(store, &layout::journal_dir(store))?;
    fail_point::hit("journal: durable");
    Ok(Created {
        file,
        bytes: encoded.len() as u64,
        end,
        frames: NewFrames::new(seed),
    })
}

/// An append failed, and no window was appended.
pub(crate) struct AppendError {
    pub(crate) cause: StoreError,
    /// `None` if the journal ends with its last durable frame, so that it can be appended to.
    pub(crate) uncertain_tail: Option<UncertainTail>,
}

/// Bytes that a failed append may have left at the end of a journal. Its windows will be written again, so these bytes
/// must not stay: the windows would count twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncertainTail {
    journal: u64,
    durable_bytes: u64,
}

impl UncertainTail {
    /// Cuts the journal to its durable length.
    pub(crate) fn cut_off(&self, store: &Path) -> Result<(), StoreError> {
        let path = layout::journal(store, self.journal);
        let file = match beneath::write(store, &path) {
            // The journal is gone, and these bytes with it.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(StoreError::io("open journal", &path))?,
        };
        let cut = file.metadata().and_then(|metadata| {
            // The file may be shorter, because the kernel could not write its end.
            file.set_len(self.durable_bytes.min(metadata.len()))?;
            file.sync_all()
        });
        cut.map_err(StoreError::io("cut journal", &path))
    }
}

impl JournalWriter {
    /// Creates the journal, which is full at `most_files` files. Its header and its name are durable when this returns.
    pub(crate) fn create(
        store: &Path,
        header: &Header,
        most_files: usize,
    ) -> Result<Self, StoreError> {
        let path = layout::journal(store, header.number);
        let created = create(store, &path, header)?;
        Ok(Self {
            file: created.file,
            path,
            number: header.number,
            most_files,
            finest: header.granularities.finest(),
            durable_bytes: created.bytes,
            end: created.end,
            before: None,
            definitions: Definitions::default(),
            frames: created.frames,
            ends: Vec::new(),
        })
    }

    /// The record of this journal for the next one's header.
    pub(crate) fn as_previous(&self) -> Previous {
        Previous {
            number: self.number,
            bytes: self.durable_bytes,
        }
    }

    /// Offsets at which the windows of the last append end.
    pub(crate) fn ends(&self) -> &[u64] {
        &self.ends
    }

    /// Whether it defines enough files for the next windows to go into another journal.
    pub(crate) fn is_full(&self) -> bool {
        self.definitions.count() >= self.most_files
    }

    /// Bytes that a panicked append may have left.
    pub(crate) fn uncertain_tail(&self) -> Option<UncertainTail> {
        let durable_bytes = self.before?;
        Some(UncertainTail {
            journal: self.number,
            durable_bytes,
        })
    }

    /// Appends the first of these windows with the definitions that they need, in one write, and
    /// syncs them. Returns the number of appended windows, at least one.
    pub(crate) fn append(&mut self, windows: &[ClosedWindow]) -> Result<usize, AppendError> {
        let known = self.definitions.count();
        self.before = Some(self.durable_bytes);
        let appended = self.try_append(windows);
        self.before = None;
        match appended {
            Ok(count) => Ok(count),
            Err(cause) => {
                self.definitions.keep_first(known);
                let uncertain_tail = (!self.cut_to_durable(&cause)).then_some(UncertainTail {
                    journal: self.number,
                    durable_bytes: self.durable_bytes,
                });
                Err(AppendError {
                    cause,
                    uncertain_tail,
                })
            }
        }
    }

    fn try_append(&mut self, windows: &[ClosedWindow]) -> Result<usize, StoreError> {
        let count = self.encode_first(windows)?;
        fail_point::hit("append: encoded");
        self.file
            .write_all(self.frames.bytes())
            .map_err(StoreError::io("write journal", &self.path))?;
        fail_point::hit("append: written");
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
        self.durable_bytes += self.frames.bytes().len() as u64;
        fail_point::hit("append: durable");
        self.note_end(&windows[..count]);
        Ok(count)
    }

    /// Writes the durable length and the time range of these windows to the `.end` file.
    fn note_end(&mut self, windows: &[ClosedWindow]) {
        let starts = || windows.iter().map(|window| window.start);
        if let Some((first, last)) = starts().min().zip(starts().max()) {
            let span: (UtcMs, UtcMs) = (first, last.plus(self.finest));
            self.end.note(self.durable_bytes, span);
        }
    }

    fn encode_first(&mut self, windows: &[ClosedWindow]) -> Result<usize, StoreError> {
        self.frames.begin(self.durable_bytes);
        self.ends.clear();
        for (count, window) in windows.iter().enumerate() {
            let (bytes, known) = (self.frames.bytes().len(), self.definitions.count());
            if count > 0 && (bytes >= AT_ONCE_BYTES || self.is_full()) {
                return Ok(count);
            }
            match encode(window, &mut self.definitions, &mut self.frames) {
                // The next call returns its error.
                Err(_) if count > 0 => {
                    self.frames.truncate(bytes);
                    self.definitions.keep_first(known);
                    return Ok(count);
                }
                encoded => encoded?,
            }
            self.ends
                .push(self.durable_bytes + self.frames.bytes().len() as u64);
        }
        Ok(windows.len())
    }

    /// Removes the bytes of a failed append, so that the next frame follows a valid one. Returns whether the journal
    /// remains usable. After a failed sync it is not, because the kernel may have dropped bytes.
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

/// Adds the frames of a window, and of the files that are not defined yet.
fn encode(
    window: &ClosedWindow,
    definitions: &mut Definitions,
    frames: &mut NewFrames,
) -> Result<(), StoreError> {
    let mut rows: Vec<&FileRow> = window.rows.iter().collect();
    rows.sort_by_key(|row| row.file.key);
    let files = rows.iter().map(|row| &row.file);
    let ids = definitions.ids(files, frames)?;
    let defined = definitions.count();
    if !window.ops.is_empty() {
        fits(&window.ops).map_err(StoreError::WindowTooLarge)?;
        frames.put(Kind::Operations, |out| {
            put_ops(out, &window.ops);
        })?;
    }
    let captured = &window.health.captured;
    if !captured.is_empty() {
        frames.put(Kind::Captured, |out| put_captured(out, captured))?;
    }
    let pending = window.health.pending.as_ref();
    let kind = match pending {
        Some(_) => Kind::PendingWindow,
        None => Kind::Window,
    };
    frames.put(kind, |out| {
        if let Some(pending) = pending {
            put_pending(out, pending);
        }
        put_window_head(out, window, defined);
        for (row, id) in rows.iter().zip(&ids) {
            put_row(out, *id, &row.row);
        }
    })
}

/// A journal with only this window.
pub(crate) fn journal_of(header: &Header, window: &ClosedWindow) -> Result<Vec<u8>, StoreError> {
    let (mut journal, seed) = header.encode();
    let mut frames = NewFrames::new(seed);
    frames.begin(journal.len() as u64);
    encode(window, &mut Definitions::default(), &mut frames)?;
    journal.extend_from_slice(frames.bytes());
    Ok(journal)
}

#[cfg(test)]
mod tests {
    use trackiops_testkit::windows::windows;

    use super::*;
    use crate::snapshot::Snapshot;
    use crate::unit_tests::{Told, options, tell};
    use crate::warning::Warning;
    use crate::writer::Writer;

    #[test]
    fn what_a_failed_append_has_left_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let options = options("h");
        let windows = windows(3);
        let mut writer = Writer::open(&store, options.clone()).unwrap();
        writer.append(&windows[0]).unwrap();
        let durable_bytes = std::fs::metadata(layout::journal(&store, 1)).unwrap().len();
        let end = layout::journal_end(&layout::journal(&store, 1));
        let vouched = std::fs::read(&end).unwrap();
        let finest = options.granularities.finest();
        assert_eq!(writer.append_first(finest, &windows[1..]).unwrap(), 2);
        drop(writer);
        // A failed append does not write the `.end` file.
        std::fs::write(&end, vouched).unwrap();
        let uncertain_tail = UncertainTail {
            journal: 1,
            durable_bytes,
        };
        let told = Told::default();
        let mut writer =
            Writer::open_after(&store, options, Some(uncertain_tail), tell(&told)).unwrap();
        writer.append_first(finest, &windows[1..]).unwrap();
        writer.finish().unwrap();
        assert_eq!(
            *told.lock().unwrap(),
            [Warning::RecoveredWindows {
                windows: 1,
                torn_bytes: 0
            }]
        );
        let snapshot = Snapshot::open(&store).unwrap();
        let segments = snapshot.segments(layout::Dataset::Health, None).unwrap();
        let segments = segments.iter().filter(|s| s.granularity == finest);
        let rows: u64 = segments.map(|segment| segment.rows).sum();
        assert_eq!(rows, 3);
    }
}

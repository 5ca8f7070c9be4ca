//! Opening a journal, whatever is in its place.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::end::Extent;
use crate::beneath;
use crate::error::StoreError;
use crate::layout;

/// A journal that is open for reading.
#[derive(Debug)]
pub(crate) struct JournalFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    /// How long it was when it was opened.
    pub(crate) bytes: u64,
    /// How far it goes at least, if that is known.
    pub(crate) extent: Option<Extent>,
}

impl JournalFile {
    /// Opens a journal; `None` if there is none.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, StoreError> {
        let file = match beneath::read(layout::store_of(path), path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| match beneath::other_than_file(&error) {
                Some(why) => StoreError::Damaged {
                    path: path.to_owned(),
                    offset: 0,
                    why,
                },
                None => StoreError::io("open journal", path)(error),
            })?,
        };
        // Before the length: a recorder may be appending.
        let extent = Extent::read(path);
        let metadata = file.metadata().map_err(StoreError::io("read", path))?;
        Ok(Some(Self {
            bytes: metadata.len(),
            file,
            path: path.to_owned(),
            extent,
        }))
    }

    /// How many bytes are known to have been appended and synced.
    pub(crate) fn vouched(&self) -> u64 {
        self.extent.map_or(0, |extent| extent.bytes)
    }
}

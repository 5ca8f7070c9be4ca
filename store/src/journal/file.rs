//! Opens journals for reading.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};

use super::end::{End, Extent};
use super::header::said_by_next;
use crate::beneath;
use crate::error::StoreError;
use crate::identity::{Ids, StoreId};
use crate::layout;

/// A journal that is open for reading.
#[derive(Debug)]
pub(crate) struct JournalFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    /// Length when it was opened.
    pub(crate) bytes: u64,
    /// The least length that it must have, if known.
    pub(crate) extent: Option<Extent>,
    /// Whether its `.end` file is damaged.
    pub(crate) is_end_damaged: bool,
    /// The least length that it must have, from the header of the next journal.
    said_by_next: u64,
    /// The ids of the store that it must be of, if known.
    ids: Option<Ids>,
}

impl JournalFile {
    /// Opens a journal. `None` if it does not exist.
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
        // Read before the length, because a recorder may be appending.
        let said_by_next = said_by_next(path);
        let End { extent, is_damaged } = End::read(path);
        let metadata = file.metadata().map_err(StoreError::io("read", path))?;
        Ok(Some(Self {
            bytes: metadata.len(),
            file,
            path: path.to_owned(),
            extent,
            is_end_damaged: is_damaged,
            said_by_next,
            ids: None,
        }))
    }

    /// A journal in memory. Its errors name `path`.
    pub(crate) fn in_memory(bytes: &[u8], path: &Path) -> io::Result<Self> {
        let mut file = File::from(memfd_create("journal", MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            bytes: bytes.len() as u64,
            extent: None,
            said_by_next: 0,
            ids: None,
            // All bytes count as durable, so a damaged part is not a torn tail.
            is_end_damaged: true,
        })
    }

    /// The same journal, readable only if it belongs to a store with these ids.
    pub(crate) fn of_store(self, ids: &Ids) -> Self {
        Self {
            ids: Some(Arc::clone(ids)),
            ..self
        }
    }

    /// As [`Self::of_store`], if the ids are known.
    pub(crate) fn of_any(self, ids: Option<&Ids>) -> Self {
        match ids {
            Some(ids) => self.of_store(ids),
            None => self,
        }
    }

    /// Whether it may belong to the store with this id.
    pub(crate) fn is_of(&self, store: StoreId) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(&store))
    }

    /// Whether nothing says how long the journal was, so that a torn end may have been durable. `is_used`: it has windows or
    /// requests. A recorder creates the `.end` file before the journal, and writes to it when the first of them are durable.
    /// Call it only if no recorder appends to the journal.
    pub(crate) fn has_unknown_length(&self, is_used: bool) -> bool {
        self.extent.is_none() && (is_used || !Extent::has_file(&self.path))
    }

    /// Number of bytes that count as durable: damage within them is not a torn tail. All bytes if the `.end` file is
    /// damaged, because damage often hits both files.
    pub(crate) fn vouched(&self) -> u64 {
        let known = self.extent.map_or(0, |extent| extent.vouched());
        let known = known.max(self.said_by_next);
        match self.is_end_damaged {
            true => known.max(self.bytes),
            false => known,
        }
    }
}

//! The files that a journal defines.

use std::collections::HashMap;
use std::sync::Arc;

use trackiops_schemas::identity::FileAttributes;

use super::frame::{Kind, NewFrames};
use super::payload::{definition, put_definition};
use crate::error::StoreError;
use crate::varint::{DecodeError, Input, put_u64};

/// Limit on the files of a journal. The writer begins another journal at a quarter of this, after the files of one more
/// window.
pub(crate) const MOST_DEFINED: usize = 4 * 65_536;
/// Bytes of definitions after which a new frame begins, because a reader keeps a frame in memory.
const FRAME_BYTES: usize = 1 << 20;

/// Files with their ids in a journal.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    ids: HashMap<Arc<FileAttributes>, u32>,
}

impl Definitions {
    /// Returns the ids of `files`. Adds frames to `out` that define the new ones.
    pub(crate) fn ids<'f>(
        &mut self,
        files: impl Iterator<Item = &'f Arc<FileAttributes>>,
        out: &mut NewFrames,
    ) -> Result<Vec<u32>, StoreError> {
        let mut first = self.ids.len();
        let mut new = Vec::new();
        let mut ids = Vec::with_capacity(files.size_hint().0);
        for file in files {
            let next = self.ids.len() as u32;
            let id = *self.ids.entry(Arc::clone(file)).or_insert_with(|| {
                put_definition(&mut new, file);
                next
            });
            ids.push(id);
            if new.len() >= FRAME_BYTES {
                put(out, first, &new)?;
                new.clear();
                first = self.ids.len();
            }
        }
        if !new.is_empty() {
            put(out, first, &new)?;
        }
        // Readers refuse a window with more rows than this, even if the rows have few files.
        match self.ids.len().max(ids.len()) {
            ..=MOST_DEFINED => Ok(ids),
            count => Err(StoreError::TooManyFiles(count)),
        }
    }

    /// Number of files.
    pub(crate) fn count(&self) -> usize {
        self.ids.len()
    }

    /// Forgets all files except the first `count`.
    pub(crate) fn keep_first(&mut self, count: usize) {
        self.ids.retain(|_, id| (*id as usize) < count);
    }
}

fn put(out: &mut NewFrames, first: usize, definitions: &[u8]) -> Result<(), StoreError> {
    out.put(Kind::Definitions, |out| {
        put_u64(out, first as u64);
        out.extend_from_slice(definitions);
    })
}

/// The files that a journal defines, by id. In a damaged journal, some may be unknown.
#[derive(Debug, Default)]
pub(crate) struct Defined {
    files: Vec<Option<Arc<FileAttributes>>>,
}

impl Defined {
    pub(crate) fn get(&self, id: u32) -> Option<&Arc<FileAttributes>> {
        self.files.get(id as usize)?.as_ref()
    }

    /// The known files with their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc<FileAttributes>)> {
        let files = (0..).zip(&self.files);
        files.filter_map(|(id, file)| Some((id, file.as_ref()?)))
    }

    /// Number of files, including unknown ones.
    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }

    /// Reads a frame of definitions. Returns whether definitions before it are missing. That is an
    /// error unless `may_miss`.
    pub(crate) fn take(&mut self, payload: &[u8], may_miss: bool) -> Result<bool, DecodeError> {
        let mut input = Input::new(payload);
        let first = input.u64()?;
        let misses = self.reach(first, may_miss)?;
        if first < self.files.len() as u64 {
            return Err(DecodeError::Malformed("a file is defined twice"));
        }
        while input.remaining() > 0 {
            let file = definition(&mut input)?;
            if self.files.len() == MOST_DEFINED {
                return Err(TOO_MANY);
            }
            self.files.push(Some(Arc::new(file)));
        }
        Ok(misses)
    }

    /// Notes that `count` files have been defined. Returns whether definitions are missing. That is
    /// an error unless `may_miss`.
    pub(crate) fn reach(&mut self, count: u64, may_miss: bool) -> Result<bool, DecodeError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count <= self.files.len() {
            return Ok(false);
        }
        if count > MOST_DEFINED {
            return Err(TOO_MANY);
        }
        if !may_miss {
            return Err(DecodeError::Malformed("file definitions are missing"));
        }
        self.files.resize(count, None);
        Ok(true)
    }
}

const TOO_MANY: DecodeError = DecodeError::Malformed("it defines more files than a journal has");

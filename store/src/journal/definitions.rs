//! Which files a journal knows.

use std::collections::HashMap;
use std::sync::Arc;

use trackiops_schemas::identity::FileAttributes;

use super::codec::put_definition;
use super::format::{Kind, put_frame};
use crate::error::StoreError;
use crate::varint::put_u64;

/// Files by the ids that they have in a journal.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    ids: HashMap<Arc<FileAttributes>, u32>,
}

impl Definitions {
    /// The ids of `files`. Those that had none are defined in a frame, which is appended to `out`.
    pub(crate) fn ids<'f>(
        &mut self,
        files: impl Iterator<Item = &'f Arc<FileAttributes>>,
        out: &mut Vec<u8>,
    ) -> Result<Vec<u32>, StoreError> {
        let first = self.ids.len() as u32;
        let mut new = Vec::new();
        let mut ids = Vec::with_capacity(files.size_hint().0);
        for file in files {
            let next = self.ids.len() as u32;
            let id = *self.ids.entry(Arc::clone(file)).or_insert_with(|| {
                new.push(file);
                next
            });
            ids.push(id);
        }
        if !new.is_empty() {
            put_frame(out, Kind::Definitions, |out| {
                put_u64(out, u64::from(first));
                new.iter().for_each(|file| put_definition(out, file));
            })?;
        }
        Ok(ids)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.ids.len()
    }

    /// Forgets all but the first `count`.
    pub(crate) fn keep_first(&mut self, count: usize) {
        self.ids.retain(|_, id| (*id as usize) < count);
    }
}

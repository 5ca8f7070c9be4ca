//! What is done beside recording, when a journal was sealed and from time to time: expiring, merging, deleting.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trackiops_schemas::time::UtcMs;

use crate::catalog::Catalog;
use crate::compact::Compaction;
use crate::error::StoreError;
use crate::fail;
use crate::layout;
use crate::options::Keep;
use crate::retention;

/// Readers that have planned to read a file have so long to open it.
const GRACE_MS: i64 = 5 * 60 * 1000;

/// Keeps a store as its options say.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    store: PathBuf,
    keep: Keep,
    compaction: Compaction,
}

impl Housekeeping {
    pub(crate) fn new(store: &Path, keep: Keep) -> Self {
        Self {
            store: store.to_owned(),
            keep,
            compaction: Compaction::default(),
        }
    }

    /// What is due when segments have come: expires them, then goes on as [`Self::idle`] does.
    pub(crate) fn after_sealing(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        let other_bytes = match self.keep.most_bytes {
            None => 0,
            Some(_) => retention::other_bytes(&self.store)?,
        };
        let paths = retention::expired(&catalog.kept()?, &self.keep, other_bytes);
        if !paths.is_empty() {
            catalog.expire(&paths, self.at())?;
            fail::point("retention: committed");
        }
        self.idle(catalog)
    }

    /// What is due from time to time: deletes, and merges once. Merging more at a time would keep journals waiting, and
    /// whoever wants the recorder to end.
    pub(crate) fn idle(&mut self, catalog: &mut Catalog) -> Result<(), StoreError> {
        self.delete(catalog)?;
        self.compaction.step(&self.store, catalog, self.at())
    }

    /// When what is removed now may be deleted.
    fn at(&self) -> UtcMs {
        UtcMs((self.keep.now)().0.saturating_add(GRACE_MS))
    }

    /// Deletes what may be deleted by now.
    fn delete(&self, catalog: &mut Catalog) -> Result<(), StoreError> {
        let due = catalog.due((self.keep.now)())?;
        for path in &due {
            let path = self.store.join(path);
            for file in [layout::temporary(&path), path] {
                match fs::remove_file(&file) {
                    Err(e) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(StoreError::io("delete", &file)(e));
                    }
                    _ => {}
                }
                // Fails, as it should, as long as there are others of its date.
                let _ = file.parent().map(fs::remove_dir);
            }
            fail::point("delete: file");
        }
        if !due.is_empty() {
            catalog.deleted(&due)?;
            fail::point("delete: noted");
        }
        Ok(())
    }
}

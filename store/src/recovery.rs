//! Completing what an earlier writer has left.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::catalog::Catalog;
use crate::error::StoreError;
use crate::layout;
use crate::seal::seal;

/// What was found and completed when a store was opened for writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Journals sealed now.
    pub journals: u64,
    /// Windows in them.
    pub windows: u64,
    /// Bytes at their ends that were no whole frame, and were cut. They were never reported
    /// durable, unless the medium has damaged them since.
    pub torn_bytes: u64,
    /// Damaged journals. What of them could be read was sealed; they were renamed to these paths and are not read again.
    pub set_aside: Vec<PathBuf>,
    /// The largest number of a journal that was found.
    pub(crate) last_journal: u64,
}

impl Recovery {
    /// Whether the store was complete.
    pub fn is_clean(&self) -> bool {
        self.journals == 0 && self.torn_bytes == 0 && self.set_aside.is_empty()
    }
}

/// Seals every journal in the store.
pub(crate) fn recover(store: &Path, catalog: &mut Catalog) -> Result<Recovery, StoreError> {
    let mut recovery = Recovery::default();
    for number in layout::journals(store)? {
        recovery.last_journal = recovery.last_journal.max(number);
        let was_sealed = catalog.is_sealed(number)?;
        match seal(store, catalog, number, &mut |_| ControlFlow::Continue(())) {
            Ok(outcome) => {
                recovery.journals += u64::from(!was_sealed);
                recovery.windows += outcome.windows;
                recovery.torn_bytes += outcome.torn_bytes;
                recovery.set_aside.extend(outcome.set_aside);
            }
            Err(StoreError::Damaged { .. }) => {
                recovery
                    .set_aside
                    .push(set_aside(store, &layout::journal(store, number))?);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(recovery)
}

/// Renames a damaged journal, to the path that is returned.
pub(crate) fn set_aside(store: &Path, journal: &Path) -> Result<PathBuf, StoreError> {
    let mut aside = journal.as_os_str().to_owned();
    aside.push(".");
    aside.push(layout::SET_ASIDE_EXTENSION);
    let aside = PathBuf::from(aside);
    fs::rename(journal, &aside).map_err(StoreError::io("rename damaged journal to", &aside))?;
    layout::sync_dir(&layout::journal_dir(store))?;
    Ok(aside)
}

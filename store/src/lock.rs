//! Taking hold of a store's directory for writing.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FlockOperation, access, flock, fstatfs};

use crate::error::StoreError;
use crate::layout;

/// `NFS_SUPER_MAGIC`, include/uapi/linux/magic.h.
const NFS_SUPER_MAGIC: u64 = 0x6969;

/// One writer per store: holds `flock(LOCK_EX)` on the store's directory until it is dropped.
#[derive(Debug)]
pub(crate) struct StoreLock {
    dir: File,
}

/// Closing would not do: a child that the process has just forked holds the same lock until it executes
/// its program.
impl Drop for StoreLock {
    fn drop(&mut self) {
        let _ = flock(&self.dir, FlockOperation::Unlock);
    }
}

impl StoreLock {
    /// Creates the directory where there is none and locks it. It must be a store, or empty.
    pub(crate) fn take(store: &Path, allow_nfs: bool) -> Result<Self, StoreError> {
        if !store.exists() {
            layout::create_dir(store)?;
        }
        Self::lock(store, allow_nfs, check_kind)
    }

    /// Whether the store's path still leads to what is locked.
    pub(crate) fn is_in_place(&self, store: &Path) -> bool {
        let same = |held: &fs::Metadata, found: &fs::Metadata| {
            (held.dev(), held.ino()) == (found.dev(), found.ino())
        };
        match (self.dir.metadata(), fs::metadata(store)) {
            (Ok(held), Ok(found)) => same(&held, &found),
            // What keeps it from being looked at keeps it from being written, too.
            (_, Err(error)) => error.kind() != io::ErrorKind::NotFound,
            _ => true,
        }
    }

    /// Locks a store that may have lost its catalog, wherever it is: nothing is recorded.
    pub(crate) fn of_files(store: &Path) -> Result<Self, StoreError> {
        if !store.exists() {
            return Err(StoreError::Missing(store.to_owned()));
        }
        Self::lock(store, true, |store| match layout::has_files(store)? {
            true => Ok(()),
            false => Err(StoreError::NotAStore {
                path: store.to_owned(),
                why: "it holds neither journals nor segments",
            }),
        })
    }

    fn lock(
        store: &Path,
        allow_nfs: bool,
        check_kind: impl FnOnce(&Path) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let dir = File::open(store).map_err(StoreError::io("open", store))?;
        let kind = fstatfs(&dir).map_err(|e| StoreError::io("examine", store)(e.into()))?;
        if is_nfs(kind.f_type as u64) && !allow_nfs {
            return Err(StoreError::OnNfs(store.to_owned()));
        }
        if !dir
            .metadata()
            .map_err(StoreError::io("examine", store))?
            .is_dir()
        {
            return Err(StoreError::NotAStore {
                path: store.to_owned(),
                why: "it is not a directory",
            });
        }
        check_kind(store)?;
        access(store, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|e| StoreError::io("write to", store)(e.into()))?;
        match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { dir }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Locked(store.to_owned())),
            Err(e) => Err(StoreError::io("lock", store)(e.into())),
        }
    }
}

fn is_nfs(f_type: u64) -> bool {
    f_type == NFS_SUPER_MAGIC
}

/// Refuses what is neither a store nor empty.
fn check_kind(store: &Path) -> Result<(), StoreError> {
    if layout::catalog(store).exists() {
        return Ok(());
    }
    let not_a_store = |why| StoreError::NotAStore {
        path: PathBuf::from(store),
        why,
    };
    for entry in fs::read_dir(store).map_err(StoreError::io("list", store))? {
        let name = entry.map_err(StoreError::io("list", store))?.file_name();
        // A file system of its own is empty but for this.
        if name != "lost+found" {
            return Err(not_a_store("it holds other files and no catalog.db"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_descriptor_does_not_hold_the_lock() {
        let store = tempfile::tempdir().unwrap();
        let lock = StoreLock::take(store.path(), true).unwrap();
        let copy = lock.dir.try_clone().unwrap();
        drop(lock);
        assert!(StoreLock::take(store.path(), true).is_ok());
        drop(copy);
    }

    #[test]
    fn nfs_is_told_by_its_superblock_magic() {
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        assert!(is_nfs(0x6969));
        assert!(!is_nfs(TMPFS_MAGIC));
    }
}

//! Locks a store's directory for writing.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Access, FlockOperation, access, flock, fstatfs};
use rustix::process::geteuid;

use crate::beneath::{self, Bound};
use crate::error::StoreError;
use crate::identity::{Place, is_same_file};
use crate::layout;

/// `NFS_SUPER_MAGIC`, include/uapi/linux/magic.h.
const NFS_SUPER_MAGIC: u64 = 0x6969;
/// Write permission for the group or for all.
const OTHERS_WRITE: u32 = 0o022;

/// The lock of a store's writer, held until it is dropped: `flock(LOCK_EX)` on a file of the store and on its
/// directory.
///
/// The file can be deleted or replaced while it is locked. The directory cannot: its path then leads to another store.
/// On NFS, only the file's lock is visible to other hosts.
///
/// While it is held, this process reaches the store through the locked directory only, even if its path leads to
/// another one.
#[derive(Debug)]
pub(crate) struct StoreLock {
    _bound: Bound,
    dir: File,
    file: File,
    /// Whether the writer of windows waits to open the store again, so that the writer of requests must let go.
    asked_back: AtomicBool,
}

/// Unlocks explicitly: closing is not enough, because a forked child shares the locks until it executes its program.
impl Drop for StoreLock {
    fn drop(&mut self) {
        let _ = flock(&self.dir, FlockOperation::Unlock);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

impl StoreLock {
    /// Locks a store. Creates its directory if necessary. It must be a store or empty.
    pub(crate) fn take(store: &Path, allow_nfs: bool) -> Result<Self, StoreError> {
        // For example, the store was moved, and its requests are still written. It must not be created before that ends.
        if beneath::is_bound(store) {
            return Err(StoreError::Locked(store.to_owned()));
        }
        if !store.exists() {
            create_all(store)?;
        }
        Self::lock(store, allow_nfs, check_kind)
    }

    /// Fails if the store's path no longer leads to the locked directory.
    pub(crate) fn check_place(&self, store: &Path) -> Result<(), StoreError> {
        if self.asked_back.load(Ordering::Relaxed) {
            return Err(StoreError::Gone(store.to_owned()));
        }
        match (self.dir.metadata(), fs::metadata(store)) {
            (Ok(held), Ok(found)) if is_same_file(&held, &found) => Ok(()),
            (Ok(held), Ok(found)) if is_empty(store) || is_remounted(&held, &found) => {
                Err(StoreError::Gone(store.to_owned()))
            }
            (Ok(_), Ok(_)) => Err(StoreError::Replaced(store.to_owned())),
            // The locked directory cannot be reached any more, for example after ESTALE of NFS.
            (Err(_), Ok(_)) => Err(StoreError::Gone(store.to_owned())),
            (_, Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::Gone(store.to_owned()))
            }
            // Nothing is known of the directory at the path.
            _ => Ok(()),
        }
    }

    /// Has every other holder of this lock let go, when it looks at the place the next time.
    pub(crate) fn ask_back(&self) {
        self.asked_back.store(true, Ordering::Relaxed);
    }

    /// Identifies the locked directory.
    pub(crate) fn place(&self) -> Option<Place> {
        Place::of(&self.dir).ok()
    }

    /// Locks a store that may lack its catalog. NFS is allowed, because nothing is recorded.
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
        access(store, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|e| StoreError::io("write to", store)(e.into()))?;
        // On NFS, files of root may belong to another user.
        if !is_nfs(kind.f_type as u64) {
            check_owner(store, &dir)?;
        }
        let bound = dir.try_clone().map_err(StoreError::io("open", store))?;
        let bound = Bound::new(store, bound).ok_or_else(|| StoreError::Locked(store.to_owned()))?;
        check_kind(store)?;
        let path = layout::lock(store);
        let file = beneath::write_or_create(store, &path);
        let file = file.map_err(StoreError::io("open", &path))?;
        // After `chmod -R g+r`, the group could lock it.
        let _ = beneath::unfinished(&file);
        let is_free = try_lock(&file, store)? && (try_lock(&dir, store)? || !may_be_ours(&dir));
        match is_free {
            true => Ok(Self {
                _bound: bound,
                dir,
                file,
                asked_back: AtomicBool::new(false),
            }),
            false => Err(StoreError::Locked(store.to_owned())),
        }
    }
}

/// Identifies the directory at the path of a store. `None` if there is none, or an empty one.
pub(crate) fn occupant(store: &Path) -> Option<Place> {
    let found = fs::metadata(store).ok()?;
    (!is_empty(store)).then(|| Place::from(&found))
}

/// Whether a directory is the locked one, mounted again under another device number.
fn is_remounted(held: &fs::Metadata, found: &fs::Metadata) -> bool {
    let held = Place::from(held);
    held.birth_ns != 0 && held == Place::from(found)
}

/// Whether a directory has no entry but that of a new file system.
fn is_empty(dir: &Path) -> bool {
    let is_other = |entry: io::Result<fs::DirEntry>| {
        entry.map_or(true, |entry| entry.file_name() != "lost+found")
    };
    fs::read_dir(dir).is_ok_and(|mut entries| !entries.any(is_other))
}

/// Locks a file or a directory. Returns whether no other process has locked it.
fn try_lock(file: &File, store: &Path) -> Result<bool, StoreError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(e) => Err(StoreError::io("lock", store)(e.into())),
    }
}

/// Whether a recorder may hold the lock of a directory. Anyone who may read the directory can lock it, but only its
/// owner and root record into it.
fn may_be_ours(dir: &File) -> bool {
    let Ok(inode) = dir.metadata().map(|metadata| metadata.ino()) else {
        return true;
    };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut holders = holders(&locks, inode).peekable();
    // Processes of other PID namespaces are not listed.
    holders.peek().is_none() || holders.any(is_of_this_user)
}

/// The processes that hold flocks of this inode, from `/proc/locks` (`lock_get_status` in fs/locks.c): `1: FLOCK
/// ADVISORY  WRITE 4711 00:2f:2 0 EOF`. A waiting process has `->` as the second field.
fn holders(locks: &str, inode: u64) -> impl Iterator<Item = u32> {
    let holder = move |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, _, pid, place, ..] => {
            let (_, of) = place.rsplit_once(':')?;
            (of.parse() == Ok(inode)).then(|| pid.parse().ok())?
        }
        _ => None,
    };
    locks.lines().filter_map(holder)
}

/// Whether a process is alive and runs as this user or root.
fn is_of_this_user(pid: u32) -> bool {
    let process = fs::metadata(format!("/proc/{pid}"));
    process.is_ok_and(|process| [0, geteuid().as_raw()].contains(&process.uid()))
}

/// Creates a store's directory and its missing parents.
fn create_all(store: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(beneath::DIRECTORY_MODE);
    let created = builder.create(store);
    created.map_err(StoreError::io("create directory", store))
}

/// Refuses a store that another user could change, because its files are trusted. Checks all of its directories, and
/// the files in its root and among the journals. It skips segments: there may be many, and the catalog has their
/// checksums.
fn check_owner(store: &Path, dir: &File) -> Result<(), StoreError> {
    let own = geteuid().as_raw();
    let journals = layout::journal_dir(store);
    let mut left = vec![store.to_owned()];
    while let Some(path) = left.pop() {
        let found = match path == store {
            true => dir.metadata(),
            false => path.symlink_metadata(),
        };
        let metadata = match found {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            found => found.map_err(StoreError::io("examine", &path))?,
        };
        // Links are not followed, and their mode has no meaning.
        if metadata.is_symlink() || path.file_name().is_some_and(|name| name == "lost+found") {
            continue;
        }
        if metadata.is_dir() {
            let with_files = path == store || path == journals;
            let io = |error| StoreError::io("list", &path)(error);
            for entry in fs::read_dir(&path).map_err(io)? {
                let entry = entry.map_err(io)?;
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if with_files || is_dir {
                    left.push(entry.path());
                }
            }
        }
        if metadata.uid() != own {
            return Err(StoreError::NotOwned {
                path,
                owner: metadata.uid(),
                own,
            });
        }
        if metadata.mode() & OTHERS_WRITE != 0 {
            return Err(StoreError::OthersWrite(path));
        }
    }
    Ok(())
}

fn is_nfs(f_type: u64) -> bool {
    f_type == NFS_SUPER_MAGIC
}

/// Refuses a directory that is neither a store nor empty.
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
        // A new file system contains `lost+found`. The other files remain if creating a store was interrupted.
        let begun = [
            layout::lock(store),
            layout::new_catalog(store),
            layout::catalog_scratch(store),
        ];
        if name != "lost+found" && begun.iter().all(|path| path.file_name() != Some(&name)) {
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
        let copy = lock.file.try_clone().unwrap();
        drop(lock);
        assert!(StoreLock::take(store.path(), true).is_ok());
        drop(copy);
    }

    #[test]
    fn a_deleted_lock_file_does_not_free_the_store() {
        let store = tempfile::tempdir().unwrap();
        let lock = StoreLock::take(store.path(), true).unwrap();
        for replaced in [false, true] {
            let _ = fs::remove_file(layout::lock(store.path()));
            if replaced {
                fs::write(layout::lock(store.path()), "").unwrap();
            }
            let second = StoreLock::take(store.path(), true);
            assert!(matches!(second, Err(StoreError::Locked(_))), "{second:?}");
        }
        drop(lock);
        assert!(StoreLock::take(store.path(), true).is_ok());
    }

    #[test]
    fn holders_of_a_lock_are_listed_by_the_kernel() {
        let locks = "1: FLOCK  ADVISORY  WRITE 4711 00:2f:2 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 4712 00:2f:2 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 4713 00:2f:2 0 EOF\n\
                     3: FLOCK  ADVISORY  READ 4714 fe:01:22 0 EOF\n";
        assert_eq!(holders(locks, 2).collect::<Vec<_>>(), [4711]);
        let dir = tempfile::tempdir().unwrap();
        let dir = File::open(dir.path()).unwrap();
        assert!(try_lock(&dir, Path::new("")).unwrap());
        let inode = dir.metadata().unwrap().ino();
        let locks = fs::read_to_string("/proc/locks").unwrap();
        assert!(holders(&locks, inode).any(|pid| pid == std::process::id()));
        assert!(may_be_ours(&dir));
        assert!(is_of_this_user(std::process::id()));
    }

    #[test]
    fn nfs_is_told_by_its_superblock_magic() {
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        assert!(is_nfs(0x6969));
        assert!(!is_nfs(TMPFS_MAGIC));
    }
}

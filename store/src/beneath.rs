//! Opens, renames and deletes files in a store, without leaving it.
//!
//! A store that this process has locked is reached through the locked directory ([`Bound`]), not through its path: the
//! directory may be moved, and another one may take its place.
//!
//! Someone else may have created names in a store. So paths are resolved beneath the store's
//! directory, and through no symbolic link. Only regular files are opened, and opening never waits,
//! not even for a named pipe. The store's own path may contain links: its user chose it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fchmod, fstat, mkdirat, open, openat,
    openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::identity::is_same_file;

/// No access for others, because paths are sensitive.
pub(crate) const DIRECTORY_MODE: u32 = 0o750;
const NOT_REGULAR: &str = "it is not a regular file";
const LINK: &str = "it is, or is reached through, a symbolic link";
const FILE_MODE: u32 = 0o640;
/// Mode of an incomplete file.
const UNFINISHED_MODE: u32 = 0o600;

/// The directories of the stores that this process has locked, by the paths at which it locked them.
static BOUND: Mutex<BTreeMap<PathBuf, Arc<File>>> = Mutex::new(BTreeMap::new());

/// Until it is dropped, this process reaches the store at a path through this directory, wherever it is moved, and
/// never through another one that takes its place.
#[derive(Debug)]
pub(crate) struct Bound(PathBuf);

impl Bound {
    /// `None` if the path is bound already.
    pub(crate) fn new(store: &Path, dir: File) -> Option<Self> {
        match all_bound().entry(store.to_owned()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(free) => {
                free.insert(Arc::new(dir));
                Some(Self(store.to_owned()))
            }
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        all_bound().remove(&self.0);
    }
}

/// A panic cannot leave a partial entry.
fn all_bound() -> MutexGuard<'static, BTreeMap<PathBuf, Arc<File>>> {
    BOUND.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bound(store: &Path) -> Option<Arc<File>> {
    all_bound().get(store).cloned()
}

/// Whether this process has locked the store at this path.
pub(crate) fn is_bound(store: &Path) -> bool {
    bound(store).is_some()
}

/// A store's directory.
pub(crate) fn root(store: &Path) -> io::Result<OwnedFd> {
    match bound(store) {
        Some(dir) => Ok(dir.try_clone()?.into()),
        None => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(open(store, flags, Mode::empty())?)
        }
    }
}

/// The path of a store's directory without links, for SQLite. If the directory was moved, its new path.
pub(crate) fn real_path(store: &Path) -> io::Result<PathBuf> {
    if let Some(dir) = bound(store) {
        let held = dir.metadata()?;
        if !fs::metadata(store).is_ok_and(|found| is_same_file(&found, &held)) {
            return fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()));
        }
    }
    store.canonicalize()
}

/// Opens a regular file for reading.
pub(crate) fn read(store: &Path, path: &Path) -> io::Result<File> {
    regular(store, path, OFlags::RDONLY, 0)
}

/// Opens a regular file for reading and writing.
pub(crate) fn write(store: &Path, path: &Path) -> io::Result<File> {
    regular(store, path, OFlags::RDWR, 0)
}

/// Creates a file for writing and reading. It must not exist. Only its owner may read it until
/// [`finished`].
pub(crate) fn create(store: &Path, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    regular(store, path, flags, UNFINISHED_MODE)
}

/// As [`create`], but replaces an existing file.
pub(crate) fn create_anew(store: &Path, path: &Path) -> io::Result<File> {
    remove(store, path)?;
    create(store, path)
}

/// As [`create`], but opens an existing file.
pub(crate) fn write_or_create(store: &Path, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE;
    regular(store, path, flags, UNFINISHED_MODE)
}

/// Opens a file for reading, and for writing at its end. It need not exist.
pub(crate) fn append_or_create(store: &Path, path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND;
    regular(store, path, flags, UNFINISHED_MODE)
}

/// Lets the store's group read a file.
pub(crate) fn finished(file: &File) -> io::Result<()> {
    Ok(fchmod(file, Mode::from_raw_mode(FILE_MODE))?)
}

/// Lets only its owner open a file.
pub(crate) fn unfinished(file: &File) -> io::Result<()> {
    Ok(fchmod(file, Mode::from_raw_mode(UNFINISHED_MODE))?)
}

/// Renames a file. It replaces a file that has the new name.
pub(crate) fn rename(store: &Path, from: &Path, to: &Path) -> io::Result<()> {
    let (from_dir, from) = parent(store, from)?;
    let (to_dir, to) = parent(store, to)?;
    Ok(renameat(from_dir, from, to_dir, to)?)
}

/// Deletes a file. Returns whether it existed.
pub(crate) fn remove(store: &Path, path: &Path) -> io::Result<bool> {
    let removed =
        parent(store, path).and_then(|(dir, name)| Ok(unlinkat(dir, name, AtFlags::empty())?));
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Deletes an empty directory.
pub(crate) fn remove_dir(store: &Path, path: &Path) -> io::Result<()> {
    let (dir, name) = parent(store, path)?;
    Ok(unlinkat(dir, name, AtFlags::REMOVEDIR)?)
}

/// Whether the name exists, also as a link.
pub(crate) fn exists(store: &Path, path: &Path) -> io::Result<bool> {
    let found = parent(store, path)
        .and_then(|(dir, name)| Ok(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?));
    match found {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        found => found.map(|_| true),
    }
}

/// Creates a directory within the store, and its missing parents.
pub(crate) fn create_dir(store: &Path, path: &Path) -> io::Result<()> {
    let mut made = store.to_owned();
    for name in relative(store, path)?.components() {
        made.push(name);
        let (dir, name) = parent(store, &made)?;
        match mkdirat(dir, name, Mode::from_raw_mode(DIRECTORY_MODE)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes changes of the names in a directory durable.
pub(crate) fn sync_dir(store: &Path, path: &Path) -> io::Result<()> {
    Ok(rustix::fs::fsync(directory(store, path)?)?)
}

/// All entries of a directory. Empty if it does not exist or is not a directory.
pub(crate) fn entries(store: &Path, path: &Path) -> io::Result<Vec<PathBuf>> {
    use io::ErrorKind::{InvalidData, NotADirectory, NotFound};
    let dir = match directory(store, path) {
        Err(e) if matches!(e.kind(), NotFound | NotADirectory | InvalidData) => {
            return Ok(Vec::new());
        }
        dir => dir?,
    };
    let mut found = Vec::new();
    for entry in Dir::read_from(&dir)? {
        use std::os::unix::ffi::OsStrExt;
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            found.push(path.join(name));
        }
    }
    Ok(found)
}

fn regular(store: &Path, path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
    // Opening must not wait for the writer of a pipe. NONBLOCK changes nothing for regular files.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = beneath(store, relative(store, path)?, flags, mode)?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, NOT_REGULAR)),
    }
}

/// The kind of thing at the path, if the open failed because it is not a regular file. Such errors are
/// [`io::ErrorKind::InvalidData`].
pub(crate) fn other_than_file(error: &io::Error) -> Option<&'static str> {
    let text = error.get_ref()?.to_string();
    [NOT_REGULAR, LINK].into_iter().find(|other| *other == text)
}

/// A file's directory, and its name in it.
fn parent<'p>(store: &Path, path: &'p Path) -> io::Result<(OwnedFd, &'p OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    Ok((directory(store, path.parent().unwrap_or(store))?, name))
}

fn directory(store: &Path, path: &Path) -> io::Result<OwnedFd> {
    beneath(
        store,
        relative(store, path)?,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        0,
    )
}

/// A path relative to the store. Fails if the path is not within it.
fn relative<'p>(store: &Path, path: &'p Path) -> io::Result<&'p Path> {
    let relative = path.strip_prefix(store).map_err(|_| Errno::XDEV)?;
    let is_plain = |part| matches!(part, Component::Normal(_));
    match relative.components().all(is_plain) {
        true => Ok(relative),
        false => Err(Errno::XDEV.into()),
    }
}

fn beneath(store: &Path, relative: &Path, flags: OFlags, mode: u32) -> io::Result<OwnedFd> {
    let dir = root(store)?;
    let relative = match relative.as_os_str().is_empty() {
        true => Path::new("."),
        false => relative,
    };
    let mode = Mode::from_raw_mode(mode);
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = match openat2(&dir, relative, flags, mode, resolve) {
        Err(Errno::NOSYS) => step_by_step(dir, relative, flags, mode),
        opened => opened,
    };
    match opened {
        Err(Errno::LOOP) => Err(io::Error::new(io::ErrorKind::InvalidData, LINK)),
        opened => Ok(opened?),
    }
}

/// Opens without openat2, for kernels before 5.6, where only readers run, and for sandboxes that block it.
fn step_by_step(
    mut dir: OwnedFd,
    relative: &Path,
    flags: OFlags,
    mode: Mode,
) -> rustix::io::Result<OwnedFd> {
    let mut names = relative.components().peekable();
    while let Some(name) = names.next() {
        let flags = match names.peek() {
            Some(_) => OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            None => flags,
        };
        dir = openat(&dir, name.as_os_str(), flags | OFlags::NOFOLLOW, mode)?;
    }
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Opens with openat2 and without it, because the kernel that runs the tests has openat2.
    fn each_way(store: &Path, file: &str) -> [bool; 2] {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let dir = open(store, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let stepped = step_by_step(dir, Path::new(file), flags, Mode::empty());
        [read(store, &store.join(file)).is_ok(), stepped.is_ok()]
    }

    #[test]
    fn nothing_leads_out_of_a_store() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        std::fs::create_dir(&store).unwrap();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::fs::write(dir.path().join("other/file"), "theirs").unwrap();
        create_dir(&store, &store.join("a/b")).unwrap();
        std::fs::write(store.join("a/b/file"), "ours").unwrap();
        symlink(dir.path().join("other/file"), store.join("link")).unwrap();
        symlink(dir.path().join("other"), store.join("a/dir")).unwrap();
        symlink("b/file", store.join("a/inner")).unwrap();
        for (file, opens) in [
            ("a/b/file", true),
            ("link", false),
            ("a/dir/file", false),
            ("a/inner", false),
        ] {
            assert_eq!(each_way(&store, file), [opens; 2], "{file}");
        }
        assert!(read(&store, &store.join("../other/file")).is_err());
        assert!(read(&store, &dir.path().join("other/file")).is_err());
        let taken = rename(&store, &store.join("a/b/file"), &store.join("a/dir/file"));
        assert!(taken.is_err());
        assert!(remove(&store, &store.join("a/dir/file")).is_err());
        assert!(create(&store, &store.join("a/dir/new")).is_err());
        // The link itself is deleted, not its target.
        assert!(remove(&store, &store.join("link")).unwrap());
        create_anew(&store, &store.join("a/inner")).unwrap();
        assert_eq!(std::fs::read(store.join("a/b/file")).unwrap(), b"ours");
        assert_eq!(
            std::fs::read(dir.path().join("other/file")).unwrap(),
            b"theirs"
        );
        let entries: Vec<_> = entries(&store, &store.join("a")).unwrap();
        assert_eq!(entries.len(), 3, "{entries:?}");
        assert_eq!(
            super::entries(&store, &store.join("a/dir")).unwrap(),
            [""; 0].map(PathBuf::from)
        );
    }

    #[test]
    fn only_regular_files_are_opened_and_none_is_waited_for() {
        let store = tempfile::tempdir().unwrap();
        let fifo = store.path().join("fifo");
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
        for path in [fifo, store.path().to_owned()] {
            let error = read(store.path(), &path).unwrap_err();
            assert_eq!(error.to_string(), "it is not a regular file");
        }
    }

    #[test]
    fn a_file_is_for_nobody_else_until_it_is_finished() {
        let store = tempfile::tempdir().unwrap();
        let file = create(store.path(), &store.path().join("file")).unwrap();
        let mode = || file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode() & 0o077, 0);
        finished(&file).unwrap();
        assert_eq!(mode(), 0o640);
    }
}

//! Small files of the user: settings, certificates, keys, headers. They may change while the program runs.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trackiops_schemas::regular_file::open_regular;

/// More than any list of certificate authorities.
const MOST_BYTES: u64 = 1 << 20;

/// A file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {why}", .path.display())]
pub struct FileError {
    path: PathBuf,
    why: io::Error,
}

/// What differs between two versions of a file, also where the second one has the first one's name or inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    dev: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// `None` if there is no such file.
    fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self {
            dev: file.dev(),
            inode: file.ino(),
            bytes: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        })
    }
}

/// Files that were read, each with its stamp from before that.
#[derive(Debug, Default)]
pub struct SeenFiles(Vec<(PathBuf, Option<Stamp>)>);

impl SeenFiles {
    /// Reads a file, and remembers it.
    pub fn read(&mut self, path: &Path) -> Result<Vec<u8>, FileError> {
        self.0.push((path.to_owned(), Stamp::of(path)));
        read(path).map_err(|why| FileError {
            path: path.to_owned(),
            why,
        })
    }

    fn have_changed(&self) -> bool {
        self.0.iter().any(|(path, stamp)| Stamp::of(path) != *stamp)
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = open_regular(path)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        let why = "it has more than 1 MiB";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(bytes)
}

/// A value that is made from files, and made again when one of them changes.
#[derive(Debug)]
pub struct Kept<T> {
    value: Arc<T>,
    seen: SeenFiles,
}

impl<T> Kept<T> {
    /// Makes the value.
    pub fn new<E>(make: impl FnOnce(&mut SeenFiles) -> Result<T, E>) -> Result<Self, E> {
        let mut seen = SeenFiles::default();
        let value = Arc::new(make(&mut seen)?);
        Ok(Self { value, seen })
    }

    /// The value.
    pub fn value(&self) -> Arc<T> {
        Arc::clone(&self.value)
    }

    /// Makes the value again if a file has changed. Returns whether it did. If that fails, the old value stays, until the next change.
    pub fn renew<E>(
        &mut self,
        make: impl FnOnce(&mut SeenFiles, &T) -> Result<T, E>,
    ) -> Result<bool, E> {
        if !self.seen.have_changed() {
            return Ok(false);
        }
        let mut seen = SeenFiles::default();
        let made = make(&mut seen, &self.value);
        self.seen = seen;
        self.value = Arc::new(made?);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(path: &Path) -> Kept<Vec<u8>> {
        Kept::new(|seen| seen.read(path)).unwrap()
    }

    #[test]
    fn pipes_devices_and_large_files_are_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let [pipe, large, missing] = ["pipe", "large", "missing"].map(|name| dir.path().join(name));
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
        fs::write(&large, vec![b'x'; (1 << 20) + 1]).unwrap();
        for (path, why) in [
            (pipe.as_path(), "a named pipe"),
            (Path::new("/dev/zero"), "a device"),
            (dir.path(), "a directory"),
            (large.as_path(), "more than 1 MiB"),
            (missing.as_path(), "No such file"),
        ] {
            let error = SeenFiles::default().read(path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(error.contains(&*path.to_string_lossy()), "{error}");
        }
    }

    #[test]
    fn a_value_follows_its_files_and_outlives_broken_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "one").unwrap();
        let mut kept = kept(&path);
        let read = |seen: &mut SeenFiles, _: &Vec<u8>| seen.read(&path);
        assert!(!kept.renew(read).unwrap());
        // As renewals of certificates do it: another file takes the name.
        fs::write(dir.path().join("new"), "two").unwrap();
        fs::rename(dir.path().join("new"), &path).unwrap();
        assert!(kept.renew(read).unwrap());
        assert_eq!(*kept.value(), b"two");
        fs::remove_file(&path).unwrap();
        kept.renew(read).unwrap_err();
        assert_eq!(*kept.value(), b"two");
        assert!(!kept.renew(read).unwrap(), "an error is reported once");
        fs::write(&path, "three").unwrap();
        assert!(kept.renew(read).unwrap());
        assert_eq!(*kept.value(), b"three");
    }
}

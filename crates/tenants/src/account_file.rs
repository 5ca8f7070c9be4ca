//! Files that a recorder reads again when they change, such as `/etc/passwd`.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Identifies the content of a file. Includes the ctime, because the mtime can be set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    inode: (u64, u64),
    bytes: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl From<&Metadata> for FileVersion {
    fn from(of: &Metadata) -> Self {
        Self {
            inode: (of.dev(), of.ino()),
            bytes: of.len(),
            mtime: (of.mtime(), of.mtime_nsec()),
            ctime: (of.ctime(), of.ctime_nsec()),
        }
    }
}

/// Whole lines of a file, at most this many bytes, with their version. `None` if the version is `known`, or the file is not regular.
pub fn read_if_changed(
    path: &Path,
    most_bytes: u64,
    known: Option<FileVersion>,
) -> io::Result<Option<(Vec<u8>, FileVersion)>> {
    // Opening a FIFO would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    let file = File::open(path)?;
    // Take the version before the content, so that the next look reads a change in between.
    let version = FileVersion::from(&file.metadata()?);
    if known == Some(version) {
        return Ok(None);
    }
    let mut lines = Vec::new();
    file.take(most_bytes).read_to_end(&mut lines)?;
    if lines.len() as u64 == most_bytes {
        // The last line may be incomplete.
        let end = lines.iter().rposition(|byte| *byte == b'\n');
        lines.truncate(end.unwrap_or(0));
    }
    Ok(Some((lines, version)))
}

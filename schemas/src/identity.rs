//! What a file is.

use std::fmt;
use std::str::FromStr;

use xxhash_rust::xxh3::xxh3_64;

/// A device number in the kernel's encoding: `major << 20 | minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dev(pub u32);

impl Dev {
    /// Bits of the minor number (`MINORBITS`, include/linux/kdev_t.h).
    const MINOR_BITS: u32 = 20;

    /// The device `major:minor`, if the kernel could have it.
    pub fn new(major: u32, minor: u32) -> Option<Self> {
        let fits = major < 1 << (32 - Self::MINOR_BITS) && minor < 1 << Self::MINOR_BITS;
        fits.then_some(Self(major << Self::MINOR_BITS | minor))
    }
}

impl fmt::Display for Dev {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minor = self.0 & ((1 << Self::MINOR_BITS) - 1);
        write!(f, "{}:{minor}", self.0 >> Self::MINOR_BITS)
    }
}

/// The text is not `major:minor`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a device number: write major:minor, such as 0:49")]
pub struct DevError(String);

impl FromStr for Dev {
    type Err = DevError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text
            .split_once(':')
            .and_then(|(major, minor)| Self::new(major.parse().ok()?, minor.parse().ok()?));
        parsed.ok_or_else(|| DevError(text.into()))
    }
}

/// A file on this host, for as long as its file system stays mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Tells mounts apart.
    pub dev: Dev,
    /// NFS fileid (inode number).
    pub fileid: u64,
    /// The kernel's CRC32 of the file handle: tells a reused inode number from the old file.
    pub handle_hash: u32,
}

impl FileId {
    /// Stands for all files of a device that could not be told apart for lack of room.
    pub fn others(dev: Dev) -> Self {
        Self {
            dev,
            fileid: 0,
            handle_hash: 0,
        }
    }
}

/// What stands for the path of [`FileId::others`].
pub const OTHERS: &str = "(other)";

/// A path as text. One that is UTF-8 is as it is; in another one the bytes that are none are written as `\xNN`, and backslashes as
/// `\\`.
pub fn path_text(path: &[u8]) -> String {
    if let Ok(path) = str::from_utf8(path) {
        return path.to_owned();
    }
    let mut text = String::with_capacity(path.len() + 16);
    for chunk in path.utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// A file on disk: the same on every host that mounts the export, and after every reboot. 64 bits, signed as the columns that hold it,
/// so that rows are in the same order here, in segments and in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub i64);

impl FileKey {
    /// The key of a file: XXH3-64 over `mount`, a zero byte, and fileid and handle hash in
    /// little-endian order.
    ///
    /// `mount` is `server:/export`. Where it could not be found out, the device stands in for it as
    /// `?major:minor`, which keeps files of two unknown mounts apart; such a key holds for one
    /// mount period only.
    pub fn new(mount: Option<&str>, file: FileId) -> Self {
        let mut text = match mount {
            Some(mount) => mount.as_bytes().to_vec(),
            None => format!("?{}", file.dev).into_bytes(),
        };
        text.push(0);
        text.extend_from_slice(&file.fileid.to_le_bytes());
        text.extend_from_slice(&file.handle_hash.to_le_bytes());
        Self(xxh3_64(&text).cast_signed())
    }
}

/// On whose behalf a request was made, on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId {
    /// The user who opened the file (`fsuid`).
    pub uid: u32,
    /// The cgroup (v2) whose memory the data is in; 0 where not known.
    pub cgroup: u64,
}

/// Everything about a file and its user that a row carries beside its counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileAttributes {
    /// The file on disk.
    pub key: FileKey,
    /// The file on this host.
    pub id: FileId,
    /// `server:/export`, where known.
    pub mount: Option<String>,
    /// Its name on this host when the window closed or it was renamed, where known: see [`path_text`].
    pub path: Option<String>,
    /// Whether the name was found by looking at who has it open, rather than told by the kernel.
    pub path_inferred: bool,
    /// Who used it: `uid:/cgroup/path`, `uid:?id` for a cgroup that was gone before its path was
    /// looked up, or `uid` where the cgroup is not known; `?` stands for a user who is not known.
    pub tenant: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dev: &str) -> FileId {
        FileId {
            dev: dev.parse().unwrap(),
            fileid: 42,
            handle_hash: 7,
        }
    }

    #[test]
    fn file_keys_never_change() {
        // Part of the on-disk format: a new value here is a new format.
        assert_eq!(
            FileKey::new(Some("srv:/a"), file("0:49")).0,
            5_016_218_268_607_746_644
        );
    }

    #[test]
    fn equal_inode_numbers_of_two_exports_are_two_files() {
        let a = FileKey::new(Some("srv:/a"), file("0:49"));
        assert_ne!(a, FileKey::new(Some("srv:/b"), file("0:49")));
        assert_eq!(a, FileKey::new(Some("srv:/a"), file("0:50")));
        assert_ne!(
            FileKey::new(None, file("0:49")),
            FileKey::new(None, file("0:50"))
        );
    }

    #[test]
    fn every_path_can_be_written() {
        assert_eq!(path_text(b"/a\nb\\c/\xc3\xa9"), "/a\nb\\c/\u{e9}");
        assert_eq!(path_text(b"/a\xff\xfe/b\\c"), "/a\\xff\\xfe/b\\\\c");
    }

    #[test]
    fn device_numbers_read_back_as_they_are_written() {
        assert_eq!(file("0:49").dev, Dev(49));
        assert_eq!(
            "259:1048575".parse::<Dev>().unwrap().to_string(),
            "259:1048575"
        );
        for text in ["", "0", "0:", "4096:0", "0:1048576", "a:b", "0:1:2"] {
            assert!(text.parse::<Dev>().is_err(), "{text}");
        }
    }
}

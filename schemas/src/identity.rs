//! Identities of files and tenants.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::ebpf::local::FILE_SYSTEM_HASH;
use crate::level::IoLevel;

/// A device number in the kernel's encoding: `major << 20 | minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
pub struct Dev(pub u32);

impl Dev {
    /// Bits of the minor number (`MINORBITS`, include/linux/kdev_t.h).
    const MINOR_BITS: u32 = 20;

    /// The device `major:minor`, if the numbers fit the kernel's encoding.
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

/// A file on this host, while its file system stays mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Device of its file system.
    pub dev: Dev,
    /// NFS fileid (inode number).
    pub fileid: u64,
    /// The kernel's CRC32 of the file handle, or the generation of a local file's inode. It distinguishes a file from
    /// an earlier one with the same inode number.
    pub handle_hash: u32,
}

impl FileId {
    /// Stands for all files of a device that had no room for their own rows.
    pub fn others(dev: Dev) -> Self {
        Self {
            dev,
            fileid: 0,
            handle_hash: 0,
        }
    }

    /// Stands for requests of a device that the kernel counted but no row of a file has.
    pub fn missed(dev: Dev) -> Self {
        Self {
            handle_hash: 1,
            ..Self::others(dev)
        }
    }

    /// Stands for the file system on a block device, and for programs that use the device without a file system.
    pub fn file_system(dev: Dev) -> Self {
        Self {
            handle_hash: FILE_SYSTEM_HASH,
            ..Self::others(dev)
        }
    }
}

/// The path in rows of [`FileId::others`]. Each of these cases leads to such a row, which keeps mount, tenant and
/// window:
///
/// * The recorder follows too many files, or the window has too many rows: `has_no_room` in `collector/src/rollup/other_files.rs`.
/// * Too many files are new because of operations only: `NewFileBudget`, in the same file.
/// * A ring is full, and the sums have no room for another file: `sum_of` in `collector-ebpf/src/fold.rs`.
/// * The sums of operations have no room for another file: `add_up` in `collector-ebpf/src/file_operation.rs`.
///
/// Rows of a mount's operations use the same name for an operation, [`OTHER_OPERATIONS`](crate::ops::OTHER_OPERATIONS).
pub const OTHERS: &str = "(other)";

/// The path in rows of [`FileId::missed`].
pub const MISSED: &str = "(missed)";

/// The path in rows of [`FileId::file_system`]: journal, metadata and log of the file system, swap, and direct access
/// to the device.
pub const FILE_SYSTEM: &str = "(filesystem)";

/// A path, or another name that the kernel has as bytes, as text. Bytes that are not UTF-8 become `\xNN`, and a
/// backslash becomes `\\`, so different names have different texts.
pub fn path_text(path: &[u8]) -> String {
    escaped(path, |_| true)
}

/// Like [`path_text`], for a cgroup or a user. It doubles a backslash only where that would read as an escape:
/// `a\x2db.scope` of systemd and `DOMAIN\user` stay unchanged.
pub fn name_text(path: &[u8]) -> String {
    escaped(path, |rest| escape(rest.as_bytes()).is_some())
}

/// Escapes bytes that are not UTF-8, and each backslash for which `doubles`, given the text from there on, is true.
fn escaped(path: &[u8], doubles: impl Fn(&str) -> bool) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find('\\') {
            text.push_str(&rest[..=at]);
            if doubles(&rest[at..]) || rest.len() == at + 1 && !chunk.invalid().is_empty() {
                text.push('\\');
            }
            rest = &rest[at + 1..];
        }
        text.push_str(rest);
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// The bytes of a typed name, which may be escaped or raw. It is escaped if every backslash begins `\\`, `\xNN` of a
/// byte above 0x7f, or `\u{N}`. Terminals show `\u{N}` for invisible characters.
pub fn typed_bytes(typed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(typed.len());
    let mut rest = typed;
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'\\' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let Some((meant, length)) = escape(rest) else {
            return typed.to_vec();
        };
        bytes.extend(meant);
        rest = &rest[length..];
    }
    bytes
}

/// The path for a typed path or a stored text: see [`typed_bytes`].
pub fn typed_path(path: impl AsRef<Path>) -> PathBuf {
    let bytes = typed_bytes(path.as_ref().as_os_str().as_bytes());
    PathBuf::from(OsString::from_vec(bytes))
}

/// The stored text for a typed path: see [`typed_bytes`].
pub fn typed_text(typed: &str) -> String {
    path_text(&typed_bytes(typed.as_bytes()))
}

/// Decodes the escape at the start of a text: its meaning, and its length.
fn escape(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let number = |digits: &[u8]| {
        let are_digits = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = str::from_utf8(digits).ok().filter(|_| are_digits)?;
        u32::from_str_radix(digits, 16).ok()
    };
    match text.get(1)? {
        b'\\' => Some((vec![b'\\'], 2)),
        b'x' => {
            let byte = u8::try_from(number(text.get(2..4)?)?).ok()?;
            (!byte.is_ascii()).then(|| (vec![byte], 4))
        }
        b'u' => {
            let digits = text.get(2..)?.strip_prefix(b"{")?;
            let end = digits.iter().position(|byte| *byte == b'}')?;
            let meant = char::from_u32(number(&digits[..end])?)?;
            Some((meant.to_string().into_bytes(), end + 4))
        }
        _ => None,
    }
}

/// A file on disk: the same after every reboot and on every host that mounts its server by the same name and port. It
/// has 64 bits and is signed like its column, so rows have the same order here, in segments and in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub i64);

impl FileKey {
    /// The key of a file: XXH3-64 over `file_system`, a zero byte, and fileid and handle hash in
    /// little-endian order.
    ///
    /// `file_system` is the server and its id of the file system. It is not the name of a mount, because one file
    /// system can have many mounts. If it is not known, the device stands in as `?major:minor`. That keeps files of two
    /// unknown file systems apart, and is valid for one mount period only.
    pub fn new(file_system: Option<&str>, file: FileId) -> Self {
        let mut text = match file_system {
            Some(file_system) => file_system.as_bytes().to_vec(),
            None => format!("?{}", file.dev).into_bytes(),
        };
        text.push(0);
        text.extend_from_slice(&file.fileid.to_le_bytes());
        text.extend_from_slice(&file.handle_hash.to_le_bytes());
        Self(xxh3_64(&text).cast_signed())
    }
}

/// The user and cgroup that a request was made for, by their numbers on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId {
    /// The user who opened the file (`fsuid`).
    pub uid: u32,
    /// The cgroup (v2) whose memory holds the data; 0 where not known.
    pub cgroup: u64,
}

/// The user of a file: a uid and a cgroup, and the name that the recording's rules gave them. [`Self::id`] identifies a
/// tenant. Labels, user names and container names are attributes, like the path of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tenant {
    /// The user, where known.
    pub uid: Option<u32>,
    /// The user's name when it was recorded, where known; never without `uid`.
    pub user: Option<Arc<str>>,
    /// Path of the cgroup, such as `/system.slice/db.service`. `?id` if the cgroup was gone before its path was looked
    /// up. `None` where the cgroup is not known.
    pub cgroup: Option<Arc<str>>,
    /// Names of the cgroup's container when it was recorded: `namespace/pod/container` or `namespace/pod`. `None` where
    /// not known, and always without `cgroup`.
    pub container: Option<Arc<str>>,
    /// The name that rules gave it; `None` without rules, and where no rule applied.
    pub name: Option<Arc<str>>,
    /// The labels that rules gave it, as a JSON object. Never without `name`.
    pub labels: Option<Arc<str>>,
}

/// Name, uid and cgroup: see [`Tenant::id`].
pub type TenantParts<'t> = (Option<&'t str>, Option<u32>, Option<&'t str>);

impl Tenant {
    /// The key that separates its rows from rows of other tenants of its host: name, uid and cgroup.
    pub fn id(&self) -> TenantParts<'_> {
        (self.name.as_deref(), self.uid, self.cgroup.as_deref())
    }

    /// The key of the tenant in answers: the name, or the uid and the cgroup if it has no name.
    pub fn group(&self) -> TenantParts<'_> {
        match self.id() {
            (Some(name), ..) => (Some(name), None, None),
            unnamed => unnamed,
        }
    }

    /// Whether anything is known about it.
    pub fn is_known(&self) -> bool {
        self.id() != (None, None, None)
    }

    /// Number of its known attributes.
    pub fn names(&self) -> usize {
        let attributes = [&self.user, &self.container, &self.labels];
        attributes.into_iter().flatten().count()
    }

    /// As text: its name, or else the user and the cgroup. Known names of the user and the container replace the uid
    /// and the cgroup. `None` where nothing is known.
    pub fn named(&self) -> Option<String> {
        if let Some(name) = &self.name {
            return Some(name.to_string());
        }
        self.is_known().then(|| {
            let cgroup = self.container.as_ref().or(self.cgroup.as_ref());
            let text = |user: &dyn fmt::Display| match cgroup {
                Some(cgroup) => format!("{user}:{cgroup}"),
                None => user.to_string(),
            };
            match (&self.user, self.uid) {
                (Some(user), _) => text(user),
                (None, Some(uid)) => text(&uid),
                (None, None) => text(&'?'),
            }
        })
    }
}

/// `uid:/cgroup/path`, `uid:?id` or `uid`; `?` stands for an unknown user.
impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uid {
            Some(uid) => write!(f, "{uid}")?,
            None => f.write_str("?")?,
        }
        match &self.cgroup {
            Some(cgroup) => write!(f, ":{cgroup}"),
            None => Ok(()),
        }
    }
}

/// The text is not a tenant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tenant: write uid:/cgroup/path or uid, such as 1000:/user.slice")]
pub struct TenantError(String);

/// Parses the output of [`Tenant`]'s `Display`. It has no names.
impl FromStr for Tenant {
    type Err = TenantError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (user, cgroup) = match text.split_once(':') {
            Some((user, cgroup)) => (user, Some(cgroup)),
            None => (text, None),
        };
        let uid = match user {
            "?" => Ok(None),
            uid => uid.parse().map(Some),
        };
        Ok(Self {
            uid: uid.map_err(|_| TenantError(text.into()))?,
            user: None,
            cgroup: cgroup.map(Into::into),
            ..Self::default()
        })
    }
}

/// The attributes of a file and its user that a row carries beside its counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileAttributes {
    /// The file on disk.
    pub key: FileKey,
    /// The file on this host.
    pub id: FileId,
    /// The name of its mount, where known: `server:/export`, and a suffix where that is not unique.
    pub mount: Option<String>,
    /// Its name on this host when the window closed or it was renamed, where known: see [`path_text`].
    pub path: Option<String>,
    /// Whether the name was found through a process that has the file open, instead of being reported by the kernel.
    pub path_inferred: bool,
    /// The file's user, as far as known.
    pub tenant: Arc<Tenant>,
    /// The level at which the I/O was observed.
    pub level: IoLevel,
}

impl FileAttributes {
    /// Whether rows of both add up: they differ at most in the names of their tenant.
    pub fn adds_up_with(&self, other: &Self) -> bool {
        let Self {
            key,
            id,
            mount,
            path,
            path_inferred,
            tenant,
            level,
        } = self;
        (*key, *id, *path_inferred, *level)
            == (other.key, other.id, other.path_inferred, other.level)
            && tenant.id() == other.tenant.id()
            && (mount, path) == (&other.mount, &other.path)
    }
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
        // Part of the on-disk format: changing this value changes the format.
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
        assert_eq!(path_text(b"/a\nb\\c/\xc3\xa9"), "/a\nb\\\\c/\u{e9}");
        assert_eq!(path_text(b"/a\xff\xfe/b\\c"), "/a\\xff\\xfe/b\\\\c");
        assert_eq!(path_text(br"/a\xff"), r"/a\\xff");
    }

    #[test]
    fn what_is_typed_is_as_shown_or_as_it_is() {
        for name in [
            &b"/a\xff"[..],
            br"/a\xff",
            br"/a\\b",
            br"/a\",
            b"/\\\xff\\",
            b"plain",
            br"\u{2e}",
        ] {
            assert_eq!(typed_bytes(path_text(name).as_bytes()), name);
        }
        assert_eq!(typed_bytes(br"/a\b"), br"/a\b");
        assert_eq!(typed_bytes(br"/a\u{202e}b"), "/a\u{202e}b".as_bytes());
        let scope = br"/machine-qemu\x2d1\x2dvm.scope";
        assert_eq!(name_text(scope).as_bytes(), scope);
        assert_eq!(typed_bytes(scope), scope);
        assert_ne!(name_text(b"/a\xff"), name_text(br"/a\xff"));
    }

    #[test]
    fn tenants_read_back_as_they_are_written() {
        for text in ["1000:/user.slice", "1000:?77", "0", "?:/a:b", "?:?7", "?"] {
            let tenant: Tenant = text.parse().unwrap();
            assert_eq!(tenant.to_string(), text);
            let known = (text != "?").then(|| text.to_owned());
            assert_eq!(
                (tenant.is_known(), tenant.named()),
                (known.is_some(), known)
            );
        }
        for text in ["", ":/a", "alice:/a", "-1", "4294967296"] {
            assert!(text.parse::<Tenant>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_is_shown_and_tells_no_tenants_apart() {
        let plain: Tenant = "1000:/user.slice".parse().unwrap();
        let named = Tenant {
            user: Some("alice".into()),
            ..plain.clone()
        };
        assert_eq!(named.id(), plain.id());
        assert_ne!(named, plain);
        assert_eq!(named.to_string(), "1000:/user.slice");
        assert_eq!(named.named().as_deref(), Some("alice:/user.slice"));
        let contained = Tenant {
            container: Some("shop/web/nginx".into()),
            ..plain.clone()
        };
        assert_eq!(contained.id(), plain.id());
        assert_eq!(contained.named().as_deref(), Some("1000:shop/web/nginx"));
        let ruled = Tenant {
            name: Some("acme".into()),
            ..contained.clone()
        };
        assert_ne!(ruled.id(), plain.id());
        assert_eq!(ruled.named().as_deref(), Some("acme"));
        let other = Tenant {
            uid: Some(7),
            ..ruled.clone()
        };
        assert!(other.group() == ruled.group() && other.id() != ruled.id());
        assert!(ruled.group() != plain.group() && plain.group() == plain.id());
        let used_by = |tenant: &str, user: Option<&str>| FileAttributes {
            key: FileKey(7),
            id: file("0:49"),
            mount: None,
            path: None,
            path_inferred: false,
            tenant: Arc::new(Tenant {
                user: user.map(Into::into),
                ..tenant.parse().unwrap()
            }),
            level: Default::default(),
        };
        let unnamed = used_by("7:/a", None);
        assert!(unnamed.adds_up_with(&used_by("7:/a", Some("bob"))));
        assert!(!unnamed.adds_up_with(&used_by("7:/b", None)));
        assert!(!unnamed.adds_up_with(&used_by("8:/a", None)));
        let path = Some("/mnt/a".to_owned());
        assert!(!unnamed.adds_up_with(&FileAttributes {
            path,
            ..unnamed.clone()
        }));
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

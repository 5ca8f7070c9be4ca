//! The NFS mounts of a mount namespace, from `mountinfo` (proc(5)). Reading it never contacts a
//! server.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trackiops_schemas::identity::{Dev, path_text};

use crate::names::mount_names;

/// One NFS line of a `mountinfo` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsMount {
    /// Id of the mount, unique among the mounts that exist.
    pub mount_id: u32,
    /// Device of its superblock.
    pub dev: Dev,
    /// `server:/export`.
    pub source: String,
    /// Where it is mounted, in that mount namespace.
    pub mount_point: String,
    /// Options of the mount, then options of its file system.
    pub options: String,
}

impl NfsMount {
    /// Whether it is the same mount; options may differ.
    pub fn is_same_mount(&self, other: &Self) -> bool {
        let key = |mount: &Self| (mount.mount_id, mount.dev);
        key(self) == key(other)
            && self.source == other.source
            && self.mount_point == other.mount_point
    }
}

/// The NFS mounts among the lines of a `mountinfo` file; other lines are skipped.
pub fn parse_mountinfo(text: &[u8]) -> Vec<NfsMount> {
    lines(&in_octal(text)).filter_map(nfs_mount).collect()
}

/// Decodes a text of the kernel. Bytes that are not UTF-8 are escaped like blanks, so that none is lost.
pub fn in_octal(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(text) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for chunk in text.utf8_chunks() {
        escaped.push_str(chunk.valid());
        for byte in chunk.invalid() {
            escaped.push_str(&format!("\\{byte:03o}"));
        }
    }
    Cow::Owned(escaped)
}

/// The mount of an NFS line.
fn nfs_mount(line: Line<'_>) -> Option<NfsMount> {
    matches!(line.kind, "nfs" | "nfs4").then(|| NfsMount {
        mount_id: line.mount_id,
        dev: line.dev,
        source: unescape(line.source),
        mount_point: unescape(line.mount_point),
        options: line.all_options(),
    })
}

/// One line of a `mountinfo` file, as the kernel wrote it: texts are escaped.
#[derive(Clone, Copy, Debug)]
pub struct Line<'t> {
    pub mount_id: u32,
    /// Device of the superblock.
    pub dev: Dev,
    /// The directory of the file system that is mounted.
    pub root: &'t str,
    pub mount_point: &'t str,
    /// Options of the mount.
    pub options: &'t str,
    /// Type of the file system.
    pub kind: &'t str,
    pub source: &'t str,
    pub superblock_options: &'t str,
}

impl<'t> Line<'t> {
    /// Parses `36 35 0:49 / /mnt/nfs rw shared:1 - nfs4 srv:/exp rw,vers=4.2`.
    fn parse(line: &'t str) -> Option<Self> {
        let (mount, superblock) = line.split_once(" - ")?;
        let (mut mount, mut superblock) = (mount.split(' '), superblock.split(' '));
        Some(Self {
            mount_id: mount.next()?.parse().ok()?,
            dev: mount.nth(1)?.parse().ok()?,
            root: mount.next()?,
            mount_point: mount.next()?,
            options: mount.next()?,
            kind: superblock.next()?,
            source: superblock.next()?,
            superblock_options: superblock.next()?,
        })
    }

    /// Options of the mount, then options of its file system.
    pub fn all_options(&self) -> String {
        unescape(&format!("{},{}", self.options, self.superblock_options))
    }

    /// Whether the mount is a hierarchy of cgroups of version 1 with this controller.
    fn has_controller(&self, controller: &str) -> bool {
        let mut options = self.superblock_options.split(',');
        self.kind == "cgroup" && options.any(|option| option == controller)
    }
}

/// The lines of a `mountinfo` file, after [`in_octal`]. Other lines are skipped.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().filter_map(Line::parse)
}

/// Mount points of the cgroup hierarchies. Each hierarchy numbers its cgroups separately.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupRoots {
    /// The version 1 hierarchy with the memory controller, if there is one: memory is charged to its cgroups.
    pub memory: Option<PathBuf>,
    /// The version 2 hierarchy, in which kernel programs find the cgroup of a thread.
    pub unified: Option<PathBuf>,
}

impl CgroupRoots {
    /// The mount points in this process's namespace.
    pub fn new() -> Self {
        Self::of(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    /// The hierarchy whose cgroups memory is charged to.
    pub fn charged(&self) -> Option<&Path> {
        self.memory.as_deref().or(self.unified.as_deref())
    }

    /// Whether a thread's cgroup is in another hierarchy than its memory's.
    pub fn are_apart(&self) -> bool {
        self.memory.is_some()
    }

    pub(crate) fn of(mountinfo: &[u8]) -> Self {
        let mut roots = Self::default();
        for mount in lines(&in_octal(mountinfo)) {
            let root = match mount.kind {
                "cgroup2" => &mut roots.unified,
                "cgroup" if mount.has_controller("memory") => &mut roots.memory,
                _ => continue,
            };
            root.get_or_insert_with(|| unescape(mount.mount_point).into());
        }
        roots
    }
}

/// Whether I/O is charged to the cgroups that have names: version 1 has no hierarchy for I/O or memory.
pub fn io_cgroups_have_names(mountinfo: &[u8]) -> bool {
    let text = in_octal(mountinfo);
    !lines(&text).any(|mount| mount.has_controller("blkio") || mount.has_controller("memory"))
}

/// Undoes the octal escapes of blanks, backslashes and line ends. Bytes that are not UTF-8 are then written as in paths ([`path_text`]).
pub fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = (byte == b'\\').then(|| tail.get(..3)).flatten();
        let code = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    path_text(&bytes)
}

/// The process whose mount namespace is the host's: the first one. A private namespace of a service would not show
/// remounts with other options.
pub const HOST: u32 = 1;

/// The NFS mounts of the process `pid`'s mount namespace.
pub fn mounts_of(pid: u32) -> io::Result<Vec<NfsMount>> {
    Ok(parse_mountinfo(&fs::read(format!(
        "/proc/{pid}/mountinfo"
    ))?))
}

/// The host's mounts from a server's address, of one version of NFS (3, 4). [`Port`] selects a port or all
/// ports. `root` has the kernel's files.
pub fn mounts_at(root: &Path, (address, port): (&str, Port<'_>), version: u8) -> Vec<NfsMount> {
    let text = fs::read(root.join(format!("proc/{HOST}/mountinfo"))).unwrap_or_default();
    let is_there = |mount: &NfsMount| {
        let option = |key: &str| mount_names::option(&mount.options, key);
        let major = option("vers=").and_then(|vers| vers.split('.').next()?.parse().ok());
        let has_port = match port {
            Port::Any => true,
            Port::Is(port) => mount_names::port(&mount.options) == port,
        };
        option("addr=") == Some(address) && major == Some(version) && has_port
    };
    let mut mounts = parse_mountinfo(&text);
    mounts.retain(is_there);
    mounts
}

/// The port of a server.
#[derive(Clone, Copy, Debug)]
pub enum Port<'p> {
    /// Unknown: matches all ports.
    Any,
    /// This one; `None` is the default port.
    Is(Option<&'p str>),
}

/// The existing processes.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(Path::new("/proc"))
        .into_iter()
        .flatten()
        .flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Sample text for tests.
#[cfg(test)]
pub const TEXT: &[u8] = b"22 1 254:0 / / rw - ext4 /dev/vda rw\n\
    36 22 0:49 / /mnt/a\\040b rw,relatime shared:1 master:2 - nfs4 [::1]:/exp rw,vers=4.2\n\
    37 22 0:50 / /mnt/old rw - nfs srv:/vol\\134x ro\n\
    38 22 0:49 / /mnt/sub rw - nfs4 [::1]:/exp/sub rw\n\
    truncated - nfs4\n";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_hierarchy_of_the_memory_controller_is_found() {
        let unified = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let hybrid = "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      33 24 0:29 / /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n";
        let of = |text: &str| CgroupRoots::of(text.as_bytes());
        let root = |text: &str| of(text).charged().map(Path::to_owned);
        assert_eq!(root(unified), Some("/sys/fs/cgroup".into()));
        assert_eq!(root(hybrid), Some("/sys/fs/cgroup/mem ory".into()));
        assert_eq!(root("1 1 0:1 / / rw - ext4 /dev/sda rw\n"), None);
        let threads = |text: &str| of(text).unified;
        assert_eq!(threads(hybrid), Some("/sys/fs/cgroup/unified".into()));
        assert!(of(hybrid).are_apart() && !of(unified).are_apart());
        // A mount may have any bytes in its name.
        let mut beside = b"1 1 0:1 / /mnt/\xff rw - ext4 /dev/sda rw\n".to_vec();
        beside.extend(unified.bytes());
        assert_eq!(CgroupRoots::of(&beside), of(unified));
    }

    #[test]
    fn io_is_charged_to_named_cgroups_unless_version_1_has_its_controllers() {
        let version_2 =
            "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,memory_recursiveprot\n";
        for (options, expected) in [
            // Programs that know version 1 alone may have this one mounted.
            ("rw,xattr,name=systemd", true),
            ("rw,cpu,cpuacct", true),
            ("rw,blkio", false),
            ("rw,memory", false),
        ] {
            let beside = format!("31 24 0:27 / /sys/fs/cgroup/x rw - cgroup cgroup {options}\n");
            let mountinfo = version_2.to_owned() + &beside;
            assert_eq!(
                io_cgroups_have_names(mountinfo.as_bytes()),
                expected,
                "{options}"
            );
        }
        assert!(io_cgroups_have_names(version_2.as_bytes()));
    }

    #[test]
    fn nfs_mounts_are_told_from_the_rest() {
        let mounts = parse_mountinfo(TEXT);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].mount_point, "/mnt/a b");
        assert_eq!(
            (mounts[1].mount_id, mounts[1].source.as_str()),
            (37, "srv:/vol\\\\x")
        );
    }

    #[test]
    fn names_that_are_not_utf_8_stay_apart() {
        let text = b"36 22 0:49 / /mnt/lat\xe9 rw - nfs4 srv:/caf\xe9 rw,x=\xff\n\
            37 22 0:50 / /mnt/lat\xe8\\040\\134 rw - nfs4 srv:/caf\xc3\xa9 rw\n\
            38 22 0:51 / /mnt/lat\xef\xbf\xbd rw - nfs4 srv:/x rw\n";
        let mounts = parse_mountinfo(text);
        let names: Vec<_> = mounts
            .iter()
            .map(|mount| (mount.mount_point.as_str(), mount.source.as_str()))
            .collect();
        let expected = [
            ("/mnt/lat\\xe9", "srv:/caf\\xe9"),
            ("/mnt/lat\\xe8 \\\\", "srv:/caf\u{e9}"),
            ("/mnt/lat\u{fffd}", "srv:/x"),
        ];
        assert_eq!(names, expected);
        assert_eq!(mounts[0].options, "rw,rw,x=\\xff");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse_mountinfo(&bytes);
        }
    }
}

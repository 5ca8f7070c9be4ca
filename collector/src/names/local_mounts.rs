//! The local file systems of this host, from `mountinfo` (proc(5)).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{major, minor};
use rustix::system::uname;
use trackiops_schemas::identity::{Dev, FileId, FileKey};
use trackiops_schemas::mount::MountPoint;

use crate::names::mountinfo::{HOST, Line, in_octal, lines, unescape};
use crate::names::paths::is_below;
use crate::plan::Levels;

/// The local file systems of device numbers. An unmounted file system stays known until the mounts change once more: its last requests may still
/// arrive.
#[derive(Debug, Default)]
pub struct LocalMounts {
    now: Devices,
    left: Devices,
    is_news: bool,
}

/// Keyed by the device of the superblock.
type Devices = HashMap<Dev, LocalFileSystem>;

/// Which file systems count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// File systems on block devices.
    OnDevices,
    /// All file systems whose files an application may read and write.
    All,
}

impl Counted {
    /// The file systems whose files have rows.
    pub fn at(levels: Levels) -> Self {
        match levels.app {
            true => Self::All,
            false => Self::OnDevices,
        }
    }
}

/// Types of file systems without a device, whose files the kernel generates; and NFS, which is not local.
const NOT_COUNTED: [&str; 24] = [
    "autofs",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "efivarfs",
    "fusectl",
    "mqueue",
    "nfs",
    "nfs4",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFileSystem {
    /// The mounted device, such as `/dev/sda1`; for a file system without a device its type and first mount point, such as
    /// `tmpfs:/tmp`.
    source: String,
    /// The number of that device. It may differ from the superblock's (btrfs).
    device: Option<Dev>,
    /// Its mounts; mounts of the whole file system come first.
    points: Vec<LocalMount>,
}

/// One mount of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LocalMount {
    /// The directory of the file system that is mounted; empty for the root.
    root: String,
    mount_point: String,
    options: String,
}

/// The current mounts.
pub fn read(counted: Counted) -> HashMap<Dev, LocalFileSystem> {
    let own = fs::read(format!("/proc/{HOST}/mountinfo")).unwrap_or_default();
    // A service may have a private mount namespace.
    let mine = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let device_of = |source: &str| {
        let number = fs::metadata(source).ok()?.rdev();
        Dev::new(major(number), minor(number)).filter(|_| number != 0)
    };
    let text = [&own[..], &mine].concat();
    parse(&text, &filesystems(), counted, device_of)
}

/// The file systems that count among the lines of a `mountinfo` file; other lines are skipped. `filesystems` is a text such as
/// `/proc/filesystems`.
fn parse(
    text: &[u8],
    filesystems: &str,
    counted: Counted,
    device_of: impl Fn(&str) -> Option<Dev>,
) -> Devices {
    let nodev = nodev(filesystems);
    let mut devices = Devices::new();
    let text = in_octal(text);
    let mounts = lines(&text).filter_map(|line| local_mount(line, counted, &nodev));
    for (dev, source, point) in mounts {
        let known = devices.entry(dev).or_insert_with(|| LocalFileSystem {
            device: device_of(&source),
            source,
            points: Vec::new(),
        });
        let is_there = |other: &LocalMount| {
            (&other.root, &other.mount_point) == (&point.root, &point.mount_point)
        };
        if !known.points.iter().any(is_there) {
            known.points.push(point);
        }
    }
    for known in devices.values_mut() {
        // A stable sort: among mounts of one directory the oldest comes first.
        known.points.sort_by_key(|point| point.root.len());
    }
    devices
}

/// The mount of a line, if its file system counts: the device of its superblock, its source, and the mount.
fn local_mount(
    line: Line<'_>,
    counted: Counted,
    nodev: &HashSet<&str>,
) -> Option<(Dev, String, LocalMount)> {
    // Without a device, the source is a text of whoever mounted it, and may be the name of a device.
    let is_named = line.source.starts_with('/');
    let has_device = is_named && !line.kind.starts_with("fuse") && !nodev.contains(line.kind);
    if !has_device && (counted == Counted::OnDevices || NOT_COUNTED.contains(&line.kind)) {
        return None;
    }
    let mount_point = unescape(line.mount_point);
    let source = match has_device {
        true => unescape(line.source),
        false => format!("{}:{mount_point}", line.kind),
    };
    let point = LocalMount {
        root: unescape(line.root).trim_end_matches('/').to_owned(),
        mount_point,
        options: line.all_options(),
    };
    Some((line.dev, source, point))
}

/// The types of file systems that need no device, from a text such as `/proc/filesystems`.
fn nodev(filesystems: &str) -> HashSet<&str> {
    let lines = filesystems.lines();
    lines
        .filter_map(|line| line.strip_prefix("nodev\t"))
        .collect()
}

/// What the kernel says of types of file systems.
fn filesystems() -> String {
    fs::read_to_string("/proc/filesystems").unwrap_or_default()
}

impl LocalMounts {
    /// The devices whose file system has changed or is unmounted, if `next` are the current mounts.
    pub fn left(&self, next: &HashMap<Dev, LocalFileSystem>) -> HashSet<Dev> {
        let stays = |(dev, known): &(&Dev, &LocalFileSystem)| {
            let next = next.get(dev);
            next.is_some_and(|next| next.source == known.source && next.points == known.points)
        };
        let left = self.now.iter().filter(|device| !stays(device));
        // The file system's metadata may have rows under the number of its device.
        left.flat_map(|(dev, known)| [Some(*dev), known.device])
            .flatten()
            .collect()
    }

    /// Takes over the current mounts.
    pub fn follow(&mut self, next: HashMap<Dev, LocalFileSystem>) {
        if next != self.now {
            self.is_news = true;
            self.left = std::mem::replace(&mut self.now, next);
        }
    }

    /// Whether the mounts have changed since the last call.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    fn file_system(&self, dev: Dev) -> Option<&LocalFileSystem> {
        let of = |devices: &'_ Devices| devices.contains_key(&dev);
        let by_superblock = [&self.now, &self.left].into_iter().find(|d| of(d));
        if let Some(devices) = by_superblock {
            return devices.get(&dev);
        }
        let mut all = self.now.values().chain(self.left.values());
        all.find(|known| known.device == Some(dev))
    }

    /// Whether the file system on a device is known.
    pub fn knows(&self, dev: Dev) -> bool {
        self.file_system(dev).is_some()
    }

    /// The device as it was mounted, such as `/dev/sda1`.
    pub fn source(&self, dev: Dev) -> Option<&str> {
        self.file_system(dev).map(|known| known.source.as_str())
    }

    /// The path on this host of a file whose path in the file system is `place`.
    pub fn path(&self, dev: Dev, place: &[u8]) -> Option<Vec<u8>> {
        self.file_system(dev)?.points.iter().find_map(|point| {
            let below = is_below(place, point.root.as_bytes());
            let below = below.then(|| place.get(point.root.len()..))??;
            let top = point.mount_point.trim_end_matches('/');
            Some([top.as_bytes(), below].concat())
        })
    }

    /// All mounts.
    pub fn mount_points(&self) -> impl Iterator<Item = MountPoint> {
        self.now.iter().flat_map(|(dev, known)| {
            known.points.iter().map(|point| MountPoint {
                dev: *dev,
                mount: known.source.clone(),
                source: format!("{}{}", known.source, point.root),
                path: point.mount_point.clone(),
                version: None,
                options: point.options.clone(),
                is_foreign: false,
                volume: None,
                claim: None,
            })
        })
    }
}

/// The key of a file: inodes have the same numbers on each host that has a device of this name.
pub fn key(source: Option<&str>, file: FileId) -> FileKey {
    let host = uname();
    let host = host.nodename().to_string_lossy();
    let device = match source {
        Some(source) => format!("{host}:{source}"),
        None => format!("{host}:?{}", file.dev),
    };
    FileKey::new(Some(&device), file)
}

/// The device of the superblock of a local path, as the kernel side sees it. Found by the mount, because `stat` returns the device of a subvolume
/// (btrfs).
pub fn device_of(path: &Path, counted: Counted) -> Option<Dev> {
    let path = fs::canonicalize(path).ok()?;
    let mounts = fs::read("/proc/self/mountinfo").ok()?;
    let mounts = in_octal(&mounts);
    let above = lines(&mounts).filter_map(|line| {
        let at = unescape(line.mount_point);
        let at = Path::new(&at);
        path.starts_with(at)
            .then(|| (at.components().count(), line))
    });
    let (_, nearest) = above.max_by_key(|(depth, _)| *depth)?;
    local_mount(nearest, counted, &nodev(&filesystems())).map(|(dev, ..)| dev)
}

/// The devices of the file systems with a wanted mount, by source and mount point: of the superblock and of the mounted device.
pub fn devices_of(
    counted: Counted,
    wanted: impl Fn(&str, &str) -> bool,
) -> impl Iterator<Item = Dev> {
    let is_wanted = move |known: &LocalFileSystem| {
        let mut points = known.points.iter();
        points.any(|point| wanted(&known.source, &point.mount_point))
    };
    let devices = read(counted).into_iter();
    let devices = devices.filter(move |(_, known)| is_wanted(known));
    devices.flat_map(|(dev, known)| [Some(dev), known.device].into_iter().flatten())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"22 1 254:0 / / rw - ext4 /dev/vda rw\n\
        30 22 0:49 / /mnt/nfs rw - nfs4 srv:/exp rw\n\
        31 22 0:40 /@home /home rw - btrfs /dev/vdb rw,subvol=/@home\n\
        32 22 0:40 / /mnt/all rw - btrfs /dev/vdb rw\n\
        33 22 0:5 / /tmp rw - tmpfs tmpfs rw\n\
        34 22 254:0 /srv /mnt/bi\\040nd rw - ext4 /dev/vda rw\n";

    const FILESYSTEMS: &str = "nodev\tproc\nnodev\ttmpfs\n\text4\n\txfs\n\tbtrfs\nnodev\toverlay\nnodev\tnfs4\nnodev\tcifs\n";

    fn dev(text: &str) -> Dev {
        text.parse().unwrap()
    }

    fn mounts(text: &[u8]) -> LocalMounts {
        let mut mounts = LocalMounts::default();
        let device_of = |source: &str| (source == "/dev/vdb").then(|| dev("254:16"));
        mounts.follow(parse(text, FILESYSTEMS, Counted::OnDevices, device_of));
        mounts
    }

    #[test]
    fn a_file_is_at_the_first_mount_of_its_file_system_that_has_it() {
        let mounts = mounts(TEXT);
        let path = |of, place: &str| {
            let path = mounts.path(dev(of), place.as_bytes());
            path.map(|path| String::from_utf8(path).unwrap())
        };
        assert_eq!(path("254:0", "/srv/a").as_deref(), Some("/srv/a"));
        assert_eq!(
            path("0:40", "/@home/u/b").as_deref(),
            Some("/mnt/all/@home/u/b")
        );
        assert_eq!(path("0:49", "/a"), None, "NFS has no device");
        assert_eq!(mounts.source(dev("0:40")), Some("/dev/vdb"));
        assert_eq!(
            mounts.source(dev("254:16")),
            Some("/dev/vdb"),
            "by the device itself"
        );
        let only_home = TEXT.split(|byte| *byte == b'\n').nth(2).unwrap();
        let mounts = self::mounts(only_home);
        let path = mounts.path(dev("0:40"), b"/@home/u/b");
        assert_eq!(path.as_deref(), Some(&b"/home/u/b"[..]));
        assert_eq!(mounts.path(dev("0:40"), b"/@homes/b"), None, "not mounted");
    }

    #[test]
    fn a_file_system_without_a_device_is_named_by_its_mount_point() {
        let lines = "40 22 0:60 / / rw - overlay overlay rw,lowerdir=/l\n\
            41 22 0:61 / /mnt/s rw - fuse.sshfs u@h:/d rw\n\
            42 22 0:4 / /proc rw - proc proc rw\n";
        let text = [TEXT, lines.as_bytes()].concat();
        let all = parse(&text, FILESYSTEMS, Counted::All, |_| None);
        let source = |of| all.get(&dev(of)).map(|known| known.source.as_str());
        assert_eq!(source("0:5"), Some("tmpfs:/tmp"));
        assert_eq!(source("0:60"), Some("overlay:/"));
        assert_eq!(source("0:61"), Some("fuse.sshfs:/mnt/s"));
        assert_eq!(source("254:0"), Some("/dev/vda"));
        assert_eq!(
            (source("0:4"), source("0:49")),
            (None, None),
            "proc and NFS"
        );
        let on_devices = parse(&text, FILESYSTEMS, Counted::OnDevices, |_| None);
        assert!(!on_devices.contains_key(&dev("0:5")));
    }

    #[test]
    fn a_file_system_without_a_device_never_has_the_name_of_a_device() {
        let text = b"22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            23 22 0:60 / /a rw - tmpfs /dev/vda rw\n\
            24 22 0:61 / /b rw - tmpfs /dev/vda rw\n\
            25 22 0:62 / /c rw - cifs //nas/share rw\n\
            26 22 0:63 / /d rw - cifs //nas/share rw\n\
            27 22 0:64 / /e rw - btrfs /dev/vdb rw\n";
        let all = parse(text, FILESYSTEMS, Counted::All, |_| None);
        let mut sources: Vec<_> = all.values().map(|known| known.source.as_str()).collect();
        sources.sort_unstable();
        let expected = [
            "/dev/vda", "/dev/vdb", "cifs:/c", "cifs:/d", "tmpfs:/a", "tmpfs:/b",
        ];
        assert_eq!(sources, expected);
        let on_devices = parse(text, FILESYSTEMS, Counted::OnDevices, |_| None);
        assert_eq!(on_devices.len(), 2);
    }

    #[test]
    fn what_has_left_is_known_until_the_next_change() {
        let mut mounts = mounts(TEXT);
        let next = parse(b"", FILESYSTEMS, Counted::OnDevices, |_| None);
        let left = mounts.left(&next);
        assert_eq!(left, [dev("254:0"), dev("0:40"), dev("254:16")].into());
        mounts.follow(next);
        assert_eq!(mounts.source(dev("254:0")), Some("/dev/vda"));
        let another = b"9 1 8:1 / /x rw - xfs /dev/sda1 rw\n";
        mounts.follow(parse(another, FILESYSTEMS, Counted::OnDevices, |_| None));
        assert_eq!(mounts.source(dev("254:0")), None);
        assert!(mounts.take_news() && !mounts.take_news());
    }

    #[test]
    fn inodes_of_two_devices_are_two_files() {
        let file = FileId {
            dev: dev("8:1"),
            fileid: 12,
            handle_hash: 7,
        };
        let a = key(Some("/dev/sda1"), file);
        assert_ne!(a, key(Some("/dev/sdb1"), file));
        assert_ne!(a, FileKey::new(Some("/dev/sda1"), file), "another host's");
    }
}

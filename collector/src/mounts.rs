//! Which NFS mount a device number stands for, from `mountinfo` (proc(5)). Reading it never
//! touches a server.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use trackiops_schemas::identity::Dev;

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
}

/// The NFS mounts among the lines of a `mountinfo` file; lines that are no such thing are passed
/// over.
pub fn parse_mountinfo(text: &[u8]) -> Vec<NfsMount> {
    String::from_utf8_lossy(text)
        .lines()
        .filter_map(parse_line)
        .collect()
}

/// Parses `36 35 0:49 / /mnt/nfs rw shared:1 - nfs4 srv:/exp rw,vers=4.2`.
fn parse_line(line: &str) -> Option<NfsMount> {
    let (mount, superblock) = line.split_once(" - ")?;
    let mut superblock = superblock.split(' ');
    if !matches!(superblock.next()?, "nfs" | "nfs4") {
        return None;
    }
    let source = unescape(superblock.next()?);
    let mut mount = mount.split(' ');
    let mount_id = mount.next()?.parse().ok()?;
    let dev = mount.nth(1)?.parse().ok()?;
    let mount_point = unescape(mount.nth(1)?);
    Some(NfsMount {
        mount_id,
        dev,
        source,
        mount_point,
    })
}

/// Where the cgroup hierarchy with the memory controller is mounted: that of version 1 if there is one.
pub fn cgroup_root() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    cgroup_root_of(&text)
}

fn cgroup_root_of(mountinfo: &str) -> Option<PathBuf> {
    let mut unified = None;
    for line in mountinfo.lines() {
        let Some((mount, superblock)) = line.split_once(" - ") else {
            continue;
        };
        let at = || Some(PathBuf::from(unescape(mount.split(' ').nth(4)?)));
        let mut superblock = superblock.split(' ');
        match (superblock.next(), superblock.nth(1)) {
            (Some("cgroup"), Some(options)) if options.split(',').any(|o| o == "memory") => {
                return at();
            }
            (Some("cgroup2"), _) => unified = unified.or_else(at),
            _ => {}
        }
    }
    unified
}

/// Undoes the octal escapes of blanks, backslashes and line ends.
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
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The NFS mounts of the process `pid`'s mount namespace.
pub fn mounts_of(pid: u32) -> io::Result<Vec<NfsMount>> {
    Ok(parse_mountinfo(&fs::read(format!(
        "/proc/{pid}/mountinfo"
    ))?))
}

/// `server:/export` of the mounts from a server's address, of a version of NFS (3, 4), in the mount namespace of this
/// process; sorted. `root` is where the kernel's files are.
pub fn sources_at(root: &Path, address: &str, version: u8) -> Vec<String> {
    let text = fs::read(root.join("proc/self/mountinfo")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let is_there = |line: &&str| {
        let options = line.rsplit(' ').next().unwrap_or_default();
        let option = |key: &str| {
            options
                .split(',')
                .find_map(|option| option.strip_prefix(key))
        };
        let major = option("vers=").and_then(|vers| vers.split('.').next()?.parse().ok());
        option("addr=") == Some(address) && major == Some(version)
    };
    let mounts = text.lines().filter(is_there).filter_map(parse_line);
    let mut sources: Vec<String> = mounts.map(|mount| mount.source).collect();
    sources.sort_unstable();
    sources.dedup();
    sources
}

/// What is known of device numbers. A mount that is gone stays known until its number is used
/// again: its last requests may still be on their way.
#[derive(Default)]
pub struct Mounts {
    sources: HashMap<Dev, String>,
    /// Devices that this process saw mounted when it last looked.
    present: HashSet<Dev>,
    /// Sources of each device and where they are mounted, this process's own mounts first and of these the shortest source.
    points: HashMap<Dev, Vec<Point>>,
}

/// Where something is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Point {
    is_foreign: bool,
    /// Without slashes at its end.
    source: String,
    mount_point: String,
}

impl Mounts {
    /// Devices that were mounted at the last look and, by these mounts, no longer are, or are now
    /// mounted from somewhere else: the kernel gives a number away again as soon as it is free.
    pub fn gone(&self, now: &[NfsMount]) -> HashSet<Dev> {
        let best = best_sources(now);
        let stays = |dev: &Dev| best.get(dev).copied() == self.source(*dev);
        self.present
            .iter()
            .copied()
            .filter(|dev| !stays(dev))
            .collect()
    }

    /// Takes over the mounts that this process sees.
    pub fn see(&mut self, now: &[NfsMount]) {
        self.present = now.iter().map(|mount| mount.dev).collect();
        for dev in &self.present {
            let known = self.points.entry(*dev).or_default();
            known.retain(|point| point.is_foreign);
        }
        self.learn_points(now, false);
        self.learn(now);
    }

    /// Takes over the mounts of every mount namespace, reading each once.
    pub fn refresh_all_namespaces(&mut self) {
        let mut seen = HashSet::new();
        for pid in pids() {
            let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt"));
            if namespace.is_ok_and(|ns| seen.insert(ns))
                && let Ok(mounts) = mounts_of(pid)
            {
                self.learn_points(&mounts, true);
                self.learn(&mounts);
            }
        }
    }

    /// Takes over mounts.
    pub fn learn(&mut self, mounts: &[NfsMount]) {
        for (dev, source) in best_sources(mounts) {
            let before = self.sources.insert(dev, source.to_owned());
            if before.is_some_and(|before| before != source) {
                // Another file system may have the number now.
                let now = |point: &Point| {
                    let same = |mount: &NfsMount| mount.dev == dev && point.is_of(mount);
                    mounts.iter().any(same)
                };
                self.points.entry(dev).or_default().retain(now);
            }
        }
    }

    fn learn_points(&mut self, mounts: &[NfsMount], is_foreign: bool) {
        for mount in mounts {
            let known = self.points.entry(mount.dev).or_default();
            let source = mount.source.trim_end_matches('/');
            // The first one stands for all of a source.
            let stands = |point: &Point| point.source == source && point.is_foreign <= is_foreign;
            if !known.iter().any(stands) {
                known.push(Point {
                    is_foreign,
                    source: source.to_owned(),
                    mount_point: mount.mount_point.clone(),
                });
                known.sort_by_key(|point| (point.is_foreign, point.source.len()));
            }
        }
    }

    /// The path of a file on this host, of which `server:/export` and the path below it are known.
    pub fn path(&self, dev: Dev, place: &[u8]) -> Option<Vec<u8>> {
        let path = |point: &Point| {
            let below = place.strip_prefix(point.source.as_bytes())?;
            let top = match point.mount_point.as_str() {
                "/" => "",
                other => other,
            };
            let is_inside = below.is_empty() || below.starts_with(b"/");
            is_inside.then(|| [top.as_bytes(), below].concat())
        };
        self.points.get(&dev)?.iter().find_map(path)
    }

    /// `server:/export` of a device.
    pub fn source(&self, dev: Dev) -> Option<&str> {
        self.sources.get(&dev).map(String::as_str)
    }
}

impl Point {
    fn is_of(&self, mount: &NfsMount) -> bool {
        mount.source.trim_end_matches('/') == self.source && mount.mount_point == self.mount_point
    }
}

/// Where several mounts share a superblock, the shortest source stands for all: it is the one nearest
/// the export's root, and the choice does not depend on their order.
fn best_sources(mounts: &[NfsMount]) -> HashMap<Dev, &str> {
    let mut best: HashMap<Dev, &str> = HashMap::new();
    for mount in mounts {
        let source = mount.source.as_str();
        best.entry(mount.dev)
            .and_modify(|old| {
                if (source.len(), source) < (old.len(), *old) {
                    *old = source;
                }
            })
            .or_insert(source);
    }
    best
}

/// The processes that exist.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(Path::new("/proc"))
        .into_iter()
        .flatten()
        .flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_of_the_memory_controller_is_found() {
        let unified = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let hybrid = "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 24 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      33 24 0:29 / /sys/fs/cgroup/mem\\040ory rw - cgroup cgroup rw,memory\n";
        let root = |text: &str| cgroup_root_of(text);
        assert_eq!(root(unified), Some("/sys/fs/cgroup".into()));
        assert_eq!(root(hybrid), Some("/sys/fs/cgroup/mem ory".into()));
        assert_eq!(root("1 1 0:1 / / rw - ext4 /dev/sda rw\n"), None);
    }
    use proptest::prelude::*;

    const TEXT: &[u8] = b"22 1 254:0 / / rw - ext4 /dev/vda rw\n\
        36 22 0:49 / /mnt/a\\040b rw,relatime shared:1 master:2 - nfs4 [::1]:/exp rw,vers=4.2\n\
        37 22 0:50 / /mnt/old rw - nfs srv:/vol\\134x ro\n\
        38 22 0:49 / /mnt/sub rw - nfs4 [::1]:/exp/sub rw\n\
        truncated - nfs4\n";

    #[test]
    fn nfs_mounts_are_told_from_the_rest() {
        let mounts = parse_mountinfo(TEXT);
        assert_eq!(mounts.len(), 3);
        assert_eq!(mounts[0].mount_point, "/mnt/a b");
        assert_eq!(
            (mounts[1].mount_id, mounts[1].source.as_str()),
            (37, "srv:/vol\\x")
        );
    }

    #[test]
    fn mounts_that_share_a_superblock_are_one_in_any_order() {
        let mut mounts = parse_mountinfo(TEXT);
        for _ in 0..2 {
            let mut known = Mounts::default();
            known.learn(&mounts);
            assert_eq!(known.source(Dev(49)), Some("[::1]:/exp"));
            mounts.reverse();
        }
    }

    #[test]
    fn a_path_begins_where_its_file_system_is_mounted() {
        let mut known = Mounts::default();
        let path = |known: &Mounts, dev, place: &[u8]| {
            let path = known.path(Dev(dev), place)?;
            Some(String::from_utf8_lossy(&path).into_owned())
        };
        let elsewhere =
            b"9 1 0:49 / /inside rw - nfs4 [::1]:/exp rw\n9 1 0:51 / / rw - nfs s:/ rw\n";
        known.learn_points(&parse_mountinfo(elsewhere), true);
        assert_eq!(
            path(&known, 49, b"[::1]:/exp/f").as_deref(),
            Some("/inside/f")
        );
        assert_eq!(path(&known, 51, b"s:/d/f").as_deref(), Some("/d/f"));
        known.see(&parse_mountinfo(TEXT));
        assert_eq!(
            path(&known, 49, b"[::1]:/exp/f").as_deref(),
            Some("/mnt/a b/f")
        );
        assert_eq!(
            path(&known, 49, b"[::1]:/exp/sub/f").as_deref(),
            Some("/mnt/a b/sub/f")
        );
        let only_below = parse_mountinfo(b"38 22 0:52 / /mnt/sub rw - nfs4 s:/e/sub rw\n");
        known.see(&only_below);
        assert_eq!(
            path(&known, 52, b"s:/e/sub/f").as_deref(),
            Some("/mnt/sub/f")
        );
        assert_eq!(path(&known, 52, b"s:/e/subway/f"), None);
        assert_eq!(
            path(&known, 52, b"s:/e/f"),
            None,
            "not to be seen from here"
        );
        known.see(&parse_mountinfo(
            b"38 22 0:52 / /mnt/moved rw - nfs4 s:/e/sub rw\n",
        ));
        assert_eq!(
            path(&known, 52, b"s:/e/sub/f").as_deref(),
            Some("/mnt/moved/f")
        );
        known.see(&parse_mountinfo(b"38 22 0:52 / /m rw - nfs4 other:/x rw\n"));
        assert_eq!(path(&known, 52, b"s:/e/sub/f"), None, "another file system");
        assert_eq!(path(&known, 52, b"other:/x/f").as_deref(), Some("/m/f"));
    }

    #[test]
    fn a_reused_device_number_stands_for_the_new_mount() {
        let mut known = Mounts::default();
        known.learn(&parse_mountinfo(TEXT));
        known.learn(&parse_mountinfo(b"40 22 0:50 / /m rw - nfs4 other:/x rw\n"));
        assert_eq!(known.source(Dev(50)), Some("other:/x"));
        assert_eq!(known.source(Dev(49)), Some("[::1]:/exp"));
    }

    #[test]
    fn a_mount_that_left_is_told_even_when_its_number_is_in_use_again() {
        let mut known = Mounts::default();
        known.see(&parse_mountinfo(TEXT));
        assert!(known.gone(&parse_mountinfo(TEXT)).is_empty());
        let other =
            b"36 22 0:49 / /m rw - nfs4 [::1]:/exp rw\n40 22 0:50 / /m rw - nfs4 other:/x rw\n";
        let mounts = parse_mountinfo(other);
        assert_eq!(known.gone(&mounts), HashSet::from([Dev(50)]));
        known.see(&mounts);
        assert_eq!(known.gone(&[]), HashSet::from([Dev(49), Dev(50)]));
        known.see(&[]);
        assert_eq!(
            known.source(Dev(50)),
            Some("other:/x"),
            "until the number is used again"
        );
        assert!(known.gone(&mounts).is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse_mountinfo(&bytes);
        }
    }
}

//! Which NFS file system a device number stands for, and where that is mounted.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::mem;

use trackiops_schemas::identity::Dev;
use trackiops_schemas::mount::MountPoint;

use crate::names::mountinfo::{HOST, NfsMount, mounts_of, pids};
use crate::names::paths::is_below;

/// Most file systems that are remembered for one device number.
const REMEMBERED: usize = 4;

/// What is known of device numbers. A mount that is gone stays known until its number is used
/// again: its last requests may still arrive.
#[derive(Default)]
pub struct Mounts {
    /// The NFS mounts of the host's mount namespace at the last look.
    own: Vec<NfsMount>,
    /// The file systems that had each number, the one that has it now last.
    devices: HashMap<Dev, Vec<FileSystem>>,
    /// What was mounted with each number, as the paths of files show; the latest last.
    tops: HashMap<Dev, Vec<String>>,
    /// A mount came, went or changed since the last [`Self::take_news`].
    is_news: bool,
    /// A process of each other mount namespace that had NFS mounts when it was last read, and their
    /// devices.
    namespaces: Vec<(u32, Vec<Dev>)>,
}

/// A superblock, as far as its mounts show it.
#[derive(Debug)]
struct FileSystem {
    /// `server:/export`.
    source: String,
    /// Its mounts: the host's first, and each part by length of the source. If it has left,
    /// those that it had last.
    points: Vec<MountedPoint>,
    has_left: bool,
}

/// Where something is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountedPoint {
    is_foreign: bool,
    mount: NfsMount,
}

impl Mounts {
    /// Devices that were mounted at the last look, but are unmounted or mounted from somewhere else
    /// in `now`: the kernel reuses a number as soon as it is free.
    pub fn gone_devices(&self, now: &[NfsMount]) -> HashSet<Dev> {
        let before = self.own.iter().map(|mount| mount.dev);
        let stays = |dev: &Dev| {
            let [before, now] =
                [&self.own[..], now].map(|mounts| mounts_of_device(mounts, *dev, false));
            let source = best_source(&now);
            source.is_some() && (source == self.source(*dev) || share_a_mount(&before, &now))
        };
        before.filter(|dev| !stays(dev)).collect()
    }

    /// Devices that have lost a mount since the last look.
    pub fn left_devices(&self, now: &[NfsMount]) -> HashSet<Dev> {
        let is_there = |mount: &NfsMount| now.iter().any(|now| now.is_same_mount(mount));
        let own = self.own.iter();
        own.filter(|mount| !is_there(mount))
            .map(|m| m.dev)
            .collect()
    }

    /// Devices that were mounted at the last look and of whose mounts none is left: if they are mounted, that may be another
    /// superblock.
    pub fn replaced_devices(&self, now: &[NfsMount]) -> HashSet<Dev> {
        let mut left = self.left_devices(now);
        let stay = |mount: &&NfsMount| now.iter().any(|now| now.is_same_mount(mount));
        for mount in self.own.iter().filter(stay) {
            left.remove(&mount.dev);
        }
        left
    }

    /// Takes over the mounts of the host.
    pub fn follow_own(&mut self, now: &[NfsMount]) {
        let left = mem::replace(&mut self.own, now.to_vec());
        let devices: HashSet<_> = left.iter().chain(now).map(|mount| mount.dev).collect();
        for dev in devices {
            let known = self.devices.get(&dev).and_then(|known| known.last());
            let known = known.map_or(&[][..], |known| &known.points);
            let mut points = mounts_of_device(now, dev, false);
            // If the number is another file system's now, mounts of the previous one in other
            // namespaces are out of date.
            if points.is_empty() || share_a_mount(known, &points) {
                // Services with a namespace of their own have copies of the host's mounts, which are unmounted there, too.
                let is_copy_of_left = |foreign: &MountedPoint| {
                    let mut own = known.iter().filter(|point| !point.is_foreign);
                    own.any(|own| {
                        let is_there = now.iter().any(|now| now.is_same_mount(&own.mount));
                        !is_there && own.is_at_the_place_of(foreign)
                    })
                };
                let foreign = known
                    .iter()
                    .filter(|point| point.is_foreign && !is_copy_of_left(point));
                let foreign: Vec<_> = foreign.cloned().collect();
                points.extend(foreign);
            }
            self.set_mounts(dev, points);
        }
    }

    /// Takes over the mounts of every mount namespace, reading each once.
    pub fn refresh_all_namespaces(&mut self) {
        let mut seen = HashSet::new();
        // This process's has copies of the host's, which may be out of date.
        for known in ["self".to_owned(), HOST.to_string()] {
            seen.extend(fs::read_link(format!("/proc/{known}/ns/mnt")));
        }
        let mut found = Vec::new();
        self.namespaces.clear();
        for pid in pids() {
            let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt"));
            if namespace.is_ok_and(|ns| seen.insert(ns))
                && let Ok(mounts) = mounts_of(pid)
                && !mounts.is_empty()
            {
                let devices = mounts.iter().map(|mount| mount.dev).collect();
                self.namespaces.push((pid, devices));
                found.extend(mounts);
            }
        }
        // What has changed on the host meanwhile is still to be followed. Until then, a mount of a number's next file system that was
        // found elsewhere must not be taken for one of the file system that had the number before.
        let host = mounts_of(HOST).unwrap_or_default();
        let devices = |there: &[NfsMount], here: &[NfsMount]| {
            let is_here = |mount: &&NfsMount| here.iter().any(|here| here.is_same_mount(mount));
            let new = there.iter().filter(|mount| !is_here(mount));
            new.map(|mount| mount.dev).collect::<Vec<_>>()
        };
        let changed = [devices(&host, &self.own), devices(&self.own, &host)].concat();
        self.follow_foreign(&found, &changed.into_iter().collect());
    }

    /// Takes over the mounts that were found in other mount namespaces, but for those of devices that have `changed` on the host.
    fn follow_foreign(&mut self, found: &[NfsMount], changed: &HashSet<Dev>) {
        let is_foreign = |known: &FileSystem| known.points.iter().any(|point| point.is_foreign);
        let known = self.devices.iter();
        let before = known.filter(|(_, known)| known.last().is_some_and(is_foreign));
        let before = before.map(|(dev, _)| *dev);
        let devices: HashSet<_> = before.chain(found.iter().map(|mount| mount.dev)).collect();
        for dev in devices.into_iter().filter(|dev| !changed.contains(dev)) {
            let points = [
                mounts_of_device(&self.own, dev, false),
                mounts_of_device(found, dev, true),
            ];
            self.set_mounts(dev, points.concat());
        }
    }

    /// Sets the mounts that a device has now.
    fn set_mounts(&mut self, dev: Dev, mut points: Vec<MountedPoint>) {
        // A stable sort: of mounts with one source the oldest stands for all.
        points.sort_by_key(|point| (point.is_foreign, point.source().len()));
        let known = self.devices.entry(dev).or_default();
        let before = known.last_mut();
        self.is_news |= before
            .as_ref()
            .is_none_or(|now| now.has_left != points.is_empty() || now.points != points);
        match (before, best_source(&points)) {
            (None, None) => {}
            (Some(now), None) => now.has_left = true,
            // The file system is the same as long as one of its mounts stays, even if that begins
            // deeper in the export.
            (Some(now), Some(source))
                if now.source == source || share_a_mount(&now.points, &points) =>
            {
                if is_nearer(source, &now.source) {
                    now.source = source.to_owned();
                }
                now.points = points;
                now.has_left = false;
            }
            (_, Some(source)) => {
                known.push(FileSystem {
                    source: source.to_owned(),
                    points,
                    has_left: false,
                });
                if known.len() > REMEMBERED {
                    known.remove(0);
                }
            }
        }
    }

    /// What is mounted, as far as it is known, if that has changed since the last call, or is wanted `anyway`.
    pub fn take_news(&mut self, anyway: bool) -> Option<Vec<MountPoint>> {
        let is_news = mem::take(&mut self.is_news) || anyway;
        is_news.then(|| {
            let now = self.devices.values().filter_map(|known| known.last());
            let there = now.filter(|now| !now.has_left);
            let mut told: Vec<_> = there.flat_map(FileSystem::mount_points).collect();
            told.sort_unstable();
            told.dedup();
            told
        })
    }

    /// The path on this host of a file whose `place` is known: `server:/export` and the path below
    /// it.
    pub fn path(&self, dev: Dev, place: &[u8]) -> Option<Vec<u8>> {
        let points = &self.file_system(dev, Some(place))?.points;
        points.iter().find_map(|point| point.path(place))
    }

    /// A process of each other mount namespace that had NFS mounts when it was last read, and their
    /// devices.
    pub fn namespaces(&self) -> &[(u32, Vec<Dev>)] {
        &self.namespaces
    }

    /// Whether a device has a mount, as far as it is known.
    pub fn is_mounted(&self, dev: Dev) -> bool {
        let now = self.devices.get(&dev).and_then(|known| known.last());
        now.is_some_and(|now| !now.has_left)
    }

    /// `server:/export` of a device, as it is now.
    pub fn source(&self, dev: Dev) -> Option<&str> {
        self.file_system(dev, None)
            .map(|known| known.source.as_str())
    }

    /// `server:/export` of a file. Its place, if known, also finds what had the device number
    /// before, whose last requests may still arrive, and what was mounted too briefly to be seen.
    pub fn source_of(&self, dev: Dev, place: Option<&[u8]>) -> Option<String> {
        let seen = self.file_system(dev, place);
        let has_it = |seen: &&FileSystem| place.is_none_or(|place| seen.contains_place(place));
        let source = |seen: &FileSystem| seen.source.clone();
        let seen_there = seen.filter(has_it).map(source);
        let top = || self.top(dev, place?).map(str::to_owned);
        seen_there.or_else(top).or_else(|| seen.map(source))
    }

    /// The `server:/export` that a file's place is below, as far as paths have shown it.
    pub fn top(&self, dev: Dev, place: &[u8]) -> Option<&str> {
        let tops = self.tops.get(&dev).into_iter().flatten().rev();
        let mut tops = tops.map(String::as_str);
        tops.find(|top| is_below(place, top.as_bytes()))
    }

    /// Notes that a path on the device begins with `top`.
    pub fn note_top(&mut self, dev: Dev, top: &[u8]) {
        let known = self.tops.entry(dev).or_default();
        if known.last().is_none_or(|last| last.as_bytes() != top) {
            known.retain(|other| other.as_bytes() != top);
            known.push(String::from_utf8_lossy(top).into_owned());
            if known.len() > REMEMBERED {
                known.remove(0);
            }
        }
    }

    /// Whether a file cannot be on what is known to have its device number now.
    pub fn cannot_hold(&self, dev: Dev, place: Option<&[u8]>) -> bool {
        let now = self.devices.get(&dev).and_then(|known| known.last());
        now.is_none_or(|now| now.has_left || place.is_some_and(|place| !now.contains_place(place)))
    }

    fn file_system(&self, dev: Dev, place: Option<&[u8]>) -> Option<&FileSystem> {
        let known = self.devices.get(&dev)?;
        let by_place =
            place.and_then(|place| known.iter().rev().find(|known| known.contains_place(place)));
        by_place.or_else(|| known.last())
    }
}

impl FileSystem {
    /// Its mounts. Mount namespaces begin as copies, so foreign mounts at the same place as one of
    /// this process's own are left out.
    fn mount_points(&self) -> impl Iterator<Item = MountPoint> {
        let place =
            |point: &MountedPoint| (point.mount.source.clone(), point.mount.mount_point.clone());
        let own = self.points.iter().filter(|point| !point.is_foreign);
        let own: HashSet<_> = own.map(place).collect();
        let is_new = move |point: &&MountedPoint| !point.is_foreign || !own.contains(&place(point));
        let points = self.points.iter().filter(is_new);
        points.map(|point| point.as_mount_point(&self.source))
    }

    fn contains_place(&self, place: &[u8]) -> bool {
        let sources = self.points.iter().map(MountedPoint::source);
        let source = self.source.trim_end_matches('/');
        let mut sources = sources.chain([source]);
        sources.any(|source| is_below(place, source.as_bytes()))
    }
}

impl MountedPoint {
    fn as_mount_point(&self, mount: &str) -> MountPoint {
        let NfsMount {
            mount_id: _,
            dev,
            source,
            mount_point,
            options,
        } = self.mount.clone();
        let version = options
            .split(',')
            .find_map(|option| option.strip_prefix("vers="));
        MountPoint {
            dev,
            mount: mount.to_owned(),
            source,
            path: mount_point,
            version: version.map(str::to_owned),
            options,
            is_foreign: self.is_foreign,
        }
    }

    fn source(&self) -> &str {
        self.mount.source.trim_end_matches('/')
    }

    fn is_at_the_place_of(&self, other: &Self) -> bool {
        self.mount.source == other.mount.source && self.mount.mount_point == other.mount.mount_point
    }

    /// The path of what is at a place, if this mount has it.
    fn path(&self, place: &[u8]) -> Option<Vec<u8>> {
        let below = place.strip_prefix(self.source().as_bytes())?;
        let top = match self.mount.mount_point.as_str() {
            "/" => "",
            other => other,
        };
        let is_inside = below.is_empty() || below.starts_with(b"/");
        is_inside.then(|| [top.as_bytes(), below].concat())
    }
}

/// The mounts of a device.
fn mounts_of_device(mounts: &[NfsMount], dev: Dev, is_foreign: bool) -> Vec<MountedPoint> {
    let own = mounts.iter().filter(|mount| mount.dev == dev).cloned();
    own.map(|mount| MountedPoint { is_foreign, mount })
        .collect()
}

/// Whether one of the mounts is still there, and so the same file system.
fn share_a_mount(before: &[MountedPoint], now: &[MountedPoint]) -> bool {
    before.iter().any(|before| {
        now.iter().any(|now| {
            now.is_foreign == before.is_foreign && now.mount.is_same_mount(&before.mount)
        })
    })
}

/// If several mounts share a superblock, the shortest source stands for all: it is the one nearest
/// the export's root, and the choice does not depend on their order.
fn best_source(points: &[MountedPoint]) -> Option<&str> {
    let sources = points.iter().map(|point| point.mount.source.as_str());
    sources.reduce(|best, source| {
        if is_nearer(source, best) {
            source
        } else {
            best
        }
    })
}

fn is_nearer(source: &str, than: &str) -> bool {
    (source.len(), source) < (than.len(), than)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::mountinfo::{TEXT, parse_mountinfo};

    #[test]
    fn mounts_that_share_a_superblock_are_one_in_any_order() {
        let mut mounts = parse_mountinfo(TEXT);
        for _ in 0..2 {
            let mut known = Mounts::default();
            known.follow_own(&mounts);
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
        known.follow_foreign(&parse_mountinfo(elsewhere), &HashSet::new());
        assert_eq!(
            path(&known, 49, b"[::1]:/exp/f").as_deref(),
            Some("/inside/f")
        );
        assert_eq!(path(&known, 51, b"s:/d/f").as_deref(), Some("/d/f"));
        known.follow_own(&parse_mountinfo(TEXT));
        assert_eq!(
            path(&known, 49, b"[::1]:/exp/f").as_deref(),
            Some("/mnt/a b/f")
        );
        assert_eq!(
            path(&known, 49, b"[::1]:/exp/sub/f").as_deref(),
            Some("/mnt/a b/sub/f")
        );
        let only_below = parse_mountinfo(b"38 22 0:52 / /mnt/sub rw - nfs4 s:/e/sub rw\n");
        known.follow_own(&only_below);
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
        known.follow_own(&parse_mountinfo(
            b"38 22 0:52 / /mnt/moved rw - nfs4 s:/e/sub rw\n",
        ));
        assert_eq!(
            path(&known, 52, b"s:/e/sub/f").as_deref(),
            Some("/mnt/moved/f")
        );
        known.follow_own(&parse_mountinfo(b"38 22 0:52 / /m rw - nfs4 other:/x rw\n"));
        assert_eq!(
            path(&known, 52, b"s:/e/sub/f").as_deref(),
            Some("/mnt/moved/f"),
            "the one before"
        );
        assert_eq!(path(&known, 52, b"other:/x/f").as_deref(), Some("/m/f"));
    }

    #[test]
    fn a_file_system_stays_the_same_as_long_as_one_of_its_mounts_does() {
        let line = |id: u32, source: &str, at: &str, options: &str| {
            format!("{id} 22 0:49 / {at} {options} - nfs4 {source} {options},vers=4.2\n")
        };
        let [whole, part] = [("s:/e", "/mnt/e"), ("s:/e/part", "/part")]
            .map(|(source, at)| line(source.len() as u32, source, at, "rw"));
        let mounts = |text: &str| parse_mountinfo(text.as_bytes());
        let mut known = Mounts::default();
        known.follow_own(&mounts(&[&*whole, &part].concat()));
        let left = mounts(&part);
        assert_eq!(
            known.left_devices(&left),
            HashSet::from([Dev(49)]),
            "of its mounts"
        );
        assert!(known.gone_devices(&left).is_empty());
        known.follow_own(&left);
        assert_eq!(known.source(Dev(49)), Some("s:/e"));
        let path = known.path(Dev(49), b"s:/e/part/f").unwrap();
        assert_eq!(path, b"/part/f");
        let otherwise = mounts(&line(9, "s:/e/part", "/part", "ro"));
        known.follow_own(&otherwise);
        assert_eq!(known.source(Dev(49)), Some("s:/e"), "with other options");
        let told = known.take_news(false).unwrap();
        assert_eq!(
            (told.len(), &*told[0].mount, &*told[0].source),
            (1, "s:/e", "s:/e/part")
        );
        assert_eq!(told[0].version.as_deref(), Some("4.2"));
        assert!(told[0].options.starts_with("ro,"), "{told:?}");
        known.follow_own(&otherwise);
        assert_eq!(known.take_news(false), None);
        let other = mounts(&line(44, "s:/e/part", "/part", "rw"));
        assert_eq!(
            known.gone_devices(&other),
            HashSet::from([Dev(49)]),
            "another mount"
        );
    }

    #[test]
    fn a_file_is_on_what_had_its_place_when_others_mount_what_nobody_here_sees() {
        let mounts = |source: &str| {
            parse_mountinfo(format!("9 1 0:50 / /inside rw - nfs {source} rw\n").as_bytes())
        };
        let source = |known: &Mounts, place: &[u8]| known.source_of(Dev(50), Some(place));
        let mut known = Mounts::default();
        assert!(known.cannot_hold(Dev(50), None));
        known.follow_foreign(&mounts("s:/a"), &HashSet::new());
        assert!(!known.cannot_hold(Dev(50), Some(b"s:/a/f")));
        assert!(
            known.cannot_hold(Dev(50), Some(b"s:/b/f")),
            "the number is used again"
        );
        known.follow_foreign(&mounts("s:/b"), &HashSet::new());
        assert_eq!(source(&known, b"s:/b/f").as_deref(), Some("s:/b"));
        assert_eq!(
            source(&known, b"s:/a/f").as_deref(),
            Some("s:/a"),
            "seen late"
        );
        assert_eq!(source(&known, b"s:/c/d/f").as_deref(), Some("s:/b"));
        known.note_top(Dev(50), b"s:/c");
        assert_eq!(source(&known, b"s:/c/d/f").as_deref(), Some("s:/c"));
        assert_eq!(known.path(Dev(50), b"s:/c/d/f"), None);
        known.follow_foreign(&[], &HashSet::new());
        assert!(known.cannot_hold(Dev(50), Some(b"s:/b/f")), "it has left");
        assert_eq!(source(&known, b"s:/b/f").as_deref(), Some("s:/b"));
    }

    #[test]
    fn copies_in_namespaces_of_services_go_with_what_they_are_copies_of() {
        let mounts = |id: u32, source: &str| {
            let line = format!("{id} 1 0:50 / /mnt/x rw - nfs {source} rw\n");
            parse_mountinfo(line.as_bytes())
        };
        let mut known = Mounts::default();
        known.follow_own(&mounts(9, "s:/e"));
        known.follow_foreign(&mounts(10, "s:/e"), &HashSet::new());
        assert_eq!(known.take_news(false).unwrap().len(), 1, "told once");
        known.follow_own(&[]);
        assert!(known.cannot_hold(Dev(50), None), "the copy has left, too");
        assert_eq!(known.take_news(false), Some(vec![]));

        // The number is used again, of which a look at all namespaces shows more than was followed.
        known.follow_own(&mounts(9, "s:/e"));
        let changed = HashSet::from([Dev(50)]);
        known.follow_foreign(&mounts(12, "s:/f"), &changed);
        known.note_top(Dev(50), b"s:/f");
        let source = known.source_of(Dev(50), Some(b"s:/f/file"));
        assert_eq!(source.as_deref(), Some("s:/f"));
    }

    #[test]
    fn a_reused_device_number_stands_for_the_new_mount() {
        let mut known = Mounts::default();
        known.follow_own(&parse_mountinfo(TEXT));
        known.follow_own(&parse_mountinfo(b"40 22 0:50 / /m rw - nfs4 other:/x rw\n"));
        assert_eq!(known.source(Dev(50)), Some("other:/x"));
        assert_eq!(known.source(Dev(49)), Some("[::1]:/exp"));
    }

    #[test]
    fn a_superblock_is_certainly_the_same_while_one_of_its_mounts_stays() {
        let main = "36 22 0:49 / /m rw - nfs4 [::1]:/exp rw\n";
        let bound = "40 22 0:49 / /bound rw - nfs4 [::1]:/exp rw\n";
        let anew = "41 22 0:49 / /m rw - nfs4 [::1]:/exp rw\n";
        let mut known = Mounts::default();
        known.follow_own(&parse_mountinfo(format!("{main}{bound}").as_bytes()));
        let without_bound = parse_mountinfo(main.as_bytes());
        assert_eq!(known.left_devices(&without_bound), HashSet::from([Dev(49)]));
        assert!(known.replaced_devices(&without_bound).is_empty());
        let anew = parse_mountinfo(anew.as_bytes());
        assert_eq!(known.replaced_devices(&anew), HashSet::from([Dev(49)]));
    }

    #[test]
    fn a_mount_that_left_is_told_even_when_its_number_is_in_use_again() {
        let mut known = Mounts::default();
        known.follow_own(&parse_mountinfo(TEXT));
        assert!(known.gone_devices(&parse_mountinfo(TEXT)).is_empty());
        let other =
            b"36 22 0:49 / /m rw - nfs4 [::1]:/exp rw\n40 22 0:50 / /m rw - nfs4 other:/x rw\n";
        let mounts = parse_mountinfo(other);
        assert_eq!(known.gone_devices(&mounts), HashSet::from([Dev(50)]));
        known.follow_own(&mounts);
        assert_eq!(known.gone_devices(&[]), HashSet::from([Dev(49), Dev(50)]));
        known.follow_own(&[]);
        assert_eq!(
            known.source(Dev(50)),
            Some("other:/x"),
            "until the number is used again"
        );
        assert!(known.gone_devices(&mounts).is_empty());
    }
}

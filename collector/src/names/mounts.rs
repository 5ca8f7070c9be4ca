//! The NFS file system of a device number, and where it is mounted.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::mem;

use trackiops_schemas::identity::{Dev, FileId, FileKey};
use trackiops_schemas::mount::MountPoint;

use crate::names::mount_names::{self, difference, server_of};
use crate::names::mountinfo::{HOST, NfsMount, mounts_of, pids};
use crate::names::paths::is_below;
use crate::names::superblocks::{Superblock, Superblocks};
use crate::names::volumes::{Volume, Volumes};

/// Most file systems that are remembered for one device number.
const REMEMBERED: usize = 4;
/// Most former mounts of a superblock that are remembered: data of their files may still be written back.
const LEFT: usize = 64;
/// Above this number of mount names of a superblock, the names of mounts that left long ago are forgotten.
const MOST_NAMES: usize = 4096;

/// The file systems of device numbers. A mount that is gone stays known until its number is used
/// again: its last requests may still arrive.
#[derive(Default)]
pub struct Mounts {
    /// The NFS mounts of the host's mount namespace at the last look.
    own: Vec<NfsMount>,
    /// The file systems that had each number; the current one is last.
    devices: HashMap<Dev, Vec<FileSystem>>,
    /// The `server:/export` tops that the paths of each number's files have shown; the latest is last.
    tops: HashMap<Dev, Vec<String>>,
    /// Whether a mount came, went or changed since the last [`Self::take_news`].
    is_news: bool,
    /// One process for each other mount namespace that had NFS mounts when it was last read, and the
    /// devices of those mounts.
    namespaces: Vec<(u32, Vec<Dev>)>,
    superblocks: Superblocks,
    volumes: Volumes,
}

/// A superblock, as its mounts show it.
#[derive(Debug)]
struct FileSystem {
    superblock: Superblock,
    /// The name in rows of each of its sources, `server:/export/directory`. A name lives as long as the superblock.
    names: BTreeMap<String, String>,
    /// The server's directory that contains all of its sources, and the name for files whose mount is unknown.
    top: String,
    whole: String,
    /// Its mounts: the host's first, and within each group those deepest in the export. After it has left, its last mounts.
    points: Vec<MountedPoint>,
    /// Its former mounts, the latest first.
    left: Vec<MountedPoint>,
    has_left: bool,
}

/// One place where a superblock is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountedPoint {
    is_foreign: bool,
    mount: NfsMount,
}

impl Mounts {
    /// Devices that were mounted at the last look, but are unmounted or mounted from another source
    /// in `now`: the kernel reuses a number as soon as it is free.
    pub fn gone_devices(&self, now: &[NfsMount]) -> HashSet<Dev> {
        let before = self.own.iter().map(|mount| mount.dev);
        let stays = |dev: &Dev| {
            let now = mounts_of_device(now, *dev, false);
            let known = self.devices.get(dev).and_then(|known| known.last());
            known.is_some_and(|known| known.is_of(&now))
        };
        before.filter(|dev| !stays(dev)).collect()
    }

    /// Devices that have lost a mount since the last look.
    pub fn left_devices(&self, now: &[NfsMount]) -> HashSet<Dev> {
        not_among(&self.own, now).collect()
    }

    /// Devices that were mounted at the last look and have lost all those mounts. If such a device is mounted again, it may be another
    /// superblock.
    pub fn replaced_devices(&self, now: &[NfsMount]) -> HashSet<Dev> {
        let mut left = self.left_devices(now);
        let stay = |mount: &&NfsMount| now.iter().any(|now| now.is_same_mount(mount));
        for mount in self.own.iter().filter(stay) {
            left.remove(&mount.dev);
        }
        left
    }

    /// Reads the client's list of superblocks. Call it before [`Self::follow_own`].
    pub fn read_superblocks(&mut self, now: &[NfsMount]) {
        self.superblocks.refresh_host();
        let is_new = |mount: &NfsMount| {
            !self.superblocks.knows(mount.dev)
                && !self.own.iter().any(|own| own.is_same_mount(mount))
        };
        if now.iter().any(is_new) {
            self.superblocks.refresh_all(pids());
        }
    }

    /// Replaces the host's mounts by `now`.
    pub fn follow_own(&mut self, now: &[NfsMount]) {
        let left = mem::replace(&mut self.own, now.to_vec());
        // Devices that left first, then in mount order: the first one gets the shortest name.
        let stays = |mount: &&NfsMount| now.iter().any(|now| now.dev == mount.dev);
        let left = left.iter().filter(|mount| !stays(mount));
        for dev in in_order(left.chain(now)) {
            let known = self.devices.get(&dev).and_then(|known| known.last());
            let known = known.map_or(&[][..], |known| &known.points);
            let mut points = mounts_of_device(now, dev, false);
            // If the number now belongs to another file system, mounts of the previous one in other
            // namespaces are out of date.
            if points.is_empty() || share_a_mount(known, &points) {
                // Services with private mount namespaces have copies of the host's mounts; these are unmounted there, too.
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

    /// Reads the mounts of every mount namespace, each namespace once.
    pub fn refresh_all_namespaces(&mut self) {
        let mut seen = HashSet::new();
        // This process's namespace has copies of the host's mounts, which may be out of date.
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
        // Changes on the host are followed later. Until then, a mount of a number's next file system that was found
        // elsewhere must not be assigned to the previous file system.
        let host = mounts_of(HOST).unwrap_or_default();
        // Read after the mounts, so that every mount found has its superblock in the list.
        self.superblocks.refresh_all(pids());
        let changed = not_among(&host, &self.own).chain(not_among(&self.own, &host));
        self.follow_foreign(&found, &changed.collect());
    }

    /// Replaces the mounts found in other mount namespaces, except on devices that have `changed` on the host.
    fn follow_foreign(&mut self, found: &[NfsMount], changed: &HashSet<Dev>) {
        let is_foreign = |known: &FileSystem| known.points.iter().any(|point| point.is_foreign);
        let known = self.devices.iter();
        let before = known.filter(|(_, known)| known.last().is_some_and(is_foreign));
        let before = before.map(|(dev, _)| *dev);
        let before: Vec<_> = before.collect();
        let mut devices = in_order(found);
        devices.extend(
            before
                .into_iter()
                .filter(|dev| found.iter().all(|mount| mount.dev != *dev)),
        );
        for dev in devices.into_iter().filter(|dev| !changed.contains(dev)) {
            let points = [
                mounts_of_device(&self.own, dev, false),
                mounts_of_device(found, dev, true),
            ];
            self.set_mounts(dev, points.concat());
        }
    }

    /// Sets the current mounts of a device.
    fn set_mounts(&mut self, dev: Dev, mut points: Vec<MountedPoint>) {
        // A stable sort: of several mounts with one source, the oldest represents all.
        points.sort_by_key(|point| (point.is_foreign, usize::MAX - point.source().len()));
        let superblock = self.superblocks.get(dev);
        let known = self.devices.get(&dev).and_then(|known| known.last());
        self.is_news |=
            known.is_none_or(|now| now.has_left != points.is_empty() || now.points != points);
        let goes_on = known.is_some_and(|now| {
            points.is_empty() || now.is_of(&points) && now.agrees_with(&superblock)
        });
        let names = (!points.is_empty()).then(|| {
            let before = known.filter(|_| goes_on);
            self.names_of(dev, &points, &superblock, before)
        });
        let known = self.devices.entry(dev).or_default();
        let Some((names, top, whole)) = names else {
            if let Some(now) = known.last_mut() {
                now.has_left = true;
            }
            return;
        };
        match known.last_mut().filter(|_| goes_on) {
            Some(now) => {
                let before = mem::replace(&mut now.points, points);
                let stay = |point: &MountedPoint| {
                    now.points.iter().any(|now| now.is_at_the_place_of(point))
                };
                now.left.retain(|point| !stay(point));
                let left = before.into_iter().filter(|point| !stay(point));
                now.left = left.chain(mem::take(&mut now.left)).take(LEFT).collect();
                (now.names, now.top, now.whole) = (names, top, whole);
                if now.names.len() > MOST_NAMES {
                    let there = now.points.iter().chain(&now.left).map(MountedPoint::source);
                    let there: HashSet<_> = there.map(str::to_owned).collect();
                    now.names.retain(|source, _| there.contains(source));
                }
                now.has_left = false;
            }
            None => {
                known.push(FileSystem {
                    superblock,
                    names,
                    top,
                    whole,
                    points,
                    left: Vec::new(),
                    has_left: false,
                });
                if known.len() > REMEMBERED {
                    known.remove(0);
                }
            }
        }
    }

    /// Names for a superblock's mounts and for itself, different from the names of everything else that is mounted.
    fn names_of(
        &self,
        dev: Dev,
        points: &[MountedPoint],
        superblock: &Superblock,
        before: Option<&FileSystem>,
    ) -> (BTreeMap<String, String>, String, String) {
        let others = self.devices.iter().filter(|(other, _)| **other != dev);
        let others = others.filter_map(|(other, known)| Some((*other, known.last()?)));
        let others: Vec<_> = others.filter(|(_, other)| !other.has_left).collect();
        // Any mount has the options of its superblock; the oldest one is used.
        let Some(options) = points.first().map(|point| point.mount.options.as_str()) else {
            return Default::default();
        };
        let unique = |source: &str| {
            let name = mount_names::name(source, options, superblock.network.as_deref());
            let mut longer = name.clone();
            let mut told = HashSet::new();
            loop {
                let same = others.iter().filter(|(_, other)| other.has_name(&longer));
                let Some((_, taker)) = same.min_by_key(|(dev, _)| *dev) else {
                    return longer;
                };
                let theirs = taker
                    .points
                    .first()
                    .map(|point| point.mount.options.as_str());
                let mut differ = difference(options, theirs.unwrap_or_default());
                let Some(option) = differ.find(|option| told.insert(*option)) else {
                    return format!("{name},dev={dev}");
                };
                longer = format!("{longer},{option}");
            }
        };
        let mut names = before
            .map(|before| before.names.clone())
            .unwrap_or_default();
        for point in points {
            if !names.contains_key(point.source()) {
                let source = point.source().to_owned();
                let name = unique(&point.mount.source);
                names.insert(source, name);
            }
        }
        let sources = points.iter().map(MountedPoint::source);
        let mut sources = before
            .map(|before| before.top.as_str())
            .into_iter()
            .chain(sources);
        let first = sources.next().unwrap_or_default();
        // One server may be mounted by several names.
        let top = sources.fold(first, |top, source| {
            match mount_names::common(top, source) {
                "" => top,
                common => common,
            }
        });
        let top = top.to_owned();
        let whole = match (names.get(&top), before) {
            (Some(name), _) => name.clone(),
            (None, Some(before)) if before.top == top => before.whole.clone(),
            (None, _) if top.contains(":/") => unique(&top),
            (None, _) => unique(&format!("{top}/")),
        };
        (names, top, whole)
    }

    /// The known mounts, if they have changed since the last call or `anyway` is set.
    pub fn take_news(&mut self, anyway: bool) -> Option<Vec<MountPoint>> {
        let is_news = mem::take(&mut self.is_news) || anyway;
        is_news.then(|| {
            let now = self.devices.values().filter_map(|known| known.last());
            let there: Vec<_> = now.filter(|now| !now.has_left).collect();
            let own = there.iter().flat_map(|now| &now.points);
            let own = own.filter(|point| !point.is_foreign);
            let places = own.map(|point| (point.source(), point.mount.mount_point.as_str()));
            self.volumes.follow(places);
            let told = there.iter().flat_map(|now| now.mount_points(&self.volumes));
            let mut told: Vec<_> = told.collect();
            told.sort_unstable();
            told.dedup();
            told
        })
    }

    /// The path on this host of a file whose `place` is known: `server:/export` and the path below
    /// it. The result begins with the mount point of the file's mount.
    pub fn path(&self, dev: Dev, place: &[u8]) -> Option<Vec<u8>> {
        let point = self.file_system(dev, Some(place))?.point_of(place)?;
        point.path(place)
    }

    /// One process for each other mount namespace that had NFS mounts when it was last read, and the
    /// devices of those mounts.
    pub fn namespaces(&self) -> &[(u32, Vec<Dev>)] {
        &self.namespaces
    }

    /// Whether a device is known to be mounted.
    pub fn is_mounted(&self, dev: Dev) -> bool {
        let now = self.devices.get(&dev).and_then(|known| known.last());
        now.is_some_and(|now| !now.has_left)
    }

    /// The name in rows for a device without a file's place: the name of its only mount, or of the server's directory that contains
    /// all of its mounts.
    pub fn whole(&self, dev: Dev) -> Option<&str> {
        self.file_system(dev, None)
            .map(|known| known.whole.as_str())
    }

    /// The name in rows of the mount that a file is on. If the file's place is known, this also finds mounts too brief
    /// to be seen, and the device number's previous file systems: their last requests may still arrive.
    pub fn name_of(&self, dev: Dev, place: Option<&[u8]>) -> Option<String> {
        let seen = self.file_system(dev, place);
        let name = |seen: &FileSystem| seen.name_of(place).to_owned();
        match self.unseen_top(dev, place) {
            Some(top) => Some(top.to_owned()),
            None => seen.map(name),
        }
    }

    /// The key of a file: its server and the server's identification of the file system, if known. It never contains the mount,
    /// so it does not depend on other mounts.
    pub fn key(&self, file: FileId, place: Option<&[u8]>) -> FileKey {
        let dev = file.dev;
        if let Some(top) = self.unseen_top(dev, place) {
            return FileKey::new(Some(top), file);
        }
        let file_system = self
            .file_system(dev, place)
            .map(|seen| seen.identity(place));
        FileKey::new(file_system.as_deref(), file)
    }

    /// The top of a file's path, if no known mount can contain the file.
    fn unseen_top(&self, dev: Dev, place: Option<&[u8]>) -> Option<&str> {
        let place = place?;
        let is_seen = self
            .file_system(dev, Some(place))
            .is_some_and(|seen| seen.contains_place(place));
        self.top(dev, place).filter(|_| !is_seen)
    }

    /// The `server:/export` that contains a file's place, if a path has shown it.
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

    /// Whether the file system that now has the device number cannot contain the file.
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
    /// the host's are left out.
    fn mount_points(&self, volumes: &Volumes) -> impl Iterator<Item = MountPoint> {
        let place =
            |point: &MountedPoint| (point.mount.source.clone(), point.mount.mount_point.clone());
        let own = self.points.iter().filter(|point| !point.is_foreign);
        let own: HashSet<_> = own.map(place).collect();
        let is_new = move |point: &&MountedPoint| !point.is_foreign || !own.contains(&place(point));
        let points = self.points.iter().filter(is_new);
        points.map(|point| {
            let name = self.names.get(point.source()).unwrap_or(&self.whole);
            let volume = match point.is_foreign {
                true => None,
                false => volumes.get(point.source(), &point.mount.mount_point),
            };
            point.as_mount_point(name, volume)
        })
    }

    fn contains_place(&self, place: &[u8]) -> bool {
        let mut sources = self.names.keys().chain([&self.top]);
        sources.any(|source| is_below(place, source.as_bytes()))
    }

    /// The mount that a file is on: the first match, with host mounts first and deeper ones before others. A request does not reveal
    /// through which mount its file was opened.
    fn point_of(&self, place: &[u8]) -> Option<&MountedPoint> {
        let mut points = self.points.iter().chain(&self.left);
        points.find(|point| is_below(place, point.source().as_bytes()))
    }

    /// The name in rows of the mount that a file is on.
    fn name_of(&self, place: Option<&[u8]>) -> &str {
        let source = match (place, self.names.len()) {
            // All files are on the only mount, including those whose path is unknown.
            (_, 1) => self.names.keys().next().map(String::as_str),
            (Some(place), _) => self.point_of(place).map(MountedPoint::source),
            (None, _) => None,
        };
        let name = source.and_then(|source| self.names.get(source));
        name.unwrap_or(&self.whole)
    }

    /// Distinguishes its files from files of other file systems, on every host that mounts the server by this name.
    fn identity(&self, place: Option<&[u8]>) -> String {
        let point = place.and_then(|place| self.point_of(place));
        let point = point.or(self.points.first());
        let (source, options) = point.map_or((self.top.as_str(), ""), |point| {
            (point.source(), point.mount.options.as_str())
        });
        let network = self.superblock.network.as_deref();
        match &self.superblock.fsid {
            Some(fsid) => mount_names::name(server_of(source), options, network) + "#" + fsid,
            // Without an fsid, the export is the best identification. It is the same for all mounts that were seen in time.
            None => mount_names::name(&self.top, options, network),
        }
    }

    fn has_name(&self, name: &str) -> bool {
        self.whole == name || self.names.values().any(|own| own == name)
    }

    /// Whether these can be its mounts: one was there before, or has the same source as an earlier one.
    fn is_of(&self, points: &[MountedPoint]) -> bool {
        share_a_mount(&self.points, points)
            || points
                .iter()
                .any(|point| self.points.iter().any(|own| own.source() == point.source()))
    }

    /// Whether it can be this superblock.
    fn agrees_with(&self, superblock: &Superblock) -> bool {
        match (&self.superblock.fsid, &superblock.fsid) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        }
    }
}

impl MountedPoint {
    fn as_mount_point(&self, mount: &str, volume: Option<&Volume>) -> MountPoint {
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
            volume: volume.map(|volume| volume.name.clone()),
            claim: volume.and_then(|volume| volume.claim.clone()),
        }
    }

    fn source(&self) -> &str {
        self.mount.source.trim_end_matches('/')
    }

    fn is_at_the_place_of(&self, other: &Self) -> bool {
        self.mount.source == other.mount.source && self.mount.mount_point == other.mount.mount_point
    }

    /// The path on this host of a place, if this mount contains it.
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

/// Whether one of the mounts is still there, which proves that the file system is the same.
fn share_a_mount(before: &[MountedPoint], now: &[MountedPoint]) -> bool {
    before.iter().any(|before| {
        now.iter().any(|now| {
            now.is_foreign == before.is_foreign && now.mount.is_same_mount(&before.mount)
        })
    })
}

/// The devices of mounts, each once.
fn in_order<'m>(mounts: impl IntoIterator<Item = &'m NfsMount>) -> Vec<Dev> {
    let mut seen = HashSet::new();
    let devices = mounts.into_iter().map(|mount| mount.dev);
    devices.filter(|dev| seen.insert(*dev)).collect()
}

/// Devices of the mounts that are not among `there`.
fn not_among<'m>(mounts: &'m [NfsMount], there: &'m [NfsMount]) -> impl Iterator<Item = Dev> + 'm {
    let is_there = |mount: &NfsMount| there.iter().any(|other| other.is_same_mount(mount));
    mounts
        .iter()
        .filter(move |mount| !is_there(mount))
        .map(|mount| mount.dev)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::mountinfo::{TEXT, parse_mountinfo};

    #[test]
    fn mounts_that_share_a_superblock_have_its_directory_as_their_common_name_in_any_order() {
        let mut mounts = parse_mountinfo(TEXT);
        for _ in 0..2 {
            let mut known = Mounts::default();
            known.follow_own(&mounts);
            assert_eq!(known.whole(Dev(49)), Some("[::1]:/exp"));
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
            Some("/mnt/sub/f"),
            "where its own mount is"
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

    /// The mounts of a host whose superblock 0:50 has the fsid 29:0.
    fn volumes(known: &mut Mounts, mounts: &[(u32, &str)]) {
        known.superblocks = Superblocks::listed(b"v4 7f000001 801 0:50 29:0 no\n", None);
        let line = |(id, volume): &(u32, &str)| {
            format!("{id} 1 0:50 / /mnt/{volume} rw - nfs4 s:/exp/{volume} rw,vers=4.2\n")
        };
        let text: String = mounts.iter().map(line).collect();
        known.follow_own(&parse_mountinfo(text.as_bytes()));
    }

    #[test]
    fn a_volume_keeps_its_files_however_others_of_its_export_come_and_go() {
        let file = FileId {
            dev: Dev(50),
            fileid: 7,
            handle_hash: 9,
        };
        let place: &[u8] = b"s:/exp/pvc-0001/f";
        let mut known = Mounts::default();
        let mut seen = HashSet::new();
        let (one, short, two) = ((41, "pvc-0001"), (42, "x"), (43, "pvc-0002"));
        let each = [
            &[one][..],
            &[one, short],
            &[one, short, two],
            &[one, two],
            &[one],
        ];
        for mounts in each {
            volumes(&mut known, mounts);
            let told = (
                known.name_of(Dev(50), Some(place)),
                known.path(Dev(50), place),
                known.key(file, Some(place)),
            );
            seen.insert(told);
            let mut told = known.take_news(true).unwrap();
            told.retain(|point| point.path == "/mnt/pvc-0001");
            assert_eq!((told.len(), &*told[0].mount), (1, "s:/exp/pvc-0001"));
        }
        let [(name, path, key)] = &seen.into_iter().collect::<Vec<_>>()[..] else {
            panic!("it has moved");
        };
        assert_eq!(name.as_deref(), Some("s:/exp/pvc-0001"));
        assert_eq!(path.as_deref(), Some(&b"/mnt/pvc-0001/f"[..]));
        assert_eq!(*key, FileKey::new(Some("s#29:0"), file));
        // Data that was written through a volume before it left is written back later.
        let late: &[u8] = b"s:/exp/x/g";
        assert_eq!(
            known.name_of(Dev(50), Some(late)).as_deref(),
            Some("s:/exp/x")
        );
        assert_eq!(known.path(Dev(50), late).as_deref(), Some(&b"/mnt/x/g"[..]));
        assert_eq!(
            known.whole(Dev(50)),
            Some("s:/exp"),
            "sums of the superblock"
        );
        // A recorder that starts now, or has only seen another volume, computes the same key.
        let mut other = Mounts::default();
        volumes(&mut other, &[two]);
        assert_eq!(other.key(file, None), *key);
        assert_eq!(
            other.name_of(Dev(50), None).as_deref(),
            Some("s:/exp/pvc-0002")
        );
    }

    #[test]
    fn what_the_kernel_keeps_apart_has_names_that_differ() {
        let line = |dev, source: &str, options: &str| {
            format!("{dev} 1 0:{dev} / /mnt/{dev} rw - nfs {source} rw,{options},addr=127.0.0.1\n")
        };
        let lines = [
            line(40, "lo:/e", "vers=4.2,hard"),
            line(41, "lo:/e", "vers=4.2,hard,port=20049"),
            line(42, "lo:/e", "vers=4.2,hard,port=20050"),
            line(43, "lo:/e", "vers=3,soft"),
            line(44, "lo:/e", "vers=3,hard"),
            line(45, "lo:/e", "vers=4.2,hard,nosharecache"),
            line(46, "lo:/e", "vers=4.2,hard,nosharecache"),
            line(47, "lo:/e", "vers=4.2,hard"),
        ];
        let listed = b"v4 7f000001 801 0:40 1:0 no\nv4 7f000001 4e51 0:41 1:0 no\nv4 7f000001 4e52 0:42 1:0 no\n\
            v3 7f000001 801 0:43 1:0 no\nv3 7f000001 801 0:44 1:0 no\nv4 7f000001 801 0:45 1:0 no\nv4 7f000001 801 0:46 1:0 no\n";
        let blue = Superblock {
            fsid: Some("1:0".into()),
            network: Some("blue".into()),
        };
        let mut known = Mounts {
            superblocks: Superblocks::listed(listed, Some((Dev(47), blue))),
            ..Mounts::default()
        };
        known.follow_own(&parse_mountinfo(lines.concat().as_bytes()));
        let expected = [
            "lo:/e",
            "lo:/e,port=20049",
            "lo:/e,port=20050",
            "lo:/e,vers=3",
            "lo:/e,vers=3,hard",
            "lo:/e,nosharecache",
            "lo:/e,dev=0:46",
            "lo:/e,net=blue",
        ];
        let names = (40..48).map(|dev| known.whole(Dev(dev)).unwrap().to_owned());
        assert_eq!(names.collect::<Vec<_>>(), expected);
        let key = |dev| {
            let file = FileId {
                dev: Dev(dev),
                fileid: 7,
                handle_hash: 9,
            };
            known.key(file, Some(b"lo:/e/f"))
        };
        let of_servers: HashSet<_> = [40, 41, 42, 47].map(key).into_iter().collect();
        assert_eq!(of_servers.len(), 4, "other servers");
        for same in [43, 44, 45, 46] {
            assert_eq!(key(same), key(40), "the same server, asked otherwise");
        }
        // Nothing is renamed when the first mount goes.
        known.follow_own(&parse_mountinfo(lines[1..].concat().as_bytes()));
        let names = (41..48).map(|dev| known.whole(Dev(dev)).unwrap().to_owned());
        assert_eq!(names.collect::<Vec<_>>(), expected[1..]);
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
        assert_eq!(known.whole(Dev(49)), Some("s:/e"));
        let path = known.path(Dev(49), b"s:/e/part/f").unwrap();
        assert_eq!(path, b"/part/f");
        let otherwise = mounts(&line(9, "s:/e/part", "/part", "ro"));
        known.follow_own(&otherwise);
        assert_eq!(known.whole(Dev(49)), Some("s:/e"), "with other options");
        let told = known.take_news(false).unwrap();
        assert_eq!(
            (told.len(), &*told[0].mount, &*told[0].source),
            (1, "s:/e/part", "s:/e/part")
        );
        assert_eq!(told[0].version.as_deref(), Some("4.2"));
        assert!(told[0].options.starts_with("ro,"), "{told:?}");
        known.follow_own(&otherwise);
        assert_eq!(known.take_news(false), None);
        let again = mounts(&line(44, "s:/e/part", "/part", "rw"));
        assert!(known.gone_devices(&again).is_empty(), "the same source");
        let other = mounts(&line(44, "s:/other", "/part", "rw"));
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
        let source = |known: &Mounts, place: &[u8]| known.name_of(Dev(50), Some(place));
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

        // The number is used again. A look at all namespaces shows more than was followed.
        known.follow_own(&mounts(9, "s:/e"));
        let changed = HashSet::from([Dev(50)]);
        known.follow_foreign(&mounts(12, "s:/f"), &changed);
        known.note_top(Dev(50), b"s:/f");
        let source = known.name_of(Dev(50), Some(b"s:/f/file"));
        assert_eq!(source.as_deref(), Some("s:/f"));
    }

    #[test]
    fn a_reused_device_number_stands_for_the_new_mount() {
        let mut known = Mounts::default();
        known.follow_own(&parse_mountinfo(TEXT));
        known.follow_own(&parse_mountinfo(b"40 22 0:50 / /m rw - nfs4 other:/x rw\n"));
        assert_eq!(known.whole(Dev(50)), Some("other:/x"));
        assert_eq!(known.whole(Dev(49)), Some("[::1]:/exp"));
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
            known.whole(Dev(50)),
            Some("other:/x"),
            "until the number is used again"
        );
        assert!(known.gone_devices(&mounts).is_empty());
    }
}

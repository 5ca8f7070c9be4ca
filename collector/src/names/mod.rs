//! Attributes of this host's files: mount, key on disk, name.

pub(crate) mod local_mounts;
pub(crate) mod mappings;
pub(crate) mod mount_names;
pub(crate) mod mountinfo;
pub(crate) mod mounts;
pub(crate) mod open_files;
pub(crate) mod path_ring;
pub(crate) mod paths;
pub(crate) mod processes;
pub(crate) mod superblocks;
pub(crate) mod volumes;

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use ahash::AHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use trackiops_schemas::identity::{Dev, FILE_SYSTEM, FileAttributes, FileId, FileKey, OTHERS};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::request::ProcessName;
use trackiops_tenants::Rules;

use crate::clock::{MonotonicNs, is_due};
use crate::generations::Generations;
use crate::names::local_mounts::{Counted, LocalFileSystem, LocalMounts};
use crate::names::mappings::Mappings;
use crate::names::mountinfo::{HOST, NfsMount, mounts_of, pids};
use crate::names::mounts::Mounts;
use crate::names::open_files::{OpenFile, descriptors};
use crate::names::path_ring::{PathChange, PathEvent};
use crate::names::paths::{ExportPath, KnownPaths};
use crate::names::processes::Processes;
use crate::plan::Levels;
use crate::rollup::row_key::RowKey;
use crate::tenants::Tenants;
use crate::tenants::naming::{Named, Naming};

/// A name is checked again after this time: files are renamed while they are open.
const RECHECK: Duration = Duration::from_secs(30);
/// Least time between searches of all processes for files without a name, and of all mount
/// namespaces for a device without a mount.
const FULL_SCAN: Duration = Duration::from_secs(5);
/// All mount namespaces are read at least this often.
const MOUNT_SCAN: Duration = Duration::from_secs(60);
/// Number of searches through all processes before a file stays without a name.
const FULL_SCAN_TRIES: u8 = 3;
/// Descriptors that are read in one go: about 20 ms of system calls.
const DESCRIPTORS: usize = 8192;

struct KnownFile {
    attributes: Arc<FileAttributes>,
    /// The reported path from which the attributes were made.
    place: Option<ExportPath>,
    checked: MonotonicNs,
    tries_left: u8,
    /// The result of the tenant rules for the attributes.
    named: Option<Named>,
}

/// Names and mounts of recently active files.
pub struct Names {
    mounts: Mounts,
    /// Readable for exceptions (`POLLPRI`) when a mount came or went.
    mountinfo: Option<OwnedFd>,
    known: Generations<RowKey, KnownFile>,
    tenants: Tenants,
    processes: Processes,
    naming: Naming,
    nameless: HashSet<RowKey>,
    mappings: Mappings,
    scanned: Option<MonotonicNs>,
    /// Recent searches in all mount namespaces, with their times: devices, and `server:/export`
    /// if that is known.
    looked_for: HashMap<(Dev, Option<String>), MonotonicNs>,
    mounts_scanned: Option<MonotonicNs>,
    /// Paths that the kernel side reports. If it does, `/proc` is not searched for paths.
    paths: Option<KnownPaths>,
    /// Local file systems, if rows are about their files.
    local: Option<LocalMounts>,
    /// The local file systems whose files have rows.
    counted: Counted,
    /// The new local mounts after a change, until they are taken over.
    local_next: Option<HashMap<Dev, LocalFileSystem>>,
    local_scanned: Option<MonotonicNs>,
    /// Followed functions of programs, by number.
    functions: Vec<String>,
}

impl Names {
    /// Reads the current mounts; no file is known yet. `are_told` says whether the kernel side reports paths, `levels` are the recorded levels, and
    /// `rules` name tenants.
    pub fn new(are_told: bool, levels: Levels, rules: Option<Rules>) -> io::Result<Self> {
        let counted = Counted::at(levels);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        // Opened before mounts are read, so that no change is missed.
        let mountinfo =
            rustix::fs::open(format!("/proc/{HOST}/mountinfo"), flags, Mode::empty()).ok();
        let mut mounts = Mounts::default();
        let own = mounts_of(HOST).unwrap_or_default();
        mounts.read_superblocks(&own);
        mounts.follow_own(&own);
        mounts.refresh_all_namespaces();
        Ok(Self {
            mounts,
            mountinfo,
            known: Generations::new(),
            tenants: Tenants::new(),
            processes: Processes::new(),
            naming: Naming::new(rules),
            nameless: HashSet::new(),
            mappings: if are_told {
                Mappings::none()
            } else {
                Mappings::new()?
            },
            scanned: None,
            looked_for: HashMap::new(),
            mounts_scanned: None,
            paths: are_told.then(KnownPaths::new),
            local: levels.has_local().then(|| {
                let mut local = LocalMounts::default();
                local.follow(local_mounts::read(counted));
                local
            }),
            counted,
            local_next: None,
            local_scanned: None,
            functions: Vec::new(),
        })
    }

    /// The current mounts, if any came or went since the last call. Cheap: one poll without waiting.
    pub fn changed_mounts(&mut self) -> Option<Vec<NfsMount>> {
        let fd = self.mountinfo.as_ref()?;
        let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::PRI)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let changed = poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0);
        if changed && self.local.is_some() {
            self.local_next = Some(local_mounts::read(self.counted));
        }
        changed.then(|| mounts_of(HOST).ok()).flatten()
    }

    /// One process for each other mount namespace with NFS mounts, and the devices of those mounts.
    pub fn namespaces(&self) -> &[(u32, Vec<Dev>)] {
        self.mounts.namespaces()
    }

    /// Whether a device is known to be mounted.
    pub fn is_mounted(&self, dev: Dev) -> bool {
        self.mounts.is_mounted(dev)
    }

    /// Devices that have lost a mount, if `mounts` are the current ones. Earlier activity of their files
    /// belongs to the previous mount and path. So call this before [`Self::see_mounts`].
    pub fn left_devices(&self, mounts: &[NfsMount]) -> HashSet<Dev> {
        let mut changed = self.mounts.left_devices(mounts);
        if let (Some(local), Some(next)) = (&self.local, &self.local_next) {
            changed.extend(local.left(next));
        }
        changed
    }

    /// Devices that may belong to another superblock than at the last look, if `mounts` are the current ones.
    pub fn replaced_devices(&self, mounts: &[NfsMount]) -> HashSet<Dev> {
        self.mounts.replaced_devices(mounts)
    }

    /// All mounts, if they have changed since the last call. Call it regularly: other
    /// mount namespaces are read once a minute.
    pub fn mount_news(&mut self, now: MonotonicNs) -> Option<Vec<MountPoint>> {
        if is_due(&mut self.mounts_scanned, now, MOUNT_SCAN) {
            self.refresh_mounts();
        }
        let local_news = self.local.as_mut().is_some_and(LocalMounts::take_news);
        let mut told = self.mounts.take_news(local_news)?;
        self.naming.follow_volumes(&told);
        if let Some(local) = &self.local {
            told.extend(local.mount_points());
            told.sort_unstable();
        }
        Some(told)
    }

    /// Whether a file's path shows that the file is not on the file system that had its device number at the last
    /// look.
    pub fn is_of_another(&self, file: FileId) -> bool {
        if self
            .local
            .as_ref()
            .is_some_and(|local| local.knows(file.dev))
        {
            return false;
        }
        let place = self.paths.as_ref().and_then(|paths| paths.peek(file));
        place.is_some() && self.mounts.cannot_hold(file.dev, place)
    }

    /// Takes over the current mounts. Files on mounts that are gone are forgotten, because their
    /// device number may be reused.
    pub fn see_mounts(&mut self, mounts: &[NfsMount]) {
        if let (Some(local), Some(next)) = (&mut self.local, self.local_next.take()) {
            let left = local.left(&next);
            local.follow(next);
            if let Some(paths) = &mut self.paths {
                paths.forget(|file, _| left.contains(&file.dev));
            }
        }
        if let Some(paths) = &mut self.paths {
            let mut gone = self.mounts.gone_devices(mounts);
            gone.retain(|dev| mounts.iter().all(|mount| mount.dev != *dev));
            let known = &self.mounts;
            paths.forget(|file, place| {
                gone.contains(&file.dev) && !known.cannot_hold(file.dev, Some(place))
            });
        }
        self.mounts.read_superblocks(mounts);
        self.mounts.follow_own(mounts);
        self.forget_begins();
    }

    /// The files whose known path this event changes. Their earlier activity belongs to the
    /// previous path.
    pub fn moved_by(&self, told: &PathEvent) -> HashSet<FileId> {
        let paths = self.paths.as_ref();
        paths.map_or_else(HashSet::new, |paths| paths.moved_by(told))
    }

    /// Takes over a path that the kernel side reported.
    pub fn learn(&mut self, told: PathEvent) {
        if let Some(paths) = &mut self.paths {
            if let PathChange::Seen(file, place) = &told.news
                && let Some(top) = place.get(..told.top_bytes)
                // The top of a local file system has no name.
                && !top.is_empty()
            {
                self.mounts.note_top(file.dev, top);
            }
            paths.settle(told.at);
            paths.learn(told);
        }
    }

    /// Limits the number of files whose paths are remembered.
    pub fn remember_at_most(&mut self, files: usize) {
        if let Some(paths) = &mut self.paths {
            paths.remember_at_most(files);
        }
    }

    /// Whether there was no room for the path of a file.
    pub fn are_full(&self) -> bool {
        self.paths.as_ref().is_some_and(KnownPaths::is_full)
    }

    /// The name in rows for a device without a file's place, if known.
    pub fn whole(&self, dev: Dev) -> Option<&str> {
        self.mounts.whole(dev)
    }

    /// The key of an entry that stands for files of a device.
    pub fn key(&self, file: FileId) -> FileKey {
        self.mounts.key(file, None)
    }

    /// The id in rows for a cgroup that the kernel found by a thread.
    pub fn cgroup_of_thread(&self, cgroup: u64) -> u64 {
        self.tenants.cgroup_of_thread(cgroup)
    }

    /// The name of a process; empty if unknown.
    pub fn process(&mut self, pid: u32, now: MonotonicNs) -> ProcessName {
        self.processes.name(pid, now)
    }

    /// Looks up mounts, tenants and paths of recently seen rows, each with a process that used the
    /// file. Call it regularly, even if nothing was seen.
    pub fn observe(&mut self, seen: &[(RowKey, u32)], now: MonotonicNs) {
        for (row, _) in seen {
            match row.level {
                IoLevel::Wire => self.look_for_mount(row.file, now),
                IoLevel::User => {}
                _ => self.look_for_local_mount(row.file.dev, now),
            }
        }
        self.tenants
            .observe(seen.iter().map(|(row, _)| row.tenant), now);
        self.naming.follow(now);
        if self.paths.is_some() {
            return;
        }
        // Files found since by searches that earlier calls did not wait for.
        let mapped = self.mappings.look();
        self.name(mapped, now);
        if seen.is_empty() {
            return;
        }
        let mut processes = HashSet::new();
        for (row, pid) in seen.iter().filter(|(row, _)| row.level == IoLevel::Wire) {
            let known = self.known(*row, now);
            let stale = now.0.saturating_sub(known.checked.0) > RECHECK.as_nanos() as u64;
            if known.attributes.path.is_none() || stale {
                known.checked = now;
                processes.insert(*pid);
                if known.attributes.path.is_none() && known.tries_left > 0 {
                    self.nameless.insert(*row);
                }
            }
        }
        processes.remove(&0);
        self.look_into(processes.into_iter(), now);
        self.scan_for_the_nameless(now);
    }

    fn scan_for_the_nameless(&mut self, now: MonotonicNs) {
        if self.nameless.is_empty() || !is_due(&mut self.scanned, now, FULL_SCAN) {
            return;
        }
        self.look_into(pids(), now);
        for row in mem::take(&mut self.nameless) {
            let known = self.known(row, now);
            known.tries_left = known.tries_left.saturating_sub(1);
        }
    }

    fn look_into(&mut self, processes: impl Iterator<Item = u32>, now: MonotonicNs) {
        let mut limit = DESCRIPTORS;
        let mut open = Vec::new();
        for pid in processes {
            open.extend(descriptors(pid, &mut limit));
            self.mappings.want(pid);
        }
        open.extend(self.mappings.look());
        self.name(open, now);
    }

    fn name(&mut self, open: Vec<OpenFile>, now: MonotonicNs) {
        let names = open.into_iter();
        let names: AHashMap<(Dev, u64), String> = names
            .map(|open| ((open.dev, open.fileid), open.path))
            .collect();
        if names.is_empty() {
            return;
        }
        for (row, known) in self.known.recent() {
            if let Some(path) = names.get(&(row.file.dev, row.file.fileid)) {
                known.checked = now;
                if known.attributes.path.as_ref() != Some(path) {
                    let attributes = Arc::make_mut(&mut known.attributes);
                    attributes.path = Some(path.clone());
                    attributes.path_inferred = true;
                }
                self.nameless.remove(row);
            }
        }
    }

    /// Looks for the mount of a file in other mount namespaces, if no known mount can contain it.
    /// At once, because the namespace may be gone soon.
    fn look_for_mount(&mut self, file: FileId, now: MonotonicNs) {
        let place = self.paths.as_ref().and_then(|paths| paths.peek(file));
        if !self.mounts.cannot_hold(file.dev, place) {
            return;
        }
        let top = place.and_then(|place| self.mounts.top(file.dev, place));
        let wanted = (file.dev, top.map(str::to_owned));
        let is_recent = |at: &MonotonicNs| now.0.saturating_sub(at.0) < FULL_SCAN.as_nanos() as u64;
        if !self.looked_for.get(&wanted).is_some_and(is_recent) {
            self.looked_for.retain(|_, at| is_recent(at));
            self.looked_for.insert(wanted, now);
            self.refresh_mounts();
        }
    }

    fn refresh_mounts(&mut self) {
        self.mounts.refresh_all_namespaces();
        self.forget_begins();
    }

    /// Forgets paths on this host, because mount points may have changed.
    fn forget_begins(&mut self) {
        if self.paths.is_some() {
            self.known = Generations::new();
        }
    }

    fn known(&mut self, row: RowKey, now: MonotonicNs) -> &mut KnownFile {
        known_file(&mut self.known, &self.mounts, row, now)
    }

    /// The rules that name tenants.
    pub fn naming(&mut self) -> &mut Naming {
        &mut self.naming
    }

    /// The attributes of a row, from current knowledge.
    pub fn attributes(&mut self, row: RowKey, now: MonotonicNs) -> Arc<FileAttributes> {
        let RowKey {
            file,
            tenant,
            level,
        } = row;
        match level {
            IoLevel::Block => return self.local_attributes(row, now),
            IoLevel::User => return self.function_attributes(row).into(),
            _ => {}
        }
        self.look_for_mount(file, now);
        let tenant = self.tenants.tenant(tenant);
        let place = self.paths.as_mut().and_then(|paths| paths.get(file));
        let mount = self.mounts.name_of(file.dev, place.as_deref());
        // Compared by address, because each path is stored only once.
        let at = |place: &Option<ExportPath>| place.as_ref().map(Arc::as_ptr);
        let known = known_file(&mut self.known, &self.mounts, row, now);
        let is_mount_new = known.attributes.mount != mount;
        let is_place_new = at(&known.place) != at(&place);
        // When mounts change, attributes are forgotten, except where no paths are reported.
        let may_be_another = is_mount_new || is_place_new || self.paths.is_none();
        if is_place_new || is_mount_new && place.is_some() {
            let path = place.as_ref();
            let path = path.and_then(|place| self.mounts.path(file.dev, place));
            Arc::make_mut(&mut known.attributes).path =
                path.and_then(|path| String::from_utf8(path).ok());
            known.place = place;
        }
        let key = match may_be_another {
            true => self.mounts.key(file, known.place.as_deref()),
            false => known.attributes.key,
        };
        if known.attributes.mount != mount
            || known.attributes.key != key
            || *known.attributes.tenant != tenant
        {
            // Another mount behind the same device number means another file, whose name is
            // unknown.
            let path = known.attributes.path.clone().filter(|_| {
                known.attributes.mount.is_none()
                    || known.attributes.mount == mount
                    || known.place.is_some()
            });
            known.attributes = Arc::new(FileAttributes {
                key,
                id: file,
                mount,
                path_inferred: known.attributes.path_inferred && path.is_some(),
                path,
                tenant: tenant.into(),
                level: Default::default(),
            });
            known.tries_left = FULL_SCAN_TRIES;
        }
        self.naming.named(&known.attributes, &mut known.named)
    }

    /// Sets the names of the followed functions of programs.
    pub fn follow_functions(&mut self, functions: Vec<String>) {
        self.functions = functions;
    }

    /// The attributes of a function, which takes the place of a file.
    fn function_attributes(&self, row: RowKey) -> FileAttributes {
        let name = usize::try_from(row.file.fileid)
            .ok()
            .and_then(|number| self.functions.get(number));
        FileAttributes {
            key: FileKey::new(name.map(String::as_str), row.file),
            id: row.file,
            mount: None,
            path: name.cloned(),
            path_inferred: false,
            tenant: self.tenants.tenant(row.tenant).into(),
            level: row.level,
        }
    }

    /// The attributes of a row of the block level.
    fn local_attributes(&mut self, row: RowKey, now: MonotonicNs) -> Arc<FileAttributes> {
        let RowKey {
            file,
            tenant,
            level,
        } = row;
        self.look_for_local_mount(file.dev, now);
        let local = self.local.get_or_insert_default();
        let source = local.source(file.dev);
        let path = match file {
            _ if is_others(file) => Some(OTHERS.to_owned()),
            _ if file == FileId::file_system(file.dev) => Some(FILE_SYSTEM.to_owned()),
            _ => {
                let place = self.paths.as_mut().and_then(|paths| paths.get(file));
                let path = place.and_then(|place| local.path(file.dev, &place));
                path.and_then(|path| String::from_utf8(path).ok())
            }
        };
        let attributes = FileAttributes {
            key: local_mounts::key(source, file),
            id: file,
            mount: source.map(str::to_owned),
            path,
            path_inferred: false,
            tenant: self.tenants.tenant(tenant).into(),
            level,
        };
        let known = known_file(&mut self.known, &self.mounts, row, now);
        if *known.attributes != attributes {
            known.attributes = Arc::new(attributes);
        }
        self.naming.named(&known.attributes, &mut known.named)
    }

    /// Looks for the file system on an unknown device: it may be mounted where no changes are reported.
    fn look_for_local_mount(&mut self, dev: Dev, now: MonotonicNs) {
        let Some(local) = &mut self.local else {
            return;
        };
        if !local.knows(dev) && is_due(&mut self.local_scanned, now, FULL_SCAN) {
            local.follow(local_mounts::read(self.counted));
        }
    }

    /// Forgets the files that were idle since the previous call.
    ///
    /// Files with open rows stay. The kernel side must report the paths of the others
    /// again.
    pub fn rotate(&mut self, open: impl Iterator<Item = FileId>) {
        self.known.rotate();
        self.nameless.clear();
        if let Some(paths) = &mut self.paths {
            paths.rotate();
            for file in open {
                paths.get(file);
            }
        }
    }
}

/// The entry of a row. A new entry has only the mount.
fn known_file<'k>(
    known: &'k mut Generations<RowKey, KnownFile>,
    mounts: &Mounts,
    row: RowKey,
    now: MonotonicNs,
) -> &'k mut KnownFile {
    let file = row.file;
    let path = is_others(file).then(|| OTHERS.to_owned());
    known.entry(row, || KnownFile {
        attributes: Arc::new(FileAttributes {
            key: mounts.key(file, None),
            id: file,
            mount: mounts.name_of(file.dev, None),
            path,
            path_inferred: false,
            tenant: Arc::default(),
            level: Default::default(),
        }),
        place: None,
        checked: now,
        tries_left: FULL_SCAN_TRIES,
        named: None,
    })
}

fn is_others(file: FileId) -> bool {
    file == FileId::others(file.dev)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::mountinfo::parse_mountinfo;
    use trackiops_schemas::identity::TenantId;

    fn row(fileid: u64) -> RowKey {
        let file = FileId {
            dev: Dev(0xfffff),
            fileid,
            handle_hash: 1,
        };
        let tenant = TenantId { uid: 7, cgroup: 0 };
        RowKey {
            file,
            tenant,
            level: IoLevel::Wire,
        }
    }

    fn told(fileid: u64, place: &[u8]) -> PathEvent {
        PathEvent {
            is_directory: false,
            at: MonotonicNs(0),
            news: PathChange::Seen(row(fileid).file, place.to_vec()),
            top_bytes: 4,
        }
    }

    #[test]
    fn what_is_told_is_the_path_once_its_mount_is_known_and_never_inferred() {
        let mut names = Names::new(true, Levels::WIRE, None).unwrap();
        let now = MonotonicNs(0);
        let path = |names: &mut Names, fileid| {
            let attributes = names.attributes(row(fileid), now);
            assert!(!attributes.path_inferred);
            attributes.path.clone()
        };
        names.learn(told(1, b"s:/e/d/\\xff"));
        assert_eq!(path(&mut names, 1), None, "nobody knows where that is");
        let mounts = parse_mountinfo(b"9 1 0:1048575 / /mnt/e rw - nfs s:/e rw\n");
        names.see_mounts(&mounts);
        assert_eq!(path(&mut names, 1).as_deref(), Some("/mnt/e/d/\\xff"));
        assert_eq!(path(&mut names, 2), None);
        names.learn(told(2, b"s:/e/f"));
        assert_eq!(path(&mut names, 2).as_deref(), Some("/mnt/e/f"));
        let open = || [row(1).file].into_iter();
        names.rotate(open());
        names.rotate(open());
        assert_eq!(
            path(&mut names, 1).as_deref(),
            Some("/mnt/e/d/\\xff"),
            "its row is open"
        );
        assert_eq!(
            path(&mut names, 2),
            None,
            "forgotten, and told anew when it is used"
        );
        names.see_mounts(&[]);
        assert_eq!(path(&mut names, 1), None, "its mount has left");
    }
}

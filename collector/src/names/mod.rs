//! Attributes of this host's files: mount, key on disk, name.

mod attributes;
mod known_files;
pub(crate) mod local_mounts;
pub(crate) mod mappings;
pub(crate) mod mount_names;
pub(crate) mod mountinfo;
pub(crate) mod mounts;
pub(crate) mod open_files;
pub(crate) mod path_ring;
pub(crate) mod paths;
mod proc_search;
pub(crate) mod processes;
pub(crate) mod superblocks;
pub(crate) mod volumes;

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use trackiops_schemas::identity::{Dev, FileId, FileKey};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::request::ProcessName;
use trackiops_tenants::Rules;

use crate::clock::{MonotonicNs, is_due};
use crate::names::known_files::KnownFiles;
use crate::names::local_mounts::{Counted, LocalFileSystem, LocalMounts};
use crate::names::mountinfo::{HOST, NfsMount, mounts_of};
use crate::names::mounts::Mounts;
use crate::names::path_ring::{PathChange, PathEvent};
use crate::names::paths::KnownPaths;
use crate::names::proc_search::ProcSearch;
use crate::names::processes::Processes;
use crate::plan::Levels;
use crate::rollup::row_key::RowKey;
use crate::tenants::Tenants;
use crate::tenants::naming::Naming;

/// Least time between searches of all mount namespaces for a device without a mount.
const FULL_SCAN: Duration = Duration::from_secs(5);
/// All mount namespaces are read at least this often.
const MOUNT_SCAN: Duration = Duration::from_secs(60);

/// Names and mounts of recently active files.
pub struct Names {
    mounts: Mounts,
    /// Readable for exceptions (`POLLPRI`) when a mount came or went.
    mountinfo: Option<OwnedFd>,
    known: KnownFiles,
    tenants: Tenants,
    processes: Processes,
    naming: Naming,
    /// Recent searches in all mount namespaces, with their times: devices, and `server:/export`
    /// if that is known.
    looked_for: HashMap<(Dev, Option<String>), MonotonicNs>,
    mounts_scanned: Option<MonotonicNs>,
    /// Paths that the kernel side reports.
    paths: Option<KnownPaths>,
    /// Finds paths if the kernel side reports none.
    search: Option<ProcSearch>,
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
            known: KnownFiles::new(),
            tenants: Tenants::new(),
            processes: Processes::new(),
            naming: Naming::new(rules),
            looked_for: HashMap::new(),
            mounts_scanned: None,
            paths: are_told.then(KnownPaths::new),
            search: match are_told {
                true => None,
                false => Some(ProcSearch::start()?),
            },
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

    /// All mounts, if they have changed since the last call or `anyway` is set. Call it regularly: other
    /// mount namespaces are read once a minute.
    pub fn mount_news(&mut self, now: MonotonicNs, anyway: bool) -> Option<Vec<MountPoint>> {
        if is_due(&mut self.mounts_scanned, now, MOUNT_SCAN) {
            self.refresh_mounts();
        }
        let local_news = self.local.as_mut().is_some_and(LocalMounts::take_news);
        let mut told = self.mounts.take_news(local_news || anyway)?;
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
        if let Some(search) = &mut self.search {
            search.observe(seen, &mut self.known, &self.mounts, now);
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
            self.known = KnownFiles::new();
        }
    }

    /// The rules that name tenants.
    pub fn naming(&mut self) -> &mut Naming {
        &mut self.naming
    }

    /// Sets the names of the followed functions of programs.
    pub fn follow_functions(&mut self, functions: Vec<String>) {
        self.functions = functions;
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
        if let Some(search) = &mut self.search {
            search.forget_nameless();
        }
        if let Some(paths) = &mut self.paths {
            paths.rotate();
            for file in open {
                paths.get(file);
            }
        }
    }
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

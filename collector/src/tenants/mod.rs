//! Who used a file: users and cgroups, both by number and name, and containers.

mod containers;
pub(crate) mod naming;
pub(crate) mod users;

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ahash::AHashMap;
use trackiops_schemas::ebpf::ring::NO_USER;
use trackiops_schemas::identity::{Tenant, TenantId, name_text};

use crate::clock::{MonotonicNs, is_due};
use crate::names::mountinfo::CgroupRoots;
use crate::tenants::containers::{Container, Containers};
use crate::tenants::users::Users;

/// Least time between searches of all cgroups for new ones.
const WALK: Duration = Duration::from_millis(500);

/// In the id of a cgroup: the cgroup is in the hierarchy of threads, if that differs from the hierarchy that memory is charged to.
/// The kernel numbers the cgroups of each hierarchy from 1.
const OF_THREAD: u64 = 1 << 63;

/// A cgroup that has been seen.
struct Cgroup {
    path: Arc<str>,
    container: Option<Container>,
}

/// By id, including [`OF_THREAD`]. `None` for a cgroup that was searched and is gone.
type Cgroups = AHashMap<u64, Option<Cgroup>>;

/// Names of the users, and of the cgroups that have been seen.
pub struct Tenants {
    users: Users,
    containers: Containers,
    roots: CgroupRoots,
    cgroups: Cgroups,
    has_containers: bool,
    /// Cgroups to look for.
    unknown: HashSet<u64>,
    walked: Option<MonotonicNs>,
}

impl Tenants {
    /// Without users and cgroups yet.
    pub fn new() -> Self {
        Self {
            users: Users::new(),
            containers: Containers::new(),
            roots: CgroupRoots::new(),
            cgroups: Cgroups::new(),
            has_containers: false,
            unknown: HashSet::new(),
            walked: None,
        }
    }

    /// Looks for unknown users and cgroups. Call it while the cgroups are in use,
    /// because they exist only then.
    pub fn observe(&mut self, seen: impl Iterator<Item = TenantId>, now: MonotonicNs) {
        self.users.refresh(now);
        let cgroups = &self.cgroups;
        let ids = seen.map(|tenant| tenant.cgroup);
        self.unknown
            .extend(ids.filter(|id| *id != 0 && !cgroups.contains_key(id)));
        self.look_for_cgroups(now);
        if self.has_containers {
            self.containers.refresh(now);
        }
    }

    fn look_for_cgroups(&mut self, now: MonotonicNs) {
        if self.unknown.is_empty() || !is_due(&mut self.walked, now, WALK) {
            return;
        }
        // This forgets cgroups that are gone; ids are not reused.
        self.cgroups.clear();
        if let Some(root) = self.roots.charged() {
            collect_cgroups(root, root, 0, &mut self.cgroups);
        }
        if let (true, Some(root)) = (self.roots.are_apart(), &self.roots.unified) {
            collect_cgroups(root, root, OF_THREAD, &mut self.cgroups);
        }
        for id in self.unknown.drain() {
            self.cgroups.entry(id).or_insert(None);
        }
        let mut found = self.cgroups.values().flatten();
        self.has_containers = found.any(|cgroup| cgroup.container.is_some());
    }

    /// The id in rows for a cgroup that the kernel found by a thread.
    pub fn cgroup_of_thread(&self, cgroup: u64) -> u64 {
        match self.roots.are_apart() && cgroup != 0 {
            // In a hierarchy that is not mounted, every thread is in the root.
            true if self.roots.unified.is_none() => 0,
            true => cgroup | OF_THREAD,
            false => cgroup,
        }
    }

    /// The tenant of a row.
    pub fn tenant(&self, id: TenantId) -> Tenant {
        let TenantId { uid, cgroup } = id;
        let uid = (uid != NO_USER).then_some(uid);
        let known = self.cgroups.get(&cgroup).and_then(Option::as_ref);
        Tenant {
            uid,
            user: uid.and_then(|uid| self.users.name(uid)),
            cgroup: match (cgroup, known) {
                (0, _) => None,
                (_, Some(known)) => Some(Arc::clone(&known.path)),
                (id, None) => Some(format!("?{}", id & !OF_THREAD).into()),
            },
            container: known
                .and_then(|known| known.container.as_ref())
                .and_then(|container| self.containers.name(container)),
            // Rules set it once the file is known: see `naming`.
            name: None,
            labels: None,
        }
    }
}

/// Adds `directory` and the cgroups below it by id: their inode number combined with the bit of the hierarchy.
fn collect_cgroups(root: &Path, directory: &Path, bit: u64, cgroups: &mut Cgroups) {
    let Ok(metadata) = fs::symlink_metadata(directory) else {
        return;
    };
    let below = directory.strip_prefix(root).unwrap_or(directory);
    let path = format!("/{}", name_text(below.as_os_str().as_bytes()));
    let container = Container::of(&path);
    let cgroup = Cgroup {
        path: path.into(),
        container,
    };
    cgroups.insert(metadata.ino() | bit, Some(cgroup));
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_cgroups(root, &entry.path(), bit, cgroups);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_named_as_far_as_they_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let service = directory.path().join("system.slice/db.service");
        fs::create_dir_all(&service).unwrap();
        let cgroup = fs::metadata(&service).unwrap().ino();
        let passwd = directory.path().join("passwd");
        fs::write(&passwd, "alice:x:1000:1000::/home/alice:/bin/sh\n").unwrap();
        let logs = directory.path().join("logs");
        let mut tenants = Tenants {
            users: Users::from_file(passwd),
            containers: Containers::in_directories(logs.clone(), logs),
            roots: CgroupRoots {
                memory: None,
                unified: Some(directory.path().to_owned()),
            },
            cgroups: Cgroups::new(),
            has_containers: false,
            unknown: HashSet::new(),
            walked: None,
        };
        let id = |uid, cgroup| TenantId { uid, cgroup };
        tenants.observe([id(1000, cgroup), id(0, 1)].into_iter(), MonotonicNs(0));
        let tenant = |uid, cgroup| tenants.tenant(id(uid, cgroup));
        let alice = tenant(1000, cgroup);
        assert_eq!(alice.to_string(), "1000:/system.slice/db.service");
        assert_eq!(
            alice.named().as_deref(),
            Some("alice:/system.slice/db.service")
        );
        for (uid, cgroup, text) in [
            (0, 1, "0:?1"),
            (7, 0, "7"),
            (NO_USER, 0, "?"),
            (NO_USER, cgroup, "?:/system.slice/db.service"),
        ] {
            let tenant = tenant(uid, cgroup);
            assert_eq!((tenant.to_string().as_str(), tenant.user), (text, None));
        }
        assert!(!tenant(NO_USER, 0).is_known());
    }

    #[test]
    fn a_thread_is_in_another_hierarchy_than_its_memory_where_version_1_has_that() {
        let directory = tempfile::tempdir().unwrap();
        let [memory, unified] = ["memory", "unified"].map(|name| directory.path().join(name));
        let (charged, threads) = (memory.join("batch"), unified.join("db.service"));
        fs::create_dir_all(&charged).unwrap();
        fs::create_dir_all(&threads).unwrap();
        let [charged, thread] = [charged, threads].map(|path| fs::metadata(path).unwrap().ino());
        let mut tenants = Tenants {
            roots: CgroupRoots {
                memory: Some(memory),
                unified: Some(unified),
            },
            ..Tenants::new()
        };
        // Each hierarchy may have a cgroup of the same number.
        let of_thread = tenants.cgroup_of_thread(thread);
        assert_ne!(of_thread, thread);
        let id = |cgroup| TenantId { uid: 7, cgroup };
        let seen = [charged, of_thread, thread].map(id);
        tenants.observe(seen.into_iter(), MonotonicNs(0));
        let cgroup = |cgroup| tenants.tenant(id(cgroup)).cgroup;
        assert_eq!(cgroup(charged).as_deref(), Some("/batch"));
        assert_eq!(cgroup(of_thread).as_deref(), Some("/db.service"));
        assert_eq!(cgroup(thread), Some(format!("?{thread}").into()));
        tenants.roots.unified = None;
        assert_eq!(tenants.cgroup_of_thread(1), 0);
        tenants.roots.unified = tenants.roots.memory.take();
        assert_eq!(tenants.cgroup_of_thread(1), 1);
    }

    #[test]
    fn a_container_is_named_as_soon_as_the_kubelet_has_named_it() {
        let directory = tempfile::tempdir().unwrap();
        let [root, containers, pods] =
            ["cgroup", "containers", "pods"].map(|name| directory.path().join(name));
        let container = "e".repeat(64);
        let path = format!("kubepods/pod{}/{container}", "a".repeat(32));
        fs::create_dir_all(root.join(&path)).unwrap();
        fs::create_dir(&containers).unwrap();
        let cgroup = fs::metadata(root.join(&path)).unwrap().ino();
        let mut tenants = Tenants {
            containers: Containers::in_directories(containers.clone(), pods),
            roots: CgroupRoots {
                memory: None,
                unified: Some(root),
            },
            ..Tenants::new()
        };
        let id = TenantId { uid: 7, cgroup };
        let mut named = |seen: &[TenantId], seconds: u64| {
            tenants.observe(
                seen.iter().copied(),
                MonotonicNs(seconds * 1_000_000_000 + 1),
            );
            tenants.tenant(id).container
        };
        assert_eq!(named(&[id], 0), None);
        let log = containers.join(format!("web_shop_nginx-{container}.log"));
        std::os::unix::fs::symlink("/nowhere", log).unwrap();
        assert_eq!(named(&[], 2).as_deref(), Some("shop/web/nginx"));
    }
}

//! Who used a file: users and cgroups, both by number and name.

pub(crate) mod users;

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ahash::AHashMap;
use trackiops_schemas::ebpf::ring::NO_USER;
use trackiops_schemas::identity::{Tenant, TenantId};

use crate::clock::{MonotonicNs, is_due};
use crate::names::mountinfo::cgroup_root;
use crate::tenants::users::Users;

/// Least time between searches of all cgroups for new ones.
const WALK: Duration = Duration::from_millis(500);

/// Names of the users, and of the cgroups that were seen to exist.
pub struct Tenants {
    users: Users,
    /// Where the hierarchy with the memory controller is mounted.
    root: Option<PathBuf>,
    /// By id. `None` for one that was looked for and is gone.
    names: AHashMap<u64, Option<Arc<str>>>,
    /// Those to look for.
    unknown: HashSet<u64>,
    walked: Option<MonotonicNs>,
}

impl Tenants {
    /// Knows no user and no cgroup.
    pub fn new() -> Self {
        Self {
            users: Users::new(),
            root: cgroup_root(),
            names: AHashMap::new(),
            unknown: HashSet::new(),
            walked: None,
        }
    }

    /// Looks for users and cgroups that are not known yet. To be called while cgroups are in use,
    /// because they exist only then.
    pub fn observe(&mut self, seen: impl Iterator<Item = TenantId>, now: MonotonicNs) {
        self.users.refresh(now);
        let names = &self.names;
        let cgroups = seen.map(|tenant| tenant.cgroup);
        self.unknown
            .extend(cgroups.filter(|id| *id != 0 && !names.contains_key(id)));
        let Some(root) = self.root.as_deref() else {
            return;
        };
        if self.unknown.is_empty() || !is_due(&mut self.walked, now, WALK) {
            return;
        }
        // This forgets cgroups that are gone; an id is not used again.
        self.names.clear();
        collect_cgroups(root, root, &mut self.names);
        for id in self.unknown.drain() {
            self.names.entry(id).or_insert(None);
        }
    }

    /// The tenant of a row.
    pub fn tenant(&self, id: TenantId) -> Tenant {
        let TenantId { uid, cgroup } = id;
        let uid = (uid != NO_USER).then_some(uid);
        Tenant {
            uid,
            user: uid.and_then(|uid| self.users.name(uid)),
            cgroup: match (cgroup, self.names.get(&cgroup)) {
                (0, _) => None,
                (_, Some(Some(path))) => Some(Arc::clone(path)),
                (id, _) => Some(format!("?{id}").into()),
            },
        }
    }
}

/// Adds `directory` and the cgroups below it by their id, which is their inode number.
fn collect_cgroups(root: &Path, directory: &Path, names: &mut AHashMap<u64, Option<Arc<str>>>) {
    let Ok(metadata) = fs::symlink_metadata(directory) else {
        return;
    };
    let below = directory.strip_prefix(root).unwrap_or(directory);
    names.insert(
        metadata.ino(),
        Some(format!("/{}", below.to_string_lossy()).into()),
    );
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_cgroups(root, &entry.path(), names);
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
        let mut tenants = Tenants {
            users: Users::from_file(passwd),
            root: Some(directory.path().to_owned()),
            names: AHashMap::new(),
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
}

//! Who used a file: users, and cgroups by name.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ahash::AHashMap;
use trackiops_schemas::identity::TenantId;
use trackiops_schemas::ring::NO_USER;

use crate::clock::{MonotonicNs, due};
use crate::mountinfo::cgroup_root;

/// At most this often are all cgroups looked through for those that were not there before.
const WALK: Duration = Duration::from_millis(500);

/// Names of the cgroups that were seen to exist.
pub struct Tenants {
    /// Where the hierarchy with the memory controller is mounted.
    root: Option<PathBuf>,
    /// By id. `None` for one that was looked for and is gone.
    names: AHashMap<u64, Option<String>>,
    /// Those to look for.
    unknown: HashSet<u64>,
    walked: Option<MonotonicNs>,
}

impl Tenants {
    /// Knows no cgroup.
    pub fn new() -> Self {
        Self {
            root: cgroup_root(),
            names: AHashMap::new(),
            unknown: HashSet::new(),
            walked: None,
        }
    }

    /// Looks for cgroups that are not known yet: while they are in use they exist.
    pub fn observe(&mut self, seen: impl Iterator<Item = TenantId>, now: MonotonicNs) {
        let names = &self.names;
        let cgroups = seen.map(|tenant| tenant.cgroup);
        self.unknown
            .extend(cgroups.filter(|id| *id != 0 && !names.contains_key(id)));
        let Some(root) = self.root.as_deref() else {
            return;
        };
        if self.unknown.is_empty() || !due(&mut self.walked, now, WALK) {
            return;
        }
        // What is gone is forgotten with this; an id is not used again.
        self.names.clear();
        walk(root, root, &mut self.names);
        for id in self.unknown.drain() {
            self.names.entry(id).or_insert(None);
        }
    }

    /// As a row has it.
    pub fn name(&self, tenant: TenantId) -> Option<String> {
        let TenantId { uid, cgroup } = tenant;
        let user = if uid == NO_USER {
            "?".to_owned()
        } else {
            uid.to_string()
        };
        match (cgroup, self.names.get(&cgroup)) {
            (0, _) if uid == NO_USER => None,
            (0, _) => Some(user),
            (_, Some(Some(path))) => Some(format!("{user}:{path}")),
            (id, _) => Some(format!("{user}:?{id}")),
        }
    }
}

/// The cgroups from `directory` on by their id, which is their inode number.
fn walk(root: &Path, directory: &Path, names: &mut AHashMap<u64, Option<String>>) {
    let Ok(metadata) = fs::symlink_metadata(directory) else {
        return;
    };
    let below = directory.strip_prefix(root).unwrap_or(directory);
    names.insert(
        metadata.ino(),
        Some(format!("/{}", below.to_string_lossy())),
    );
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(root, &entry.path(), names);
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
        let mut tenants = Tenants {
            root: Some(directory.path().to_owned()),
            names: AHashMap::new(),
            unknown: HashSet::new(),
            walked: None,
        };
        let tenant = |uid, cgroup| TenantId { uid, cgroup };
        tenants.observe(
            [tenant(1000, cgroup), tenant(0, 1)].into_iter(),
            MonotonicNs(0),
        );
        let name = |uid, cgroup| tenants.name(tenant(uid, cgroup));
        assert_eq!(
            name(1000, cgroup).as_deref(),
            Some("1000:/system.slice/db.service")
        );
        assert_eq!(name(0, 1).as_deref(), Some("0:?1"));
        assert_eq!(name(7, 0).as_deref(), Some("7"));
        assert_eq!(name(NO_USER, 0), None);
        assert_eq!(
            name(NO_USER, cgroup).as_deref(),
            Some("?:/system.slice/db.service")
        );
    }
}

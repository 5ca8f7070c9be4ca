//! Adds up the partial rows of each file and window.

use std::sync::Arc;

use indexmap::IndexMap;
use indexmap::map::Entry;
use trackiops_schemas::identity::{Dev, FileAttributes, FileKey};
use trackiops_schemas::rollup::Row;
use trackiops_schemas::time::UtcMs;

use crate::group::Of;
use crate::sum::Sum;

/// What a row says about its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// The file on disk.
    pub key: FileKey,
    /// Its device number on the host that recorded it.
    pub dev: Dev,
    /// NFS fileid.
    pub fileid: u64,
    /// `server:/export`, where known.
    pub mount: Option<String>,
    /// Its name, where known.
    pub path: Option<String>,
    /// Whether that was found by looking at who has the file open, rather than told by the kernel; `None` where not known.
    pub path_inferred: Option<bool>,
}

impl From<&FileAttributes> for File {
    fn from(file: &FileAttributes) -> Self {
        Self {
            key: file.key,
            dev: file.id.dev,
            fileid: file.id.fileid,
            mount: file.mount.clone(),
            path: file.path.clone(),
            path_inferred: file.path.as_ref().map(|_| file.path_inferred),
        }
    }
}

impl File {
    /// The path, or what `--file` takes in its place.
    pub fn name(&self) -> String {
        let number = || format!("{}:{}", self.dev, self.fileid);
        self.path.clone().unwrap_or_else(number)
    }
}

/// Which host a row is from: an index into the plan's hosts.
pub type HostIndex = usize;

/// What rows with equal values of are added up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    /// Start of the window of the answer.
    pub window: UtcMs,
    /// The recording host.
    pub host: HostIndex,
    /// The file, or what else a row is of.
    pub of: Of,
    /// Who used it, where rows are told apart by that: see [`crate::By::tenant`].
    pub tenant: Option<Arc<str>>,
}

/// The sum of a group's rows.
#[derive(Clone, Debug)]
pub struct Group {
    /// The file as the latest of the rows has it; any of them where a row is of several.
    pub file: Arc<File>,
    /// Who used it. Unlike a name, which is the file's whichever row has it, a tenant answers for its own
    /// requests only: `None` unless all of the rows have the same.
    pub tenant: Option<Arc<str>>,
    /// The counters.
    pub sum: Sum,
    latest: Age,
}

/// How late a row is: when its window closed, and of rows of one window the place of the segment that it is from.
pub type Age = (UtcMs, usize);

/// Sums, in the order in which they began. It is nearly that of an answer, so that putting them in order takes little.
pub type Groups = IndexMap<GroupKey, Group, foldhash::fast::RandomState>;

/// Adds up rows, in whatever order they come.
#[derive(Debug, Default)]
pub struct Merger {
    groups: Groups,
}

impl Merger {
    /// Adds a row.
    pub fn add(
        &mut self,
        key: GroupKey,
        age: Age,
        file: &Arc<File>,
        tenant: Option<&str>,
        row: Row,
    ) {
        match self.groups.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Group {
                    file: Arc::clone(file),
                    tenant: tenant.map(Into::into),
                    sum: row.into(),
                    latest: age,
                });
            }
            Entry::Occupied(mut entry) => entry.get_mut().add(age, file, tenant, &row),
        }
    }

    /// How many sums there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Adds what another one has added up.
    pub fn absorb(&mut self, other: Self) {
        if self.groups.is_empty() {
            self.groups = other.groups;
            return;
        }
        self.groups.reserve(other.groups.len());
        for (key, group) in other.groups {
            match self.groups.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(group);
                }
                Entry::Occupied(mut entry) => {
                    let tenant = group.tenant.as_deref();
                    let row = group.sum.row();
                    entry.get_mut().add(group.latest, &group.file, tenant, &row);
                }
            }
        }
    }

    /// The sums.
    pub fn finish(self) -> Groups {
        self.groups
    }
}

impl Group {
    fn add(&mut self, age: Age, file: &Arc<File>, tenant: Option<&str>, row: &Row) {
        self.sum.merge(row);
        if self.tenant.as_deref() != tenant {
            self.tenant = None;
        }
        if is_better(&file.path, age, self) {
            self.file = Arc::clone(file);
            self.latest = age;
        }
    }
}

/// A later name is better than an earlier one, and any name is better than none. Of rows of one
/// window, a segment has the later name later.
fn is_better(path: &Option<String>, age: Age, than: &Group) -> bool {
    (path.is_some(), age) >= (than.file.path.is_some(), than.latest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::By;

    fn file(path: Option<&str>) -> Arc<File> {
        Arc::new(File {
            key: FileKey(7),
            dev: Dev(49),
            fileid: 42,
            mount: None,
            path: path.map(Into::into),
            path_inferred: None,
        })
    }

    fn requests(n: u64) -> Row {
        let mut row = Row::default();
        row.read.requests = n;
        row.read.untimed = n;
        row
    }

    #[test]
    fn the_latest_name_stands_for_the_group_whatever_the_order_of_arrival() {
        let rows = [(1, Some("/a")), (3, Some("/c")), (4, None), (2, Some("/b"))];
        for first in 0..rows.len() {
            let mut merger = Merger::default();
            for (time, path) in rows.iter().cycle().skip(first).take(rows.len()) {
                let key = GroupKey {
                    window: UtcMs(0),
                    host: 0,
                    of: Of::File(FileKey(7)),
                    tenant: None,
                };
                merger.add(key, (UtcMs(*time), 0), &file(*path), Some("0"), requests(1));
            }
            let groups = merger.finish();
            assert_eq!(groups.len(), 1);
            assert_eq!(groups[0].file.path.as_deref(), Some("/c"));
            assert_eq!(groups[0].tenant.as_deref(), Some("0"));
            assert_eq!(*groups[0].sum.row(), requests(4));
        }
    }

    #[test]
    fn a_row_of_several_tenants_is_nobodys() {
        for tenants in [
            [Some("0"), Some("0"), Some("1000")],
            [Some("0"), Some("1000"), Some("0")],
            [None, Some("0"), Some("0")],
            [Some("0"), None, Some("0")],
        ] {
            let add_up = |by: By| {
                let mut merger = Merger::default();
                for tenant in tenants {
                    let key = GroupKey {
                        window: UtcMs(0),
                        host: 0,
                        of: Of::File(FileKey(7)),
                        tenant: by.tenant(tenant),
                    };
                    merger.add(key, (UtcMs(1000), 0), &file(None), tenant, requests(1));
                }
                let groups = merger.finish();
                let mut groups: Vec<_> = groups
                    .into_values()
                    .map(|group| (group.tenant, group.sum.read().requests))
                    .collect();
                groups.sort();
                groups
            };
            assert_eq!(add_up(By::FILE), [(None, 3)], "{tenants:?}");
            let mut apart: Vec<_> = tenants.map(|tenant| tenant.map(Arc::from)).to_vec();
            apart.sort();
            apart.dedup();
            let of = |tenant: &Option<Arc<str>>| {
                tenants.iter().filter(|t| **t == tenant.as_deref()).count() as u64
            };
            let apart: Vec<_> = apart.into_iter().map(|t| (t.clone(), of(&t))).collect();
            assert_eq!(add_up(By::TENANT), apart, "{tenants:?}");
        }
    }
}

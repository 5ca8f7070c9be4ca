//! Adds up the partial rows of each file and window.

use std::sync::Arc;

use indexmap::IndexMap;
use indexmap::map::Entry;
use trackiops_schemas::identity::Tenant;
use trackiops_schemas::rollup::Row;
use trackiops_schemas::time::UtcMs;

use crate::group::{Entity, TenantKey};
use crate::origin::{File, HostIndex};
use crate::sparse_row::SparseRow;

/// What rows with equal values of are added up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    /// Start of the window of the answer.
    pub window: UtcMs,
    /// The recording host.
    pub host: HostIndex,
    /// The file, or what else a row is of.
    pub of: Entity,
    /// Who used it, where rows are told apart by that: see [`crate::By::tenant`].
    pub tenant: Option<TenantKey>,
}

/// The sum of a group's rows.
#[derive(Clone, Debug)]
pub struct Group {
    /// The file as the latest of the rows has it; any of them where a row is of several.
    pub file: Arc<File>,
    /// Who used it. Unlike a name, which is the file's whichever row has it, a tenant answers for its own
    /// requests only: it has a uid if all of the rows have the same, and so with the cgroup. The user's name is the latest of that uid.
    pub tenant: Arc<Tenant>,
    /// The counters.
    pub sum: SparseRow,
    latest: Age,
    /// How late the row is that has the user's name.
    named: Age,
}

/// How late a row is: when its window closed, and of rows of one window the place of the segment that it is from.
pub type Age = (UtcMs, usize);

/// Sums, in the order in which they began. It is nearly that of an answer, so that putting them in order takes little.
pub type Groups = IndexMap<GroupKey, Group, foldhash::fast::RandomState>;

/// Adds up rows, in whatever order they come.
#[derive(Debug, Default)]
pub struct Aggregator {
    groups: Groups,
}

impl Aggregator {
    /// Adds a row.
    pub fn add(
        &mut self,
        key: GroupKey,
        age: Age,
        file: &Arc<File>,
        tenant: &Arc<Tenant>,
        row: Row,
    ) {
        match self.groups.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(Group {
                    file: Arc::clone(file),
                    tenant: Arc::clone(tenant),
                    sum: row.into(),
                    latest: age,
                    named: age,
                });
            }
            Entry::Occupied(mut entry) => {
                let group = entry.get_mut();
                group.sum.merge(&row);
                group.add_file(age, file);
                group.add_tenant(age, tenant);
            }
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
                    let known = entry.get_mut();
                    known.sum.merge(&group.sum.row());
                    known.add_file(group.latest, &group.file);
                    known.add_tenant(group.named, &group.tenant);
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
    /// What was used by both has of uid and cgroup what both have.
    fn add_tenant(&mut self, age: Age, tenant: &Arc<Tenant>) {
        if self.tenant == *tenant {
            self.named = self.named.max(age);
            return;
        }
        let own = &self.tenant;
        let uid = own.uid.filter(|_| own.uid == tenant.uid);
        let is_later = (tenant.user.is_some(), age) >= (own.user.is_some(), self.named);
        let latest = if is_later { tenant } else { own };
        let joined = Tenant {
            uid,
            user: latest.user.clone().filter(|_| uid.is_some()),
            cgroup: own.cgroup.clone().filter(|_| own.cgroup == tenant.cgroup),
        };
        if is_later {
            self.named = age;
        }
        if joined != **own {
            self.tenant = Arc::new(joined);
        }
    }

    fn add_file(&mut self, age: Age, file: &Arc<File>) {
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
    use trackiops_schemas::identity::{Dev, FileKey};

    use super::*;
    use crate::group::GroupBy;

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
            let mut aggregator = Aggregator::default();
            for (time, path) in rows.iter().cycle().skip(first).take(rows.len()) {
                let key = GroupKey {
                    window: UtcMs(0),
                    host: 0,
                    of: Entity::File(FileKey(7)),
                    tenant: None,
                };
                let tenant = tenant("0", None);
                aggregator.add(key, (UtcMs(*time), 0), &file(*path), &tenant, requests(1));
            }
            let groups = aggregator.finish();
            assert_eq!(groups.len(), 1);
            assert_eq!(groups[0].file.path.as_deref(), Some("/c"));
            assert_eq!(groups[0].tenant, tenant("0", None));
            assert_eq!(*groups[0].sum.row(), requests(4));
        }
    }

    fn tenant(packed: &str, user: Option<&str>) -> Arc<Tenant> {
        Arc::new(Tenant {
            user: user.map(Into::into),
            ..packed.parse().unwrap()
        })
    }

    /// What rows of these tenants, one a second, add up to: each sum's tenant with the number of its rows.
    fn added_up(by: GroupBy, tenants: &[(usize, &Arc<Tenant>)]) -> Vec<(Arc<Tenant>, u64)> {
        let mut mergers = [Aggregator::default(), Aggregator::default()];
        for (i, (time, tenant)) in tenants.iter().enumerate() {
            let key = GroupKey {
                window: UtcMs(0),
                host: 0,
                of: Entity::File(FileKey(7)),
                tenant: by.tenant(tenant),
            };
            let age = (UtcMs(1000 * *time as i64), 0);
            mergers[i % 2].add(key, age, &file(None), tenant, requests(1));
        }
        let [mut aggregator, other] = mergers;
        aggregator.absorb(other);
        let groups = aggregator.finish().into_values();
        let mut groups: Vec<_> = groups
            .map(|group| (group.tenant, group.sum.read().requests))
            .collect();
        groups.sort_by_key(|(tenant, _)| tenant.to_string());
        groups
    }

    /// In whatever order they come.
    fn check(by: GroupBy, tenants: &[Arc<Tenant>], expected: &[(Arc<Tenant>, u64)]) {
        let mut order: Vec<_> = tenants.iter().enumerate().collect();
        for _ in 0..order.len() {
            order.rotate_left(1);
            assert_eq!(added_up(by, &order), expected, "{order:?}");
            let backwards: Vec<_> = order.iter().rev().copied().collect();
            assert_eq!(added_up(by, &backwards), expected, "{backwards:?}");
        }
    }

    #[test]
    fn a_row_of_several_tenants_has_what_they_have_in_common() {
        let [root, alice] = [("0:/a", Some("root")), ("1000:/a", Some("alice"))]
            .map(|(packed, user)| tenant(packed, user));
        let tenants = [root.clone(), alice.clone(), root.clone()];
        check(GroupBy::FILE, &tenants, &[(tenant("?:/a", None), 3)]);
        check(
            GroupBy::FILE_TENANT,
            &tenants,
            &[(root.clone(), 2), (alice.clone(), 1)],
        );
        let elsewhere = tenant("1000:/b", Some("alice"));
        let tenants = [elsewhere.clone(), alice.clone(), elsewhere.clone()];
        check(
            GroupBy::FILE,
            &tenants,
            &[(tenant("1000", Some("alice")), 3)],
        );
        check(
            GroupBy::FILE_TENANT,
            &tenants,
            &[(alice.clone(), 1), (elsewhere, 2)],
        );
        let unknown = Arc::<Tenant>::default();
        let tenants = [unknown.clone(), alice.clone(), alice.clone()];
        check(GroupBy::FILE, &tenants, &[(unknown.clone(), 3)]);
        check(GroupBy::FILE_TENANT, &tenants, &[(alice, 2), (unknown, 1)]);
    }

    #[test]
    fn a_user_who_was_renamed_is_one_tenant_with_the_last_known_name() {
        let named = [None, Some("alice"), Some("bob"), None];
        let tenants = named.map(|user| tenant("1000:/a", user));
        for by in [GroupBy::FILE, GroupBy::FILE_TENANT] {
            check(by, &tenants, &[(tenants[2].clone(), 4)]);
        }
    }
}

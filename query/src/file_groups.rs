//! Sums of rows of files, by group and window.

use std::sync::Arc;

use trackiops_schemas::identity::Tenant;
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::Row;
use trackiops_schemas::time::UtcMs;

use crate::aggregation::{Sum, Sums};
use crate::group::{Entity, TenantKey};
use crate::lost::Lost;
use crate::origin::{File, HostIndex};
use crate::sparse_row::SparseRow;

/// The values that rows of one group have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKey {
    /// Start of the window of the answer.
    pub window: UtcMs,
    /// The host that recorded the rows.
    pub host: HostIndex,
    /// The file, directory, mount or host that the rows belong to.
    pub of: Entity,
    /// The tenant, if the query groups by it: see [`crate::GroupBy::tenant`].
    pub tenant: Option<TenantKey>,
    /// The level at which the I/O was observed. Levels are never added up.
    pub level: IoLevel,
}

/// The sum of a group's rows.
#[derive(Clone, Debug)]
pub struct Group {
    /// The file, as the latest row with a name describes it. A group of several files has any of them.
    pub file: Arc<File>,
    /// The tenant of the rows. A name, uid or cgroup is present only if all rows have the same one. A tenant answers
    /// only for its own requests. Names of the user and the container are the latest ones of that uid and cgroup.
    /// Labels are the latest ones of that name.
    pub tenant: Arc<Tenant>,
    /// The counters.
    pub sum: SparseRow,
    /// Lost time; unknown if nothing is compared.
    pub lost: Lost,
    latest: Age,
    /// Ages of the rows that supplied the names of the user and the container, and the labels.
    named: [Age; 3],
}

/// Age of a row: the end of its window, then the position of its segment among the segments of that window.
pub type Age = (UtcMs, usize);

/// The groups of an answer.
pub(crate) type Groups = Sums<GroupKey, Group>;

/// A row of a file, as it is added to a group.
pub(crate) struct FileRow<'r> {
    pub(crate) age: Age,
    pub(crate) file: &'r Arc<File>,
    pub(crate) tenant: &'r Arc<Tenant>,
    pub(crate) row: Row,
    /// What its requests lost.
    pub(crate) lost: Lost,
}

impl Sum for Group {
    type Row<'r> = FileRow<'r>;

    fn of(row: FileRow<'_>) -> Self {
        Self {
            file: Arc::clone(row.file),
            tenant: Arc::clone(row.tenant),
            sum: row.row.into(),
            lost: row.lost,
            latest: row.age,
            named: [row.age; 3],
        }
    }

    fn add(&mut self, row: FileRow<'_>) {
        self.sum.merge(&row.row);
        self.lost.add(row.lost);
        self.add_file(row.age, row.file);
        self.add_tenant([row.age; 3], row.tenant);
    }

    fn absorb(&mut self, other: Self) {
        self.sum.merge(&other.sum.row());
        self.lost.add(other.lost);
        self.add_file(other.latest, &other.file);
        self.add_tenant(other.named, &other.tenant);
    }
}

/// The later of the known names. Sets `named` to its age.
fn latest(
    (own, named): (&Option<Arc<str>>, &mut Age),
    (other, age): (&Option<Arc<str>>, Age),
) -> Option<Arc<str>> {
    if (other.is_some(), age) < (own.is_some(), *named) {
        return own.clone();
    }
    *named = age;
    other.clone()
}

impl Group {
    /// Keeps the name, the uid and the cgroup only if both tenants have the same value.
    fn add_tenant(&mut self, ages: [Age; 3], tenant: &Arc<Tenant>) {
        if self.tenant == *tenant {
            for (named, age) in self.named.iter_mut().zip(ages) {
                *named = age.max(*named);
            }
            return;
        }
        let own = &self.tenant;
        let [user_age, container_age, labels_age] = &mut self.named;
        let user = latest((&own.user, user_age), (&tenant.user, ages[0]));
        let container = latest(
            (&own.container, container_age),
            (&tenant.container, ages[1]),
        );
        let labels = latest((&own.labels, labels_age), (&tenant.labels, ages[2]));
        let uid = own.uid.filter(|_| own.uid == tenant.uid);
        let cgroup = own.cgroup.clone().filter(|_| own.cgroup == tenant.cgroup);
        let name = own.name.clone().filter(|_| own.name == tenant.name);
        let joined = Tenant {
            uid,
            user: user.filter(|_| uid.is_some()),
            container: container.filter(|_| cgroup.is_some()),
            cgroup,
            labels: labels.filter(|_| name.is_some()),
            name,
        };
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

/// A named file wins over one without a name, and a later name wins over an earlier one.
/// Within one window, the later segment has the later name.
fn is_better(path: &Option<String>, age: Age, than: &Group) -> bool {
    (path.is_some(), age) >= (than.file.path.is_some(), than.latest)
}

#[cfg(test)]
mod tests {
    use trackiops_schemas::identity::{Dev, FileKey};

    use super::*;
    use crate::aggregation::Aggregator;
    use crate::group::GroupBy;

    type Groups = Aggregator<GroupKey, Group>;

    fn file(path: Option<&str>) -> Arc<File> {
        Arc::new(File {
            key: FileKey(7),
            dev: Dev(49),
            fileid: 42,
            mount: None,
            path: path.map(Into::into),
            path_inferred: None,
            level: IoLevel::Wire,
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
            let mut groups = Groups::new(None);
            for (time, path) in rows.iter().cycle().skip(first).take(rows.len()) {
                let key = GroupKey {
                    window: UtcMs(0),
                    host: 0,
                    of: Entity::File(FileKey(7)),
                    tenant: None,
                    level: IoLevel::Wire,
                };
                let row = FileRow {
                    age: (UtcMs(*time), 0),
                    file: &file(*path),
                    tenant: &tenant("0", None),
                    row: requests(1),
                    lost: Lost::default(),
                };
                groups.add(key, row);
            }
            let groups = groups.finish();
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

    /// Adds up rows of these tenants, one row per second. Returns the tenant and the number of rows of each group.
    fn added_up(by: GroupBy, tenants: &[(usize, &Arc<Tenant>)]) -> Vec<(Arc<Tenant>, u64)> {
        let mut shares = [Groups::new(None), Groups::new(None)];
        for (i, (time, tenant)) in tenants.iter().enumerate() {
            let key = GroupKey {
                window: UtcMs(0),
                host: 0,
                of: Entity::File(FileKey(7)),
                tenant: by.tenant(tenant),
                level: IoLevel::Wire,
            };
            let row = FileRow {
                age: (UtcMs(1000 * *time as i64), 0),
                file: &file(None),
                tenant,
                row: requests(1),
                lost: Lost::default(),
            };
            shares[i % 2].add(key, row);
        }
        let [mut groups, other] = shares;
        groups.absorb(other);
        let groups = groups.finish().into_values();
        let mut groups: Vec<_> = groups
            .map(|group| (group.tenant, group.sum.read().requests))
            .collect();
        groups.sort_by_key(|(tenant, _)| tenant.to_string());
        groups
    }

    /// Tries several orders, because the order of rows must not change the sums.
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

    #[test]
    fn names_of_a_user_and_of_a_container_are_the_latest_of_each() {
        let named = |user: Option<&str>, container: Option<&str>| {
            let tenant = Tenant {
                container: container.map(Into::into),
                ..(*tenant("1000:/a", user)).clone()
            };
            Arc::new(tenant)
        };
        let tenants = [
            named(Some("alice"), None),
            named(None, Some("shop/web")),
            named(None, Some("shop/web/nginx")),
            named(Some("bob"), None),
        ];
        let both = named(Some("bob"), Some("shop/web/nginx"));
        for by in [GroupBy::FILE, GroupBy::FILE_TENANT] {
            check(by, &tenants, &[(both.clone(), 4)]);
        }
        let elsewhere = tenant("1000:/b", None);
        let tenants = [both, elsewhere.clone(), elsewhere];
        check(GroupBy::FILE, &tenants, &[(tenant("1000", Some("bob")), 3)]);
    }
}

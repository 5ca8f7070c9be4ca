//! Rows of a report. Entities beyond the limits are added to sums of others.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use trackiops_query::group::{Entity, TenantKey};
use trackiops_query::{AnswerRow, Grouping};
use trackiops_schemas::identity::{Dev, FileKey};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::Row;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::MountRoots;

use super::limits::Limits;

/// The subject of a row: a file, or all other files of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub host: Arc<str>,
    pub mount: Option<Arc<str>>,
    /// The mount point on the host.
    pub root: Arc<str>,
    pub tree: Tree,
    pub file: Option<Named>,
}

/// A directory, as in `--by dir`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tree {
    Dir(Arc<str>),
    /// Files without a name.
    NoName,
    /// All trees without separate places.
    Others,
}

/// A file under one of its names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Named {
    pub key: FileKey,
    pub path: Option<Arc<str>>,
    pub dev: Dev,
    pub fileid: u64,
}

type TreeKey = (Option<Arc<str>>, Tree);

/// Files, trees and tenants, sorted by time and bytes, largest first.
#[derive(Debug, Default)]
pub struct Ranked {
    pub files: Vec<FileKey>,
    pub trees: Vec<TreeKey>,
    pub tenants: Vec<TenantKey>,
    /// The level at which all rows were recorded.
    pub level: IoLevel,
}

/// The entities with separate places.
pub struct Kept {
    pub files: HashSet<FileKey>,
    trees: HashSet<TreeKey>,
    tenants: HashSet<TenantKey>,
}

impl Ranked {
    /// Ranks rows of the whole range, by file and tenant.
    pub fn new(rows: &[AnswerRow], grouping: &Grouping) -> Self {
        let (mut files, mut trees, mut tenants) = <(Sums<_>, Sums<_>, Sums<_>)>::default();
        for row in rows {
            let Some(file) = &row.file else {
                continue;
            };
            let (read, write) = (row.sum.read(), row.sum.write());
            let ns = read.latency_ns_sum.saturating_add(write.latency_ns_sum);
            let sums = (ns, row.sum.bytes());
            add(&mut files, file.key, sums);
            add(&mut trees, tree_of(grouping.of(0, file)), sums);
            add(&mut tenants, TenantKey::of(&row.tenant), sums);
        }
        Self {
            files: in_order(files),
            trees: in_order(trees),
            tenants: in_order(tenants),
            level: rows.first().map(|row| row.level).unwrap_or_default(),
        }
    }

    /// The first entities of each kind, within the limits.
    pub fn kept(&self, limits: Limits) -> Kept {
        Kept {
            files: self.files.iter().take(limits.files).copied().collect(),
            trees: self.trees.iter().take(limits.trees).cloned().collect(),
            tenants: self.tenants.iter().take(limits.tenants).cloned().collect(),
        }
    }
}

type Sums<K> = HashMap<K, (u64, u64)>;

fn add<K: Eq + Hash>(to: &mut Sums<K>, key: K, (ns, bytes): (u64, u64)) {
    let sums = to.entry(key).or_default();
    *sums = (sums.0.saturating_add(ns), sums.1.saturating_add(bytes));
}

/// Takes alternately the next by time and the next by bytes.
fn in_order<K: Clone + Eq + Hash + Ord>(sums: Sums<K>) -> Vec<K> {
    let mut by_time: Vec<_> = sums.into_iter().collect();
    by_time.sort_by(|(a, x), (b, y)| y.0.cmp(&x.0).then_with(|| a.cmp(b)));
    let mut by_bytes: Vec<_> = by_time.clone();
    by_bytes.sort_by(|(a, x), (b, y)| y.1.cmp(&x.1).then_with(|| a.cmp(b)));
    let (mut seen, mut order) = (HashSet::new(), Vec::new());
    for (time, bytes) in by_time.into_iter().zip(by_bytes) {
        for (key, _) in [time, bytes] {
            if seen.insert(key.clone()) {
                order.push(key);
            }
        }
    }
    order
}

fn tree_of(entity: Entity) -> TreeKey {
    match entity {
        Entity::Dir(mount, Some(dir)) => (mount, Tree::Dir(dir)),
        Entity::Dir(mount, None) => (mount, Tree::NoName),
        _ => (None, Tree::Others),
    }
}

/// Window, place and tenant. `None` stands for all tenants without separate places.
type RowKey = (UtcMs, Place, Option<TenantKey>);

/// The rows.
pub struct Rows {
    step: Granularity,
    sums: HashMap<RowKey, Row>,
}

impl Rows {
    pub fn new(step: Granularity) -> Self {
        Self {
            step,
            sums: HashMap::new(),
        }
    }

    pub fn step(&self) -> Granularity {
        self.step
    }

    /// Adds a row of a query by file and tenant.
    pub fn add_answer(
        &mut self,
        row: AnswerRow,
        grouping: &Grouping,
        roots: &MountRoots,
        kept: &Kept,
    ) {
        let Some(file) = &row.file else {
            return;
        };
        let (mount, tree) = tree_of(grouping.of(0, file));
        let path = file.path.as_deref();
        let place = Place {
            host: Arc::clone(&row.host),
            mount,
            root: roots
                .of(file.mount.as_deref(), path.unwrap_or_default())
                .into(),
            tree,
            file: Some(Named {
                key: file.key,
                path: path.map(Into::into),
                dev: file.dev,
                fileid: file.fileid,
            }),
        };
        let tenant = Some(TenantKey::of(&row.tenant));
        self.add(row.time, place, tenant, &row.sum.row(), kept);
    }

    fn add(
        &mut self,
        time: UtcMs,
        mut place: Place,
        tenant: Option<TenantKey>,
        row: &Row,
        kept: &Kept,
    ) {
        place.file = place.file.filter(|file| kept.files.contains(&file.key));
        if place.file.is_none() {
            let tree = (place.mount, place.tree);
            let is_kept = kept.trees.contains(&tree);
            (place.mount, place.tree) = tree;
            if !is_kept {
                place.tree = Tree::Others;
            }
        }
        let tenant = tenant.filter(|tenant| kept.tenants.contains(tenant));
        let key = (time.align(self.step), place, tenant);
        self.sums.entry(key).or_default().merge(row);
    }

    /// The same sums in as few rows as the limits require.
    pub fn within(&self, ranked: &Ranked, limits: Limits) -> Self {
        let kept = ranked.kept(limits);
        let mut rows = Self::new(limits.step);
        for ((time, place, tenant), row) in &self.sums {
            rows.add(*time, place.clone(), tenant.clone(), row, &kept);
        }
        rows
    }

    /// The hosts of the rows.
    pub fn hosts(&self) -> BTreeSet<Arc<str>> {
        let hosts = self
            .sums
            .keys()
            .map(|(_, place, _)| Arc::clone(&place.host));
        hosts.collect()
    }

    /// The tenants of each host that have separate rows, in order.
    pub fn tenants(&self) -> BTreeSet<(Arc<str>, TenantKey)> {
        let of = |(_, place, tenant): &RowKey| Some((Arc::clone(&place.host), tenant.clone()?));
        self.sums.keys().filter_map(of).collect()
    }

    /// In order of places, which is an order of hashes. An order by name would reveal something about names that pseudonyms replace.
    pub fn in_order(&self) -> Vec<(&RowKey, &Row)> {
        let mut rows: Vec<_> = self.sums.iter().collect();
        let order = |place: &Place| {
            let file = place.file.as_ref();
            (
                file.map(|file| (file.key, file.path.clone())),
                place.host.clone(),
                place.mount.clone(),
                place.tree.clone(),
            )
        };
        rows.sort_by_cached_key(|((time, place, tenant), _)| (order(place), tenant.clone(), *time));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_those_with_the_most_time_or_the_most_bytes() {
        let sums = [
            ("slow", (9, 1)),
            ("big", (1, 9)),
            ("small", (2, 2)),
            ("idle", (0, 0)),
        ];
        assert_eq!(in_order(sums.into()), ["slow", "big", "small", "idle"]);
    }
}

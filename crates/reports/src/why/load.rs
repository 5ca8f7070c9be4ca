//! Whose load rose: the file, the directory or the tenant that did much more than before.

use std::collections::HashMap;
use std::sync::Arc;

use trackiops_schemas::row::Row;

use super::track::Kind;
use super::who::{Use, UseKey, Uses};
use crate::slow::comparison::Figures;

/// A load belongs to a file, directory or tenant with this part of the added load.
const PART: f64 = 0.7;
/// Operations that come with this many bytes each are part of a transfer, such as COMMIT after large writes.
const OF_TRANSFER: f64 = 262_144.0;
/// The transfer explains as much as its operations if it has this weight.
const TRANSFER_WEIGHT: f64 = 0.5;
/// Separator in paths.
const SEPARATOR: char = '/';

/// Measure of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes/s that were read.
    ReadBytes,
    /// Bytes/s that were written.
    WrittenBytes,
    /// Requests/s.
    Requests,
    /// Operations/s other than reads, writes and syncs.
    Metadata,
    /// Syncs/s.
    Syncs,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::ReadBytes,
        Self::WrittenBytes,
        Self::Requests,
        Self::Metadata,
        Self::Syncs,
    ];

    /// The measure of a row.
    pub fn of(self, row: &Row) -> u64 {
        match self {
            Self::ReadBytes => row.read.bytes,
            Self::WrittenBytes => row.write.bytes,
            Self::Requests => row.read.requests + row.write.requests,
            Self::Metadata => Kind::Metadata.of(row).requests,
            Self::Syncs => Kind::Sync.of(row).requests,
        }
    }

    /// Least rate that counts as a load, per second.
    fn least(self) -> f64 {
        match self {
            Self::ReadBytes | Self::WrittenBytes => 1_048_576.0,
            Self::Requests | Self::Metadata => 20.0,
            Self::Syncs => 5.0,
        }
    }
}

/// Owner of a load.
#[derive(Clone, Debug, PartialEq)]
pub enum Owner {
    /// A file on a host.
    File(Arc<str>, Arc<str>),
    /// All files below a directory on a host.
    Dir(Arc<str>, Arc<str>),
    /// A tenant on a host.
    Tenant(Arc<str>, Arc<str>),
}

impl Owner {
    /// Whether a use belongs to the owner.
    pub fn has(&self, of: &Use) -> bool {
        self.is_of(&of.host, &of.name, of.tenant.as_deref())
    }

    /// Whether a file on a host, with its tenant, belongs to the owner.
    pub fn is_of(&self, host: &str, name: &str, tenant: Option<&str>) -> bool {
        **self.host() == *host
            && match self {
                Self::File(_, own) => **own == *name,
                Self::Dir(_, dir) => is_below(name, dir),
                Self::Tenant(_, own) => tenant == Some(&**own),
            }
    }

    /// The name for people.
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::File(_, name) | Self::Dir(_, name) | Self::Tenant(_, name) => name,
        }
    }

    /// The host.
    pub fn host(&self) -> &Arc<str> {
        match self {
            Self::File(host, _) | Self::Dir(host, _) | Self::Tenant(host, _) => host,
        }
    }

    /// The name for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File(..) => "file",
            Self::Dir(..) => "dir",
            Self::Tenant(..) => "tenant",
        }
    }
}

fn is_below(name: &str, dir: &str) -> bool {
    let rest = name.strip_prefix(dir);
    rest.is_some_and(|rest| dir.ends_with(SEPARATOR) || rest.starts_with(SEPARATOR))
}

/// A load that rose.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Its owner.
    pub owner: Owner,
    /// Its tenant, if it has a single one.
    pub tenant: Option<Arc<str>>,
    /// The measure.
    pub measure: Measure,
    /// Rate before, per second.
    pub before: f64,
    /// Rate now, per second.
    pub now: f64,
    /// Its part of the rate of all, 0 to 1.
    pub share: f64,
    /// Rate of all owners, per second: before and now.
    pub all: [f64; 2],
    /// The reads and writes of its owner now.
    pub figures: Figures,
    /// Time that its owner lost itself, s; `None` if it is unknown.
    pub lost_s: Option<f64>,
}

impl Load {
    /// The part of all load that is new and belongs to this owner, 0 to 1.
    pub fn weight(&self) -> f64 {
        self.share * (1.0 - self.before / self.now.max(1e-9)).max(0.0)
    }
}

/// For each measure, the load that rose most.
pub fn risen(before: &Uses, now: &Uses) -> Vec<Load> {
    let of = |measure| rise(before, now, measure);
    let mut all: Vec<Load> = Measure::ALL.into_iter().filter_map(of).collect();
    all.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    let transfer = all.iter().position(|load| is_transfer(load, &all[0]));
    if let Some(at) = transfer {
        all[..=at].rotate_right(1);
    }
    all
}

/// Whether a load transfers the data for which its owner makes the operations of another load.
fn is_transfer(load: &Load, operations: &Load) -> bool {
    let is_of_bytes = matches!(load.measure, Measure::ReadBytes | Measure::WrittenBytes);
    let are_operations = matches!(operations.measure, Measure::Metadata | Measure::Syncs);
    is_of_bytes
        && are_operations
        && load.owner == operations.owner
        && load.weight() >= TRANSFER_WEIGHT
        && load.now >= OF_TRANSFER * operations.now
}

fn rise(before: &Uses, now: &Uses, measure: Measure) -> Option<Load> {
    let total = |uses: &Uses| {
        let sum = uses.of.values().map(|of| measure.of(&of.row)).sum();
        uses.per_second(sum)
    };
    let all = [total(before), total(now)];
    let grown = |(key, of): (&UseKey, &'_ Use)| {
        let was = before.of.get(key).map_or(0, |was| measure.of(&was.row));
        now.per_second(measure.of(&of.row)) - before.per_second(was)
    };
    let mut added: Vec<_> = now
        .of
        .iter()
        .map(|(key, of)| (of, grown((key, of))))
        .filter(|(_, added)| *added > 0.0)
        .collect();
    added.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let sum: f64 = added.iter().map(|(_, added)| added).sum();
    // An owner of everything, such as the root of a mount, explains nothing.
    let has_all = |owner: &Owner| now.of.values().all(|of| owner.has(of));
    let mut owners = owners(&added, PART * sum);
    owners.sort_by_key(has_all);
    let owner = owners.into_iter().next()?;
    let own = |uses: &Uses| {
        let own = uses.of.values().filter(|of| owner.has(of));
        uses.per_second(own.map(|of| measure.of(&of.row)).sum())
    };
    let (own_before, own_now) = (own(before), own(now));
    let tenants: Vec<_> = now
        .of
        .values()
        .filter(|of| owner.has(of))
        .map(|of| &of.tenant)
        .collect();
    let tenant = tenants.first().copied().cloned().flatten();
    let is_load = own_now - own_before >= measure.least();
    is_load.then(|| Load {
        tenant: tenant.filter(|_| tenants.windows(2).all(|pair| pair[0] == pair[1])),
        measure,
        before: own_before,
        now: own_now,
        share: own_now / all[1].max(1e-9),
        all,
        figures: now.figures(|of| owner.has(of)),
        lost_s: None,
        owner,
    })
}

/// The owners of at least `most` of the added load: a file, the deepest directory, a tenant.
fn owners(added: &[(&Use, f64)], most: f64) -> Vec<Owner> {
    let mut files: HashMap<(&Arc<str>, &Arc<str>), f64> = HashMap::new();
    let mut dirs: HashMap<(&Arc<str>, &str), f64> = HashMap::new();
    let mut tenants: HashMap<(&Arc<str>, &Arc<str>), f64> = HashMap::new();
    for (of, added) in added {
        *files.entry((&of.host, &of.name)).or_default() += added;
        for dir in ancestors(of) {
            *dirs.entry((&of.host, dir)).or_default() += added;
        }
        if let Some(tenant) = &of.tenant {
            *tenants.entry((&of.host, tenant)).or_default() += added;
        }
    }
    let file = files.into_iter().find(|(_, added)| *added >= most);
    let dirs = dirs.into_iter().filter(|(_, added)| *added >= most);
    let dir = dirs.max_by_key(|((_, dir), _)| dir.len());
    let tenant = tenants.into_iter().find(|(_, added)| *added >= most);
    let file = file.map(|((host, name), _)| Owner::File(Arc::clone(host), Arc::clone(name)));
    let dir = dir.map(|((host, dir), _)| Owner::Dir(Arc::clone(host), dir.into()));
    let tenant =
        tenant.map(|((host, tenant), _)| Owner::Tenant(Arc::clone(host), Arc::clone(tenant)));
    [file, dir, tenant].into_iter().flatten().collect()
}

/// All directories of a path except the root.
fn ancestors(of: &Use) -> impl Iterator<Item = &str> {
    let name: &str = match of.has_path {
        true => &of.name,
        false => "",
    };
    let ends = name.match_indices(SEPARATOR).map(|(at, _)| at);
    ends.filter(|end| *end > 0).map(|end| &name[..end])
}

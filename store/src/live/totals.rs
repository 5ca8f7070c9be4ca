//! Totals since the recording began: cumulative sums of mounts, of their operations, of connections, and of named tenants.
//!
//! Mounts come and go, so the number of sums is limited. If all places are taken, a new sum replaces one that was idle
//! for [`IDLE`]. Without such a sum, it is added to [`OTHER`]. So a sum may vanish and begin again at zero, but it
//! never decreases otherwise.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::{CONNECTION, Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, Direction, FileRow, Health, Row};
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::UtcMs;

/// Most mounts with separate sums.
pub const MOST_MOUNTS: usize = 52;
/// Most pairs of a mount and an operation with separate sums.
pub const MOST_OPERATIONS: usize = 220;
/// Most connections with separate sums.
pub const MOST_CONNECTIONS: usize = 64;
/// Most tenants with separate sums.
pub const MOST_TENANTS: usize = 64;
/// Stands for all mounts, operations, connections or tenants without separate sums. A real mount has a colon.
pub const OTHER: &str = "(other)";
/// Idle time after which a sum may be replaced. Longer than the interval of any scraper.
const IDLE: Duration = Duration::from_secs(600);

/// Cumulative sums.
#[derive(Debug, Default)]
pub(super) struct Totals {
    mounts: Sums<Option<String>, Row>,
    operations: Sums<(Option<String>, String), OperationSums>,
    /// By the connection's name.
    connections: Sums<String, TcpSums>,
    tenants: Sums<Arc<str>, Row>,
    health: Health,
}

impl Totals {
    /// Adds a window that was closed `now`.
    pub(super) fn add(&mut self, window: &ClosedWindow, now: Instant) {
        self.health.merge(&window.health);
        self.health.pending.clone_from(&window.health.pending);
        self.mounts.begin(now);
        for FileRow { file, row } in &window.rows {
            // A device without a known file system stays separate from NFS mounts without a known name.
            let device = || Some(file.id.dev.to_string());
            let mount = match file.level {
                IoLevel::Wire => file.mount.clone(),
                _ => file.mount.clone().or_else(device),
            };
            let sum = self.mounts.of(&mount, MOST_MOUNTS, || mount.clone());
            add_direction(&mut sum.read, &row.read);
            add_direction(&mut sum.write, &row.write);
        }
        self.tenants.begin(now);
        for FileRow { file, row } in &window.rows {
            if let Some(name) = &file.tenant.name {
                let sum = self.tenants.of(name, MOST_TENANTS, || Arc::clone(name));
                // Without histograms, like operations.
                for (sum, part) in [(&mut sum.read, &row.read), (&mut sum.write, &row.write)] {
                    sum.merge(&Direction::of_counters(part.counters()));
                }
            }
        }
        self.operations.begin(now);
        self.connections.begin(now);
        for OperationRow { operation, sums } in &window.ops {
            if operation.op == CONNECTION {
                let name = operation.transport.clone().unwrap_or_default();
                let sum = self
                    .connections
                    .of(&name, MOST_CONNECTIONS, || name.clone());
                sum.merge(&sums.tcp);
                continue;
            }
            let key = (operation.mount.clone(), operation.op.clone());
            let sum = self.operations.of(&key, MOST_OPERATIONS, || key.clone());
            // Histograms of all operations would take megabytes.
            sum.merge(&OperationSums::of_counters(sums.counters()));
        }
    }

    /// The sums as a window of a recording that began at `start`. It has a row of each mount, and a row of each tenant
    /// without a mount. Operations have no connection, and connections have rows as in other windows.
    pub(super) fn window(&self, start: UtcMs) -> ClosedWindow {
        let other = || Some(OTHER.to_owned());
        let mounts = self.mounts.iter(other);
        let mounts = mounts.map(|(mount, row)| (mount, Arc::default(), row));
        let tenants = self.tenants.iter(|| OTHER.into());
        let tenants = tenants.map(|(name, row)| {
            let named = Tenant {
                name: Some(name),
                ..Tenant::default()
            };
            (None, Arc::new(named), row)
        });
        let sums = (0..).zip(mounts.chain(tenants));
        let rows = sums.map(|(number, (mount, tenant, row))| FileRow {
            file: Arc::new(FileAttributes {
                key: FileKey(number),
                id: FileId::others(Dev(0)),
                mount,
                path: None,
                path_inferred: false,
                tenant,
                level: Default::default(),
            }),
            row: row.clone(),
        });
        let operations = self.operations.iter(|| (other(), OTHER.to_owned()));
        let ops = operations.map(|((mount, op), sums)| OperationRow {
            operation: Operation {
                mount,
                op,
                transport: None,
            },
            sums: sums.clone(),
        });
        let connections = self.connections.iter(|| OTHER.to_owned());
        let connections = connections.map(|(name, tcp)| OperationRow {
            operation: Operation::connection(name),
            sums: OperationSums {
                tcp: *tcp,
                ..OperationSums::default()
            },
        });
        ClosedWindow {
            start,
            rows: rows.collect(),
            ops: ops.chain(connections).collect(),
            health: self.health.clone(),
        }
    }
}

/// Adds to a sum bucket by bucket. The buckets of its histogram are contiguous, so this is faster than merging, which
/// moves them all.
fn add_direction(sum: &mut Direction, part: &Direction) {
    if part.requests == 0 && part.bytes == 0 {
        return;
    }
    sum.merge(&Direction::of_counters(part.counters()));
    sum.errnos.merge(&part.errnos);
    for (bucket, count) in part.latency.buckets() {
        sum.latency.add(*bucket, *count);
    }
}

/// A limited number of sums by key.
#[derive(Debug)]
struct Sums<K, V> {
    own: HashMap<K, Own<V>>,
    other: Option<V>,
    now: Option<Instant>,
    /// Whether no place can become free before the next window.
    is_full: bool,
}

#[derive(Debug)]
struct Own<V> {
    sum: V,
    used: Instant,
}

impl<K, V> Default for Sums<K, V> {
    fn default() -> Self {
        Self {
            own: HashMap::new(),
            other: None,
            now: None,
            is_full: false,
        }
    }
}

impl<K: Clone + Eq + Hash, V: Default> Sums<K, V> {
    /// Begins another window.
    fn begin(&mut self, now: Instant) {
        self.now = Some(now);
        self.is_full = false;
    }

    /// The sum of a key, or the common sum if `most` other keys have one.
    fn of(&mut self, key: &K, most: usize, own: impl FnOnce() -> K) -> &mut V {
        let now = self.now.unwrap_or_else(Instant::now);
        if !self.own.contains_key(key) {
            if self.own.len() >= most && !self.is_full {
                self.is_full = !self.drop_idle(now);
            }
            if self.own.len() >= most {
                return self.other.get_or_insert_default();
            }
            let sum = V::default();
            self.own.insert(own(), Own { sum, used: now });
        }
        match self.own.get_mut(key) {
            Some(own) => {
                own.used = now;
                &mut own.sum
            }
            None => self.other.get_or_insert_default(),
        }
    }

    /// Drops the sum that was idle for the longest time, if that is at least [`IDLE`].
    fn drop_idle(&mut self, now: Instant) -> bool {
        let idlest = self.own.iter().min_by_key(|(_, own)| own.used);
        let idlest = idlest.filter(|(_, own)| now.saturating_duration_since(own.used) >= IDLE);
        let key = idlest.map(|(key, _)| key.clone());
        key.is_some_and(|key| self.own.remove(&key).is_some())
    }

    /// All sums, with `other` as the key of the common sum.
    fn iter<'s>(&'s self, other: impl Fn() -> K + 's) -> impl Iterator<Item = (K, &'s V)> {
        let own = self.own.iter().map(|(key, own)| (key.clone(), &own.sum));
        own.chain(self.other.iter().map(move |sum| (other(), sum)))
    }
}

#[cfg(test)]
mod tests {
    use trackiops_testkit::windows::{file, reads, window};

    use super::*;

    /// A window in which a file of each of these mounts was read `requests` times.
    fn of_mounts(mounts: std::ops::Range<usize>, requests: u64) -> ClosedWindow {
        let rows = mounts.map(|mount| {
            let attributes = FileAttributes {
                mount: Some(format!("srv:/{mount}")),
                ..(*file(mount as u64, 49, None)).clone()
            };
            (Arc::new(attributes), reads(requests))
        });
        window(0, rows.collect())
    }

    fn requests(totals: &Totals, mount: &str) -> Option<u64> {
        let rows = totals.window(UtcMs(0)).rows;
        let row = rows
            .iter()
            .find(|row| row.file.mount.as_deref() == Some(mount));
        row.map(|row| row.row.read.requests)
    }

    #[test]
    fn sums_are_those_of_all_windows() {
        let (mut totals, now) = (Totals::default(), Instant::now());
        for _ in 0..3 {
            totals.add(&of_mounts(0..2, 5), now);
        }
        let mut merged = Row::default();
        (0..3).for_each(|_| merged.merge(&reads(5)));
        let window = totals.window(UtcMs(7000));
        assert_eq!(window.rows.len(), 2);
        assert!(window.rows.iter().all(|row| row.row == merged));
        assert_eq!((window.start, window.health.seen), (UtcMs(7000), 30));
    }

    #[test]
    fn tenants_with_names_have_sums_over_their_mounts() {
        let mut totals = Totals::default();
        let mut window = of_mounts(0..3, 5);
        for (row, name) in window
            .rows
            .iter_mut()
            .zip([Some("acme"), Some("acme"), None])
        {
            let tenant = Tenant {
                name: name.map(Arc::from),
                ..Tenant::default()
            };
            Arc::make_mut(&mut row.file).tenant = Arc::new(tenant);
        }
        totals.add(&window, Instant::now());
        let rows = totals.window(UtcMs(0)).rows;
        assert_eq!(rows.len(), 4);
        let acme = rows.iter().find(|row| row.file.tenant.name.is_some());
        let acme = acme.map(|row| (row.file.tenant.name.as_deref(), row.row.read.requests));
        assert_eq!(acme, Some((Some("acme"), 10)));
    }

    #[test]
    fn connections_have_sums_apart_from_operations() {
        let mut totals = Totals::default();
        let mut window = of_mounts(0..1, 5);
        let tcp = TcpSums {
            readings: 1,
            retrans: 3,
            ..TcpSums::default()
        };
        let connection = |number: usize| OperationRow {
            operation: Operation::connection(format!("tcp-{number}")),
            sums: OperationSums {
                tcp,
                ..OperationSums::default()
            },
        };
        window.ops = (0..MOST_CONNECTIONS + 2).map(connection).collect();
        let now = Instant::now();
        totals.add(&window, now);
        totals.add(&window, now);
        let ops = totals.window(UtcMs(0)).ops;
        assert_eq!(ops.len(), MOST_CONNECTIONS + 1);
        assert!(ops.iter().all(|row| row.operation.op == CONNECTION));
        let of = |name: &str| {
            let mut rows = ops.iter();
            let row = rows.find(|row| row.operation.transport.as_deref() == Some(name));
            row.map(|row| (row.sums.tcp.readings, row.sums.tcp.retrans))
        };
        assert_eq!((of("tcp-0"), of(OTHER)), (Some((2, 6)), Some((4, 12))));
    }

    #[test]
    fn what_finds_no_room_is_added_to_the_rest_until_a_place_is_idle() {
        let (mut totals, begin) = (Totals::default(), Instant::now());
        totals.add(&of_mounts(0..MOST_MOUNTS, 5), begin);
        totals.add(&of_mounts(1..MOST_MOUNTS + 2, 5), begin + IDLE / 2);
        assert_eq!(totals.window(UtcMs(0)).rows.len(), MOST_MOUNTS + 1);
        assert_eq!(requests(&totals, OTHER), Some(10));
        assert_eq!(requests(&totals, "srv:/1"), Some(10));
        // The first mount is idle by now, and it is the only one.
        totals.add(&of_mounts(MOST_MOUNTS..MOST_MOUNTS + 2, 5), begin + IDLE);
        assert_eq!(requests(&totals, "srv:/0"), None);
        assert_eq!(requests(&totals, OTHER), Some(15));
        let own = [MOST_MOUNTS, MOST_MOUNTS + 1].map(|mount| format!("srv:/{mount}"));
        let own = own.map(|mount| requests(&totals, &mount));
        assert_eq!(own.into_iter().flatten().collect::<Vec<_>>(), [5]);
    }
}

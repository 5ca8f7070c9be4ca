//! The connections of mounts before and in a slow time: what TCP knew of them, and what the mounts did over them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use trackiops_query::coverage::Interval;
use trackiops_query::{
    Connections, GroupBy, OperationAnswer, Outcome, QueryError, Question, Range, Step,
    ask_operations,
};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::tcp::TcpSums;

/// Most connections of a comparison: those with most requests.
const MOST: usize = 16;

/// The mounts of a slow time.
#[derive(Clone, Copy, Debug)]
pub struct Clients<'c> {
    /// Names of the mounts.
    pub mounts: &'c [Arc<str>],
    /// The hosts; all if empty.
    pub hosts: &'c [Arc<str>],
}

impl Clients<'_> {
    /// Asks for their connections in each of two times.
    pub fn ask(&self, question: &Question, times: [Interval; 2]) -> Result<[Used; 2], QueryError> {
        let [before, now] = times.map(|time| self.used(question, time));
        Ok([before?, now?])
    }

    /// The connections of all mounts, because mounts share them.
    fn used(&self, question: &Question, time: Interval) -> Result<Used, QueryError> {
        let question = Question {
            files: Vec::new(),
            tenants: Vec::new(),
            mounts: Vec::new(),
            volumes: Vec::new(),
            ops: Vec::new(),
            conditions: Vec::new(),
            sort: None,
            top: None,
            levels: vec![IoLevel::Wire],
            step: Some(Step::All),
            by: GroupBy::MOUNT,
            range: Range {
                since: Some(time.start),
                until: Some(time.end),
            },
            ..question.clone()
        };
        let mut used = Used::default();
        if let Outcome::Found(answer) = ask_operations(&question, Connections::Stored)? {
            let is_asked =
                |row: &&OperationAnswer| self.hosts.is_empty() || self.hosts.contains(&row.host);
            let rows = answer.rows.iter().filter(is_asked);
            rows.for_each(|row| used.add(row, self.own(row)));
        }
        Ok(used)
    }

    /// The mount of operations, if it is one of these.
    fn own<'r>(&self, row: &'r OperationAnswer) -> Option<&'r Arc<str>> {
        row.mount.as_ref().filter(|mount| self.have(mount))
    }

    /// Whether operations of a mount are of one of these. Mounts of directories of an export have one sum, under a directory above them.
    fn have(&self, mount: &str) -> bool {
        let is_in = |own: &Arc<str>| {
            let rest = own.strip_prefix(mount);
            rest.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || mount.ends_with('/')
            })
        };
        self.mounts.iter().any(is_in)
    }
}

/// A connection in a time.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Requests of the mounts.
    pub(crate) own: u64,
    /// Requests of all mounts.
    pub(crate) requests: u64,
    /// The slow mounts that made requests.
    pub(crate) mounts: BTreeSet<Arc<str>>,
    pub(crate) tcp: TcpSums,
}

/// A host, and a connection of it; `None` where it is not known.
type ConnectionKey = (Arc<str>, Option<Arc<str>>);

/// Connections and operations in a time.
#[derive(Debug, Default)]
pub struct Used {
    pub(crate) connections: HashMap<ConnectionKey, Connection>,
    /// Operations of the mounts.
    pub(crate) ops: BTreeMap<Arc<str>, OperationSums>,
}

impl Used {
    /// Adds a row. `own` is its mount, if it is one of the mounts.
    fn add(&mut self, row: &OperationAnswer, own: Option<&Arc<str>>) {
        let key = (Arc::clone(&row.host), row.transport.clone());
        let connection = self.connections.entry(key).or_default();
        let requests = row.sums.requests;
        connection.requests = connection.requests.saturating_add(requests);
        connection.tcp.merge(&row.sums.tcp);
        if let Some(mount) = own {
            connection.own = connection.own.saturating_add(requests);
            connection.mounts.insert(Arc::clone(mount));
            let op = self.ops.entry(Arc::clone(&row.op)).or_default();
            op.merge(&row.sums);
        }
    }
}

/// What TCP knew of a connection, before and in a slow time.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedConnection {
    /// The host.
    pub host: Arc<str>,
    /// The connection, such as `tcp-3`; `None` if it is unknown.
    pub transport: Option<Arc<str>>,
    /// The slow mounts that used it.
    pub mounts: Vec<Arc<str>>,
    /// Before and in the slow time; `None` without readings.
    pub tcp: [Option<TcpSums>; 2],
}

/// The connections that the mounts used and that were read, those with most requests in the second time first.
pub fn compared([before, now]: &[Used; 2]) -> Vec<ComparedConnection> {
    let none = Connection::default();
    let keys = before.connections.keys().chain(now.connections.keys());
    let keys: BTreeSet<_> = keys.collect();
    let mut all: Vec<_> = keys
        .into_iter()
        .filter_map(|key| {
            let both = [before, now].map(|used| used.connections.get(key).unwrap_or(&none));
            let tcp = both.map(|of| (of.tcp.readings > 0).then_some(of.tcp));
            let mounts: BTreeSet<_> = both.iter().flat_map(|of| &of.mounts).collect();
            let is_known = tcp.iter().any(Option::is_some) && !mounts.is_empty();
            let compared = ComparedConnection {
                host: Arc::clone(&key.0),
                transport: key.1.clone(),
                mounts: mounts.into_iter().cloned().collect(),
                tcp,
            };
            is_known.then_some((both[1].own, compared))
        })
        .collect();
    all.sort_by_key(|(own, _)| Reverse(*own));
    all.truncate(MOST);
    all.into_iter().map(|(_, compared)| compared).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_mounts_belongs_to_each_of_them() {
        let mounts: [Arc<str>; 1] = ["nas:/data/db".into()];
        let of = Clients {
            mounts: &mounts,
            hosts: &[],
        };
        for (mount, is_own) in [
            ("nas:/data/db", true),
            ("nas:/data", true),
            ("nas:/", true),
            ("nas:/dat", false),
            ("nas:/data/db/x", false),
            ("nas2:/data/db", false),
        ] {
            assert_eq!(of.have(mount), is_own, "{mount}");
        }
    }

    /// Connections of a host: the name, the requests of the mount, and the readings.
    fn used(connections: &[(&str, u64, u64)]) -> Used {
        let one = |(name, own, readings): &(&str, u64, u64)| {
            let mounts: BTreeSet<Arc<str>> =
                (*own > 0).then(|| "nas:/a".into()).into_iter().collect();
            let connection = Connection {
                own: *own,
                requests: *own,
                mounts,
                tcp: TcpSums {
                    readings: *readings,
                    ..TcpSums::default()
                },
            };
            (("h".into(), Some((*name).into())), connection)
        };
        Used {
            connections: connections.iter().map(one).collect(),
            ..Used::default()
        }
    }

    #[test]
    fn a_connection_is_compared_if_the_mounts_used_it_and_it_was_read() {
        let before = used(&[
            ("busy", 9, 3),
            ("gone", 4, 2),
            ("unread", 5, 0),
            ("of others", 0, 7),
        ]);
        let now = used(&[
            ("busy", 8, 5),
            ("new", 20, 1),
            ("unread", 5, 0),
            ("of others", 0, 7),
        ]);
        let found = compared(&[before, now]);
        let short: Vec<_> = found
            .iter()
            .map(|of| {
                let readings = of.tcp.map(|tcp| tcp.map(|tcp| tcp.readings));
                (of.transport.as_deref().unwrap_or_default(), readings)
            })
            .collect();
        assert_eq!(
            short,
            [
                ("new", [None, Some(1)]),
                ("busy", [Some(3), Some(5)]),
                ("gone", [Some(2), None]),
            ]
        );
        assert_eq!(found[0].mounts, [Arc::from("nas:/a")]);
    }
}

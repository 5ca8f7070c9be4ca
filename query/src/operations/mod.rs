//! Operations of mounts and of files.

mod filter_and_sort;
mod mount_sums;
mod of_files;
mod of_mounts;

use std::str::FromStr;
use std::sync::Arc;

use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{Dev, FileKey, Tenant};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::time::UtcMs;

use crate::group::{ByError, GroupBy};

pub use of_files::{ask_operation_latencies, ask_operations_by};
pub use of_mounts::ask_operations;

/// Whether each connection to a server has separate rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// One row per operation.
    Together,
    /// One row per operation and connection. Each repeats what TCP knows of its connection, so these values do not add
    /// up over operations. A connection without operations has the row
    /// [`CONNECTION`](trackiops_schemas::ops::CONNECTION).
    Apart,
    /// One row per operation and connection. What TCP knows of a connection is in a row `CONNECTION`, as in a store.
    Stored,
}

/// The kind of rows of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Files: [`crate::ask()`].
    Files(GroupBy),
    /// Operations of mounts: [`ask_operations`].
    Operations(Connections),
    /// Operations of files or groups of files: [`ask_operations_by`].
    OperationsBy(GroupBy),
}

impl FromStr for Subject {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = || text.split(',').map(str::trim);
        let has = |wanted: &str| words().any(|word| word == wanted);
        // Mounts and hosts always have separate rows.
        let others = words().filter(|word| !["op", "transport", "mount", "host"].contains(word));
        let others: Vec<_> = others.collect();
        match (has("op"), has("transport"), others.is_empty()) {
            (false, false, _) => text.parse().map(Self::Files),
            (_, true, true) => Ok(Self::Operations(Connections::Apart)),
            (true, false, true) => Ok(Self::Operations(Connections::Together)),
            (_, true, false) => Err(ByError(text.into())),
            (true, false, false) if others == ["tenant"] || others == ["user"] => {
                Ok(Self::OperationsBy(GroupBy {
                    tenants: true,
                    only_users: others == ["user"],
                    ..GroupBy::MOUNT
                }))
            }
            (true, false, false) => match others.join(",").parse::<GroupBy>() {
                Ok(by) if !by.levels => Ok(Self::OperationsBy(by)),
                _ => Err(ByError(text.into())),
            },
        }
    }
}

/// One operation in one window.
#[derive(Clone, Debug)]
pub struct OperationAnswer {
    /// Start of the window.
    pub time: UtcMs,
    /// The host that recorded the operation.
    pub host: Arc<str>,
    /// `server:/export`; `None` if it is unknown or the row describes several mounts.
    pub mount: Option<Arc<str>>,
    /// Name of the procedure in the protocol.
    pub op: Arc<str>,
    /// The connection; `None` if it is unknown or the row describes several.
    pub transport: Option<Arc<str>>,
    /// The file or directory, if the query groups by it.
    pub about: Option<About>,
    /// The tenant, if the query groups by it.
    pub tenant: Arc<Tenant>,
    /// The level at which it was observed.
    pub level: IoLevel,
    /// The counters.
    pub sums: OperationSums,
    /// The byte counters that are known.
    pub bytes: KnownBytes,
    /// Requests without a known time. Only READs, WRITEs, calls for local files and imported operations can have any.
    pub untimed: u64,
    /// Timed requests without known parts of their time. Only the same operations can have any.
    pub unsplit: u64,
    /// Requests of all operations of the mount, or of its selected files, in the window.
    pub mount_requests: u64,
    /// Recorded time within the window on that host, ms, for rates; 0 if it is too short for a rate.
    pub covered_ms: u64,
}

/// The known byte counters of an operation. An unknown counter is 0, without a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBytes {
    /// Bytes of messages in both directions: operations of mounts.
    Messages,
    /// Bytes of data that READs of a file received.
    Received,
    /// Bytes of data that WRITEs of a file sent.
    Sent,
    /// None, for all other operations of a file.
    None,
}

/// The file, name or directory of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct About {
    /// Path; `None` if it is unknown.
    pub path: Option<Arc<str>>,
    /// The path, or a substitute if it is unknown.
    pub shown: Arc<str>,
    /// The file, if the row describes one.
    pub file: Option<FileNumbers>,
}

impl About {
    fn identity(&self) -> Identity {
        match self.file {
            Some(file) => Identity::File(file.key),
            None => Identity::Name(Arc::clone(&self.shown)),
        }
    }
}

/// Identifies what operations are about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Identity {
    /// A path, or the substitute for an unknown one.
    Name(Arc<str>),
    /// A file with all of its names.
    File(FileKey),
}

/// Numbers that identify a file, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileNumbers {
    /// The file's key in the catalog.
    pub key: FileKey,
    /// Device number on the host that recorded the row.
    pub dev: Dev,
    /// NFS fileid.
    pub fileid: u64,
}

impl OperationAnswer {
    /// Bytes sent; `None` if unknown.
    pub fn sent_bytes(&self) -> Option<u64> {
        let is_known = matches!(self.bytes, KnownBytes::Messages | KnownBytes::Sent);
        is_known.then_some(self.sums.sent_bytes)
    }

    /// Bytes received; `None` if unknown.
    pub fn received_bytes(&self) -> Option<u64> {
        let is_known = matches!(self.bytes, KnownBytes::Messages | KnownBytes::Received);
        is_known.then_some(self.sums.received_bytes)
    }

    /// Bytes sent and received, as far as known; `None` if neither is known.
    pub fn all_bytes(&self) -> Option<u64> {
        (self.bytes != KnownBytes::None).then(|| self.sums.bytes())
    }

    /// The file, if each file has separate rows.
    pub fn file(&self) -> Option<FileNumbers> {
        self.about.as_ref()?.file
    }

    /// Histogram of the times. `None` if unknown: the kernel adds up a file's RPCs other than READ and WRITE without
    /// one.
    pub fn histogram(&self) -> Option<&Histogram> {
        let execute = &self.sums.execute;
        (self.bytes != KnownBytes::None || execute.total() > 0).then_some(execute)
    }

    /// Number of requests whose time is known.
    pub(crate) fn timed(&self) -> u64 {
        self.sums.requests.saturating_sub(self.untimed)
    }

    /// Whether the parts of any request's time are known.
    pub(crate) fn has_parts(&self) -> bool {
        let without_parts = self.untimed.saturating_add(self.unsplit);
        self.sums.requests > without_parts
    }

    /// Mean of a sum of times over the timed requests, ns; `None` without timed requests.
    pub fn per_timed(&self, sum_ns: u64) -> Option<f64> {
        let timed = self.timed();
        (timed > 0).then(|| sum_ns as f64 / timed as f64)
    }

    /// Like [`Self::per_timed`], for a part of the time; `None` if the parts are unknown.
    pub fn part_per_timed(&self, sum_ns: u64) -> Option<f64> {
        self.per_timed(sum_ns).filter(|_| self.has_parts())
    }

    /// Like [`Self::part_per_timed`], for a part of the time until the reply; `None` if neither the network's nor the
    /// server's is known.
    pub fn side_per_timed(&self, sum_ns: u64) -> Option<f64> {
        let mean = self.part_per_timed(sum_ns);
        mean.filter(|_| self.sums.is_split())
    }
}

/// How many operations on the wire have no known time, and how many have a time without parts. An import knows one time of an operation, or
/// none. In the kernel each has all parts, and none completes in 0 ns.
fn without_times(sums: &OperationSums) -> [u64; 2] {
    let has_one_time = sums.queue_ns_sum == 0 && sums.rtt_ns_sum == sums.execute_ns_sum;
    match (sums.execute_ns_sum, has_one_time) {
        (0, _) => [sums.requests, 0],
        (_, true) => [0, sums.requests],
        (_, false) => [0, 0],
    }
}

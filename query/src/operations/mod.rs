//! Operations: what servers were asked to do.

mod choose;
mod of_files;
mod of_mounts;

use std::str::FromStr;
use std::sync::Arc;

use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{Dev, FileKey, Tenant};
use trackiops_schemas::ops::OperationSums;
use trackiops_schemas::time::UtcMs;

use crate::group::{ByError, GroupBy};

pub use of_files::ask_operations_by;
pub use of_mounts::ask_operations;

/// Whether the connections to a server are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connections {
    /// A row is of an operation.
    Together,
    /// A row is of an operation over one connection.
    Apart,
}

/// What the rows of an answer stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Files: [`crate::ask`].
    Files(GroupBy),
    /// Operations of mounts: [`ask_operations`].
    Operations(Connections),
    /// Operations of files, or of what else: [`ask_operations_by`].
    OperationsBy(GroupBy),
}

impl FromStr for Subject {
    type Err = ByError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = || text.split(',').map(str::trim);
        let has = |wanted: &str| words().any(|word| word == wanted);
        // A mount has rows of its own in any case, and so has a host.
        let others = words().filter(|word| !["op", "transport", "mount", "host"].contains(word));
        let others: Vec<_> = others.collect();
        match (has("op"), has("transport"), others.is_empty()) {
            (false, false, _) => text.parse().map(Self::Files),
            (_, true, true) => Ok(Self::Operations(Connections::Apart)),
            (true, false, true) => Ok(Self::Operations(Connections::Together)),
            (_, true, false) => Err(ByError(text.into())),
            (true, false, false) if others == ["tenant"] => Ok(Self::OperationsBy(GroupBy {
                tenants: true,
                ..GroupBy::MOUNT
            })),
            (true, false, false) => match others.join(",").parse() {
                Ok(by) => Ok(Self::OperationsBy(by)),
                Err(_) => Err(ByError(text.into())),
            },
        }
    }
}

/// One operation in one window.
#[derive(Clone, Debug)]
pub struct OperationAnswer {
    /// Start of the window.
    pub time: UtcMs,
    /// The recording host.
    pub host: Arc<str>,
    /// `server:/export`; `None` where it is not known, and for what is of several mounts.
    pub mount: Option<Arc<str>>,
    /// The procedure.
    pub op: Arc<str>,
    /// The connection; `None` where it is not known or the row is of several.
    pub transport: Option<Arc<str>>,
    /// The file or directory that it was about, where rows are told apart by that.
    pub about: Option<About>,
    /// Who did it, where rows are told apart by that.
    pub tenant: Arc<Tenant>,
    /// Its counters.
    pub sums: OperationSums,
    /// Which of its bytes are known.
    pub bytes: KnownBytes,
    /// Those of the requests of which no time is known: READs and WRITEs of a file alone have any.
    pub untimed: u64,
    /// Those of the timed requests of which the parts of the time are not known, which only READs and WRITEs of a file have.
    pub unsplit: u64,
    /// Requests of all operations of the mount, or of its files that are asked for, in the window.
    pub mount_requests: u64,
    /// How much of the window that host recorded, ms: what rates divide by.
    pub covered_ms: u64,
}

/// Which bytes of an operation are known. Where they are not, the counter is 0 and says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownBytes {
    /// Those of the messages in both directions: operations of mounts.
    Messages,
    /// Those of the data that a file's READs received.
    Received,
    /// Those of the data that a file's WRITEs sent.
    Sent,
    /// None: all other operations of a file.
    None,
}

/// What operations were about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct About {
    /// Its name, where known.
    pub path: Option<Arc<str>>,
    /// The name, or what stands for it.
    pub shown: Arc<str>,
    /// The file, if it is one.
    pub file: Option<FileNumbers>,
}

impl About {
    /// A file whatever its name, or else the name.
    fn identity(&self) -> (Option<FileKey>, Option<Arc<str>>) {
        match self.file {
            Some(file) => (Some(file.key), None),
            None => (None, Some(Arc::clone(&self.shown))),
        }
    }
}

/// What tells a file from others, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileNumbers {
    /// The file on disk.
    pub key: FileKey,
    /// Its device number on the host that recorded it.
    pub dev: Dev,
    /// NFS fileid.
    pub fileid: u64,
}

impl OperationAnswer {
    /// What it sent, where that is known.
    pub fn sent_bytes(&self) -> Option<u64> {
        let is_known = matches!(self.bytes, KnownBytes::Messages | KnownBytes::Sent);
        is_known.then_some(self.sums.sent_bytes)
    }

    /// What it received, where that is known.
    pub fn received_bytes(&self) -> Option<u64> {
        let is_known = matches!(self.bytes, KnownBytes::Messages | KnownBytes::Received);
        is_known.then_some(self.sums.received_bytes)
    }

    /// What it sent and received, as far as that is known.
    pub fn all_bytes(&self) -> Option<u64> {
        (self.bytes != KnownBytes::None).then(|| self.sums.bytes())
    }

    /// The file that it was about, where each file has rows of its own.
    pub fn file(&self) -> Option<FileNumbers> {
        self.about.as_ref()?.file
    }

    /// How its times are spread, where that is known: it is not of what is added up by file in the kernel.
    pub fn histogram(&self) -> Option<&Histogram> {
        (self.bytes != KnownBytes::None).then_some(&self.sums.execute)
    }

    /// The share of a sum of times that falls to each request of which it is known; `None` without one.
    pub fn per_timed(&self, sum_ns: u64) -> Option<f64> {
        let timed = self.sums.requests.saturating_sub(self.untimed);
        (timed > 0).then(|| sum_ns as f64 / timed as f64)
    }

    /// The same of a part of the time: `None` unless parts are known.
    pub fn part_per_timed(&self, sum_ns: u64) -> Option<f64> {
        let without_parts = self.untimed + self.unsplit;
        let is_known = self.sums.requests > without_parts;
        self.per_timed(sum_ns).filter(|_| is_known)
    }
}

//! Rows of operations: the RPCs of the NFS client by procedure. Mergeable partial aggregates, like the rows of files in
//! [`crate::row`].

use crate::counter_macro::counters;
use crate::histogram::Histogram;

/// What stands for the operation in rows of operations that could not be told apart for lack of room: `begin` in
/// `collector-ebpf/src/operation.rs` adds them up by window. Where there is no room for that either, they are counted alone:
/// `lost_since` in `collector/src/operations/mod.rs`.
pub const OTHER_OPERATIONS: &str = "(other)";

/// What a row is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operation {
    /// `server:/export`. `None` where it is not known, and for what is done for several mounts of a server in common.
    pub mount: Option<String>,
    /// The procedure as the kernel calls it (`GETATTR`), or its number where it has no name.
    pub op: String,
    /// The connection: protocol and number (`tcp-3`), where known. The number is the kernel's own in
    /// `/sys/kernel/sunrpc/xprt-switches`; before Linux 5.14 it counts the connections in the order in which they were
    /// first used.
    pub transport: Option<String>,
}

counters! {
    /// The counters of an operation in a window: those of its statistics in `/proc/self/mountstats`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct OperationSums {
        /// RPCs that completed, each attempt of one that was repeated.
        requests: "requests", Count, sum;
        /// Those that ended with an error.
        errors: "errors", Count, sum;
        /// Bytes sent, repeated transmissions included.
        sent_bytes: "sent_bytes", Bytes, sum;
        /// Bytes received.
        received_bytes: "received_bytes", Bytes, sum;
        /// Sum of the times until they were sent, ns.
        queue_ns_sum: "queue_us_sum", Microseconds, saturating_sum;
        /// Sum of the times from there to the answer, ns.
        rtt_ns_sum: "rtt_us_sum", Microseconds, saturating_sum;
        /// Sum of the times from start to completion, ns.
        execute_ns_sum: "execute_us_sum", Microseconds, saturating_sum;
        /// The longest of these, ns.
        execute_ns_max: "execute_us_max", Microseconds, max;
    }
    and {
        /// These times. Less than 4 us counts as 4 us, more than 18 minutes as 18 minutes. Its total is `requests`,
        /// except of [`OTHER_OPERATIONS`], for which there may not have been room even for that.
        execute: Histogram,
    }
}

impl OperationSums {
    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counters(other);
        self.execute.merge(&other.execute);
    }

    /// The share of a sum that falls to each request; `None` without one.
    pub fn per_request(&self, sum: u64) -> Option<f64> {
        (self.requests > 0).then(|| sum as f64 / self.requests as f64)
    }

    /// The time from start to completion, in us, that a share `q` of the requests does not exceed; `None` where none is known.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        self.execute.quantile_us_up_to(q, self.execute_ns_max)
    }

    /// Bytes in both directions.
    pub fn bytes(&self) -> u64 {
        self.sent_bytes + self.received_bytes
    }
}

/// An operation's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OperationRow {
    /// What it is about.
    pub operation: Operation,
    /// Its counters.
    pub sums: OperationSums,
}

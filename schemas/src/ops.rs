//! Rows of operations: the RPCs of the NFS client by procedure. Mergeable partial aggregates, like the rows of files in
//! [`crate::row`].

use crate::counter_macro::counters;
use crate::histogram::Histogram;
use crate::tcp::TcpSums;

/// The name of the operation in rows for which there was no room by operation. `begin` in
/// `collector-ebpf/src/operation.rs` adds them up by window. If that has no room either, they are only counted:
/// `lost_since` in `collector/src/operations/mod.rs`.
pub const OTHER_OPERATIONS: &str = "(other)";
/// The name of the operation in rows of connections. Such a row has [`OperationSums::tcp`] and no requests: it is apart
/// from the rows of operations, so that each reading counts once. It has no mount, because mounts share connections.
pub const CONNECTION: &str = "(connection)";

/// The key of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operation {
    /// `server:/export`. `None` where not known, and for operations that several mounts of a server share.
    pub mount: Option<String>,
    /// The procedure as the kernel names it (`GETATTR`), or its number if it has no name.
    pub op: String,
    /// The connection: protocol and number (`tcp-3`), where known. The number is the kernel's number in
    /// `/sys/kernel/sunrpc/xprt-switches`. Before Linux 5.14 it is the order in which connections were first used.
    pub transport: Option<String>,
}

impl Operation {
    /// The key of a connection's row.
    pub fn connection(transport: String) -> Self {
        Self {
            mount: None,
            op: CONNECTION.to_owned(),
            transport: Some(transport),
        }
    }
}

counters! {
    /// The counters of an operation in a window, as in `/proc/self/mountstats`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct OperationSums {
        /// RPCs that completed. Each attempt of a repeated RPC counts.
        requests: "requests", Count, sum;
        /// RPCs that ended with an error.
        errors: "errors", Count, sum;
        /// Bytes sent, including retransmissions.
        sent_bytes: "sent_bytes", Bytes, sum;
        /// Bytes received.
        received_bytes: "received_bytes", Bytes, sum;
        /// Sum of the times until transmission, ns.
        queue_ns_sum: "queue_us_sum", Microseconds, saturating_sum;
        /// Sum of the times from transmission to the reply, ns.
        rtt_ns_sum: "rtt_us_sum", Microseconds, saturating_sum;
        /// Sum of the times from start to completion, ns.
        execute_ns_sum: "execute_us_sum", Microseconds, saturating_sum;
        /// The longest time from start to completion, ns.
        execute_ns_max: "execute_us_max", Microseconds, max;
        /// Part of `rtt_ns_sum` that was surely in the network, ns; 0 where that is not known.
        network_ns_sum: "network_us_sum", Microseconds, saturating_sum;
        /// Part of `rtt_ns_sum` that the server surely took, ns; 0 where that is not known.
        server_ns_sum: "server_us_sum", Microseconds, saturating_sum;
    }
    and {
        /// Times from start to completion. Times below 4 us count as 4 us, times above 18 minutes as 18 minutes. Its
        /// total is `requests`, except for [`OTHER_OPERATIONS`], which may lack room for the times.
        execute: Histogram,
        /// What TCP knows of the connection, in rows of a [`CONNECTION`].
        tcp: TcpSums,
    }
}

impl OperationSums {
    /// Adds another partial aggregate.
    pub fn merge(&mut self, other: &Self) {
        self.merge_counters(other);
        self.execute.merge(&other.execute);
        self.tcp.merge(&other.tcp);
    }

    /// Whether a part of `rtt_ns_sum` is known to be the network's or the server's.
    pub fn is_split(&self) -> bool {
        self.network_ns_sum > 0 || self.server_ns_sum > 0
    }

    /// The rest of `rtt_ns_sum`, ns: network or server.
    pub fn either_ns_sum(&self) -> u64 {
        let known = self.network_ns_sum.saturating_add(self.server_ns_sum);
        self.rtt_ns_sum.saturating_sub(known)
    }

    /// A sum divided by the number of requests; `None` without requests.
    pub fn per_request(&self, sum: u64) -> Option<f64> {
        (self.requests > 0).then(|| sum as f64 / self.requests as f64)
    }

    /// The time from start to completion, in us, that a share `q` of the requests does not exceed; `None` without
    /// times.
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
    /// Its key.
    pub operation: Operation,
    /// Its counters.
    pub sums: OperationSums,
}

//! A single request of a store, with the fields to compare.

use std::net::IpAddr;
use std::sync::Arc;

use trackiops_query::KeptRequest;
use trackiops_schemas::columns::{
    ASKED_BYTES, DEV, DONE_BYTES, END_TIME_NS, ERRNO, FILEID, HOST, LATENCY_NS, MOUNT,
    OFFSET_BYTES, OP, PATH, QUEUE_NS, RETRANS, RTT_NS, XID,
};

/// A READ or WRITE that completed.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Transaction id, if known.
    pub xid: Option<u32>,
    /// Whether it is a WRITE; otherwise it is a READ.
    pub is_write: bool,
    /// The client, and the device of the mount there.
    pub place: (Arc<str>, Arc<str>),
    /// `server:/export`, if known.
    pub mount: Option<Arc<str>>,
    /// Path, if known.
    pub path: Option<Arc<str>>,
    /// Number of the file.
    pub fileid: u64,
    /// First byte.
    pub offset: u64,
    /// Requested bytes.
    pub asked_bytes: u64,
    /// Transferred bytes.
    pub done_bytes: u64,
    /// Error, or 0.
    pub errno: i64,
    /// When it completed, ns since the epoch.
    pub end_ns: i64,
    /// Latency, its part in the queue, and its part from transmission to reply, ns, if known.
    pub latency_ns: Option<i64>,
    /// See [`Self::latency_ns`].
    pub queue_ns: Option<i64>,
    /// See [`Self::latency_ns`].
    pub rtt_ns: Option<i64>,
    /// How often it was sent again, if known.
    pub retransmissions: Option<i64>,
}

impl Recorded {
    /// Takes the fields to compare from a row.
    pub fn new(row: &KeptRequest) -> Self {
        let count = |column| row.number(column).unwrap_or(0).cast_unsigned();
        let text = |column| row.text(column).map(Arc::from);
        let of = |column| text(column).unwrap_or_default();
        Self {
            xid: row.number(XID).and_then(|xid| u32::try_from(xid).ok()),
            is_write: row.text(OP) == Some("WRITE"),
            place: (of(HOST), of(DEV)),
            mount: text(MOUNT),
            path: text(PATH),
            fileid: count(FILEID),
            offset: count(OFFSET_BYTES),
            asked_bytes: count(ASKED_BYTES),
            done_bytes: count(DONE_BYTES),
            errno: row.number(ERRNO).unwrap_or(0),
            end_ns: row.number(END_TIME_NS).unwrap_or(0),
            latency_ns: row.number(LATENCY_NS),
            queue_ns: row.number(QUEUE_NS),
            rtt_ns: row.number(RTT_NS),
            retransmissions: row.number(RETRANS),
        }
    }

    /// When it began, or if that is unknown, when it completed, ns since the epoch.
    pub fn begin_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.latency_ns.unwrap_or(0))
    }

    /// The part of the latency after the reply, ns.
    pub fn completion_ns(&self) -> Option<i64> {
        Some(self.latency_ns? - self.queue_ns? - self.rtt_ns?)
    }

    /// Address of the server, if the mount has an address instead of a name.
    pub fn server(&self) -> Option<IpAddr> {
        let (server, _) = self.mount.as_deref()?.rsplit_once(":/")?;
        let server = server.trim_start_matches('[').trim_end_matches(']');
        server.parse().ok()
    }
}

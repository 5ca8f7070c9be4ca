//! Single requests, kept beside the sums of the rollup.

use std::sync::Arc;

use crate::ebpf::ring::{NO_OFFSET, RequestRecord, flags};
use crate::identity::{FileAttributes, name_text};
use crate::level::IoLevel;

/// A completed request, or a call of an application that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it completed: UTC in ns since the epoch.
    pub end_ns: i64,
    /// Its file and tenant: an index into a list that the holder of the request also has.
    pub file: u32,
    /// Bits of [`flags`].
    pub flags: u32,
    /// As in [`RequestRecord`]; see [`Self::offset`].
    pub offset: u64,
    /// Bytes asked for.
    pub asked_bytes: u32,
    /// Bytes transferred; 0 on error.
    pub done_bytes: u32,
    /// As in [`RequestRecord`]; see [`Self::latency_ns`].
    pub latency_ns: u64,
    /// As in [`RequestRecord`]; see [`Self::parts_ns`].
    pub queue_ns: u64,
    /// As in [`RequestRecord`]; see [`Self::parts_ns`].
    pub rtt_ns: u64,
    /// As in [`RequestRecord`]; see [`Self::xid`] and [`Self::tid`].
    pub xid: u32,
    /// As in [`RequestRecord`]; see [`Self::retransmissions`].
    pub retransmissions: u32,
    /// 0, or the negative errno with which it ended.
    pub error: i32,
    /// As in [`RequestRecord`]; 0 when not known.
    pub pid: u32,
    /// The name of that process.
    pub process: ProcessName,
}

/// The name of a process as the kernel keeps it: 15 bytes and a NUL (`TASK_COMM_LEN`, include/linux/sched.h). Empty when not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessName(pub [u8; 16]);

impl ProcessName {
    /// Cuts the name like the kernel does.
    pub fn new(bytes: &[u8]) -> Self {
        let mut name = [0; 16];
        for (to, byte) in name.iter_mut().take(15).zip(bytes) {
            *to = *byte;
        }
        Self(name)
    }

    /// As text, where it is known.
    pub fn text(&self) -> Option<String> {
        let bytes = self.0.split(|byte| *byte == 0).next();
        let bytes = bytes.filter(|bytes| !bytes.is_empty())?;
        Some(name_text(bytes))
    }
}

impl Request {
    /// Converts a record, with its completion time and file as known in userspace.
    pub fn new(record: &RequestRecord, end_ns: i64, file: u32) -> Self {
        Self {
            end_ns,
            file,
            flags: record.flags,
            offset: record.offset,
            asked_bytes: record.asked_bytes,
            done_bytes: record.done_bytes,
            latency_ns: record.latency_ns,
            queue_ns: record.queue_ns,
            rtt_ns: record.rtt_ns,
            xid: record.xid,
            retransmissions: record.retransmissions,
            error: record.error,
            pid: record.pid,
            process: ProcessName::default(),
        }
    }

    /// Whether all bits of `flags` are set.
    pub fn is(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Its latency, ns, where it is known.
    pub fn latency_ns(&self) -> Option<u64> {
        (!self.is(flags::UNTIMED)).then_some(self.latency_ns)
    }

    /// Parts of its latency, ns, where known: until transmission, and from then until the reply.
    pub fn parts_ns(&self) -> Option<[u64; 2]> {
        (self.flags & (flags::UNSPLIT | flags::UNTIMED) == 0)
            .then_some([self.queue_ns, self.rtt_ns])
    }

    /// Number of retransmissions, where known.
    pub fn retransmissions(&self) -> Option<u32> {
        (!self.is(flags::UNSPLIT)).then_some(self.retransmissions)
    }

    /// The level at which it was observed. A call has another level than its file.
    pub fn level(&self, of_file: IoLevel) -> IoLevel {
        if self.is(flags::SPAN) {
            IoLevel::User
        } else if self.is(flags::CALL) {
            IoLevel::App
        } else {
            of_file
        }
    }

    /// Its operation. Requests of all levels have names of NFS procedures; a call has the name of its group of system
    /// calls.
    pub fn operation(&self) -> &'static str {
        let is = |flag| self.is(flag);
        match is(flags::CALL) {
            true if is(flags::SPAN) => "call",
            true if is(flags::SYNC) => "fsync",
            true if is(flags::OPEN) => "open",
            true if is(flags::WRITE) => "write",
            true => "read",
            false if is(flags::WRITE) => "WRITE",
            false => "READ",
        }
    }

    /// Offset of the first byte asked for, where known.
    pub fn offset(&self) -> Option<u64> {
        (self.offset != NO_OFFSET).then_some(self.offset)
    }

    /// Id of the RPC on the wire, where known.
    pub fn xid(&self) -> Option<u32> {
        (self.xid != 0 && !self.is(flags::CALL)).then_some(self.xid)
    }

    /// The thread that made the call; `None` for requests.
    pub fn tid(&self) -> Option<u32> {
        (self.xid != 0 && self.is(flags::CALL)).then_some(self.xid)
    }

    /// The error with which it ended, as in errno(3).
    pub fn errno(&self) -> Option<i32> {
        (self.error != 0).then(|| self.error.saturating_neg())
    }

    /// Process that initiated it, where known.
    pub fn pid(&self) -> Option<u32> {
        (self.pid != 0).then_some(self.pid)
    }
}

/// Requests that arrived together, in about the order of their completion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestBatch {
    /// Their files and tenants.
    pub files: Vec<Arc<FileAttributes>>,
    /// The requests. [`Request::file`] is an index into `files`.
    pub requests: Vec<Request>,
}

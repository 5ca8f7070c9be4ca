//! The boundary between the kernel side and userspace.
//!
//! Every type here is `repr(C)`, with its size and field offsets asserted at compile time. Different compilers build
//! the two sides, for different machines.

mod filter;
mod folds;
mod kernel_offsets;
mod record_rings;
mod recovery;
mod shared_maps;

use core::mem::offset_of;

pub use filter::*;
pub use folds::*;
pub use kernel_offsets::*;
pub use record_rings::*;
pub use recovery::*;
pub use shared_maps::*;

/// Stands for an unknown user: no user has this id (the kernel's `INVALID_UID`).
pub const NO_USER: u32 = u32::MAX;

/// Stands for an unknown offset: no file is that long.
pub const NO_OFFSET: u64 = u64::MAX;

/// Size of a [`RequestRecord`].
pub const RECORD_BYTES: usize = 96;

/// One completed READ or WRITE request, as it travels through a ring buffer.
///
/// All integers are in native byte order: writer and reader share the machine.
#[repr(C)]
#[cfg_attr(
    feature = "std",
    derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// `CLOCK_MONOTONIC` at completion, ns.
    pub end_ns: u64,
    /// Completion minus start of this attempt, ns; 0 when [`flags::UNTIMED`] is set.
    pub latency_ns: u64,
    /// NFS fileid (inode number).
    pub fileid: u64,
    /// Offset of the first byte asked for; [`NO_OFFSET`] when not known.
    pub offset: u64,
    /// Bytes asked for.
    pub asked_bytes: u32,
    /// Bytes transferred; 0 on error.
    pub done_bytes: u32,
    /// Device of the superblock in the kernel's encoding: `major << 20 | minor`.
    pub dev: u32,
    /// The kernel's CRC32 of the file handle (`nfs_fhandle_hash`).
    pub handle_hash: u32,
    /// 0, or the negative errno of a failed request.
    pub error: i32,
    /// Process (tgid) that initiated the request; the flusher for writeback, 0 when not known.
    pub pid: u32,
    /// Bits of [`flags`].
    pub flags: u32,
    /// The user who opened the file (`fsuid`), or in the tracepoint engine the user who initiated the request.
    /// [`NO_USER`] when not known.
    pub uid: u32,
    /// Id of the cgroup whose memory holds the data, or in the tracepoint engine of the cgroup that initiated the
    /// request. 0 when not known.
    pub cgroup: u64,
    /// Part of the latency until the last transmission, ns; 0 when [`flags::UNSPLIT`] is set.
    pub queue_ns: u64,
    /// Part of the latency from the last transmission to the reply, ns: network and server. The rest is the client's
    /// completion.
    pub rtt_ns: u64,
    /// The RPC's transaction id; 0 if [`flags::UNSPLIT`] is set or ids are not recorded. For a call, its thread (tid).
    pub xid: u32,
    /// Number of retransmissions.
    pub retransmissions: u32,
}

/// Details that are recorded of an RPC.
pub mod parts {
    /// The parts of its latency.
    pub const SPLIT: u32 = 1 << 0;
    /// Its transaction id as well.
    pub const XIDS: u32 = 1 << 1;
}

/// Bits of [`RequestRecord::flags`].
pub mod flags {
    /// WRITE; READ when clear.
    pub const WRITE: u32 = 1 << 0;
    /// The server said end of file: fewer bytes than asked are not a short transfer.
    pub const EOF: u32 = 1 << 1;
    /// No usable start time: the request counts, but has no latency.
    pub const UNTIMED: u32 = 1 << 2;
    /// The parts of the latency are unknown: the request had no RPC, or parts are not recorded.
    pub const UNSPLIT: u32 = 1 << 3;
    /// The request used O_DIRECT.
    pub const DIRECT: u32 = 1 << 4;
    /// A WRITE for stable storage, so no COMMIT follows.
    pub const STABLE: u32 = 1 << 5;
    /// A request to a block device of this host; of the wire when clear.
    pub const BLOCK: u32 = 1 << 6;
    /// Further bytes of a request that another record counts. They are of another file, or completed separately.
    pub const PIECE: u32 = 1 << 7;
    /// An application's call instead of a request, for a file of the level that [`BLOCK`] shows. No sum of requests
    /// includes it.
    pub const CALL: u32 = 1 << 8;
    /// A call that waits until a file is on its disk.
    pub const SYNC: u32 = 1 << 9;
    /// A call that opens a file.
    pub const OPEN: u32 = 1 << 10;
    /// A call of a traced function of a program. [`RequestRecord::fileid`](super::RequestRecord::fileid) is the
    /// function's number.
    pub const SPAN: u32 = 1 << 11;
    /// All bits that have a meaning.
    pub const ALL: u32 = OF_REQUESTS | CALL | SYNC | OPEN | SPAN;
    /// All bits of requests.
    pub const OF_REQUESTS: u32 = WRITE | EOF | UNTIMED | UNSPLIT | DIRECT | STABLE | BLOCK | PIECE;
}

const _: () = {
    assert!(size_of::<RequestRecord>() == RECORD_BYTES);
    assert!(offset_of!(RequestRecord, end_ns) == 0);
    assert!(offset_of!(RequestRecord, latency_ns) == 8);
    assert!(offset_of!(RequestRecord, fileid) == 16);
    assert!(offset_of!(RequestRecord, offset) == 24);
    assert!(offset_of!(RequestRecord, asked_bytes) == 32);
    assert!(offset_of!(RequestRecord, done_bytes) == 36);
    assert!(offset_of!(RequestRecord, dev) == 40);
    assert!(offset_of!(RequestRecord, handle_hash) == 44);
    assert!(offset_of!(RequestRecord, error) == 48);
    assert!(offset_of!(RequestRecord, pid) == 52);
    assert!(offset_of!(RequestRecord, flags) == 56);
    assert!(offset_of!(RequestRecord, uid) == 60);
    assert!(offset_of!(RequestRecord, cgroup) == 64);
    assert!(offset_of!(RequestRecord, queue_ns) == 72);
    assert!(offset_of!(RequestRecord, rtt_ns) == 80);
    assert!(offset_of!(RequestRecord, xid) == 88);
    assert!(offset_of!(RequestRecord, retransmissions) == 92);
};

/// Counters of the CPUs that share a slot. A program counts `seen` first, and one of the others when the record is
/// written, folded or lost. So if they are read in the order of this formula:
///
/// ```text
/// recorded + folded + lost <= seen
/// ```
///
/// Each slot has its own cache line, because every CPU writes its slot all the time.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Completed requests that the programs saw.
    pub seen: u64,
    /// Requests put into a ring.
    pub recorded: u64,
    /// Requests for which the rings had no room, so they were added up instead.
    pub folded: u64,
    /// Requests for which there was no room at all, or whose memory the kernel refused to read.
    pub lost: u64,
}

const _: () = assert!(size_of::<Books>() == 64);

/// Number of slots: 16 KiB. CPU `n` counts in slot `n % BOOKS_SLOTS`.
pub const BOOKS_SLOTS: u32 = 256;

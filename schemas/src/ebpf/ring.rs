//! The boundary between the kernel side and userspace.
//!
//! Every type here is `repr(C)` with its size and field offsets asserted at compile time, because
//! the two sides are built by different compilers for different machines.

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

/// Stands for a user who is not known: no user has this id (`INVALID_UID` of the kernel).
pub const NO_USER: u32 = u32::MAX;

/// Stands for an offset that is not known: no file is as long.
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
    /// 0, or the negative errno with which the request ended.
    pub error: i32,
    /// Process (tgid) that initiated the request; the flusher for writeback, 0 when not known.
    pub pid: u32,
    /// Bits of [`flags`].
    pub flags: u32,
    /// The user on whose behalf it was made: who opened the file (`fsuid`), or to the tracepoint engine
    /// who initiated the request. [`NO_USER`] when not known.
    pub uid: u32,
    /// Id of the cgroup whose memory the data is in, or to the tracepoint engine of that which initiated
    /// the request. 0 when not known.
    pub cgroup: u64,
    /// Part of the latency until it was transmitted, the last time if it was more than once, ns; 0 when
    /// [`flags::UNSPLIT`] is set.
    pub queue_ns: u64,
    /// Part of the latency from then until the reply, ns: network and server. The rest is the client's completion.
    pub rtt_ns: u64,
    /// The RPC's transaction id; 0 when [`flags::UNSPLIT`] is set or nobody asked for it. Of a call its thread (tid).
    pub xid: u32,
    /// How often it was transmitted again.
    pub retransmissions: u32,
}

/// What is told of an RPC's course.
pub mod parts {
    /// Of what its latency consists.
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
    /// No usable start time: counted, but without a latency.
    pub const UNTIMED: u32 = 1 << 2;
    /// Nothing is known of the parts of its latency: it had no RPC, or nobody asked for them.
    pub const UNSPLIT: u32 = 1 << 3;
    /// Made by O_DIRECT.
    pub const DIRECT: u32 = 1 << 4;
    /// A WRITE that asks for stable storage, so that no COMMIT follows.
    pub const STABLE: u32 = 1 << 5;
    /// Of the block level, of a device of this host; of the wire when clear.
    pub const BLOCK: u32 = 1 << 6;
    /// More bytes of a request that another record counts: those of another file, or those that completed apart.
    pub const PIECE: u32 = 1 << 7;
    /// No request: a call of an application, for a file of the level that [`BLOCK`] tells. It is in no sum of requests.
    pub const CALL: u32 = 1 << 8;
    /// A call that waits until a file is on its disk.
    pub const SYNC: u32 = 1 << 9;
    /// A call that opens a file.
    pub const OPEN: u32 = 1 << 10;
    /// A call of a function of a program: [`RequestRecord::fileid`](super::RequestRecord::fileid) is its number among those that are followed.
    pub const SPAN: u32 = 1 << 11;
    /// All bits that have a meaning.
    pub const ALL: u32 = OF_REQUESTS | CALL | SYNC | OPEN | SPAN;
    /// Those of requests.
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

/// Counters of the CPUs that share a slot. `seen` is counted before, the others after the record has
/// met its fate, so that `recorded + folded + lost <= seen` whenever they are read in that order.
///
/// A cache line of its own, because every CPU writes its slot all the time.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Completed requests the programs saw.
    pub seen: u64,
    /// Requests put into a ring.
    pub recorded: u64,
    /// Requests for which the rings had no room, and which were added up instead.
    pub folded: u64,
    /// Requests for which there was no room at all, or of which the kernel refused to show the memory.
    pub lost: u64,
}

const _: () = assert!(size_of::<Books>() == 64);

/// Number of [`Books`] that there are: 16 KiB. CPU `n` counts in number `n % BOOKS_SLOTS`.
pub const BOOKS_SLOTS: u32 = 256;

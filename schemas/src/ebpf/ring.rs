//! The boundary between the kernel side and userspace.
//!
//! Every type here is `repr(C)` with its size and field offsets asserted at compile time, because
//! the two sides are built by different compilers for different machines.

mod filter;
mod folds;
mod kernel_offsets;
mod shared_maps;

use core::mem::offset_of;

pub use filter::*;
pub use folds::*;
pub use kernel_offsets::*;
pub use shared_maps::*;

/// Stands for a user who is not known: no user has this id (`INVALID_UID` of the kernel).
pub const NO_USER: u32 = u32::MAX;

/// Size of a [`RequestRecord`].
pub const RECORD_BYTES: usize = 96;

/// One completed READ or WRITE request, as it travels through a ring buffer.
///
/// All integers are in native byte order: writer and reader share the machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestRecord {
    /// `CLOCK_MONOTONIC` at completion, ns.
    pub end_ns: u64,
    /// Completion minus start of this attempt, ns; 0 when [`flags::UNTIMED`] is set.
    pub latency_ns: u64,
    /// NFS fileid (inode number).
    pub fileid: u64,
    /// Offset of the first byte asked for.
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
    /// The RPC's transaction id; 0 when [`flags::UNSPLIT`] is set or nobody asked for it.
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
    /// All bits that have a meaning.
    pub const ALL: u32 = WRITE | EOF | UNTIMED | UNSPLIT | DIRECT | STABLE;
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

/// Why bytes from a ring are not a [`RequestRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The record has another length than [`RECORD_BYTES`].
    Length(usize),
    /// Flag bits without a meaning are set.
    Flags(u32),
}

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Length(n) => write!(f, "ring record of {n} bytes instead of {RECORD_BYTES}"),
            Self::Flags(bits) => write!(f, "ring record with unknown flags {bits:#x}"),
        }
    }
}

impl core::error::Error for DecodeError {}

impl RequestRecord {
    /// Decodes a record. Any bytes are safe to pass.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &[u8; RECORD_BYTES] = bytes
            .try_into()
            .map_err(|_| DecodeError::Length(bytes.len()))?;
        let record = Self {
            end_ns: u64_at(bytes, 0),
            latency_ns: u64_at(bytes, 8),
            fileid: u64_at(bytes, 16),
            offset: u64_at(bytes, 24),
            asked_bytes: u32_at(bytes, 32),
            done_bytes: u32_at(bytes, 36),
            dev: u32_at(bytes, 40),
            handle_hash: u32_at(bytes, 44),
            error: u32_at(bytes, 48).cast_signed(),
            pid: u32_at(bytes, 52),
            flags: u32_at(bytes, 56),
            uid: u32_at(bytes, 60),
            cgroup: u64_at(bytes, 64),
            queue_ns: u64_at(bytes, 72),
            rtt_ns: u64_at(bytes, 80),
            xid: u32_at(bytes, 88),
            retransmissions: u32_at(bytes, 92),
        };
        if record.flags & !flags::ALL != 0 {
            return Err(DecodeError::Flags(record.flags));
        }
        Ok(record)
    }

    /// The record as it stands in the ring.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let Self {
            end_ns,
            latency_ns,
            fileid,
            offset,
            asked_bytes,
            done_bytes,
            dev,
            handle_hash,
            error,
            pid,
            flags,
            uid,
            cgroup,
            queue_ns,
            rtt_ns,
            xid,
            retransmissions,
        } = *self;
        let mut out = [0; RECORD_BYTES];
        for (i, v) in [end_ns, latency_ns, fileid, offset].into_iter().enumerate() {
            out[i * 8..i * 8 + 8].copy_from_slice(&v.to_ne_bytes());
        }
        let words = [
            asked_bytes,
            done_bytes,
            dev,
            handle_hash,
            error.cast_unsigned(),
            pid,
            flags,
            uid,
        ];
        for (i, v) in words.into_iter().enumerate() {
            out[32 + i * 4..36 + i * 4].copy_from_slice(&v.to_ne_bytes());
        }
        for (i, v) in [cgroup, queue_ns, rtt_ns].into_iter().enumerate() {
            out[64 + i * 8..72 + i * 8].copy_from_slice(&v.to_ne_bytes());
        }
        out[88..92].copy_from_slice(&xid.to_ne_bytes());
        out[92..].copy_from_slice(&retransmissions.to_ne_bytes());
        out
    }
}

fn u64_at(bytes: &[u8; RECORD_BYTES], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

fn u32_at(bytes: &[u8; RECORD_BYTES], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(word)
}

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

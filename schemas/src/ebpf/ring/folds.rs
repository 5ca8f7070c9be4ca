//! Requests that are added up in the kernel because the rings are full.

use core::mem::{offset_of, zeroed};

/// What requests have in common that are added up in the kernel when the rings are full.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldKey {
    /// As in [`RequestRecord`](super::RequestRecord).
    pub fileid: u64,
    /// As in [`RequestRecord`](super::RequestRecord).
    pub cgroup: u64,
    /// In which window they completed: UTC in ns, divided by the global [`WINDOW_NS_GLOBAL`](super::WINDOW_NS_GLOBAL).
    pub window: u64,
    /// As in [`RequestRecord`](super::RequestRecord).
    pub dev: u32,
    /// As in [`RequestRecord`](super::RequestRecord).
    pub handle_hash: u32,
    /// As in [`RequestRecord`](super::RequestRecord).
    pub uid: u32,
    /// Of the record's flags [`flags::WRITE`](super::flags::WRITE) and [`flags::BLOCK`](super::flags::BLOCK).
    pub direction: u32,
}

/// What they add up to.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FoldValue {
    /// Completed requests.
    pub requests: u64,
    /// Bytes transferred.
    pub bytes: u64,
    /// Sum of the latencies of the timed requests, ns.
    pub latency_ns_sum: u64,
    /// Largest latency, ns.
    pub latency_ns_max: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Requests that moved fewer bytes than asked, end of file and errors apart.
    pub short: u64,
    /// Requests without a usable start time.
    pub untimed: u64,
    /// Sum of the parts of latencies until transmission, ns.
    pub queue_ns_sum: u64,
    /// Sum of the parts from transmission to reply, ns.
    pub rtt_ns_sum: u64,
    /// Timed requests of whose parts nothing is known.
    pub unsplit: u64,
    /// Transmissions beyond the first of each request.
    pub retransmissions: u64,
    /// Requests made by O_DIRECT.
    pub direct: u64,
    /// Bytes that these transferred.
    pub direct_bytes: u64,
    /// WRITE requests that ask for stable storage.
    pub stable: u64,
}

/// [`FoldKey`] in words, as maps hold it.
pub const FOLD_KEY_WORDS: usize = 5;
/// [`FoldValue`] in words, as maps hold it.
pub const FOLD_VALUE_WORDS: usize = 14;

const _: () = {
    assert!(size_of::<FoldKey>() == 8 * FOLD_KEY_WORDS);
    assert!(offset_of!(FoldKey, dev) == 24);
    assert!(offset_of!(FoldKey, uid) == 32);
    assert!(size_of::<FoldValue>() == 8 * FOLD_VALUE_WORDS);
};

impl FoldValue {
    /// Nothing yet.
    // SAFETY: it is all integers.
    pub const ZERO: Self = unsafe { zeroed() };
}

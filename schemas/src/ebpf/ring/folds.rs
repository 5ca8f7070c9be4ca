//! Requests that the kernel side adds up while the rings are full.

use core::mem::{offset_of, zeroed};

/// The key of a sum of requests.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoldKey {
    /// As in [`RequestRecord`](super::RequestRecord).
    pub fileid: u64,
    /// As in [`RequestRecord`](super::RequestRecord).
    pub cgroup: u64,
    /// The window in which they completed: UTC in ns, divided by the global
    /// [`WINDOW_NS_GLOBAL`](super::WINDOW_NS_GLOBAL).
    pub window: u64,
    /// As in [`RequestRecord`](super::RequestRecord).
    pub dev: u32,
    /// As in [`RequestRecord`](super::RequestRecord).
    pub handle_hash: u32,
    /// As in [`RequestRecord`](super::RequestRecord).
    pub uid: u32,
    /// The record's flags [`flags::WRITE`](super::flags::WRITE) and [`flags::BLOCK`](super::flags::BLOCK).
    pub direction: u32,
}

/// A sum of requests.
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
    /// Requests that moved fewer bytes than asked, except for end of file and errors.
    pub short: u64,
    /// Requests without a usable start time.
    pub untimed: u64,
    /// Sum of the parts of latencies until transmission, ns.
    pub queue_ns_sum: u64,
    /// Sum of the parts from transmission to reply, ns.
    pub rtt_ns_sum: u64,
    /// Timed requests without known parts.
    pub unsplit: u64,
    /// Transmissions beyond the first of each request.
    pub retransmissions: u64,
    /// Requests that used O_DIRECT.
    pub direct: u64,
    /// Bytes that the direct requests transferred.
    pub direct_bytes: u64,
    /// WRITE requests for stable storage.
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
    /// An empty sum.
    // SAFETY: all fields are integers, for which zero bytes are valid.
    pub const ZERO: Self = unsafe { zeroed() };
}

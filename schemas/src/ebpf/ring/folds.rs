//! Requests that are added up in the kernel because the rings are full.

use core::mem::offset_of;

use crate::ebpf::words::halves;

/// What requests have in common that are added up in the kernel when the rings are full.
#[repr(C)]
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
    /// [`flags::WRITE`](super::flags::WRITE), or 0 for READ.
    pub direction: u32,
}

/// What they add up to.
#[repr(C)]
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
    /// WRITE requests that ask for stable storage.
    pub stable: u64,
}

/// [`FoldKey`] in words, as maps hold it.
pub const FOLD_KEY_WORDS: usize = 5;
/// [`FoldValue`] in words, as maps hold it.
pub const FOLD_VALUE_WORDS: usize = 13;

const _: () = {
    assert!(size_of::<FoldKey>() == 8 * FOLD_KEY_WORDS);
    assert!(offset_of!(FoldKey, dev) == 24);
    assert!(offset_of!(FoldKey, uid) == 32);
    assert!(size_of::<FoldValue>() == 8 * FOLD_VALUE_WORDS);
};

impl FoldKey {
    /// From the words of a map.
    pub fn from_words([fileid, cgroup, window, file, user]: [u64; FOLD_KEY_WORDS]) -> Self {
        let [dev, handle_hash] = halves(file);
        let [uid, direction] = halves(user);
        Self {
            fileid,
            cgroup,
            window,
            dev,
            handle_hash,
            uid,
            direction,
        }
    }
}

impl FoldValue {
    /// Nothing yet.
    pub const ZERO: Self = Self {
        requests: 0,
        bytes: 0,
        latency_ns_sum: 0,
        latency_ns_max: 0,
        errors: 0,
        short: 0,
        untimed: 0,
        queue_ns_sum: 0,
        rtt_ns_sum: 0,
        unsplit: 0,
        retransmissions: 0,
        direct: 0,
        stable: 0,
    };

    /// From the words of a map.
    pub fn from_words(
        [
            requests,
            bytes,
            latency_ns_sum,
            latency_ns_max,
            errors,
            short,
            untimed,
            queue_ns_sum,
            rtt_ns_sum,
            unsplit,
            retransmissions,
            direct,
            stable,
        ]: [u64; FOLD_VALUE_WORDS],
    ) -> Self {
        Self {
            requests,
            bytes,
            latency_ns_sum,
            latency_ns_max,
            errors,
            short,
            untimed,
            queue_ns_sum,
            rtt_ns_sum,
            unsplit,
            retransmissions,
            direct,
            stable,
        }
    }
}

//! When a ring is full: adds the request to a sum instead of writing its record.

use trackiops_schemas::ebpf::ring::{
    FOLDS_BY_FILE, FOLDS_BY_MOUNT, FoldKey, FoldValue, RequestRecord, flags,
};

use crate::{
    kernel_memory::{Probe, add, raise, untraced},
    maps::{FOLD_BEGIN, FOLDS},
    window,
};

/// Adds a request to the sum of its file, direction, user, cgroup and window. Without room for another such sum, adds it
/// to the sum of its mount. Returns false if there is no room for that either.
///
/// `#[inline(never)]`, so that its stack is in use only during the call.
#[inline(never)]
pub fn fold(record: &mut RequestRecord) -> bool {
    // These select how the request is added up. The verifier would follow each value of them for each way of making a record.
    record.flags = untraced(record.flags);
    record.error = untraced(record.error.cast_unsigned()).cast_signed();
    record.done_bytes = untraced(record.done_bytes);
    sum_of(record).is_some_and(|sum| {
        count(sum, record);
        true
    })
}

#[inline(always)]
fn key(record: &RequestRecord, direction: u32) -> Option<FoldKey> {
    Some(FoldKey {
        fileid: record.fileid,
        cgroup: record.cgroup,
        window: window::holding::<Probe>(record.end_ns)?,
        dev: record.dev,
        handle_hash: record.handle_hash,
        uid: record.uid,
        direction,
    })
}

fn sum_of(record: &RequestRecord) -> Option<*mut FoldValue> {
    let mut key = key(record, record.flags & (flags::WRITE | flags::BLOCK))?;
    let file = FOLDS.get(FOLDS_BY_FILE)?.entry(&key, &FOLD_BEGIN);
    if file.is_some() {
        return file;
    }
    key.fileid = 0;
    key.handle_hash = 0;
    FOLDS.get(FOLDS_BY_MOUNT)?.entry(&key, &FOLD_BEGIN)
}

/// Userspace takes the map away before it reads it, so it never reads a sum in the middle of this. Inlined: each function in a chain
/// of calls takes at least 32 of the 512 bytes of stack that they share.
#[inline(always)]
fn count(sum: *mut FoldValue, record: &RequestRecord) {
    // SAFETY: a map value, which stays in place while the program runs; every CPU adds atomically.
    unsafe {
        add!(FoldValue, sum.bytes, u64::from(record.done_bytes));
        if record.flags & flags::DIRECT != 0 {
            add!(FoldValue, sum.direct_bytes, u64::from(record.done_bytes));
        }
        if record.flags & flags::PIECE != 0 {
            return;
        }
        add!(FoldValue, sum.requests, 1);
        if record.error < 0 {
            add!(FoldValue, sum.errors, 1);
        } else if record.done_bytes < record.asked_bytes && record.flags & flags::EOF == 0 {
            add!(FoldValue, sum.short, 1);
        }
        if record.flags & flags::UNTIMED != 0 {
            add!(FoldValue, sum.untimed, 1);
        } else {
            add!(FoldValue, sum.latency_ns_sum, record.latency_ns);
            raise(&raw mut (*sum).latency_ns_max, record.latency_ns);
            add!(FoldValue, sum.queue_ns_sum, record.queue_ns);
            add!(FoldValue, sum.rtt_ns_sum, record.rtt_ns);
            if record.flags & flags::UNSPLIT != 0 {
                add!(FoldValue, sum.unsplit, 1);
            }
        }
        let retransmissions = u64::from(record.retransmissions);
        add!(FoldValue, sum.retransmissions, retransmissions);
        if record.flags & flags::DIRECT != 0 {
            add!(FoldValue, sum.direct, 1);
        }
        if record.flags & flags::STABLE != 0 {
            add!(FoldValue, sum.stable, 1);
        }
    }
}

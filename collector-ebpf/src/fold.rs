//! When a ring is full: the request is added up instead of being described.

use core::ptr;

use trackiops_schemas::ring::{
    FOLDS_BY_FILE, FOLDS_BY_MOUNT, FoldKey, FoldValue, RequestRecord, flags,
};

use crate::{
    kernel::{add, global},
    maps::{CLOCK, FOLDS, WINDOW_NS},
};

/// Adds a request to those of the same file, direction, user, cgroup and window, or where there is no room
/// for another such sum, to those of all such files of its mount. False if there is no room for that, either.
///
/// In a function of its own, for its stack.
#[inline(never)]
pub fn fold(record: &RequestRecord) -> bool {
    sum_of(record).is_some_and(|sum| {
        count(sum, record);
        true
    })
}

fn sum_of(record: &RequestRecord) -> Option<*mut FoldValue> {
    let end_utc_ns = record.end_ns.wrapping_add_signed(clock_offset_ns()?);
    let mut key = FoldKey {
        fileid: record.fileid,
        cgroup: record.cgroup,
        window: end_utc_ns.checked_div(global(&WINDOW_NS))?,
        dev: record.dev,
        handle_hash: record.handle_hash,
        uid: record.uid,
        direction: record.flags & flags::WRITE,
    };
    let file = FOLDS.get(FOLDS_BY_FILE)?.entry(&key);
    if file.is_some() {
        return file;
    }
    key.fileid = 0;
    key.handle_hash = 0;
    FOLDS.get(FOLDS_BY_MOUNT)?.entry(&key)
}

fn clock_offset_ns() -> Option<i64> {
    // SAFETY: a word of the map, which userspace writes in one piece.
    CLOCK
        .get_ptr(0)
        .map(|offset| unsafe { offset.read_volatile() })
}

/// Userspace takes the map away before it reads it, so a sum is never read in the middle of this.
fn count(sum: *mut FoldValue, record: &RequestRecord) {
    // SAFETY: a map value, which stays where it is while the program runs; every CPU adds atomically.
    unsafe {
        add(&raw mut (*sum).requests, 1);
        add(&raw mut (*sum).bytes, u64::from(record.done_bytes));
        if record.error < 0 {
            add(&raw mut (*sum).errors, 1);
        } else if record.done_bytes < record.asked_bytes && record.flags & flags::EOF == 0 {
            add(&raw mut (*sum).short, 1);
        }
        if record.flags & flags::UNTIMED != 0 {
            add(&raw mut (*sum).untimed, 1);
        } else {
            add(&raw mut (*sum).latency_ns_sum, record.latency_ns);
            raise(&raw mut (*sum).latency_ns_max, record.latency_ns);
            add(&raw mut (*sum).queue_ns_sum, record.queue_ns);
            add(&raw mut (*sum).rtt_ns_sum, record.rtt_ns);
            if record.flags & flags::UNSPLIT != 0 {
                add(&raw mut (*sum).unsplit, 1);
            }
        }
        let retransmissions = u64::from(record.retransmissions);
        add(&raw mut (*sum).retransmissions, retransmissions);
        if record.flags & flags::DIRECT != 0 {
            add(&raw mut (*sum).direct, 1);
        }
        if record.flags & flags::STABLE != 0 {
            add(&raw mut (*sum).stable, 1);
        }
    }
}

/// Makes `max` at least `value`.
///
/// No atomic operation for it is known to Linux before 5.12. So it is written and looked at again: a
/// smaller value that another CPU writes in between is written over, unless it comes after the last look.
fn raise(max: *mut u64, value: u64) {
    for _ in 0..4 {
        // SAFETY: an aligned word of a map value.
        if unsafe { ptr::read_volatile(max) } >= value {
            break;
        }
        // SAFETY: as above.
        unsafe { ptr::write_volatile(max, value) };
    }
}

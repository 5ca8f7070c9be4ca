//! Marks: which programs have seen a completion. The program at the release of the RPC reads them and recovers the rest.
//!
//! ```text
//! rpc_stats_latency    nfs_*_done      xprt_release_xprt
//!   | OPERATION    ->    | REQUEST  ->   take the mark; record what it lacks
//! ```
//!
//! A mark lives from the completion to the release that follows in the same thread. So at most one mark is in use for each
//! thread that the scheduler interrupts in between.

use trackiops_schemas::ebpf::op_sums::op_flags;

use crate::{
    globals::DIRECT,
    kernel_memory::{Address, Reader, exchange, global},
};

/// Marks are found by a hash of the task's address; a bucket is half a cache line.
type Bucket = [u64; WAYS];

const WAYS: usize = 4;
/// A power of two. 32 KiB.
const BUCKETS: usize = 1024;

/// A mark is the task's address, whose lowest bits are 0, combined with [`OPERATION`] and [`REQUEST`]; 0 if the element is
/// free. A global, because its elements are found without a lookup.
#[unsafe(no_mangle)]
static mut MARKS: [Bucket; BUCKETS] = [[0; WAYS]; BUCKETS];

/// The program on `rpc_stats_latency` has seen the task.
pub const OPERATION: u64 = 1 << 0;
/// The program on `nfs_readpage_done` or `nfs_writeback_done` has seen the task.
pub const REQUEST: u64 = 1 << 1;
/// Both programs, or all that are loaded, have seen it.
pub const BOTH: u64 = OPERATION | REQUEST;

/// Marks the task as seen by the program on `rpc_stats_latency`, which comes first; false if there is no room. Only the task's own thread
/// changes its marks.
#[inline(always)]
pub fn leave_operation<R: Reader>(task: Address<R>) -> bool {
    leave(task, bucket(task), OPERATION)
}

/// [`leave_operation`] for the program on `nfs_readpage_done` or `nfs_writeback_done`.
#[inline(always)]
pub fn leave_request<R: Reader>(task: Address<R>) -> bool {
    let bucket = bucket(task);
    // SAFETY: `way` returns an element of the array. Only the task's own thread changes an element that holds the task's mark.
    unsafe {
        let first = way(bucket, 0);
        if first.read_volatile() == task.0.wrapping_add(OPERATION) {
            first.write_volatile(task.0.wrapping_add(BOTH));
            return true;
        }
    }
    let seen = if are_operations_counted() {
        REQUEST
    } else {
        BOTH
    };
    leave(task, bucket, seen)
}

/// Whether there is a program on `rpc_stats_latency`.
#[inline(always)]
pub fn are_operations_counted() -> bool {
    global(&DIRECT.operation.flags) & op_flags::KNOWN != 0
}

#[inline(always)]
fn leave<R: Reader>(task: Address<R>, bucket: *mut Bucket, seen: u64) -> bool {
    // SAFETY: `way` returns an element of the array, and a free element is taken by an atomic exchange.
    unsafe {
        exchange(way(bucket, 0), 0, task.0.wrapping_add(seen)) == 0
            || leave_anywhere(task, bucket, seen)
    }
}

/// Adds to the task's mark in any way of its bucket, or takes a free one. `#[inline(never)]`: cold path.
///
/// # Safety
///
/// `bucket` is the task's.
#[inline(never)]
unsafe fn leave_anywhere<R: Reader>(task: Address<R>, bucket: *mut Bucket, seen: u64) -> bool {
    // SAFETY: the caller passes a bucket of the array, and `n` is below `WAYS`. Only the task's own thread changes its mark.
    unsafe {
        for n in 0..WAYS {
            let way = way(bucket, n);
            let mark = way.read_volatile();
            if mark & !BOTH == task.0 {
                way.write_volatile(mark | seen);
                return true;
            }
        }
        (0..WAYS).any(|n| exchange(way(bucket, n), 0, task.0.wrapping_add(seen)) == 0)
    }
}

/// Removes the task's mark from its usual place, and returns its bits; 0 if there is no mark.
#[inline(always)]
pub fn take_first<R: Reader>(task: Address<R>) -> u64 {
    // SAFETY: the way is one of the task's bucket.
    unsafe { take_from(task, way(bucket(task), 0)) }
}

/// [`take_first`] for the other places.
#[inline(always)]
pub fn take_others<R: Reader>(task: Address<R>) -> u64 {
    let bucket = bucket(task);
    const { assert!(WAYS == 4, "as many are looked at") };
    // SAFETY: each `n` is below `WAYS`, so the ways lie in the task's bucket.
    unsafe {
        take_from(task, way(bucket, 1))
            | take_from(task, way(bucket, 2))
            | take_from(task, way(bucket, 3))
    }
}

/// # Safety
///
/// `way` is one of the task's bucket.
#[inline(always)]
unsafe fn take_from<R: Reader>(task: Address<R>, way: *mut u64) -> u64 {
    // SAFETY: the caller passes an element of the array. Only the task's own thread changes an element that holds the task's mark.
    unsafe {
        let mark = way.read_volatile();
        if mark & !BOTH != task.0 {
            return 0;
        }
        way.write_volatile(0);
        mark & BOTH
    }
}

/// # Safety
///
/// `n` is below [`WAYS`].
#[inline(always)]
unsafe fn way(bucket: *mut Bucket, n: usize) -> *mut u64 {
    // SAFETY: the caller guarantees that `n` is inside the bucket.
    unsafe { bucket.cast::<u64>().add(n) }
}

#[inline(always)]
fn bucket<R: Reader>(task: Address<R>) -> *mut Bucket {
    let index = task.hash::<{ BUCKETS.ilog2() }>() as usize;
    // SAFETY: the hash has `BUCKETS.ilog2()` bits, so `index` is inside the array.
    unsafe { (&raw mut MARKS).cast::<Bucket>().add(index) }
}

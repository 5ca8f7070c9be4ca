//! Which programs have seen a completion, for the program that looks at it once more when the RPC is released.
//!
//! A mark lives from the completion to the release that follows in the same thread. So those in use at a time are as many as the
//! threads that the scheduler interrupts in between.

use trackiops_schemas::ebpf::op_sums::op_flags;

use crate::{
    globals::DIRECT,
    kernel_memory::{Address, Reader, exchange, global},
};

/// Where marks are looked for by a hash of the task's address: half a cache line.
type Bucket = [u64; WAYS];

const WAYS: usize = 4;
/// A power of two. 32 KiB.
const BUCKETS: usize = 1024;

/// A mark is the task's address, whose lowest bits are 0, with [`OPERATION`] and [`REQUEST`] in them; 0 where there is none. A
/// global, because its elements are found without a lookup.
#[unsafe(no_mangle)]
static mut MARKS: [Bucket; BUCKETS] = [[0; WAYS]; BUCKETS];

/// The program on `rpc_stats_latency` has seen it.
pub const OPERATION: u64 = 1 << 0;
/// The program on `nfs_readpage_done` or `nfs_writeback_done` has seen it.
pub const REQUEST: u64 = 1 << 1;
/// Both, or all that there are.
pub const BOTH: u64 = OPERATION | REQUEST;

/// Marks the task as seen by the program on `rpc_stats_latency`, which comes first; false if there is no room. Only the task's own thread
/// changes its marks.
#[inline(always)]
pub fn leave_operation<R: Reader>(task: Address<R>) -> bool {
    leave(task, bucket(task), OPERATION)
}

/// The same for the program on `nfs_readpage_done` or `nfs_writeback_done`.
#[inline(always)]
pub fn leave_request<R: Reader>(task: Address<R>) -> bool {
    let bucket = bucket(task);
    // SAFETY: an element of the array.
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
    // SAFETY: elements of the array.
    unsafe {
        exchange(way(bucket, 0), 0, task.0.wrapping_add(seen)) == 0
            || leave_anywhere(task, bucket, seen)
    }
}

/// In a function of its own, like the others that are seldom called.
///
/// # Safety
///
/// `bucket` is the task's.
#[inline(never)]
unsafe fn leave_anywhere<R: Reader>(task: Address<R>, bucket: *mut Bucket, seen: u64) -> bool {
    // SAFETY: by the caller.
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

/// Removes the task's mark from where it nearly always is, and returns who has seen it: bits, 0 if there is no mark.
#[inline(always)]
pub fn take_first<R: Reader>(task: Address<R>) -> u64 {
    // SAFETY: as above.
    unsafe { take_from(task, way(bucket(task), 0)) }
}

/// The same for where it may be else.
#[inline(always)]
pub fn take_others<R: Reader>(task: Address<R>) -> u64 {
    let bucket = bucket(task);
    const { assert!(WAYS == 4, "as many are looked at") };
    // SAFETY: as above.
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
    // SAFETY: by the caller.
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
    // SAFETY: by the caller.
    unsafe { bucket.cast::<u64>().add(n) }
}

#[inline(always)]
fn bucket<R: Reader>(task: Address<R>) -> *mut Bucket {
    let index = task.hash::<{ BUCKETS.ilog2() }>() as usize;
    // SAFETY: the hash has as many bits as there are buckets.
    unsafe { (&raw mut MARKS).cast::<Bucket>().add(index) }
}

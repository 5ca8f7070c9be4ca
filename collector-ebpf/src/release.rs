//! What the kernel skipped a program for is recorded when the RPC is released.
//!
//! Where tracepoints may be preempted, another request can complete on the CPU in the middle of a program, and the kernel does not let
//! a program interrupt itself. `xprt_release_xprt` and `xprt_release_cong` are called under the transport's spin lock, so that no program there is
//! interrupted or skipped (unless the kernel is PREEMPT_RT). Of an RPC they are called when it has been sent, and after `rpc_exit_task` (net/sunrpc/sched.c),
//! which calls the tracepoints of the other programs, in the same thread, before anything is freed. There is no time for paths under the lock.

use trackiops_schemas::ebpf::ring::{Recovery, flags};

use crate::{
    direct,
    globals::DIRECT,
    kernel_memory::{Address, Memory, add, global, now_ns},
    maps, marks, operation,
    rpc_stats_latency::{ARGUMENTS, EXECUTE, QUEUE, RTT, TASK},
};

/// `FMODE_READ` and `FMODE_WRITE` (include/linux/fs.h), of which a `struct nfs_pgio_header` has one.
const MODE_READ: u32 = 1;
const MODE_WRITE: u32 = 2;
/// `NFS_IOHDR_REDO` (include/linux/nfs_xdr.h): pNFS has sent it to another server instead, and it never completes.
const REDONE: u64 = 1 << 2;

/// `xprt_release_xprt(xprt, task)` and `xprt_release_cong(xprt, task)`.
#[inline(always)]
pub fn released<M: Memory>(task: u64) {
    // Before all else: what is needed on both sides of a call is saved in registers, and those of the caller are saved first.
    let task = Address::<M>::new(task).typed();
    if task.0 == 0 {
        return;
    }
    // Also when it is to be repeated, so that an attempt keeps its mark no longer than its slot.
    let seen = marks::take_first(task);
    // It goes on: it has only been sent, or is repeated. Repeating has cleared what an attempt was that is missing.
    if seen == marks::BOTH || task.field::<u64>(&DIRECT.release.task_action) != Some(0) {
        return;
    }
    look_once_more::<M>(task.0, seen);
}

/// In a function of its own, like the others that are seldom called.
#[inline(never)]
fn look_once_more<M: Memory>(task: u64, seen: u64) {
    let _ = recover::<M>(Address::new(task), seen);
}

#[inline(always)]
fn recover<M: Memory>(task: Address<M>, mut seen: u64) -> Option<()> {
    let (offsets, own) = (&DIRECT, &DIRECT.release);
    // Of what has no slot nothing is counted, and nothing was marked.
    if task.held::<u64>(&offsets.task_transmission)? == 0 {
        return None;
    }
    seen |= marks::take_others(task);
    if marks::are_operations_counted() && seen & marks::OPERATION == 0 {
        operation::<M>(task.0);
    }
    let data: u64 = task.field(&own.task_data)?;
    if seen & marks::REQUEST == 0
        && data.wrapping_add(u64::from(global(&own.header_task))) == task.0
    {
        request::<M>(task.0, data);
    }
    Some(())
}

/// As `rpc_count_iostats_metrics` (net/sunrpc/stats.c), which has counted it a moment ago.
#[inline(never)]
fn operation<M: Memory>(task: u64) {
    let _ = add_up::<M>(Address::new(task));
}

#[inline(always)]
fn add_up<M: Memory>(task: Address<M>) -> Option<()> {
    let offsets = &DIRECT;
    let start_ns = start_if_recovered::<M>(task)?;
    if task.held::<u64>(&offsets.operation.task_client)? == 0 {
        return None;
    }
    let transmission: u64 = task.held(&offsets.task_transmission)?;
    let transmission = Address::<M>::new(transmission);
    let sent_ns: u64 = transmission.field(&offsets.transmission_sent)?;
    let mut arguments = [0; ARGUMENTS];
    arguments[TASK] = task.0;
    if sent_ns != 0 {
        arguments[QUEUE] = sent_ns.wrapping_sub(start_ns);
    }
    arguments[RTT] = transmission.field(&offsets.transmission_rtt)?;
    arguments[EXECUTE] = now_ns().wrapping_sub(start_ns);
    let recovery = maps::recovery::<M>()?;
    // SAFETY: an element of an array.
    unsafe { add!(Recovery, recovery.operations, 1) };
    operation::recovered::<M>(move |n| arguments[n]);
    Some(())
}

/// A READ or a WRITE is a task inside of a `struct nfs_pgio_header`, whose arguments are there, too.
#[inline(never)]
fn request<M: Memory>(task: u64, header: u64) {
    let _ = account::<M>(Address::new(task), header);
}

#[inline(always)]
fn account<M: Memory>(task: Address<M>, header: u64) -> Option<()> {
    let own = &DIRECT.release;
    start_if_recovered::<M>(task)?;
    let arguments: u64 = task.field(&own.task_arguments)?;
    if arguments != header.wrapping_add(u64::from(global(&own.header_arguments))) {
        return None;
    }
    let of_header = Address::<M>::new(header);
    let direction = match of_header.field::<u32>(&own.header_mode)? {
        MODE_READ => 0,
        MODE_WRITE => flags::WRITE,
        _ => return None,
    };
    if of_header.field::<u64>(&own.header_flags)? & REDONE != 0 {
        return None;
    }
    let recovery = maps::recovery::<M>()?;
    // SAFETY: an element of an array.
    unsafe { add!(Recovery, recovery.requests, 1) };
    direct::recovered::<M>(task.0, header, direction);
    Some(())
}

/// When it started, if all programs were attached by then.
#[inline(always)]
fn start_if_recovered<M: Memory>(task: Address<M>) -> Option<u64> {
    let start_ns: u64 = task.held(&DIRECT.task_start)?;
    // SAFETY: a word of the map, which userspace writes in one piece.
    let since_ns = unsafe { (&raw const (*maps::recovery::<M>()?).since_ns).read_volatile() };
    (start_ns >= since_ns).then_some(start_ns)
}

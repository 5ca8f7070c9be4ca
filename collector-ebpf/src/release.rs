//! Records, when an RPC is released, what other programs were skipped for.
//!
//! ```text
//! preemptible tracepoints:   rpc_stats_latency, nfs_*_done   may be skipped; leave marks
//! under transport_lock:      xprt_release_xprt / _cong       never skipped, except on PREEMPT_RT; records what lacks a mark
//! ```
//!
//! The kernel does not let a program interrupt itself. So it skips the program for a request that completes on a CPU where the program was
//! preempted. The functions at the release are called twice for an RPC: when it has been sent, and after `rpc_exit_task` (net/sunrpc/sched.c).
//! That function calls the other programs' tracepoints, in the same thread, before anything is freed. The lock leaves no time for paths.

use trackiops_schemas::ebpf::ring::{Recovery, flags};

use crate::{
    direct,
    globals::DIRECT,
    kernel_memory::{Address, Memory, add, global, now_ns},
    maps, marks, operation,
    rpc_stats_latency::{ARGUMENTS, EXECUTE, QUEUE, RTT, TASK},
};

/// `FMODE_READ` and `FMODE_WRITE` (include/linux/fs.h); a `struct nfs_pgio_header` has one of them.
const MODE_READ: u32 = 1;
const MODE_WRITE: u32 = 2;
/// `NFS_IOHDR_REDO` (include/linux/nfs_xdr.h): pNFS has sent the request to another server, and this one never completes.
const REDONE: u64 = 1 << 2;

/// `xprt_release_xprt(xprt, task)` and `xprt_release_cong(xprt, task)`.
#[inline(always)]
pub fn released<M: Memory>(task: u64) {
    // First: values in use on both sides of a call are kept in registers, which each function must save before use.
    let task = Address::<M>::new(task).typed();
    if task.0 == 0 {
        return;
    }
    // Taken even if the task is repeated, so that an attempt keeps its mark no longer than its slot.
    let seen = marks::take_first(task);
    // A task with an action continues: it has only been sent, or is repeated. The data of a repeated attempt has been cleared.
    if seen == marks::BOTH || task.field::<u64>(&DIRECT.release.task_action) != Some(0) {
        return;
    }
    look_once_more::<M>(task.0, seen);
}

/// `#[inline(never)]`: cold path.
#[inline(never)]
fn look_once_more<M: Memory>(task: u64, seen: u64) {
    let _ = recover::<M>(Address::new(task), seen);
}

#[inline(always)]
fn recover<M: Memory>(task: Address<M>, mut seen: u64) -> Option<()> {
    let (offsets, own) = (&DIRECT, &DIRECT.release);
    // A task without a slot is not counted and was not marked.
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

/// Counts an operation from the same members as `rpc_count_iostats_metrics` (net/sunrpc/stats.c), which ran just before.
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
    // SAFETY: an element of an array, and the addition is atomic.
    unsafe { add!(Recovery, recovery.operations, 1) };
    operation::recovered::<M>(move |n| arguments[n]);
    Some(())
}

/// Records a READ or WRITE: its task is a member of a `struct nfs_pgio_header`, and so are its arguments.
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
    // SAFETY: an element of an array, and the addition is atomic.
    unsafe { add!(Recovery, recovery.requests, 1) };
    direct::recovered::<M>(task.0, header, direction);
    Some(())
}

/// The start of the task, if all programs were attached by then.
#[inline(always)]
fn start_if_recovered<M: Memory>(task: Address<M>) -> Option<u64> {
    let start_ns: u64 = task.held(&DIRECT.task_start)?;
    // SAFETY: an aligned word of the map, which userspace writes with one store.
    let since_ns = unsafe { (&raw const (*maps::recovery::<M>()?).since_ns).read_volatile() };
    (start_ns >= since_ns).then_some(start_ns)
}

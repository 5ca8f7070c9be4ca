//! From a file to its RPC task: what runs before a request completes.

use aya_ebpf::{helpers::bpf_get_current_pid_tgid, programs::TracePointContext};
use trackiops_schemas::ring::{InitiateOffsets, TaskOffsets};

use crate::{
    event::{Head, now_ns},
    maps::{Initiated, LINK_END, LINK_INIT, NO_TASK, TaskKey, WAITING, Waiting},
};

/// `nfs_initiate_*`: the thread is about to begin an RPC task for this file.
#[inline(always)]
pub fn initiate(ctx: &TracePointContext, offsets: &'static InitiateOffsets, direction: u32) {
    let mut head = Head::<4>::EMPTY;
    let Some(event) = head.fill(ctx) else {
        return;
    };
    let (Some(dev), Some(fileid)) = (event.field(&offsets.dev), event.field(&offsets.fileid))
    else {
        return;
    };
    let ids = bpf_get_current_pid_tgid();
    let tid = ids as u32;
    let request = Initiated {
        fileid,
        dev,
        direction,
        pid: (ids >> 32) as u32,
        pending: 1,
    };
    match LINK_INIT.get_ptr_mut(tid) {
        // SAFETY: a map value; only its own thread writes it.
        Some(link) => unsafe { *link = request },
        // A failure leaves the request without a start: recorded as untimed.
        None => drop(LINK_INIT.insert(tid, request, 0)),
    }
}

/// `rpc_task_begin`, on the same thread: the request's clock starts.
#[inline(always)]
pub fn task_begin(ctx: &TracePointContext, offsets: &'static TaskOffsets) {
    let Some(link) = LINK_INIT.get_ptr_mut(bpf_get_current_pid_tgid() as u32) else {
        return;
    };
    // SAFETY: a map value; only its own thread writes it.
    let link = unsafe { &mut *link };
    if link.pending == 0 {
        return;
    }
    link.pending = 0;
    let waiting = Waiting {
        request: *link,
        start_ns: now_ns(),
        next_start_ns: 0,
    };
    if let Some(key) = task_key(ctx, offsets) {
        let _ = WAITING.insert(key, waiting, 0);
    }
}

/// `rpc_task_end`, once per attempt, on the thread that will report the attempt's completion.
///
/// The kernel restarts its own clock (`tk_start`) at the end of each attempt, in `rpc_exit_task`.
/// So an attempt that is repeated without a completion event (NFS4ERR_DELAY, JUKEBOX) does not
/// count towards the latency of the one that completes.
#[inline(always)]
pub fn task_end(ctx: &TracePointContext, offsets: &'static TaskOffsets) {
    let Some(key) = task_key(ctx, offsets) else {
        return;
    };
    let tid = bpf_get_current_pid_tgid() as u32;
    let link = LINK_END.get_ptr_mut(tid);
    let Some(waiting) = WAITING.get_ptr_mut(key) else {
        // Not a READ or WRITE: what this thread reports next does not belong to an earlier task.
        if let Some(link) = link {
            // SAFETY: a map value; only its own thread writes it.
            unsafe { *link = NO_TASK };
        }
        return;
    };
    // SAFETY: a map value; a task's events follow each other.
    let waiting = unsafe { &mut *waiting };
    if waiting.next_start_ns != 0 {
        waiting.start_ns = waiting.next_start_ns;
    }
    waiting.next_start_ns = now_ns();
    match link {
        // SAFETY: a map value; only its own thread writes it.
        Some(link) => unsafe { *link = key },
        None => drop(LINK_END.insert(tid, key, 0)),
    }
}

#[inline(always)]
fn task_key(ctx: &TracePointContext, offsets: &'static TaskOffsets) -> Option<TaskKey> {
    let mut head = Head::<2>::EMPTY;
    let event = head.fill(ctx)?;
    let client: u32 = event.field(&offsets.client_id)?;
    let task: u32 = event.field(&offsets.task_id)?;
    Some(u64::from(client) << 32 | u64::from(task))
}

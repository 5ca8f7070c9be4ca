//! From a file to its RPC task: what runs before a request completes.

use aya_ebpf::{
    bindings::BPF_NOEXIST, helpers::bpf_get_current_pid_tgid, programs::TracePointContext,
};
use trackiops_schemas::ring::{InitiateOffsets, TaskOffsets};

use crate::{
    event::{Head, now_ns},
    maps::{Initiated, LATER, LINK_END, LINK_INIT, NO_TASK, SHARED, TaskKey, WAITING, Waiting},
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
    let Some(key) = task_key(ctx, offsets) else {
        return;
    };
    let link = LINK_INIT.get_ptr_mut(bpf_get_current_pid_tgid() as u32);
    // SAFETY: a map value; only its own thread writes it.
    let Some(link) = link.map(|l| unsafe { &mut *l }).filter(|l| l.pending != 0) else {
        // Not a READ or WRITE.
        share(key);
        return;
    };
    link.pending = 0;
    let waiting = Waiting {
        fileid: link.fileid,
        dev: link.dev,
        direction: link.direction,
        pid: link.pid,
        shared: 0,
        start_ns: now_ns(),
        next_start_ns: 0,
    };
    if WAITING
        .insert(key, waiting, u64::from(BPF_NOEXIST))
        .is_err()
    {
        share(key);
        let _ = WAITING.insert(key | LATER, waiting, 0);
    }
}

/// A request in flight under this key is no longer the only task that has it.
#[inline(always)]
fn share(key: TaskKey) {
    if let Some(waiting) = WAITING.get_ptr_mut(key) {
        // SAFETY: a map value; every writer writes the same.
        unsafe { (*waiting).shared = 1 };
    }
}

/// `rpc_task_end`, once per attempt, on the thread that will report the attempt's completion.
///
/// The kernel restarts its own clock (`tk_start`) at the end of each attempt, in `rpc_exit_task`.
/// So an attempt that is repeated without a completion event (NFS4ERR_DELAY, JUKEBOX) does not
/// count towards the latency of the one that completes. Of two tasks that share a key nobody can
/// tell which one has ended until a completion names the file: then such attempts do count.
#[inline(always)]
pub fn task_end(ctx: &TracePointContext, offsets: &'static TaskOffsets) {
    let Some(key) = task_key(ctx, offsets) else {
        return;
    };
    let tid = bpf_get_current_pid_tgid() as u32;
    let link = LINK_END.get_ptr_mut(tid);
    let ended = match WAITING.get_ptr_mut(key) {
        Some(waiting) => {
            // SAFETY: a map value; a task's events follow each other.
            let waiting = unsafe { &mut *waiting };
            if waiting.shared != 0 {
                key | SHARED
            } else {
                if waiting.next_start_ns != 0 {
                    waiting.start_ns = waiting.next_start_ns;
                }
                waiting.next_start_ns = now_ns();
                key
            }
        }
        None if WAITING.get_ptr_mut(key | LATER).is_some() => key | SHARED,
        // Not a READ or WRITE: what this thread reports next does not belong to an earlier task.
        None => NO_TASK,
    };
    match link {
        // SAFETY: a map value; only its own thread writes it.
        Some(link) => unsafe { *link = ended },
        None if ended == NO_TASK => {}
        None => drop(LINK_END.insert(tid, ended, 0)),
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

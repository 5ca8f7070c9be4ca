//! The tracepoint engine: links a file to its RPC task, and the task to its completion.

use aya_ebpf::{
    EbpfContext as _,
    bindings::BPF_NOEXIST,
    helpers::{bpf_get_current_cgroup_id, bpf_get_current_pid_tgid, bpf_get_current_uid_gid},
    programs::TracePointContext,
};
use trackiops_schemas::ebpf::{
    left_out::table,
    ring::{DoneOffsets, InitiateOffsets, NO_USER, RequestRecord, TaskOffsets, flags},
};

use crate::{
    completion::Completion,
    filter,
    globals::FILTER,
    kernel_memory::{Address, Probe, View, Window, global, now_ns, zero},
    left_out,
    maps::{Initiated, LATER, LINK_END, LINK_INIT, NO_TASK, SHARED, TaskKey, WAITING, Waiting},
};

/// `nfs_initiate_*`: the thread is about to begin an RPC task for this file.
#[inline(always)]
pub fn initiate(ctx: &TracePointContext, offsets: &'static InitiateOffsets, direction: u32) {
    let mut head = Window::<4>::EMPTY;
    let Some(event) = fill(&mut head, ctx) else {
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
        uid: bpf_get_current_uid_gid() as u32,
        // SAFETY: takes nothing, and every program may call it.
        cgroup: unsafe { bpf_get_current_cgroup_id() },
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
        uid: link.uid,
        cgroup: link.cgroup,
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

/// Notes that the request in flight under this key shares it with another task.
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
/// count towards the latency of the one that completes. If two tasks share a key, only a
/// completion reveals by its file which one has ended: then such attempts do count.
#[inline(always)]
pub fn task_end(ctx: &TracePointContext, offsets: &'static TaskOffsets) {
    let Some(key) = task_key(ctx, offsets) else {
        return;
    };
    let tid = bpf_get_current_pid_tgid() as u32;
    let link = LINK_END.get_ptr_mut(tid);
    let ended = match WAITING.get_ptr_mut(key) {
        Some(waiting) => {
            // SAFETY: a map value; the events of one task do not overlap.
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
        // Not a READ or WRITE: the next completion on this thread does not belong to an earlier task.
        None => NO_TASK,
    };
    match link {
        // SAFETY: a map value; only its own thread writes it.
        Some(link) => unsafe { *link = ended },
        None if ended == NO_TASK => {}
        None => drop(LINK_END.insert(tid, ended, 0)),
    }
}

/// `nfs_readpage_done` and `nfs_writeback_done`.
#[inline(always)]
pub fn done(ctx: &TracePointContext, offsets: &'static DoneOffsets, direction: u32) {
    // The request leaves the maps even if the filter does not want it.
    let record = completed(ctx, offsets, direction);
    let Some(record) = record else {
        if let Some(completion) = Completion::seen::<Probe>() {
            completion.lost();
        }
        return;
    };
    if global(&FILTER) != 0 && !filter::admits_record(&record) {
        let (requests, bytes) = (u64::from(record.error >= 0), u64::from(record.done_bytes));
        let table = left_out::table(table::COMPLETION, direction);
        left_out::count(table, record.dev, requests, bytes);
        return;
    }
    if let Some(completion) = Completion::seen::<Probe>() {
        completion.record(Some(record));
    }
}

/// The record of the request, taken out of the maps.
#[inline(always)]
fn completed(
    ctx: &TracePointContext,
    offsets: &'static DoneOffsets,
    direction: u32,
) -> Option<RequestRecord> {
    let end_ns = now_ns();
    let mut head = Window::<8>::EMPTY;
    let event = fill(&mut head, ctx)?;
    let dev: u32 = event.field(&offsets.dev)?;
    let fileid: u64 = event.field(&offsets.fileid)?;
    let asked_bytes: u32 = event.field(&offsets.arg_count)?;
    let status: i32 = event.field(&offsets.error)?;
    let failed = status < 0;
    // On error the count is not a transfer, and `eof` is a member of a union with other contents.
    let done_bytes = if failed {
        0
    } else {
        event.field(&offsets.res_count)?
    };
    let eof = direction != flags::WRITE && !failed && event.field::<u8>(&offsets.eof)? != 0;
    // Then nfs_readpage_result and nfs_writeback_result send the rest as the task's next attempt.
    let restarts = done_bytes > 0 && done_bytes < asked_bytes && !eof;

    // These events do not have the parts of a latency.
    let mut bits = direction | flags::UNSPLIT;
    if eof {
        bits |= flags::EOF;
    }
    let file = File {
        fileid,
        dev,
        direction,
    };
    let next_start_ns = if restarts { end_ns } else { 0 };
    let (latency_ns, pid, uid, cgroup) = match take_waiting(&file, next_start_ns) {
        Some(waiting) => {
            let latency_ns = end_ns.saturating_sub(waiting.start_ns);
            (latency_ns, waiting.pid, waiting.uid, waiting.cgroup)
        }
        None => {
            bits |= flags::UNTIMED;
            (0, 0, NO_USER, 0)
        }
    };
    Some(RequestRecord {
        end_ns,
        latency_ns,
        fileid,
        offset: event.field(&offsets.offset)?,
        asked_bytes,
        done_bytes,
        dev,
        handle_hash: event.field(&offsets.fhandle)?,
        error: if failed { status } else { 0 },
        pid,
        flags: bits,
        uid,
        cgroup,
        queue_ns: zero(),
        rtt_ns: zero(),
        xid: 0,
        retransmissions: 0,
    })
}

/// The members of a completion event that identify the request of its initiation.
struct File {
    fileid: u64,
    dev: u32,
    direction: u32,
}

/// The entry of the task that has just ended on this thread, if it is a request for this file.
#[inline(always)]
fn take_waiting(file: &File, next_start_ns: u64) -> Option<Waiting> {
    let link = LINK_END.get_ptr_mut(bpf_get_current_pid_tgid() as u32)?;
    // SAFETY: a map value; only its own thread writes it.
    let key = unsafe { link.replace(NO_TASK) };
    if key == NO_TASK {
        return None;
    }
    if key & SHARED == 0 {
        return take(key, file, next_start_ns);
    }
    // The later task first: the earlier one has already been in flight for a whole round of ids.
    let key = key & !SHARED;
    let mut waiting = match take(key | LATER, file, next_start_ns) {
        Some(waiting) => waiting,
        None => take(key, file, next_start_ns)?,
    };
    // `task_end` did not restart the clock of a shared key.
    if waiting.next_start_ns != 0 {
        waiting.start_ns = waiting.next_start_ns;
    }
    Some(waiting)
}

/// The waiting entry, if it is for this file. It is kept if the request has more attempts to
/// come, that is, if `next_start_ns` is not 0.
#[inline(always)]
fn take(key: TaskKey, file: &File, next_start_ns: u64) -> Option<Waiting> {
    let entry = WAITING.get_ptr_mut(key)?;
    // SAFETY: a map value, copied because the entry is reused as soon as it is deleted.
    let waiting = unsafe { *entry };
    if waiting.fileid != file.fileid
        || waiting.dev != file.dev
        || waiting.direction != file.direction
    {
        return None;
    }
    if next_start_ns == 0 {
        let _ = WAITING.remove(key);
    } else {
        // SAFETY: a map value; the events of one task do not overlap.
        unsafe { (*entry).next_start_ns = next_start_ns };
    }
    Some(waiting)
}

/// Copies the head of the event in one piece.
///
/// The verifier refuses direct access to the context at an offset that is not a constant of the
/// instruction.
#[inline(always)]
fn fill<'a, const WORDS: usize>(
    head: &'a mut Window<WORDS>,
    ctx: &TracePointContext,
) -> Option<View<'a, Probe, WORDS>> {
    head.fill(Address::new(ctx.as_ptr().expose_provenance() as u64), None)
}

#[inline(always)]
fn task_key(ctx: &TracePointContext, offsets: &'static TaskOffsets) -> Option<TaskKey> {
    let mut head = Window::<2>::EMPTY;
    let event = fill(&mut head, ctx)?;
    let client: u32 = event.field(&offsets.client_id)?;
    let task: u32 = event.field(&offsets.task_id)?;
    Some(u64::from(client) << 32 | u64::from(task))
}

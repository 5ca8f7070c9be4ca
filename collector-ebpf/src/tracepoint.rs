//! The tracepoint engine: from a file to its RPC task, and from there to the completion.

use aya_ebpf::{EbpfContext as _, helpers::bpf_get_current_pid_tgid, programs::TracePointContext};
use trackiops_schemas::ring::{DoneOffsets, InitiateOffsets, RequestRecord, TaskOffsets, flags};

use crate::{
    completion::Completion,
    kernel::{Address, View, Window, now_ns},
    maps::{Initiated, LINK_END, LINK_INIT, NO_TASK, TaskKey, WAITING, Waiting},
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

/// `nfs_readpage_done` and `nfs_writeback_done`.
#[inline(always)]
pub fn done(ctx: &TracePointContext, offsets: &'static DoneOffsets, direction: u32) {
    if let Some(completion) = Completion::seen() {
        completion.record(completed(ctx, offsets, direction));
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
    // On error the count is not a transfer, and `eof` shares its memory with something else.
    let done_bytes = if failed {
        0
    } else {
        event.field(&offsets.res_count)?
    };
    let eof = direction != flags::WRITE && !failed && event.field::<u8>(&offsets.eof)? != 0;
    // Where nfs_readpage_result and nfs_writeback_result send the rest as the task's next attempt.
    let restarts = done_bytes > 0 && done_bytes < asked_bytes && !eof;

    let mut bits = direction;
    if eof {
        bits |= flags::EOF;
    }
    let (latency_ns, pid) = match take_waiting(dev, fileid, direction, restarts) {
        Some(waiting) => (end_ns.saturating_sub(waiting.start_ns), waiting.request.pid),
        None => {
            bits |= flags::UNTIMED;
            (0, 0)
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
        reserved: 0,
    })
}

/// What is known of the task that has just ended on this thread, if it is a request for this file.
///
/// Its entry stays for as long as the request has attempts to come.
#[inline(always)]
fn take_waiting(dev: u32, fileid: u64, direction: u32, restarts: bool) -> Option<Waiting> {
    let link = LINK_END.get_ptr_mut(bpf_get_current_pid_tgid() as u32)?;
    // SAFETY: a map value; only its own thread writes it.
    let key = unsafe { link.replace(NO_TASK) };
    if key == NO_TASK {
        return None;
    }
    let waiting = WAITING.get_ptr_mut(key)?;
    // SAFETY: a map value; copied, because the entry is reused as soon as it is deleted.
    let waiting = unsafe { *waiting };
    if !restarts {
        let _ = WAITING.remove(key);
    }
    let request = &waiting.request;
    let same = request.dev == dev && request.fileid == fileid && request.direction == direction;
    same.then_some(waiting)
}

/// Copies the head of the event in one piece.
///
/// The verifier refuses direct access to the context at an offset that is not written in the
/// instruction.
#[inline(always)]
fn fill<'a, const WORDS: usize>(
    head: &'a mut Window<WORDS>,
    ctx: &TracePointContext,
) -> Option<View<'a, WORDS>> {
    head.fill(Address(ctx.as_ptr().expose_provenance() as u64), 0)
}

#[inline(always)]
fn task_key(ctx: &TracePointContext, offsets: &'static TaskOffsets) -> Option<TaskKey> {
    let mut head = Window::<2>::EMPTY;
    let event = fill(&mut head, ctx)?;
    let client: u32 = event.field(&offsets.client_id)?;
    let task: u32 = event.field(&offsets.task_id)?;
    Some(u64::from(client) << 32 | u64::from(task))
}

//! A request completes: its record, and the books.

use core::arch::asm;

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id},
    programs::TracePointContext,
};
use trackiops_schemas::ring::{BOOKS_SLOTS, DoneOffsets, RequestRecord, flags};

use crate::{
    event::{Head, global, now_ns},
    maps::{
        BOOKS, LATER, LINK_END, NO_TASK, RING, SHARED, TaskKey, WAITING, WAKEUP_BYTES, Waiting,
    },
};

/// `nfs_readpage_done` and `nfs_writeback_done`.
///
/// Counted as seen before anything else, so that `recorded + lost <= seen` at every instant.
#[inline(always)]
pub fn done(ctx: &TracePointContext, offsets: &'static DoneOffsets, direction: u32) {
    // SAFETY: takes nothing, and every program may call it.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let Some(books) = BOOKS.get_ptr_mut(cpu % BOOKS_SLOTS) else {
        return;
    };
    // SAFETY: an element of an array, which exists for as long as the program runs.
    let (seen, recorded, lost) = unsafe {
        (
            &raw mut (*books).seen,
            &raw mut (*books).recorded,
            &raw mut (*books).lost,
        )
    };
    add_one(seen);
    match completed(ctx, offsets, direction) {
        Some(record) if emit(record) => add_one(recorded),
        _ => add_one(lost),
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
    let mut head = Head::<8>::EMPTY;
    let event = head.fill(ctx)?;
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
    let file = File {
        fileid,
        dev,
        direction,
    };
    let next_start_ns = if restarts { end_ns } else { 0 };
    let (latency_ns, pid) = match take_waiting(&file, next_start_ns) {
        Some(waiting) => (end_ns.saturating_sub(waiting.start_ns), waiting.pid),
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

/// What a completion event says of its request that the initiation has said, too.
struct File {
    fileid: u64,
    dev: u32,
    direction: u32,
}

/// What is known of the task that has just ended on this thread, if it is a request for this file.
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
    // The later one first: the earlier one has been in flight for a whole round of ids already.
    let key = key & !SHARED;
    let mut waiting = match take(key | LATER, file, next_start_ns) {
        Some(waiting) => waiting,
        None => take(key, file, next_start_ns)?,
    };
    // At the end of this attempt the clock was left alone.
    if waiting.next_start_ns != 0 {
        waiting.start_ns = waiting.next_start_ns;
    }
    Some(waiting)
}

/// The waiting entry, if it is for this file. It stays for as long as the request has attempts to
/// come, that is if the next one's start is not 0.
#[inline(always)]
fn take(key: TaskKey, file: &File, next_start_ns: u64) -> Option<Waiting> {
    let entry = WAITING.get_ptr_mut(key)?;
    // SAFETY: a map value; copied, because the entry is reused as soon as it is deleted.
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
        // SAFETY: a map value; a task's events follow each other.
        unsafe { (*entry).next_start_ns = next_start_ns };
    }
    Some(waiting)
}

/// Puts a record into the ring; false if there is no room.
///
/// The reader is on a timer. It is woken only when the ring fills faster than the timer expects.
#[inline(always)]
fn emit(record: RequestRecord) -> bool {
    let Some(mut entry) = RING.reserve::<RequestRecord>(0) else {
        return false;
    };
    entry.write(record);
    let unread = RING.query(u64::from(BPF_RB_AVAIL_DATA));
    let wake = if unread >= global(&WAKEUP_BYTES) {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    };
    entry.submit(u64::from(wake));
    true
}

/// Adds one to a counter.
///
/// Atomic, because CPUs may share it, and the exactness of the books must not rest on how a kernel
/// keeps programs of one CPU from interrupting each other. Written out, because `AtomicU64` has no such operation on this
/// target, and because only the form without a result exists before Linux 5.12.
#[inline(always)]
fn add_one(counter: *mut u64) {
    // SAFETY: an aligned counter of the books.
    unsafe {
        asm!(
            "lock *(u64 *)({counter} + 0) += {one}",
            counter = in(reg) counter,
            one = in(reg) 1_u64,
            options(nostack),
        );
    }
}

//! Function spans: a followed function of a program is called and returns, and its record goes where single calls go.

use aya_ebpf::{
    EbpfContext,
    helpers::{
        bpf_get_current_pid_tgid, bpf_get_current_uid_gid, generated::bpf_get_attach_cookie,
    },
    macros::map,
    maps::LruHashMap,
};
use trackiops_schemas::ebpf::{
    app_sums::registers,
    ceiling::shed,
    ring::{FilterKey, NO_OFFSET, RequestRecord, filters, flags},
    spans::{BY_MARKS, SpanBegin, SpanKey},
};

use crate::{
    application::register,
    ceiling::{is_shed, valid_begin},
    cgroup,
    globals::{DIRECT, FILTER},
    kernel_memory::{Memory, Probe, global, now_ns, zero},
    maps::FILTER_SET,
    single_calls,
};

/// Calls under way.
#[map]
static SPANS: LruHashMap<SpanKey, SpanBegin> = LruHashMap::with_max_entries(1, 0);

/// At the begin of a function, or at the mark of a begin.
#[inline(always)]
pub fn begun(context: &impl EbpfContext) {
    let (thread, cookie) = (bpf_get_current_pid_tgid(), cookie(context));
    if !is_shed::<Probe>(shed::SINGLE_CALLS) && is_wanted(thread) {
        let begin = SpanBegin { begin_ns: now_ns() };
        let key = SpanKey {
            thread,
            place: place(context, cookie, 0),
            cookie,
        };
        // Without room, the end finds no begin and is ignored.
        let _ = SPANS.insert(&key, &begin, 0);
    }
}

/// At the end of a function, or at the mark of an end.
#[inline(always)]
pub fn returned(context: &impl EbpfContext) {
    let (thread, cookie) = (bpf_get_current_pid_tgid(), cookie(context));
    let key = SpanKey {
        thread,
        // On x86-64 a function takes its return address from the stack.
        place: place(context, cookie, 8),
        cookie,
    };
    // SAFETY: a map value, copied at once; only this thread writes the entry of its id.
    if let Some(begin) = unsafe { SPANS.get(&key).copied() } {
        let _ = SPANS.remove(&key);
        // If calls were shed in between, this begin may be that of an earlier call.
        if valid_begin::<Probe>(begin.begin_ns) != 0 {
            hand_over(cookie, begin.begin_ns);
        }
    }
}

/// At a mark that stands for itself.
#[inline(always)]
pub fn passed(context: &impl EbpfContext) {
    if !is_shed::<Probe>(shed::SINGLE_CALLS) && is_wanted(bpf_get_current_pid_tgid()) {
        hand_over(cookie(context), 0);
    }
}

#[inline(always)]
fn cookie(context: &impl EbpfContext) -> u64 {
    // SAFETY: `as_ptr` returns the context of this program, which the helper requires.
    unsafe { bpf_get_attach_cookie(context.as_ptr()) }
}

/// The address of the call on the stack. On x86-64, `taken` bytes have been popped since the call.
#[inline(always)]
fn place(context: &impl EbpfContext, cookie: u64, taken: u64) -> u64 {
    let all = context.as_ptr().cast();
    if cookie & BY_MARKS != 0 {
        0
    } else if global(&DIRECT.app.registers) & registers::X86_64 != 0 {
        // `sp` of `struct pt_regs`.
        register::<152>(all).wrapping_sub(taken)
    } else {
        register::<248>(all)
    }
}

/// Whether the process is wanted. The filter's files, users and cgroups apply to requests only.
#[inline(always)]
fn is_wanted(thread: u64) -> bool {
    if global(&FILTER) & filters::PIDS == 0 {
        return true;
    }
    let key = FilterKey {
        kind: filters::PIDS,
        dev: 0,
        id: thread >> 32,
    };
    FILTER_SET.get_ptr(key).is_some()
}

#[inline(always)]
fn hand_over(cookie: u64, begin_ns: u64) {
    let end_ns = now_ns();
    let untimed = if begin_ns == 0 { flags::UNTIMED } else { 0 };
    let thread = bpf_get_current_pid_tgid();
    single_calls::output(&RequestRecord {
        end_ns,
        latency_ns: if begin_ns == 0 {
            0
        } else {
            end_ns.saturating_sub(begin_ns)
        },
        fileid: cookie & !BY_MARKS,
        offset: NO_OFFSET,
        asked_bytes: 0,
        done_bytes: 0,
        dev: zero() as u32,
        handle_hash: 0,
        error: 0,
        pid: (thread >> 32) as u32,
        flags: flags::CALL | flags::SPAN | flags::UNSPLIT | untimed,
        uid: bpf_get_current_uid_gid() as u32,
        cgroup: cgroup::of_local_thread::<Probe>(Probe::thread),
        queue_ns: zero(),
        rtt_ns: zero(),
        xid: thread as u32,
        retransmissions: 0,
    });
}

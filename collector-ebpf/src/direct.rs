//! The direct engine: a request is read from its own structures when it completes.

use aya_ebpf::{helpers::bpf_get_current_pid_tgid, programs::RawTracePointContext};
use trackiops_schemas::ring::{DirectOffsets, NO_USER, RequestRecord, flags};

use crate::{
    cgroup,
    completion::Completion,
    handle,
    kernel::{Address, Memory, Window, global, now_ns},
    maps::{DIRECT, MARKS, TANDEM},
};

/// `nfs_readpage_done(task, hdr)` and `nfs_writeback_done(task, hdr)`.
#[inline(always)]
pub fn done<M: Memory>(ctx: &RawTracePointContext, direction: u32) {
    let request = Request::<M>::of(ctx);
    // Without a mark the second program does the work.
    if global(&TANDEM) == 0 || request.leave_mark().is_some() {
        request.account(direction);
    }
}

/// The second program on the same tracepoint. It does the work when the kernel has skipped the first.
///
/// Where tracepoints may be preempted, another request can complete on this CPU in the middle of a
/// program, and the kernel does not let a program interrupt itself. Both run on the thread that
/// completes the request, and a thread completes one at a time: the first leaves its mark there.
#[inline(always)]
pub fn done_unless_marked<M: Memory>(ctx: &RawTracePointContext, direction: u32) {
    let request = Request::<M>::of(ctx);
    if !request.is_marked() {
        request.account(direction);
    }
}

#[derive(Clone, Copy)]
struct Request<M> {
    task: Address<M>,
    header: Address<M>,
}

impl<M: Memory> Request<M> {
    #[inline(always)]
    fn of(ctx: &RawTracePointContext) -> Self {
        Self {
            task: Address::new(ctx.arg(0)),
            header: Address::new(ctx.arg(1)),
        }
    }

    #[inline(always)]
    fn account(self, direction: u32) {
        if let Some(completion) = Completion::seen() {
            completion.record(completed(self, &DIRECT, direction));
        }
    }

    /// Distinct for the attempts that one thread completes in turn, although the memory of a
    /// header is used again at once.
    #[inline(always)]
    fn mark(self) -> Option<u64> {
        Some(self.header.0 ^ self.task.field::<u64>(&DIRECT.task_start)?)
    }

    #[inline(always)]
    fn leave_mark(self) -> Option<()> {
        let mark = self.mark()?;
        let thread = bpf_get_current_pid_tgid() as u32;
        match MARKS.get_ptr_mut(thread) {
            // SAFETY: a map value; only its own thread writes it.
            Some(last) => unsafe { *last = mark },
            None => MARKS.insert(thread, mark, 0).ok()?,
        }
        Some(())
    }

    #[inline(always)]
    fn is_marked(self) -> bool {
        let last = MARKS.get_ptr(bpf_get_current_pid_tgid() as u32);
        // SAFETY: a map value; only this thread writes it.
        last.is_some_and(|last| self.mark() == Some(unsafe { *last }))
    }
}

/// Each structure is read in one piece, in a function of its own: the pieces then share the little
/// stack that there is.
#[inline(always)]
fn completed<M: Memory>(
    Request { task, header }: Request<M>,
    offsets: &'static DirectOffsets,
    direction: u32,
) -> Option<RequestRecord> {
    let end_ns = now_ns();
    let Timing { start_ns, pid } = timing(task, offsets)?;
    let Origin {
        inode,
        status,
        uid,
        cgroup,
    } = origin(header, offsets)?;
    let failed = status < 0;
    let Arguments {
        handle,
        offset,
        asked_bytes,
    } = arguments(header, offsets)?;
    let (done_bytes, eof) = result(header, offsets)?;
    let (superblock, fileid) = file(inode, offsets)?;

    let mut bits = direction;
    // On error the count is not a transfer, and `eof` shares its memory with something else.
    if !failed && direction != flags::WRITE && eof {
        bits |= flags::EOF;
    }
    // Layouts that bypass the RPC client never start its clock.
    let latency_ns = if start_ns == 0 {
        bits |= flags::UNTIMED;
        0
    } else {
        end_ns.saturating_sub(start_ns)
    };
    Some(RequestRecord {
        end_ns,
        latency_ns,
        fileid,
        offset,
        asked_bytes,
        done_bytes: if failed { 0 } else { done_bytes },
        dev: superblock.field(&offsets.superblock_dev)?,
        handle_hash: handle::hash(handle)?,
        error: if failed { status } else { 0 },
        pid,
        flags: bits,
        uid,
        cgroup,
    })
}

struct Timing {
    start_ns: u64,
    pid: u32,
}

#[inline(always)]
fn timing<M: Memory>(task: Address<M>, offsets: &'static DirectOffsets) -> Option<Timing> {
    let mut window = Window::<4>::EMPTY;
    let view = window.fill(task, Some(&offsets.task_window))?;
    Some(Timing {
        start_ns: view.field(&offsets.task_start)?,
        pid: view.field(&offsets.task_owner)?,
    })
}

struct Origin<M> {
    inode: Address<M>,
    status: i32,
    uid: u32,
    cgroup: u64,
}

#[inline(always)]
fn origin<M: Memory>(header: Address<M>, offsets: &'static DirectOffsets) -> Option<Origin<M>> {
    let mut window = Window::<5>::EMPTY;
    let view = window.fill(header, None)?;
    let cred = Address::<M>::new(view.field(&offsets.header_cred)?);
    let request = Address::<M>::new(view.field(&offsets.cgroup.header_request)?);
    Some(Origin {
        inode: Address::new(view.field(&offsets.header_inode)?),
        status: view.field(&offsets.header_status)?,
        // The opener's also when somebody else writes his data back.
        uid: cred.field(&offsets.cred_uid).unwrap_or(NO_USER),
        cgroup: cgroup::of_request(request, &offsets.cgroup).unwrap_or(0),
    })
}

struct Arguments<M> {
    handle: Address<M>,
    offset: u64,
    asked_bytes: u32,
}

#[inline(always)]
fn arguments<M: Memory>(
    header: Address<M>,
    offsets: &'static DirectOffsets,
) -> Option<Arguments<M>> {
    let mut window = Window::<8>::EMPTY;
    let view = window.fill(header, Some(&offsets.arguments_window))?;
    Some(Arguments {
        handle: Address::new(view.field(&offsets.header_handle)?),
        offset: view.field(&offsets.header_offset)?,
        asked_bytes: view.field(&offsets.header_asked)?,
    })
}

/// Bytes transferred, and whether the file ends behind them.
#[inline(always)]
fn result<M: Memory>(header: Address<M>, offsets: &'static DirectOffsets) -> Option<(u32, bool)> {
    let mut window = Window::<3>::EMPTY;
    let view = window.fill(header, Some(&offsets.result_window))?;
    Some((
        view.field(&offsets.header_done)?,
        view.field::<u8>(&offsets.header_eof)? != 0,
    ))
}

/// Superblock and fileid.
#[inline(always)]
fn file<M: Memory>(
    inode: Address<M>,
    offsets: &'static DirectOffsets,
) -> Option<(Address<M>, u64)> {
    let mut window = Window::<4>::EMPTY;
    let view = window.fill(inode, Some(&offsets.inode_window))?;
    Some((
        Address::new(view.field(&offsets.inode_superblock)?),
        view.field(&offsets.inode_number)?,
    ))
}

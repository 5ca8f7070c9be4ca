//! The direct engine: a request is read from its own structures when it completes.

use trackiops_schemas::ring::{DirectOffsets, NO_USER, RequestRecord, flags};

use crate::{
    cgroup,
    completion::Completion,
    handle,
    kernel::{Address, Memory, Window, now_ns},
    maps::DIRECT,
    marks,
};

/// `nfs_readpage_done(task, hdr)` and `nfs_writeback_done(task, hdr)`.
#[inline(always)]
pub fn alone<M: Memory>(task: u64, header: u64, direction: u32) {
    Request::<M>::new(task, header).account(direction);
}

/// The first of two programs on a tracepoint.
#[inline(always)]
pub fn first<M: Memory>(task: u64, header: u64, direction: u32) {
    let request = Request::<M>::new(task, header);
    // Without a mark the second program does the work.
    if marks::leave(request.header) {
        request.account(direction);
    }
}

/// The second of two programs on a tracepoint. It does the work when the kernel has skipped the first.
///
/// Where tracepoints may be preempted, another request can complete on this CPU in the middle of a
/// program, and the kernel does not let a program interrupt itself.
#[inline(always)]
pub fn second<M: Memory>(task: u64, header: u64, direction: u32) {
    let request = Request::<M>::new(task, header);
    if !marks::take(request.header) {
        request.account(direction);
    }
}

#[derive(Clone, Copy)]
struct Request<M: Memory> {
    task: Address<M::Argument>,
    header: Address<M::Argument>,
}

impl<M: Memory> Request<M> {
    #[inline(always)]
    fn new(task: u64, header: u64) -> Self {
        Self {
            task: Address::new(task),
            header: Address::new(header),
        }
    }

    #[inline(always)]
    fn account(self, direction: u32) {
        if let Some(completion) = Completion::seen() {
            completion.record(completed(self, &DIRECT, direction));
        }
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
    } = origin::<M>(header, offsets)?;
    let failed = status < 0;
    let Arguments {
        handle,
        offset,
        asked_bytes,
    } = arguments::<M>(header, offsets)?;
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
fn origin<M: Memory>(
    header: Address<M::Argument>,
    offsets: &'static DirectOffsets,
) -> Option<Origin<M>> {
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
    header: Address<M::Argument>,
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

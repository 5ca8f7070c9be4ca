//! The direct engine: a request is read from its own structures when it completes.

use aya_ebpf::programs::RawTracePointContext;
use trackiops_schemas::ring::{DirectOffsets, RequestRecord, flags};

use crate::{
    completion::Completion,
    handle,
    kernel::{Address, Window, global, now_ns},
    maps::DIRECT,
};

/// `nfs_readpage_done(task, hdr)` and `nfs_writeback_done(task, hdr)`.
#[inline(always)]
pub fn done(ctx: &RawTracePointContext, direction: u32) {
    let Some(completion) = Completion::seen() else {
        return;
    };
    let (task, header) = (Address(ctx.arg(0)), Address(ctx.arg(1)));
    completion.record(completed(task, header, &DIRECT, direction));
}

/// Each structure is read in one piece, in a function of its own: the pieces then share the little
/// stack that there is.
#[inline(always)]
fn completed(
    task: Address,
    header: Address,
    offsets: &'static DirectOffsets,
    direction: u32,
) -> Option<RequestRecord> {
    let end_ns = now_ns();
    let Timing { start_ns, pid } = timing(task, offsets)?;
    let (inode, status) = origin(header, offsets)?;
    let failed = status < 0;
    let Transfer {
        handle,
        offset,
        asked_bytes,
        done_bytes,
        eof,
    } = transfer(header, offsets)?;
    let (superblock, fileid) = file(inode, offsets)?;

    let mut bits = direction;
    // On error the count is not a transfer, and `eof` shares its memory with something else.
    if !failed && direction != flags::WRITE && eof != 0 {
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
        reserved: 0,
    })
}

struct Timing {
    start_ns: u64,
    pid: u32,
}

#[inline(always)]
fn timing(task: Address, offsets: &'static DirectOffsets) -> Option<Timing> {
    let mut window = Window::<4>::EMPTY;
    let view = window.fill(task, global(&offsets.task_window))?;
    Some(Timing {
        start_ns: view.field(&offsets.task_start)?,
        pid: view.field(&offsets.task_owner)?,
    })
}

/// Inode and status.
#[inline(always)]
fn origin(header: Address, offsets: &'static DirectOffsets) -> Option<(Address, i32)> {
    let mut window = Window::<20>::EMPTY;
    let view = window.fill(header, 0)?;
    Some((
        Address(view.field(&offsets.header_inode)?),
        view.field(&offsets.header_status)?,
    ))
}

struct Transfer {
    handle: Address,
    offset: u64,
    asked_bytes: u32,
    done_bytes: u32,
    eof: u8,
}

#[inline(always)]
fn transfer(header: Address, offsets: &'static DirectOffsets) -> Option<Transfer> {
    let mut window = Window::<21>::EMPTY;
    let view = window.fill(header, global(&offsets.transfer_window))?;
    Some(Transfer {
        handle: Address(view.field(&offsets.header_handle)?),
        offset: view.field(&offsets.header_offset)?,
        asked_bytes: view.field(&offsets.header_asked)?,
        done_bytes: view.field(&offsets.header_done)?,
        eof: view.field(&offsets.header_eof)?,
    })
}

/// Superblock and fileid.
#[inline(always)]
fn file(inode: Address, offsets: &'static DirectOffsets) -> Option<(Address, u64)> {
    let mut window = Window::<4>::EMPTY;
    let view = window.fill(inode, global(&offsets.inode_window))?;
    Some((
        Address(view.field(&offsets.inode_superblock)?),
        view.field(&offsets.inode_number)?,
    ))
}

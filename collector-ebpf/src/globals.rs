//! Globals that userspace sets before it loads the programs, and one that the programs learn.

use trackiops_schemas::ebpf::block::{BLOCK_STATUS_ERRNOS, BLOCK_STATUSES};
use trackiops_schemas::ebpf::offsets::Offsets as _;
use trackiops_schemas::ebpf::op_sums::OP_CELLS;
use trackiops_schemas::ebpf::ring::{DirectOffsets, TracepointOffsets, parts};
use trackiops_schemas::ebpf::syscalls::SYSCALLS;

/// Where this kernel keeps the fields of its trace events; userspace sets it before loading.
///
/// In `.rodata`, which the loader freezes: the verifier then knows every offset as a constant.
#[unsafe(no_mangle)]
pub static OFFSETS: TracepointOffsets = TracepointOffsets::NONE;

/// Where this kernel keeps the members of a request's structures; userspace sets it before loading.
#[unsafe(no_mangle)]
pub static DIRECT: DirectOffsets = DirectOffsets::NONE;

/// Bytes from a file handle in an NFS inode to the inode, if userspace does not know them; 0 until a program has learnt it.
#[unsafe(no_mangle)]
pub static mut INODE_DISTANCE: u64 = 0;

/// By the highest bits of a time, below the leading one: its bucket, and the last time in that bucket; userspace sets
/// it.
#[unsafe(no_mangle)]
pub static OP_CELL_TABLE: [u64; OP_CELLS] = [0; OP_CELLS];

/// The errors of statuses of requests to block devices.
#[unsafe(no_mangle)]
pub static BLOCK_ERRNOS: [i32; BLOCK_STATUSES] = BLOCK_STATUS_ERRNOS;

/// The kinds of system calls by number, of [`trackiops_schemas::ebpf::syscalls::kinds`]; userspace sets it.
#[unsafe(no_mangle)]
pub static SYSCALL_KINDS: [u8; SYSCALLS] = [0; SYSCALLS];

/// How many of [`RINGS`] there are, a power of two, less 1; userspace sets it.
#[unsafe(no_mangle)]
pub static RING_MASK: u32 = 0;

/// How many slots each of the rings in shared memory has, a power of two, less 1; userspace sets it.
#[unsafe(no_mangle)]
pub static SLOT_MASK: u32 = 0;

/// Bits of [`trackiops_schemas::ebpf::ring::parts`]; userspace sets it.
#[unsafe(no_mangle)]
pub static PARTS: u32 = parts::SPLIT;

/// 1 if paths are read, else 0; userspace sets it.
#[unsafe(no_mangle)]
pub static PATHS: u32 = 0;

/// Bits of [`trackiops_schemas::ebpf::ring::filters`], 0 if all requests are wanted; userspace sets it.
#[unsafe(no_mangle)]
pub static FILTER: u32 = 0;

/// A record wakes the reader if the ring has at least this many unread bytes; userspace sets it.
#[unsafe(no_mangle)]
pub static WAKEUP_BYTES: u64 = 4096;

/// Length of the windows in which requests are folded, ns; userspace sets it.
#[unsafe(no_mangle)]
pub static WINDOW_NS: u64 = 1_000_000_000;

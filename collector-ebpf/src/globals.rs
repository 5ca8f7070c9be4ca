//! What userspace sets before it loads the programs, and a word that the programs learn.

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

/// Where this kernel keeps what a request consists of; userspace sets it before loading.
#[unsafe(no_mangle)]
pub static DIRECT: DirectOffsets = DirectOffsets::NONE;

/// From a file handle in an inode of NFS to the inode, in bytes, where userspace does not know it; 0 until an RPC has told.
#[unsafe(no_mangle)]
pub static mut INODE_DISTANCE: u64 = 0;

/// By the highest bits of a time, below the leading one: which bucket it is in, and the last time that is; userspace sets
/// it.
#[unsafe(no_mangle)]
pub static OP_CELL_TABLE: [u64; OP_CELLS] = [0; OP_CELLS];

/// What the statuses of requests to block devices are as errors.
#[unsafe(no_mangle)]
pub static BLOCK_ERRNOS: [i32; BLOCK_STATUSES] = BLOCK_STATUS_ERRNOS;

/// What system calls do, by number: of [`trackiops_schemas::ebpf::syscalls::kinds`]; userspace sets it.
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

/// Whether paths are read: 1, or 0 for no; userspace sets it.
#[unsafe(no_mangle)]
pub static PATHS: u32 = 0;

/// Bits of [`trackiops_schemas::ebpf::ring::filters`], 0 if all requests are wanted; userspace sets it.
#[unsafe(no_mangle)]
pub static FILTER: u32 = 0;

/// Unread bytes in a ring from which on a record wakes the reader; userspace sets it.
#[unsafe(no_mangle)]
pub static WAKEUP_BYTES: u64 = 4096;

/// Length of the windows in which requests are folded, ns; userspace sets it.
#[unsafe(no_mangle)]
pub static WINDOW_NS: u64 = 1_000_000_000;

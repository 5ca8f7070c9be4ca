//! What the kernel side has to know about system calls.

use crate::ebpf::offsets::{Held, offsets};

offsets! {
    /// Where the kernel keeps what a system call is about: offsets in bytes. A part of [`crate::ebpf::ring::DirectOffsets`], with which it
    /// shares those of files and inodes.
    pub struct SyscallOffsets {
        /// Number of the call in `struct pt_regs`.
        pub number: Held,
        /// Its first argument there.
        pub first: Held,
        /// Its second one.
        pub second: Held,
        /// Its third one.
        pub third: Held,
        /// Its fourth one.
        pub fourth: u32,
        /// `thread_info.status` of `struct task_struct`; where threads are known by another member, that one.
        pub task_mode: Held,
        /// Bits of it that a thread has which calls as 32-bit programs do, by other numbers.
        pub foreign_modes: u32,
        /// `struct files_struct *files` of `struct task_struct`.
        pub task_files: Held,
        /// `struct fdtable *fdt` of `struct files_struct`.
        pub files_table: u32,
        /// `unsigned int max_fds` of `struct fdtable`.
        pub table_length: u32,
        /// `struct file **fd` of `struct fdtable`.
        pub table_files: u32,
        /// `unsigned int f_flags` of `struct file`.
        pub file_flags: u32,
        /// `loff_t f_pos` of `struct file`.
        pub file_position: u32,
        /// `O_DIRECT` on this architecture.
        pub direct_flag: u32,
        /// 1 where calls that open files, or wait until they are on their disks, are counted.
        pub counts_operations: u32,
        /// Bits of [`kept`].
        pub keeps: u32,
        /// One of [`rings`].
        pub ring_form: u32,
        /// `u8 opcode` of `struct io_kiocb`.
        pub ring_operation: u32,
        /// `struct file *file` of `struct io_kiocb`.
        pub ring_file: u32,
        /// `__s32 res` of `struct io_uring_cqe`.
        pub ring_result: u32,
        /// `loff_t ki_pos` of the `struct kiocb` that a request begins with which reads or writes.
        pub ring_position: u32,
    }
}

/// Calls for which files are handed over one by one, beside being added up.
pub mod kept {
    /// For those of local file systems.
    pub const LOCAL: u32 = 1 << 0;
    /// For those of NFS.
    pub const NFS: u32 = 1 << 1;
}

/// Name of the ring buffer in which calls are handed over that are kept one by one: each is a [`RequestRecord`](crate::ebpf::ring::RequestRecord)
/// with [`flags::CALL`](crate::ebpf::ring::flags::CALL).
pub const CALL_RING_MAP: &str = "CALL_RING";
/// Bytes of that ring, where they are kept: some 160,000 calls between two looks.
pub const CALL_RING_BYTES: u32 = 1 << 24;
/// Name of the array of [`AppBegin`](crate::ebpf::app_sums::AppBegin) of these calls.
pub const CALL_BEGINS_MAP: &str = "CALL_BEGINS";
/// Name of the array of [`RingBegin`].
pub const RING_BEGINS_MAP: &str = "RING_BEGINS";
/// Its elements where single calls are kept: a power of two.
pub const RING_BEGINS: u32 = 8192;

/// When a request of io_uring began: the element that a hash of its address has.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RingBegin {
    /// Its address (`struct io_kiocb`); 0 while nobody has the element.
    pub request: u64,
    /// `CLOCK_MONOTONIC`, ns.
    pub begin_ns: u64,
    /// The thread that began it: the process in the upper half.
    pub thread: u64,
    /// Where in the file it begins.
    pub position: u64,
}

/// Name of the array, of one element (`u64`), that counts those for which there was no room; userspace may `mmap` it.
pub const CALLS_LEFT_OUT_MAP: &str = "CALLS_LEFT_OUT";

/// How the tracepoint on the completion of a request of io_uring tells its result.
pub mod rings {
    /// There is none, or it does not tell which request it is.
    pub const NONE: u32 = 0;
    /// In its fourth argument.
    pub const ARGUMENT: u32 = 1;
    /// In the `struct io_uring_cqe` that the third one points to.
    pub const ENTRY: u32 = 2;
}

/// What a system call does: elements of the table [`SYSCALLS_GLOBAL`], by its number. 0 stands for all others.
pub mod kinds {
    /// Reads from the descriptor that is its first argument.
    pub const READS: u8 = 1;
    /// Writes to it.
    pub const WRITES: u8 = 2;
    /// Reads from the second, and writes to the first.
    pub const SENDS: u8 = 3;
    /// Reads from the first, and writes to the third.
    pub const COPIES: u8 = 4;
    /// Begins what an array of `struct iocb` describes.
    pub const SUBMITS: u8 = 5;
    /// Waits until the file of the descriptor that is its first argument is on its disk.
    pub const SYNCS: u8 = 6;
    /// Opens a file, and returns its descriptor.
    pub const OPENS: u8 = 7;
    /// Bit of those that read or write: at the place that is the fourth argument.
    pub const AT: u8 = 1 << 7;
}

/// Elements of that table. Numbers from here on are of no call that matters.
pub const SYSCALLS: usize = 512;
/// Name of the global.
pub const SYSCALLS_GLOBAL: &str = "SYSCALL_KINDS";

//! Offsets and tables that the kernel side needs for system calls.

use crate::ebpf::offsets::{Held, offsets};

offsets! {
    /// Byte offsets to the arguments and file of a system call. Part of [`crate::ebpf::ring::DirectOffsets`], whose
    /// offsets of files and inodes are used, too.
    pub struct SyscallOffsets {
        /// Number of the system call in `struct pt_regs`.
        pub number: Held,
        /// Its first argument in `struct pt_regs`.
        pub first: Held,
        /// Its second argument.
        pub second: Held,
        /// Its third argument.
        pub third: Held,
        /// Its fourth argument.
        pub fourth: u32,
        /// `thread_info.status` of `struct task_struct`, or the member that marks 32-bit threads on this architecture.
        pub task_mode: Held,
        /// Bits of that member in threads that make 32-bit calls, which have other numbers.
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
        /// 1 if calls that open or sync files are counted.
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
        /// `loff_t ki_pos` of the `struct kiocb` at the begin of a read or write request.
        pub ring_position: u32,
    }
}

/// Files whose calls are also reported one by one.
pub mod kept {
    /// Files of local file systems.
    pub const LOCAL: u32 = 1 << 0;
    /// Files of NFS.
    pub const NFS: u32 = 1 << 1;
}

/// Name of the ring buffer of single calls. Each is a [`RequestRecord`](crate::ebpf::ring::RequestRecord) with
/// [`flags::CALL`](crate::ebpf::ring::flags::CALL).
pub const CALL_RING_MAP: &str = "CALL_RING";
/// Bytes of that ring if single calls are kept: some 160,000 calls between two reads.
pub const CALL_RING_BYTES: u32 = 1 << 24;
/// Name of the array of [`AppBegin`](crate::ebpf::app_sums::AppBegin) of these calls.
pub const CALL_BEGINS_MAP: &str = "CALL_BEGINS";
/// Name of the array of [`RingBegin`].
pub const RING_BEGINS_MAP: &str = "RING_BEGINS";
/// Elements of that array if single calls are kept, a power of two.
pub const RING_BEGINS: u32 = 8192;

/// When a request of io_uring began. A hash of its address selects the element.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RingBegin {
    /// Address of the request (`struct io_kiocb`); 0 if the element is free.
    pub request: u64,
    /// `CLOCK_MONOTONIC`, ns.
    pub begin_ns: u64,
    /// The thread that began it; the upper half is the process.
    pub thread: u64,
    /// Its offset in the file.
    pub position: u64,
}

/// Name of the array, of one element (`u64`), that counts single calls without room; userspace may `mmap` it.
pub const CALLS_LEFT_OUT_MAP: &str = "CALLS_LEFT_OUT";

/// Where the tracepoint on the completion of an io_uring request has the result.
pub mod rings {
    /// Nowhere, or the tracepoint does not identify the request.
    pub const NONE: u32 = 0;
    /// In its fourth argument.
    pub const ARGUMENT: u32 = 1;
    /// In the `struct io_uring_cqe` that its third argument points to.
    pub const ENTRY: u32 = 2;
}

/// Kinds of system calls: values of the table [`SYSCALLS_GLOBAL`], indexed by call number. 0 stands for all others.
pub mod kinds {
    /// Reads from the descriptor that is its first argument.
    pub const READS: u8 = 1;
    /// Writes to the descriptor that is its first argument.
    pub const WRITES: u8 = 2;
    /// Reads from its second argument and writes to its first.
    pub const SENDS: u8 = 3;
    /// Reads from its first argument and writes to its third.
    pub const COPIES: u8 = 4;
    /// Submits the operations in an array of `struct iocb`.
    pub const SUBMITS: u8 = 5;
    /// Waits until the file of its first argument, a descriptor, is on its disk.
    pub const SYNCS: u8 = 6;
    /// Opens a file and returns its descriptor.
    pub const OPENS: u8 = 7;
    /// Bit of calls that read or write: the fourth argument is the offset.
    pub const AT: u8 = 1 << 7;
}

/// Number of elements of that table. Higher call numbers are not traced.
pub const SYSCALLS: usize = 512;
/// Name of the global that holds that table.
pub const SYSCALLS_GLOBAL: &str = "SYSCALL_KINDS";

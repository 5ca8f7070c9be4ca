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
/// Name of the array of buckets of [`RingBegin`]. A hash of the request's address selects the bucket.
pub const RING_BEGINS_MAP: &str = "RING_BEGINS";
/// Buckets of that array if single calls are kept, a power of two: 512 KiB.
pub const RING_BUCKETS: u32 = 4096;
/// Begins in a bucket. With a thousand requests under way, few runs in a hundred have a fifth one for any bucket.
pub const RING_PLACES: usize = 4;

/// The place in a bucket for a request that begins, and the request that has it, or 0: its own from before, if its completion was missed; else a
/// free one; else the one that began first. A request that loses its place completes without a latency.
#[inline(always)]
pub fn ring_place(
    requests: [u64; RING_PLACES],
    begins_ns: [u64; RING_PLACES],
    new: u64,
) -> (usize, u64) {
    let (mut place, mut before, mut first) = (0, 0, u64::MAX);
    for nth in 0..RING_PLACES {
        let request = requests[nth];
        let began = match request {
            0 => 1,
            _ if request == new => 0,
            _ => begins_ns[nth].max(2),
        };
        if began < first {
            (place, before, first) = (nth, request, began);
        }
    }
    (place, before)
}

/// When a request of io_uring began.
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

#[cfg(test)]
mod tests {
    use super::{RING_PLACES, ring_place};

    #[test]
    fn requests_with_one_bucket_have_places_of_their_own() {
        let (mut requests, mut begins_ns) = ([0; RING_PLACES], [0; RING_PLACES]);
        for (now_ns, new) in (100..).zip([0x100, 0x200, 0x300, 0x400]) {
            let (place, before) = ring_place(requests, begins_ns, new);
            assert_eq!((before, requests[place]), (0, 0), "{new:#x}");
            (requests[place], begins_ns[place]) = (new, now_ns);
        }
        // One that is there already, and a fifth one.
        assert_eq!(ring_place(requests, begins_ns, 0x300), (2, 0x300));
        begins_ns = [103, 101, 102, 104];
        assert_eq!(ring_place(requests, begins_ns, 0x500), (1, 0x200));
    }
}

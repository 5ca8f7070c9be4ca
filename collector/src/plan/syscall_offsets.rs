//! Offsets of the structure members that the programs on system calls read.

use trackiops_schemas::ebpf::offsets::Held;
use trackiops_schemas::ebpf::ring::DirectOffsets;
use trackiops_schemas::ebpf::syscalls::{SYSCALLS, SyscallOffsets, kinds, rings};

use crate::btf::RingCompletion;
use crate::facts::KernelFacts;
use crate::plan::direct_offsets::app;
use crate::plan::members::LevelMembers;
use crate::plan::unsupported::Unsupported;

/// `TS_COMPAT` (arch/x86/include/asm/thread_info.h) and `_TIF_32BIT` (arch/arm64/include/asm/thread_info.h).
const COMPAT: u32 = if cfg!(target_arch = "x86_64") {
    1 << 1
} else {
    1 << 22
};

/// Adds the offsets in this kernel to `offsets`, or returns which member is missing.
pub fn add_syscall_offsets(
    offsets: &mut DirectOffsets,
    facts: &KernelFacts,
) -> Result<(), Unsupported> {
    let members = LevelMembers::new(facts, "app")?;
    let offset = |structure, member, size| members.offset(structure, member, size);
    let held = |structure, member, size| members.held(structure, member, size);
    // The names of the registers depend on the architecture.
    let (number, first, second, third, fourth, task_mode) = if cfg!(target_arch = "x86_64") {
        (
            held("pt_regs", "orig_ax", 8)?,
            held("pt_regs", "di", 8)?,
            held("pt_regs", "si", 8)?,
            held("pt_regs", "dx", 8)?,
            offset("pt_regs", "r10", 8)?,
            held("task_struct", "thread_info.status", 4)?,
        )
    } else {
        // The first register has the result.
        let registers = held("pt_regs", "regs", 8 * 31)?.offset();
        (
            held("pt_regs", "syscallno", 4)?,
            held("pt_regs", "orig_x0", 8)?,
            Held::at(registers + 8),
            Held::at(registers + 16),
            registers + 24,
            held("task_struct", "thread_info.flags", 8)?,
        )
    };
    let ring = facts.ring_completion.and_then(|completion| {
        let form = match completion {
            RingCompletion::Argument => rings::ARGUMENT,
            RingCompletion::Entry => rings::ENTRY,
        };
        Some(SyscallOffsets {
            ring_form: form,
            ring_operation: offset("io_kiocb", "opcode", 1).ok()?,
            ring_file: offset("io_kiocb", "file", 8).ok()?,
            ring_result: offset("io_uring_cqe", "res", 4).ok()?,
            ring_position: offset("kiocb", "ki_pos", 8).ok()?,
            ..SyscallOffsets::default()
        })
    });
    offsets.syscalls = SyscallOffsets {
        number,
        first,
        second,
        third,
        fourth,
        task_mode,
        foreign_modes: COMPAT,
        task_files: held("task_struct", "files", 8)?,
        files_table: offset("files_struct", "fdt", 8)?,
        table_length: offset("fdtable", "max_fds", 4)?,
        table_files: offset("fdtable", "fd", 8)?,
        file_flags: offset("file", "f_flags", 4)?,
        file_position: offset("file", "f_pos", 8)?,
        direct_flag: libc::O_DIRECT.cast_unsigned(),
        // Zeros mark io_uring requests as invisible. The switches are 0, too: the plan sets them.
        ..ring.unwrap_or_default()
    };
    offsets.app = app(members.all()).ok_or_else(|| members.lacks("file", "f_inode"))?;
    Ok(())
}

/// The kinds of system calls, by their numbers on this architecture.
pub fn syscall_kinds() -> [u8; SYSCALLS] {
    let of = [
        (libc::SYS_read, kinds::READS),
        (libc::SYS_pread64, kinds::READS | kinds::AT),
        (libc::SYS_readv, kinds::READS),
        (libc::SYS_preadv, kinds::READS | kinds::AT),
        (libc::SYS_preadv2, kinds::READS | kinds::AT),
        (libc::SYS_write, kinds::WRITES),
        (libc::SYS_pwrite64, kinds::WRITES | kinds::AT),
        (libc::SYS_writev, kinds::WRITES),
        (libc::SYS_pwritev, kinds::WRITES | kinds::AT),
        (libc::SYS_pwritev2, kinds::WRITES | kinds::AT),
        (libc::SYS_sendfile, kinds::SENDS),
        (libc::SYS_splice, kinds::COPIES),
        (libc::SYS_copy_file_range, kinds::COPIES),
        (libc::SYS_io_submit, kinds::SUBMITS),
        (libc::SYS_fsync, kinds::SYNCS),
        (libc::SYS_fdatasync, kinds::SYNCS),
        (libc::SYS_sync_file_range, kinds::SYNCS),
        (libc::SYS_openat, kinds::OPENS),
        (libc::SYS_openat2, kinds::OPENS),
        (libc::SYS_open_by_handle_at, kinds::OPENS),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, kinds::OPENS),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, kinds::OPENS),
    ];
    let mut table = [0; SYSCALLS];
    for (number, kind) in of {
        let place = usize::try_from(number).ok();
        if let Some(element) = place.and_then(|place| table.get_mut(place)) {
            *element = kind;
        }
    }
    table
}

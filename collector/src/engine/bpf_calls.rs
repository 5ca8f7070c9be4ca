//! Calls of bpf(2) that the BPF loader has no functions for.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use aya_obj::generated::{bpf_attr, bpf_cmd, bpf_prog_info, bpf_stats_type};

/// The kernel's counters of a program.
pub struct ProgramCounters {
    /// How often it was skipped because it was running already; 0 before Linux 5.12, which does not
    /// count this.
    pub recursion_misses: u64,
    /// How often it ran while run times were measured.
    pub runs: u64,
    /// The run time of those runs, ns.
    pub run_ns: u64,
}

/// Reads the counters of a program.
pub fn program_counters(program: BorrowedFd<'_>) -> io::Result<ProgramCounters> {
    // SAFETY: all fields are integers, for which zero is valid; zeros request no lists.
    let mut info: bpf_prog_info = unsafe { mem::zeroed() };
    // SAFETY: `info` is a `bpf_prog_info` without addresses, and `program` is a program.
    unsafe { info_of(program, &mut info) }?;
    Ok(ProgramCounters {
        recursion_misses: info.recursion_misses,
        runs: info.run_cnt,
        run_ns: info.run_time_ns,
    })
}

/// Enables the measurement of all programs' run times until the returned descriptor is closed. Needs `CAP_SYS_ADMIN`.
pub fn measure_run_times() -> io::Result<OwnedFd> {
    let mut attributes = empty();
    attributes.enable_stats.type_ = bpf_stats_type::BPF_STATS_RUN_TIME as u32;
    // SAFETY: the attributes of this command have no addresses.
    unsafe { create(bpf_cmd::BPF_ENABLE_STATS, &mut attributes) }
}

/// Reads the kernel's information about a program or BTF.
///
/// # Safety
///
/// `info` must be the structure for this kind of descriptor, and its addresses must point to
/// as much memory as its lengths say.
pub unsafe fn info_of<T>(of: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    let mut attributes = empty();
    attributes.info.bpf_fd = of.as_raw_fd().cast_unsigned();
    attributes.info.info_len = size_of_val(info) as u32;
    attributes.info.info = (&raw mut *info).expose_provenance() as u64;
    // SAFETY: `info` is valid for its size, and the caller guarantees its contents.
    unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }.map(drop)
}

/// Attributes that are all zero.
pub fn empty() -> bpf_attr {
    // SAFETY: all fields are integers, for which zero is valid.
    unsafe { mem::zeroed() }
}

/// Makes a call that returns a new descriptor.
///
/// # Safety
///
/// As for [`bpf`], and `command` must return a new descriptor.
pub unsafe fn create(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: the caller guarantees that the addresses are valid for this command.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the descriptor is new, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
///
/// The addresses in the attributes must point to memory that the command may read or write.
pub unsafe fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: the attributes are valid for their size, and the caller guarantees their addresses.
    let told = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as libc::c_int,
            &raw mut *attributes,
            size_of_val(attributes),
        )
    };
    if told < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(told).map_err(io::Error::other)
}

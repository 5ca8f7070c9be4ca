//! Calls of bpf(2) that the BPF loader has no functions for.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use aya_obj::generated::{bpf_attr, bpf_cmd, bpf_prog_info};

/// How often the kernel has skipped a program because it was in the middle of it; 0 before Linux 5.12, which does not tell.
pub fn recursion_misses(program: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: integers, of which zeros are values: no lists are asked for.
    let mut info: bpf_prog_info = unsafe { mem::zeroed() };
    // SAFETY: it has no addresses.
    unsafe { info_of(program, &mut info) }?;
    Ok(info.recursion_misses)
}

/// What the kernel knows of a program or of BTF.
///
/// # Safety
///
/// `info` is of the kind that belongs to the descriptor, and what its addresses point to is as long as it says.
pub unsafe fn info_of<T>(of: BorrowedFd<'_>, info: &mut T) -> io::Result<()> {
    let mut attributes = empty();
    attributes.info.bpf_fd = of.as_raw_fd().cast_unsigned();
    attributes.info.info_len = size_of_val(info) as u32;
    attributes.info.info = (&raw mut *info).expose_provenance() as u64;
    // SAFETY: by the caller.
    unsafe { bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attributes) }.map(drop)
}

/// No attributes yet.
pub fn empty() -> bpf_attr {
    // SAFETY: integers, of which zeros are values.
    unsafe { mem::zeroed() }
}

/// A call that makes a descriptor.
///
/// # Safety
///
/// As that of [`bpf`].
pub unsafe fn create(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<OwnedFd> {
    // SAFETY: by the caller.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: a new descriptor, which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
///
/// The addresses in the attributes are those of memory that the command may read or write.
pub unsafe fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i32> {
    // SAFETY: by the caller.
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

//! The application view of local file systems: when an io_uring request that reads or writes a file completes, it is added up like a
//! system call.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use trackiops_schemas::ebpf::{ceiling::shed, syscalls::rings};

use crate::{
    application::Program,
    ceiling::is_shed,
    globals::DIRECT,
    kernel_memory::{Address, Memory, Probe, copy_words, global},
    single_calls::{self, Kept},
    syscalls::{Ended, First, add_or_first, count_first, is_left_out, keeps, name},
};

/// The program number that counts this operation (`enum io_uring_op`, include/uapi/linux/io_uring.h).
#[inline(always)]
fn program_of(operation: u8) -> Option<Program> {
    match operation {
        // With vectors, with registered buffers, with one buffer, and with registered vectors.
        1 | 4 | 22 | 60 => Some(Program::RingRead),
        2 | 5 | 23 | 61 => Some(Program::RingWrite),
        // `IORING_OP_FSYNC` and `IORING_OP_SYNC_FILE_RANGE`.
        3 | 8 if global(&DIRECT.syscalls.counts_operations) != 0 => Some(Program::RingSync),
        _ => None,
    }
}

/// `io_uring_submit_req(request)`: a request begins. Loaded only if single calls are kept.
#[inline(always)]
pub fn begun(request: u64) {
    let own = &DIRECT.syscalls;
    let operation = Address::<Probe>::new(request).field_or_zero(&own.ring_operation);
    if program_of(operation).is_some() && !is_shed::<Probe>(shed::SINGLE_CALLS) {
        single_calls::ring_begun(request);
    }
}

/// `io_uring_complete`, whose arguments differ between kernels. On some of them the verifier does not know the type of the request.
#[inline(always)]
pub fn completed<M: Memory>(argument: impl Fn(usize) -> u64) {
    let own = &DIRECT.syscalls;
    let request = Address::<M>::new(argument(1));
    // Some completions belong to no request.
    if request.0 == 0 || is_shed::<M>(shed::CALLS) {
        return;
    }
    let result = if global(&own.ring_form) == rings::ENTRY {
        Address::<M>::new(argument(2)).field_or_zero(&own.ring_result)
    } else {
        argument(3) as i32
    };
    let Some(program) = program_of(request.field_or_zero(&own.ring_operation)) else {
        return;
    };
    let result = match program {
        Program::RingSync => i64::from(result.min(0)),
        _ => i64::from(result),
    };
    let file: u64 = request.field_or_zero(&own.ring_file);
    if file != 0 {
        count::<M>(program as u32, file, result, request.0);
    }
}

#[inline(never)]
fn count<M: Memory>(program: u32, file: u64, result: i64, request: u64) {
    let Some(noted) = RING_FIRST.get_ptr_mut(0) else {
        return;
    };
    let mut kept = Kept::NOT;
    if keeps::<M>() {
        kept = single_calls::of_ring(request, program == Program::RingSync as u32);
    }
    if is_left_out::<M>(M::thread(), program, file) {
        return;
    }
    let mut is_first = false;
    // SAFETY: an element of a per-CPU map, which only this program uses. The stack has no room for it.
    unsafe {
        let ended = &raw mut (*noted).ended;
        let one = Ended {
            calls: 1,
            result,
            begin_ns: 0,
            kept,
        };
        copy_words(&raw const one, ended, 0);
        add_or_first::<M>(M::thread(), program, file, &*ended, |sum| {
            copy_words(&raw const sum, &raw mut (*noted).sum, 0);
            is_first = true;
        });
    }
    if is_first && count_first(noted) {
        name(file);
    }
}

/// This CPU's element belongs to the program that counts the requests: the kernel skips the program while it runs on this CPU.
#[map]
static RING_FIRST: PerCpuArray<First> = PerCpuArray::with_max_entries(1, 0);

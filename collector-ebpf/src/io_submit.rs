//! Requests of libaio: `io_submit` returns how many requests (`struct iocb`, include/uapi/linux/aio_abi.h) it has begun. Their results are not
//! seen here, so the requested bytes count.
//!
//! They are first added up by descriptor: otherwise the verifier would follow all of the counting for each request.

use aya_ebpf::{helpers::bpf_probe_read_user, macros::map, maps::PerCpuArray};

use crate::kernel_memory::{if_zero, opaque};

/// Limits for one call: requests that are looked at, and their descriptors.
const MOST_SUBMITTED: u32 = 128;
pub const MOST_BATCHES: usize = 8;

pub type Batches = [Batch; MOST_BATCHES];

/// This CPU's element belongs to the program on the call: the kernel skips the program while it runs on this CPU.
#[map]
static BATCHES: PerCpuArray<Batches> = PerCpuArray::with_max_entries(1, 0);

/// Requests of one call for one descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Batch {
    /// The descriptor plus one; 0 if the batch is free.
    pub of: u64,
    /// Reads, and writes.
    pub ways: [Way; 2],
}

/// Requests, and the bytes that they ask for.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Way {
    pub calls: u64,
    pub bytes: u64,
}

impl Batch {
    const NONE: Self = Self {
        of: 0,
        ways: [Way { calls: 0, bytes: 0 }; 2],
    };
}

/// The begin of `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Submitted {
    data: u64,
    key_and_flags: u64,
    /// `IOCB_CMD_PREAD` or `IOCB_CMD_PWRITE`; vectored requests have other numbers.
    pub operation: u16,
    priority: u16,
    descriptor: u32,
    buffer: u64,
    pub bytes: u64,
    pub offset: u64,
}

/// One of the requests of a call; `None` if it cannot be read.
#[inline(always)]
fn submitted(requests: u64, number: u32) -> Option<Submitted> {
    let at = requests.wrapping_add(u64::from(number) * 8);
    // SAFETY: the helper reads at any address without faulting.
    unsafe {
        let request = bpf_probe_read_user(at as *const u64).ok()?;
        bpf_probe_read_user(request as *const Submitted).ok()
    }
}

/// Adds up the requests of a call in batches. A free batch ends the list.
#[inline(never)]
pub fn batches(requests: u64, count: u32) -> Option<*const Batches> {
    let batches = BATCHES.get_ptr_mut(0)?;
    // SAFETY: this CPU's element, which only this program uses; `number` and `place` are below `MOST_BATCHES`.
    unsafe {
        for number in 0..MOST_BATCHES {
            (&raw mut (*batches)[number]).write_volatile(Batch::NONE);
        }
        each(requests, count, batches, |place, request| {
            let batch = &raw mut (*batches)[place];
            (&raw mut (*batch).of).write_volatile(of_batch(request));
            let way = &raw mut (*batch).ways[usize::from(request.operation & 1)];
            let Way { calls, bytes } = way.read_volatile();
            way.write_volatile(Way {
                calls: calls + 1,
                bytes: bytes.wrapping_add(request.bytes),
            });
        });
    }
    Some(batches)
}

/// Calls `with` for each read or write request of a call, with the index of its batch.
///
/// # Safety
///
/// `batches` is an element of the map.
#[inline(always)]
pub unsafe fn each(
    requests: u64,
    count: u32,
    batches: *const Batches,
    mut with: impl FnMut(usize, &Submitted),
) {
    for number in 0..MOST_SUBMITTED {
        if number >= count {
            break;
        }
        let Some(request) = submitted(requests, number) else {
            break;
        };
        if request.operation > 1 {
            continue;
        }
        // SAFETY: the caller guarantees an element of the map.
        if let Some(place) = unsafe { place_of(batches, of_batch(&request)) } {
            with(place, &request);
        }
    }
}

/// [`Batch::of`] of a request.
#[inline(always)]
fn of_batch(request: &Submitted) -> u64 {
    u64::from(request.descriptor) + 1
}

/// The index of a descriptor's batch, or of the first free one. Without a branch: the verifier would follow both ways, for each request once more.
///
/// # Safety
///
/// `batches` is an element of the map.
#[inline(always)]
unsafe fn place_of(batches: *const Batches, its: u64) -> Option<usize> {
    let mut place = MOST_BATCHES as u64;
    for number in (0..MOST_BATCHES).rev() {
        // SAFETY: the caller guarantees an element of the map, and `number` is below its length.
        let of = unsafe { (&raw const (*batches)[number].of).read_volatile() };
        let is_it = if_zero(of) | if_zero(of ^ its);
        place = place & !is_it | number as u64 & is_it;
    }
    let place = opaque(place);
    (place < MOST_BATCHES as u64).then_some(place as usize)
}

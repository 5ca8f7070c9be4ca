//! Requests of libaio: `io_submit` has begun as many of them (`struct iocb`, include/uapi/linux/aio_abi.h) as it returns. What each of them will
//! transfer nobody tells: what it asks for counts.
//!
//! They are added up by descriptor here: the verifier would follow all of the counting for each request.

use aya_ebpf::{helpers::bpf_probe_read_user, macros::map, maps::PerCpuArray};

use crate::kernel_memory::{if_zero, opaque};

/// Requests of a call that are looked at, and of how many descriptors they may be.
const MOST_SUBMITTED: u32 = 128;
pub const MOST_BATCHES: usize = 8;

pub type Batches = [Batch; MOST_BATCHES];

/// This CPU's element belongs to the program on the call: the kernel skips it while it runs there.
#[map]
static BATCHES: PerCpuArray<Batches> = PerCpuArray::with_max_entries(1, 0);

/// Requests of one call for one descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Batch {
    /// The descriptor and one; 0 while there are none.
    pub of: u64,
    /// Those that read, and those that write.
    pub ways: [Way; 2],
}

/// How many, and bytes that they ask for.
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
    /// `IOCB_CMD_PREAD` or `IOCB_CMD_PWRITE`; those of vectors are others.
    pub operation: u16,
    priority: u16,
    descriptor: u32,
    buffer: u64,
    pub bytes: u64,
    pub offset: u64,
}

/// One of the requests of a call; `None` where there is none.
#[inline(always)]
fn submitted(requests: u64, number: u32) -> Option<Submitted> {
    let at = requests.wrapping_add(u64::from(number) * 8);
    // SAFETY: it reads at any address without faulting.
    unsafe {
        let request = bpf_probe_read_user(at as *const u64).ok()?;
        bpf_probe_read_user(request as *const Submitted).ok()
    }
}

/// Adds up the requests of a call, in batches of which the first one without a descriptor is behind the last.
#[inline(never)]
pub fn batches(requests: u64, count: u32) -> Option<*const Batches> {
    let batches = BATCHES.get_ptr_mut(0)?;
    // SAFETY: of the map.
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

/// Goes through the requests of a call that read or write, with the numbers of the batches that they belong to.
///
/// # Safety
///
/// The batches are those of the map.
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
        // SAFETY: by the caller.
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

/// The first of the batches that is a descriptor's own, or nobody's. Without a branch: the verifier would follow both ways, for each request once more.
///
/// # Safety
///
/// They are those of the map.
#[inline(always)]
unsafe fn place_of(batches: *const Batches, its: u64) -> Option<usize> {
    let mut place = MOST_BATCHES as u64;
    for number in (0..MOST_BATCHES).rev() {
        // SAFETY: by the caller.
        let of = unsafe { (&raw const (*batches)[number].of).read_volatile() };
        let is_it = if_zero(of) | if_zero(of ^ its);
        place = place & !is_it | number as u64 & is_it;
    }
    let place = opaque(place);
    (place < MOST_BATCHES as u64).then_some(place as usize)
}

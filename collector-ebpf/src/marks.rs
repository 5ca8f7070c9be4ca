//! Which requests the first of two programs on a tracepoint has taken on.

use crate::kernel_memory::{Address, Memory, exchange};

/// Requests that can be marked at a time, a power of two: in hand between both programs is one for each thread that
/// the scheduler interrupts there. 64 KiB.
const SLOTS: usize = 4096;

/// By a hash of the requests' addresses.
type Marks = [Mark; SLOTS];

/// See [`Marks`]. A global, because its elements are found without a lookup.
#[unsafe(no_mangle)]
static mut MARKS: Marks = [Mark::NONE; SLOTS];

/// When the kernel skips the second program the mark stays. The slot is then good for requests at that address only, of
/// which the next one that both programs see removes it.
#[derive(Clone, Copy)]
#[repr(C)]
struct Mark {
    /// The request's address, or 0. As long as its completion goes on no other request has it.
    request: u64,
    /// Tells it from the request that had the address before, whose mark may have stayed.
    time: u64,
}

impl Mark {
    const NONE: Self = Self {
        request: 0,
        time: 0,
    };
}

/// Marks the request, which may have a mark already; false if the slot belongs to another one.
///
/// `time` is one of its own, the same in both programs.
#[inline(always)]
pub fn leave<M: Memory>(request: Address<M>, time: u64) -> bool {
    let mark = slot(request);
    // SAFETY: an element of the array.
    unsafe {
        let before = exchange(&raw mut (*mark).request, 0, request.0);
        let is_left = before == 0 || before == request.0;
        if is_left {
            (&raw mut (*mark).time).write_volatile(time);
        }
        is_left
    }
}

/// Removes the request's mark; false if it has none.
#[inline(always)]
pub fn take<M: Memory>(request: Address<M>, time: u64) -> bool {
    let mark = slot(request);
    // SAFETY: as above. Only the request's own thread changes a mark at its address.
    unsafe {
        if (&raw const (*mark).request).read_volatile() != request.0 {
            return false;
        }
        let is_its_own = (&raw const (*mark).time).read_volatile() == time;
        (&raw mut (*mark).request).write_volatile(0);
        is_its_own
    }
}

#[inline(always)]
fn slot<M: Memory>(request: Address<M>) -> *mut Mark {
    let index = request.hash::<{ SLOTS.ilog2() }>() as usize;
    // SAFETY: the hash has as many bits as there are slots.
    unsafe { (&raw mut MARKS).cast::<Mark>().add(index) }
}

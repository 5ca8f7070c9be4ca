//! Which requests the first of two programs on a tracepoint has taken on.

use aya_ebpf::maps::Array;

use crate::{
    kernel::{Address, Memory, exchange},
    maps::MARKS,
};

/// Requests that can be marked at a time, a power of two: in hand between both programs is one for each thread that
/// the scheduler interrupts there. 32 KiB.
pub const SLOTS: u32 = 4096;

/// By a hash of their addresses: requests, or 0. As long as its completion goes on no other request has the address.
///
/// When the kernel skips the second program the mark stays. The slot is then good for requests at that address only, of
/// which the next one removes it.
pub type Marks = Array<u64>;

/// Marks the request, which may have a mark already; false if the slot belongs to another one.
#[inline(always)]
pub fn leave<M: Memory>(request: Address<M>) -> bool {
    let Some(slot) = slot(request) else {
        return false;
    };
    // SAFETY: an element of an array, which exists for as long as the program runs.
    let before = unsafe { exchange(slot, 0, request.0) };
    before == 0 || before == request.0
}

/// Removes the request's mark; false if it has none.
#[inline(always)]
pub fn take<M: Memory>(request: Address<M>) -> bool {
    let Some(slot) = slot(request) else {
        return false;
    };
    // SAFETY: as above. Only the request's own thread removes its mark.
    unsafe {
        let marked = slot.read_volatile() == request.0;
        if marked {
            slot.write_volatile(0);
        }
        marked
    }
}

#[inline(always)]
fn slot<M: Memory>(request: Address<M>) -> Option<*mut u64> {
    MARKS.get_ptr_mut(request.hash::<{ SLOTS.ilog2() }>())
}

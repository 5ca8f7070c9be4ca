//! Which requests the first of two programs on a tracepoint has taken on.

use crate::{
    kernel::{Address, Memory, exchange},
    maps::MARKS,
};

/// Requests that can be marked at a time, a power of two: in hand between both programs is one for each thread that
/// the scheduler interrupts there. 32 KiB.
pub const SLOTS: usize = 4096;

/// By a hash of their addresses: requests, or 0. As long as its completion goes on no other request has the address.
///
/// When the kernel skips the second program the mark stays. The slot is then good for requests at that address only, of
/// which the next one removes it.
pub type Marks = [u64; SLOTS];

/// Marks the request, which may have a mark already; false if the slot belongs to another one.
#[inline(always)]
pub fn leave<M: Memory>(request: Address<M>) -> bool {
    // SAFETY: an element of the array.
    let before = unsafe { exchange(slot(request), 0, request.0) };
    before == 0 || before == request.0
}

/// Removes the request's mark; false if it has none.
#[inline(always)]
pub fn take<M: Memory>(request: Address<M>) -> bool {
    let slot = slot(request);
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
fn slot<M: Memory>(request: Address<M>) -> *mut u64 {
    let index = request.hash::<{ SLOTS.ilog2() }>() as usize;
    // SAFETY: the hash has as many bits as there are slots.
    unsafe { (&raw mut MARKS).cast::<u64>().add(index) }
}

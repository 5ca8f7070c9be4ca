//! A request completes: its record goes into the ring, and both into the books.

use core::arch::asm;

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::bpf_get_smp_processor_id,
};
use trackiops_schemas::ring::{BOOKS_SLOTS, Books, RequestRecord};

use crate::{
    kernel::global,
    maps::{BOOKS, RING, WAKEUP_BYTES},
};

/// A completed request, which has been counted as seen.
///
/// That comes before anything else, so that `recorded + lost <= seen` at every instant.
pub struct Completion {
    books: *mut Books,
}

impl Completion {
    #[inline(always)]
    pub fn seen() -> Option<Self> {
        // SAFETY: takes nothing, and every program may call it.
        let cpu = unsafe { bpf_get_smp_processor_id() };
        let books = BOOKS.get_ptr_mut(cpu % BOOKS_SLOTS)?;
        // SAFETY: an element of an array, which exists for as long as the program runs.
        add_one(unsafe { &raw mut (*books).seen });
        Some(Self { books })
    }

    /// Puts its record, if it could be made, into the ring, and both into the books.
    #[inline(always)]
    pub fn record(self, record: Option<RequestRecord>) {
        // SAFETY: as above.
        let (recorded, lost) =
            unsafe { (&raw mut (*self.books).recorded, &raw mut (*self.books).lost) };
        match record {
            Some(record) if emit(record) => add_one(recorded),
            _ => add_one(lost),
        }
    }
}

/// Puts a record into the ring; false if there is no room.
///
/// The reader is on a timer. It is woken only when the ring fills faster than the timer expects.
#[inline(always)]
fn emit(record: RequestRecord) -> bool {
    let Some(mut entry) = RING.reserve::<RequestRecord>(0) else {
        return false;
    };
    entry.write(record);
    let unread = RING.query(u64::from(BPF_RB_AVAIL_DATA));
    let wake = if unread >= global(&WAKEUP_BYTES) {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    };
    entry.submit(u64::from(wake));
    true
}

/// Adds one to a counter.
///
/// Atomic, because CPUs may share it, and the exactness of the books must not rest on how a kernel
/// keeps programs of one CPU from interrupting each other. Written out, because `AtomicU64` has no such operation on this
/// target, and because only the form without a result exists before Linux 5.12.
#[inline(always)]
fn add_one(counter: *mut u64) {
    // SAFETY: an aligned counter of the books.
    unsafe {
        asm!(
            "lock *(u64 *)({counter} + 0) += {one}",
            counter = in(reg) counter,
            one = in(reg) 1_u64,
            options(nostack),
        );
    }
}

//! A request completes: its record goes into a ring, or is added up, and both go into the books.

use core::{hint::black_box, ptr};

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    helpers::{bpf_get_smp_processor_id, bpf_ringbuf_query},
};
use trackiops_schemas::ring::{BOOKS_SLOTS, Books, RequestRecord};

use crate::{
    fold::fold,
    kernel::{add, global},
    maps::{BOOKS, RING_MASK, RINGS, WAKEUP_BYTES},
};

/// A completed request, which has been counted as seen.
///
/// That comes before anything else, so that `recorded + folded + lost <= seen` at every instant.
pub struct Completion {
    cpu: u32,
    books: *mut Books,
}

impl Completion {
    #[inline(always)]
    pub fn seen() -> Option<Self> {
        // SAFETY: takes nothing, and every program may call it.
        let cpu = unsafe { bpf_get_smp_processor_id() };
        let books = BOOKS.get_ptr_mut(cpu % BOOKS_SLOTS)?;
        // SAFETY: an element of an array, which exists for as long as the program runs.
        unsafe { add(&raw mut (*books).seen, 1) };
        Some(Self { cpu, books })
    }

    /// Whether it is its turn to see how full the ring is: that of every eighth one of a CPU, because it takes a tenth of
    /// the work of handing over a record.
    #[inline(always)]
    fn is_to_look(&self) -> bool {
        // SAFETY: as above.
        unsafe { (&raw const (*self.books).seen).read_volatile() % 8 == 0 }
    }

    /// Hands its record over, if it could be made, and writes into the books what became of it.
    #[inline(always)]
    pub fn record(self, record: Option<RequestRecord>) {
        let books = self.books;
        // SAFETY: as above.
        let fate = unsafe {
            match record {
                Some(record) if emit(self.cpu, &record, self.is_to_look()) => {
                    &raw mut (*books).recorded
                }
                // A copy: the compiler keeps the other one in registers, on its way into the ring.
                Some(record) if fold(&black_box(record)) => &raw mut (*books).folded,
                _ => &raw mut (*books).lost,
            }
        };
        // SAFETY: as above.
        unsafe { add(fate, 1) };
    }
}

/// Puts a record into this CPU's ring; false if there is no room.
///
/// The reader is on a timer. It is woken only when the ring fills faster than the timer expects; the one who `looks` sees that.
#[inline(always)]
fn emit(cpu: u32, record: &RequestRecord, looks: bool) -> bool {
    let Some(ring) = RINGS.get(cpu & global(&RING_MASK)) else {
        return false;
    };
    let Some(mut entry) = ring.reserve(0) else {
        return false;
    };
    entry.write(*record);
    let map = ptr::from_ref(ring).cast_mut().cast();
    // SAFETY: a reference to a map is what helpers take for it.
    let unread = || unsafe { bpf_ringbuf_query(map, u64::from(BPF_RB_AVAIL_DATA)) };
    let wake = if looks && unread() >= global(&WAKEUP_BYTES) {
        BPF_RB_FORCE_WAKEUP
    } else {
        BPF_RB_NO_WAKEUP
    };
    entry.submit(u64::from(wake));
    true
}

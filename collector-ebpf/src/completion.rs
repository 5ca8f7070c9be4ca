//! A request completes: its record goes into a ring, or is added up, and both go into the books.

use core::{hint::black_box, ptr};

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    btf_maps::RingBuf,
    helpers::bpf_ringbuf_query,
    maps::ring_buf::RingBufEntry,
};
use trackiops_schemas::ebpf::ring::{BOOKS_SLOTS, Books, RequestRecord};

use crate::{
    fold::fold,
    globals::{RING_MASK, WAKEUP_BYTES},
    kernel_memory::{self, Memory, add, global},
    maps::{self, RINGS},
};

/// A completed request, which has been counted as seen.
///
/// That comes before anything else, so that `recorded + folded + lost <= seen` at every instant.
pub struct Completion {
    /// On which it has completed.
    cpu: u32,
    books: *mut Books,
}

impl Completion {
    #[inline(always)]
    pub fn seen<M: Memory>() -> Option<Self> {
        let cpu = kernel_memory::cpu();
        // SAFETY: an element of an array, which exists for as long as the program runs.
        let books = unsafe { &raw mut (*maps::books::<M>()?)[(cpu % BOOKS_SLOTS) as usize] };
        // SAFETY: as above.
        unsafe { add!(Books, books.seen, 1) };
        Some(Self { cpu, books })
    }

    /// Room for a record in this CPU's ring, if there is any.
    #[inline(always)]
    pub fn room(&self) -> Option<RingBufEntry<RequestRecord>> {
        self.ring()?.reserve(0)
    }

    /// The record stands in its room, if it could be made.
    #[inline(always)]
    pub fn recorded(self, room: RingBufEntry<RequestRecord>, is_made: bool) {
        if is_made {
            let wake = if self.is_to_look() && self.unread_bytes() >= global(&WAKEUP_BYTES) {
                BPF_RB_FORCE_WAKEUP
            } else {
                BPF_RB_NO_WAKEUP
            };
            room.submit(u64::from(wake));
            let books = self.books;
            // SAFETY: as above.
            unsafe { add!(Books, books.recorded, 1) };
        } else {
            room.discard(u64::from(BPF_RB_NO_WAKEUP));
            self.lost();
        }
    }

    /// Whether it is its turn to see how full the ring is: that of every 32nd one of a CPU, because it takes a tenth of
    /// the work of handing over a record. The reader is on a timer, and is woken only when the ring fills faster than
    /// the timer expects.
    #[inline(always)]
    fn is_to_look(&self) -> bool {
        // SAFETY: as above.
        unsafe { (&raw const (*self.books).seen).read_volatile() % 32 == 0 }
    }

    fn unread_bytes(&self) -> u64 {
        let Some(ring) = self.ring() else {
            return 0;
        };
        let map = ptr::from_ref(ring).cast_mut().cast();
        // SAFETY: a reference to a map is what helpers take for it.
        unsafe { bpf_ringbuf_query(map, u64::from(BPF_RB_AVAIL_DATA)) }
    }

    #[inline(always)]
    fn ring(&self) -> Option<&'static RingBuf<RequestRecord, 4096>> {
        RINGS.get(self.cpu & global(&RING_MASK))
    }

    /// Hands its record over, if it could be made.
    #[inline(always)]
    pub fn record(self, record: Option<RequestRecord>) {
        match record {
            Some(record) => match self.room() {
                Some(mut room) => {
                    room.write(record);
                    self.recorded(room, true);
                }
                // A copy: the compiler keeps the other one in registers, on its way into the ring.
                None => self.fold(&mut black_box(record)),
            },
            None => self.lost(),
        }
    }

    /// There was no room for the record.
    #[inline(always)]
    pub fn fold(self, record: &mut RequestRecord) {
        if fold(record) {
            let books = self.books;
            // SAFETY: as above.
            unsafe { add!(Books, books.folded, 1) };
        } else {
            self.lost();
        }
    }

    /// Its record could not be made.
    #[inline(always)]
    pub fn lost(self) {
        let books = self.books;
        // SAFETY: as above.
        unsafe { add!(Books, books.lost, 1) };
    }
}

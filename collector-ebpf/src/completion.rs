//! A request completes: its record goes into a ring, or is added up, and both go into the books.

use core::{hint::black_box, ptr};

use aya_ebpf::{
    bindings::{BPF_RB_AVAIL_DATA, BPF_RB_FORCE_WAKEUP, BPF_RB_NO_WAKEUP},
    btf_maps::RingBuf,
    helpers::bpf_ringbuf_query,
    maps::ring_buf::RingBufEntry,
};
use trackiops_schemas::ebpf::ring::{
    BOOKS_SLOTS, Books, NO_RECORD, RECORD_BYTES, RECORD_SLOTS_AT, RequestRecord, RingPositions,
};

use crate::{
    fold::fold,
    globals::{RING_MASK, SLOT_MASK, WAKEUP_BYTES},
    kernel_memory::{self, Cast, Memory, add, exchange, global, opaque, publish},
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

    /// A slot for a record in this CPU's ring, if there is one: where programs exchange words.
    #[inline(always)]
    pub fn slot<M: Memory>(&self) -> Option<*mut RequestRecord> {
        slot_of::<M>(self.cpu)
    }

    /// The same before the request is counted, which whoever takes the slot does next.
    #[inline(always)]
    pub fn free_slot<M: Memory>() -> Option<*mut RequestRecord> {
        slot_of::<M>(kernel_memory::cpu())
    }

    /// The record stands in its slot, if it could be made, but for the time of its end.
    #[inline(always)]
    pub fn in_slot(self, slot: *mut RequestRecord, end_ns: u64, is_made: bool) {
        // SAFETY: of `slot`. Whoever sees the time sees what was written before it.
        unsafe {
            if !is_made {
                (&raw mut (*slot).flags).write_volatile(NO_RECORD);
            }
            publish(&raw mut (*slot).end_ns, end_ns);
        }
        if !is_made {
            self.lost();
            return;
        }
        if self.is_to_look() {
            wake_if_filling(self.cpu);
        }
        let books = self.books;
        // SAFETY: as above.
        unsafe { add!(Books, books.recorded, 1) };
    }

    /// Room for a record in this CPU's ring buffer, if there is any: on every kernel.
    #[inline(always)]
    fn room(&self) -> Option<RingBufEntry<RequestRecord>> {
        self.ring()?.reserve(0)
    }

    /// The record stands in its room.
    #[inline(always)]
    fn recorded(self, room: RingBufEntry<RequestRecord>) {
        let wake = if self.is_to_look() && self.unread_bytes() >= global(&WAKEUP_BYTES) {
            BPF_RB_FORCE_WAKEUP
        } else {
            BPF_RB_NO_WAKEUP
        };
        room.submit(u64::from(wake));
        let books = self.books;
        // SAFETY: as above.
        unsafe { add!(Books, books.recorded, 1) };
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
                    self.recorded(room);
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

/// A slot for a record in the ring of a CPU, if there is one.
#[inline(always)]
fn slot_of<M: Memory>(cpu: u32) -> Option<*mut RequestRecord> {
    let rings = maps::record_rings::<M>()?;
    let ring = u64::from(cpu & global(&RING_MASK));
    let mask = u64::from(global(&SLOT_MASK));
    // SAFETY: one of the positions, and one of the slots.
    unsafe {
        let positions = rings.add(ring as usize * size_of::<RingPositions>()).cast();
        let number = take_slot(positions, mask).or_else(|| take_slot_again(positions, mask))?;
        let index = ring * (mask + 1) + (number & mask);
        let slot = rings.add(RECORD_SLOTS_AT + index as usize * RECORD_BYTES);
        // The compiler would keep the begin of the slots beside it.
        let slot = opaque(slot.expose_provenance() as u64);
        Some(ptr::with_exposed_provenance_mut(slot as usize))
    }
}

/// Takes the next slot of a ring, unless it has none free or somebody else takes it at the same time.
///
/// # Safety
///
/// The positions are those of a ring.
#[inline(always)]
unsafe fn take_slot(positions: *mut RingPositions, mask: u64) -> Option<u64> {
    // SAFETY: by the caller.
    unsafe {
        let (taken, unread) = slots_in_use(positions);
        let is_ours = unread <= mask
            && exchange(&raw mut (*positions).taken, taken, taken.wrapping_add(1)) == taken;
        is_ours.then_some(taken)
    }
}

/// The same once more, some times. In a function of its own, like the others that are seldom called.
///
/// # Safety
///
/// As above.
#[inline(never)]
unsafe fn take_slot_again(positions: *mut RingPositions, mask: u64) -> Option<u64> {
    // SAFETY: by the caller.
    (0..8).find_map(|_| unsafe { take_slot(positions, mask) })
}

/// How many slots of a ring were taken since it was made, and how many of them are not read.
///
/// # Safety
///
/// As above.
#[inline(always)]
unsafe fn slots_in_use(positions: *mut RingPositions) -> (u64, u64) {
    // SAFETY: by the caller.
    unsafe {
        // First, so that it is never beyond what was taken.
        let read = (&raw const (*positions).read.0).read_volatile();
        let taken = (&raw const (*positions).taken).read_volatile();
        (taken, taken.wrapping_sub(read))
    }
}

/// Wakes the reader if many slots of a CPU's ring are not read: by an entry in a ring buffer that says nothing.
#[inline(never)]
fn wake_if_filling(cpu: u32) {
    let Some(rings) = maps::record_rings::<Cast>() else {
        return;
    };
    let ring = (cpu & global(&RING_MASK)) as usize;
    // SAFETY: the positions of a ring.
    let (_, unread) = unsafe {
        let positions = rings.add(ring * size_of::<RingPositions>()).cast();
        slots_in_use(positions)
    };
    if unread * RECORD_BYTES as u64 >= global(&WAKEUP_BYTES)
        && let Some(entry) = RINGS.get(0).and_then(|bell| bell.reserve(0))
    {
        entry.discard(u64::from(BPF_RB_FORCE_WAKEUP));
    }
}

//! When a request completes: its record goes into a ring or is added up, and the books count which.

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
/// Counting comes first, so that `recorded + folded + lost <= seen` at every instant.
pub struct Completion {
    /// The CPU on which it has completed.
    cpu: u32,
    books: *mut Books,
}

impl Completion {
    #[inline(always)]
    pub fn seen<M: Memory>() -> Option<Self> {
        let cpu = kernel_memory::cpu();
        // SAFETY: an element of an array, which exists for as long as the program runs.
        let books = unsafe { &raw mut (*maps::books::<M>()?)[(cpu % BOOKS_SLOTS) as usize] };
        // SAFETY: `books` is an element of the array, and the addition is atomic.
        unsafe { add!(Books, books.seen, 1) };
        Some(Self { cpu, books })
    }

    /// A free slot for a record in this CPU's ring, on kernels where programs can exchange words.
    #[inline(always)]
    pub fn slot<M: Memory>(&self) -> Option<*mut RequestRecord> {
        slot_of::<M>(self.cpu)
    }

    /// [`Self::slot`] before the request is counted. A caller that takes the slot calls [`Self::seen`] next.
    #[inline(always)]
    pub fn free_slot<M: Memory>() -> Option<*mut RequestRecord> {
        slot_of::<M>(kernel_memory::cpu())
    }

    /// The record is complete in its slot except for its end time. `is_made` is false if the record could not be made.
    #[inline(always)]
    pub fn in_slot(self, slot: *mut RequestRecord, end_ns: u64, is_made: bool) {
        // SAFETY: only the taker of `slot` writes to it. `publish` comes last, so a reader that sees the end time sees the whole record.
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
        // SAFETY: `books` is an element of the array, and the addition is atomic.
        unsafe { add!(Books, books.recorded, 1) };
    }

    /// Room for a record in this CPU's ring buffer, if there is any. Works on every kernel.
    #[inline(always)]
    fn room(&self) -> Option<RingBufEntry<RequestRecord>> {
        self.ring()?.reserve(0)
    }

    /// Submits the record that was written to `room`.
    #[inline(always)]
    fn recorded(self, room: RingBufEntry<RequestRecord>) {
        let wake = if self.is_to_look() && self.unread_bytes() >= global(&WAKEUP_BYTES) {
            BPF_RB_FORCE_WAKEUP
        } else {
            BPF_RB_NO_WAKEUP
        };
        room.submit(u64::from(wake));
        let books = self.books;
        // SAFETY: `books` is an element of the array, and the addition is atomic.
        unsafe { add!(Books, books.recorded, 1) };
    }

    /// Whether to check how full the ring is: for every 32nd request of a CPU, because the check takes a tenth of
    /// the work of handing over a record. The reader runs on a timer, and is woken only when the ring fills faster than
    /// the timer expects.
    #[inline(always)]
    fn is_to_look(&self) -> bool {
        // SAFETY: `books` is an element of the array, and `seen` is an aligned word.
        unsafe { (&raw const (*self.books).seen).read_volatile() % 32 == 0 }
    }

    fn unread_bytes(&self) -> u64 {
        let Some(ring) = self.ring() else {
            return 0;
        };
        let map = ptr::from_ref(ring).cast_mut().cast();
        // SAFETY: helpers take the address of a map object, and `ring` is one.
        unsafe { bpf_ringbuf_query(map, u64::from(BPF_RB_AVAIL_DATA)) }
    }

    #[inline(always)]
    fn ring(&self) -> Option<&'static RingBuf<RequestRecord, 4096>> {
        RINGS.get(self.cpu & global(&RING_MASK))
    }

    /// Hands the record over, or counts the request as lost if its record could not be made.
    #[inline(always)]
    pub fn record(self, record: Option<RequestRecord>) {
        match record {
            Some(record) => match self.room() {
                Some(mut room) => {
                    room.write(record);
                    self.recorded(room);
                }
                // A copy, because the compiler keeps the original in registers on its way into the ring.
                None => self.fold(&mut black_box(record)),
            },
            None => self.lost(),
        }
    }

    /// Folds a record for which the ring had no room.
    #[inline(always)]
    pub fn fold(self, record: &mut RequestRecord) {
        if fold(record) {
            let books = self.books;
            // SAFETY: `books` is an element of the array, and the addition is atomic.
            unsafe { add!(Books, books.folded, 1) };
        } else {
            self.lost();
        }
    }

    /// Counts a request whose record could not be made.
    #[inline(always)]
    pub fn lost(self) {
        let books = self.books;
        // SAFETY: `books` is an element of the array, and the addition is atomic.
        unsafe { add!(Books, books.lost, 1) };
    }
}

/// A free slot for a record in the ring of a CPU.
#[inline(always)]
fn slot_of<M: Memory>(cpu: u32) -> Option<*mut RequestRecord> {
    let rings = maps::record_rings::<M>()?;
    let ring = u64::from(cpu & global(&RING_MASK));
    let mask = u64::from(global(&SLOT_MASK));
    // SAFETY: userspace sized the map for all rings and slots that the masks allow.
    unsafe {
        let positions = rings.add(ring as usize * size_of::<RingPositions>()).cast();
        let number = take_slot(positions, mask).or_else(|| take_slot_again(positions, mask))?;
        let index = ring * (mask + 1) + (number & mask);
        let slot = rings.add(RECORD_SLOTS_AT + index as usize * RECORD_BYTES);
        // Otherwise the compiler keeps a second pointer to the first slot.
        let slot = opaque(slot.expose_provenance() as u64);
        Some(ptr::with_exposed_provenance_mut(slot as usize))
    }
}

/// Takes the next slot of a ring; `None` if no slot is free or another CPU takes this one at the same time.
///
/// # Safety
///
/// `positions` points to a ring's positions.
#[inline(always)]
unsafe fn take_slot(positions: *mut RingPositions, mask: u64) -> Option<u64> {
    // SAFETY: the caller passes a ring's positions, whose members are aligned words.
    unsafe {
        let (taken, unread) = slots_in_use(positions);
        let is_ours = unread <= mask
            && exchange(&raw mut (*positions).taken, taken, taken.wrapping_add(1)) == taken;
        is_ours.then_some(taken)
    }
}

/// [`take_slot`], up to 8 times. `#[inline(never)]`: cold path.
///
/// # Safety
///
/// `positions` points to a ring's positions.
#[inline(never)]
unsafe fn take_slot_again(positions: *mut RingPositions, mask: u64) -> Option<u64> {
    // SAFETY: the caller passes a ring's positions.
    (0..8).find_map(|_| unsafe { take_slot(positions, mask) })
}

/// How many slots were taken since the ring was made, and how many of them are unread.
///
/// # Safety
///
/// `positions` points to a ring's positions.
#[inline(always)]
unsafe fn slots_in_use(positions: *mut RingPositions) -> (u64, u64) {
    // SAFETY: the caller passes a ring's positions, whose members are aligned words.
    unsafe {
        // Read first, so that it never exceeds `taken`.
        let read = (&raw const (*positions).read.0).read_volatile();
        let taken = (&raw const (*positions).taken).read_volatile();
        (taken, taken.wrapping_sub(read))
    }
}

/// Wakes the reader if many slots of a CPU's ring are unread, by an empty entry in a ring buffer.
#[inline(never)]
fn wake_if_filling(cpu: u32) {
    let Some(rings) = maps::record_rings::<Cast>() else {
        return;
    };
    let ring = (cpu & global(&RING_MASK)) as usize;
    // SAFETY: the mask keeps `ring` below the number of rings.
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

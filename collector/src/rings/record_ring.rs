//! One of the rings in memory that the programs and userspace share
//! (`schemas/src/ebpf/ring/record_rings.rs`).

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::{MapData, MapError, MapType};
use aya_obj::generated::BPF_F_MMAPABLE;
use trackiops_schemas::ebpf::ring::{
    RECORD_BYTES, RECORD_RINGS_MAP, RECORD_SLOTS_AT, RequestRecord, RingPositions, flags,
};

use crate::rings::RingSizes;
use crate::shared_memory::SharedWords;

/// Bytes of a word.
const WORD: usize = size_of::<AtomicU64>();
/// Words of a slot.
const SLOT_WORDS: usize = RECORD_BYTES / WORD;
/// Most records that are found at a time: their slots are given back together.
const AT_ONCE: usize = 64;
/// Where a record's flags are in it.
const FLAGS_AT: usize = offset_of!(RequestRecord, flags);

type Slot = [AtomicU64; SLOT_WORDS];

const _: () = assert!(
    offset_of!(RequestRecord, end_ns) == 0,
    "the first word of a slot says whether it is written"
);

/// The array that holds the rings.
pub struct RecordMemory {
    map: MapData,
    sizes: RingSizes,
}

impl RecordMemory {
    /// Has the kernel make it.
    pub fn create(sizes: RingSizes) -> Result<Self, MapError> {
        let bytes = RECORD_SLOTS_AT + sizes.count as usize * sizes.slots() as usize * RECORD_BYTES;
        // More than that is no size of an array's element.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let map = aya_obj::Map::new_from_params(MapType::Array as u32, 4, bytes, 1, BPF_F_MMAPABLE);
        let map = MapData::create(map, RECORD_RINGS_MAP, None)?;
        Ok(Self { map, sizes })
    }

    /// Maps the rings.
    pub fn rings(&self) -> io::Result<Vec<RecordRing>> {
        let RingSizes { count, .. } = self.sizes;
        rings(self.map.fd(), count, self.sizes.slots())
    }
}

impl AsFd for RecordMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.fd().as_fd()
    }
}

/// Maps `count` rings of `slots` slots each, a power of two.
fn rings(map: impl AsFd, count: u32, slots: u32) -> io::Result<Vec<RecordRing>> {
    let (count, slots) = (count as usize, slots as usize);
    let words = SharedWords::map(map, RECORD_SLOTS_AT / WORD + count * slots * SLOT_WORDS)?;
    let words = Arc::new(words);
    let ring = |index| RecordRing::new(Arc::clone(&words), index, slots);
    Ok((0..count).map(ring).collect())
}

/// A ring, and how far it is read.
pub struct RecordRing {
    words: Arc<SharedWords>,
    /// Where words with positions are.
    taken_at: usize,
    read_at: usize,
    /// Where the slots begin.
    slots_at: usize,
    /// Number of slots, minus 1.
    mask: usize,
    /// In slots since the ring was made, modulo 2^64.
    read: u64,
    taken: u64,
    /// How many slots from `read` on have records, as far as these were looked for. They do not go around the end of the ring.
    found: usize,
}

impl RecordRing {
    fn new(words: Arc<SharedWords>, index: usize, slots: usize) -> Self {
        let positions_at = index * size_of::<RingPositions>();
        let read_at = (positions_at + offset_of!(RingPositions, read)) / WORD;
        let read = words.words()[read_at].load(Ordering::Acquire);
        Self {
            words,
            taken_at: (positions_at + offset_of!(RingPositions, taken)) / WORD,
            read_at,
            slots_at: RECORD_SLOTS_AT / WORD + index * slots * SLOT_WORDS,
            mask: slots - 1,
            read,
            taken: read,
            found: 0,
        }
    }

    /// Looks how many slots were taken.
    pub fn look(&mut self) {
        self.taken = self.words.words()[self.taken_at].load(Ordering::Acquire);
        self.found = 0;
    }

    /// Slots that were taken at the last [`Self::look`] and were not passed.
    pub fn used(&self) -> u64 {
        self.taken.wrapping_sub(self.read)
    }

    /// Its slots.
    pub fn capacity(&self) -> u64 {
        self.mask as u64 + 1
    }

    /// What [`Self::find`] has found and was not passed.
    #[inline]
    pub fn records(&self) -> &[RequestRecord] {
        let slots = self.slots(self.found);
        // SAFETY: `find` has seen that these slots are written. No program writes to them before they are passed, for which this
        // borrow has to end. A record is all integers, which are aligned in a slot as they are in words.
        unsafe { slice::from_raw_parts(slots.as_ptr().cast(), slots.len()) }
    }

    /// Gives the slots of the first `count` of [`Self::records`] back to the programs.
    #[inline]
    pub fn pass(&mut self, count: usize) {
        let count = count.min(self.found);
        self.free(count);
        self.found -= count;
    }

    /// Finds the oldest records that had arrived at the last [`Self::look`] and were not passed: up to `most` of those that completed by
    /// `until_ns`. Skips slots without a valid one: as these are missing from what was read, the counters show them.
    #[inline]
    pub fn find(&mut self, until_ns: u64, most: usize) {
        let is_no_record = |slot: &Slot| end_ns(slot) != 0 && !is_record(slot);
        while self.taken_slots(1).first().is_some_and(is_no_record) {
            self.free(1);
        }
        let slots = self.taken_slots(most.min(AT_ONCE)).iter();
        let is_in_time = |slot: &Slot| (1..=until_ns).contains(&end_ns(slot));
        self.found = slots
            .take_while(|slot| is_in_time(slot) && is_record(slot))
            .count();
    }

    /// Up to `most` of the slots that were taken at the last [`Self::look`] and were not passed, as far as they do not go around the end.
    #[inline]
    fn taken_slots(&self, most: usize) -> &[Slot] {
        let to_end = self.mask + 1 - self.place();
        self.slots(most.min(self.used() as usize).min(to_end))
    }

    /// The first `count` slots from `read` on.
    #[inline]
    fn slots(&self, count: usize) -> &[Slot] {
        let (slots, _) = self.words.words()[self.slots_at..].as_chunks();
        &slots[self.place()..][..count]
    }

    /// Which slot `read` is.
    #[inline]
    fn place(&self) -> usize {
        self.read as usize & self.mask
    }

    /// Frees the first `count` slots.
    #[inline]
    fn free(&mut self, count: usize) {
        for slot in self.slots(count) {
            slot[0].store(0, Ordering::Relaxed);
        }
        self.read = self.read.wrapping_add(count as u64);
        // Release: the programs write there only after they have seen this.
        self.words.words()[self.read_at].store(self.read, Ordering::Release);
    }
}

/// When the request of a slot's record completed. The programs write it last; until then it is 0.
#[inline]
fn end_ns(slot: &Slot) -> u64 {
    slot[0].load(Ordering::Acquire)
}

/// Whether what is written in a slot is a record of a request.
#[inline]
fn is_record(slot: &Slot) -> bool {
    let word = slot[FLAGS_AT / WORD].load(Ordering::Relaxed).to_ne_bytes();
    let bits = word[FLAGS_AT % WORD..].first_chunk().copied();
    u32::from_ne_bytes(bits.unwrap_or_default()) & !flags::OF_REQUESTS == 0
}

#[cfg(test)]
pub mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use rustix::fs::{MemfdFlags, memfd_create};
    use zerocopy::IntoBytes as _;

    use super::*;
    use crate::rings::ring_buffer::tests::record;

    /// Plays the part of the programs: writes a ring into a file.
    pub struct Programs {
        file: File,
        slots: u64,
    }

    impl Programs {
        /// A ring whose positions start at `begin`.
        pub fn ring(slots: u32, begin: u64) -> (Self, RecordRing) {
            let file = File::from(memfd_create("ring", MemfdFlags::CLOEXEC).unwrap());
            let slots_bytes = slots as usize * RECORD_BYTES;
            file.set_len((RECORD_SLOTS_AT + slots_bytes) as u64)
                .unwrap();
            let slots_count = u64::from(slots);
            let programs = Self {
                file,
                slots: slots_count,
            };
            for at in [
                offset_of!(RingPositions, taken),
                offset_of!(RingPositions, read),
            ] {
                programs.write(at as u64, &begin.to_ne_bytes());
            }
            let ring = rings(&programs.file, 1, slots).unwrap().remove(0);
            (programs, ring)
        }

        fn write(&self, at: u64, bytes: &[u8]) {
            self.file.write_all_at(bytes, at).unwrap();
        }

        fn position(&self, at: usize) -> u64 {
            let mut position = [0; 8];
            self.file.read_exact_at(&mut position, at as u64).unwrap();
            u64::from_ne_bytes(position)
        }

        /// Takes a slot, and returns where it is.
        fn take(&self) -> u64 {
            let taken = self.position(offset_of!(RingPositions, taken));
            let read = self.position(offset_of!(RingPositions, read));
            assert!(taken.wrapping_sub(read) < self.slots, "full");
            self.write(0, &taken.wrapping_add(1).to_ne_bytes());
            let at = RECORD_SLOTS_AT as u64 + taken % self.slots * RECORD_BYTES as u64;
            assert_eq!(self.position(at as usize), 0, "it is not free");
            at
        }

        pub fn put(&mut self, record: &RequestRecord) {
            let at = self.take();
            self.write(at + 8, &record.as_bytes()[8..]);
            self.write(at, &record.end_ns.to_ne_bytes());
        }
    }

    fn take(ring: &mut RecordRing) -> Vec<RequestRecord> {
        let mut taken = Vec::new();
        loop {
            ring.find(u64::MAX, 7);
            let found = ring.records().len();
            if found == 0 {
                return taken;
            }
            // Not all that were found at a time.
            let some = found.div_ceil(2);
            taken.extend(&ring.records()[..some]);
            ring.pass(some);
        }
    }

    #[test]
    fn every_record_is_read_once_all_around_the_ring() {
        const SLOTS: u32 = 32;
        // Positions are modulo 2^64, too, but no host gets so far.
        let (mut programs, mut ring) = Programs::ring(SLOTS, 0_u64.wrapping_sub(100));
        let mut number = 1;
        for round in 0..200_u64 {
            let records: Vec<_> = (0..round % u64::from(SLOTS + 1))
                .map(|n| record(number + n, round))
                .collect();
            number += records.len() as u64;
            // There is room for all of these only if those before them were given back.
            records.iter().for_each(|record| programs.put(record));
            assert_eq!(take(&mut ring), [], "not looked yet");
            ring.look();
            assert_eq!(take(&mut ring), records);
        }
    }

    #[test]
    fn what_is_no_record_is_left_out_and_what_is_not_written_yet_waits() {
        let (mut programs, mut ring) = Programs::ring(32, 0);
        let unknown = RequestRecord {
            flags: !flags::OF_REQUESTS,
            ..record(1, 1)
        };
        programs.put(&unknown);
        programs.put(&record(2, 2));
        let late = programs.take();
        programs.put(&record(4, 4));
        ring.look();
        ring.find(1, 7);
        assert_eq!(ring.records(), [], "it completed later");
        ring.find(2, 7);
        assert_eq!(ring.records(), [record(2, 2)]);
        assert_eq!(take(&mut ring), [record(2, 2)]);
        ring.look();
        assert_eq!(take(&mut ring), [], "the one before it is being written");
        programs.write(late + 8, &record(3, 3).as_bytes()[8..]);
        programs.write(late, &3_u64.to_ne_bytes());
        ring.look();
        assert_eq!(take(&mut ring), [record(3, 3), record(4, 4)]);
    }
}

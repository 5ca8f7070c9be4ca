//! A ring in memory that the programs and userspace share
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
/// Most records that are found at a time: their slots are freed together.
const AT_ONCE: usize = 64;
/// Offset of a record's flags.
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
    /// Creates the map.
    pub fn create(sizes: RingSizes) -> Result<Self, MapError> {
        let bytes = RECORD_SLOTS_AT + sizes.count as usize * sizes.slots() as usize * RECORD_BYTES;
        // A larger size is not valid for an array's element, so the kernel refuses it.
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

/// A ring, and its read position.
pub struct RecordRing {
    words: Arc<SharedWords>,
    /// Indexes of the words with positions.
    taken_at: usize,
    read_at: usize,
    /// Index of the first slot's first word.
    slots_at: usize,
    /// Number of slots, minus 1.
    mask: usize,
    /// In slots since the ring was made, modulo 2^64.
    read: u64,
    taken: u64,
    /// Slots from `read` on that are known to have records. They do not wrap around the end of the ring.
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

    /// Updates the number of slots taken.
    pub fn look(&mut self) {
        self.taken = self.words.words()[self.taken_at].load(Ordering::Acquire);
        self.found = 0;
    }

    /// Slots that were taken at the last [`Self::look`] and were not passed.
    pub fn used(&self) -> u64 {
        self.taken.wrapping_sub(self.read)
    }

    /// The number of slots.
    pub fn capacity(&self) -> u64 {
        self.mask as u64 + 1
    }

    /// The records that [`Self::find`] has found and that were not passed.
    #[inline]
    pub fn records(&self) -> &[RequestRecord] {
        let slots = self.slots(self.found);
        // SAFETY: `find` has seen that these slots are written. Programs write to them again only after `pass`, which needs this borrow
        // to end. A record consists of integers, and is aligned in a slot as in words.
        unsafe { slice::from_raw_parts(slots.as_ptr().cast(), slots.len()) }
    }

    /// Frees the slots of the first `count` of [`Self::records`].
    #[inline]
    pub fn pass(&mut self, count: usize) {
        let count = count.min(self.found);
        self.free(count);
        self.found -= count;
    }

    /// Finds the oldest records that had arrived at the last [`Self::look`] and were not passed: up to `most` of those that completed by
    /// `until_ns`. Skips slots without a valid record: the books show the difference to the records read.
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

    /// Up to `most` of the slots that were taken at the last [`Self::look`] and were not passed, up to the end of the ring.
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

    /// The index of the slot `read`.
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
        // Release: the programs write to these slots only after they have seen this position.
        self.words.words()[self.read_at].store(self.read, Ordering::Release);
    }
}

/// The completion time in a slot. The programs write it last; until then it is 0.
#[inline]
fn end_ns(slot: &Slot) -> u64 {
    slot[0].load(Ordering::Acquire)
}

/// Whether a slot has a record of a request.
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

    /// Simulates the programs: writes a ring into a file.
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

        /// Takes a slot, and returns its offset.
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
            // Passes some of the records that were found.
            let some = found.div_ceil(2);
            taken.extend(&ring.records()[..some]);
            ring.pass(some);
        }
    }

    #[test]
    fn every_record_is_read_once_all_around_the_ring() {
        const SLOTS: u32 = 32;
        // Positions wrap at 2^64. Only a test gets there.
        let (mut programs, mut ring) = Programs::ring(SLOTS, 0_u64.wrapping_sub(100));
        let mut number = 1;
        for round in 0..200_u64 {
            let records: Vec<_> = (0..round % u64::from(SLOTS + 1))
                .map(|n| record(number + n, round))
                .collect();
            number += records.len() as u64;
            // These fit only if the slots of earlier records were freed.
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

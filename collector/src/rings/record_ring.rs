//! One of the rings in memory that the programs and userspace share
//! (`schemas/src/ebpf/ring/record_rings.rs`).

use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, BorrowedFd};
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
    /// Where the record at `read` is, if there was one at the last [`Self::look`].
    head: Option<usize>,
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
            head: None,
        }
    }

    /// Looks how many slots were taken.
    pub fn look(&mut self) {
        self.taken = self.words.words()[self.taken_at].load(Ordering::Acquire);
        self.find_head();
    }

    /// Slots that were taken at the last [`Self::look`] and were not passed.
    pub fn used(&self) -> u64 {
        self.taken.wrapping_sub(self.read)
    }

    /// Its slots.
    pub fn records(&self) -> u64 {
        self.mask as u64 + 1
    }

    /// The oldest record that had arrived at the last [`Self::look`] and was not passed.
    #[inline]
    pub fn head(&self) -> Option<&RequestRecord> {
        let slot = self.words.words().get(self.head?..)?;
        // SAFETY: `find_head` sets it to a whole slot that is written. No program writes to it
        // before it is passed, for which this borrow has to end. A record is all integers, which
        // are aligned in a slot as they are in words.
        Some(unsafe { &*slot.as_ptr().cast() })
    }

    /// Gives the slot of the record that [`Self::head`] shows back to the programs.
    #[inline]
    pub fn pass(&mut self) {
        if let Some(at) = self.head {
            self.free(at);
            self.find_head();
        }
    }

    /// Finds the next record. Skips slots without a valid one: as these are missing from what was
    /// read, the counters show them.
    #[inline]
    fn find_head(&mut self) {
        self.head = None;
        while self.read != self.taken {
            let at = self.slots_at + (self.read as usize & self.mask) * SLOT_WORDS;
            // The programs write the time last.
            if self.words.words()[at].load(Ordering::Acquire) == 0 {
                return;
            }
            self.head = Some(at);
            if self
                .head()
                .is_some_and(|record| record.flags & !flags::OF_REQUESTS == 0)
            {
                return;
            }
            self.head = None;
            self.free(at);
        }
    }

    #[inline]
    fn free(&mut self, at: usize) {
        let words = self.words.words();
        words[at].store(0, Ordering::Relaxed);
        self.read = self.read.wrapping_add(1);
        // Release: the programs write there only after they have seen this.
        words[self.read_at].store(self.read, Ordering::Release);
    }
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
        while let Some(record) = ring.head() {
            taken.push(*record);
            ring.pass();
        }
        ring.pass();
        taken
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
        assert_eq!(take(&mut ring), [record(2, 2)]);
        ring.look();
        assert_eq!(take(&mut ring), [], "the one before it is being written");
        programs.write(late + 8, &record(3, 3).as_bytes()[8..]);
        programs.write(late, &3_u64.to_ne_bytes());
        ring.look();
        assert_eq!(take(&mut ring), [record(3, 3), record(4, 4)]);
    }
}

//! The rings that requests arrive in: one for each CPU, up to [`MAX_RINGS`], read as one.

pub(crate) mod call_ring;
pub(crate) mod record_ring;
pub(crate) mod ring_buffer;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;
use std::mem;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::maps::{ArrayOfMaps, MapData, MapError, MapType};
use rustix::event::epoll;
use trackiops_schemas::ebpf::ring::{MAX_RINGS, RECORD_BYTES, RequestRecord};

use crate::clock::MonotonicNs;
use crate::rings::record_ring::{RecordMemory, RecordRing};
use crate::rings::ring_buffer::RingBuffer;
use crate::rollup::RequestStream;

/// Number and size of the rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Rings: a power of two, so that a CPU finds its own by a mask.
    pub count: u32,
    /// Bytes of each: a power of two, and of pages.
    pub bytes: u32,
}

impl RingSizes {
    /// The sizes for `memory` bytes and that many CPUs: a ring for each, up to [`MAX_RINGS`], and
    /// none smaller than a page.
    pub fn for_memory(memory: u64, cpus: u32, page: u32) -> Self {
        let fitting = u32::try_from(memory / u64::from(page)).unwrap_or(u32::MAX);
        let largest = 1 << fitting.max(1).ilog2();
        let count = cpus.min(MAX_RINGS).next_power_of_two().min(largest);
        // The kernel's bound is 2^31: it counts in signed 32 bits.
        let each = (memory / u64::from(count)).clamp(u64::from(page), 1 << 31);
        Self {
            count,
            bytes: 1 << each.ilog2(),
        }
    }

    /// Records that fit into each ring, if it has slots: a power of two.
    pub fn slots(self) -> u32 {
        1 << (self.bytes / RECORD_BYTES as u32).ilog2()
    }
}

/// A ring, of either kind.
enum Ring {
    /// A ring buffer of the kernel, which every kernel has.
    Buffer(RingBuffer),
    /// Slots in memory shared with the programs, which costs them less.
    Slots(RecordRing),
}

impl Ring {
    fn look(&mut self) {
        match self {
            Self::Buffer(ring) => ring.look(),
            Self::Slots(ring) => ring.look(),
        }
    }

    /// Records that had arrived at the last look and were not passed.
    fn used(&self) -> u64 {
        match self {
            Self::Buffer(ring) => ring.used(),
            Self::Slots(ring) => ring.used(),
        }
    }

    /// Records for which there is room.
    fn capacity(&self) -> u64 {
        match self {
            Self::Buffer(ring) => ring.capacity(),
            Self::Slots(ring) => ring.capacity(),
        }
    }

    /// Finds the oldest records that had arrived at the last look and were not passed: up to `most` of those that completed by
    /// `until_ns`.
    #[inline]
    fn find(&mut self, until_ns: u64, most: usize) {
        match self {
            Self::Buffer(ring) => ring.find(until_ns),
            Self::Slots(ring) => ring.find(until_ns, most),
        }
    }

    /// The records that were found and not passed.
    #[inline]
    fn records(&self) -> &[RequestRecord] {
        match self {
            Self::Buffer(ring) => ring.records(),
            Self::Slots(ring) => ring.records(),
        }
    }

    /// Frees the room of the first `count` of these.
    #[inline]
    fn pass(&mut self, count: usize) {
        match self {
            Self::Buffer(ring) => ring.pass(count),
            Self::Slots(ring) => ring.pass(count),
        }
    }

    /// The completion time of the oldest record, if any.
    fn head_ns(&mut self) -> Option<u64> {
        self.find(u64::MAX, 1);
        Some(self.records().first()?.end_ns)
    }
}

/// The rings.
pub struct Rings {
    rings: Vec<Ring>,
    /// Most records that waited in one ring.
    used_max: u64,
    /// The ring buffer by which the programs wake the recorder, if the rings are in shared memory.
    /// Its entries are empty.
    bell: Option<RingBuffer>,
    /// Readable when any ring should be read.
    wakeups: OwnedFd,
    /// Kept, because `wakeups` watches their descriptors.
    _maps: Vec<MapData>,
}

impl Rings {
    /// Makes the rings, and passes them to the programs.
    pub fn create(
        sizes: RingSizes,
        mut programs: ArrayOfMaps<&mut MapData, MapData>,
    ) -> Result<Self, MapError> {
        let mut maps = Vec::new();
        for index in 0..sizes.count {
            let ring_type = MapType::RingBuf as u32;
            let map = aya_obj::Map::new_from_params(ring_type, 0, 0, sizes.bytes, 0);
            let map = MapData::create(map, "ring", None)?;
            programs.set(index, &map, 0)?;
            maps.push(map);
        }
        let map = |map: &MapData| RingBuffer::map(map.fd(), sizes.bytes);
        let rings = maps.iter().map(map).map(|ring| ring.map(Ring::Buffer));
        Ok(Self {
            rings: rings
                .collect::<io::Result<_>>()
                .map_err(MapError::IoError)?,
            used_max: 0,
            bell: None,
            wakeups: watch(&maps).map_err(MapError::IoError)?,
            _maps: maps,
        })
    }

    /// The rings in shared memory, and a ring buffer by which the programs wake the recorder.
    pub fn in_memory(
        memory: &RecordMemory,
        programs: ArrayOfMaps<&mut MapData, MapData>,
    ) -> Result<Self, MapError> {
        let page = u32::try_from(rustix::param::page_size()).unwrap_or(u32::MAX);
        let bell = RingSizes {
            count: 1,
            bytes: page,
        };
        let mut rings = Self::create(bell, programs)?;
        if let Some(Ring::Buffer(bell)) = rings.rings.pop() {
            rings.bell = Some(bell);
        }
        let mapped = memory.rings().map_err(MapError::IoError)?;
        rings.rings = mapped.into_iter().map(Ring::Slots).collect();
        Ok(rings)
    }

    /// A new descriptor that is readable when any ring should be read.
    pub fn wakeups(&self) -> io::Result<OwnedFd> {
        self.wakeups.try_clone()
    }

    /// Requests that have arrived by now and completed by `until`, up to `limit` of them.
    pub fn arrived(&mut self, until: MonotonicNs, limit: usize) -> ArrivedRecords<'_> {
        if let Some(bell) = &mut self.bell {
            bell.look();
            // Discards all of its entries.
            bell.find(u64::MAX);
        }
        ArrivedRecords::new(&mut self.rings, until, limit, &mut self.used_max)
    }

    /// Records for which each ring has room.
    pub fn capacity(&self) -> u64 {
        self.rings.first().map_or(0, Ring::capacity)
    }

    /// Most records that waited in a ring since the last call.
    pub fn take_used_max(&mut self) -> u64 {
        mem::take(&mut self.used_max)
    }
}

/// Requests from all rings in the order of their completion, from all CPUs. Requests
/// that arrive meanwhile are not included.
pub struct ArrivedRecords<'r> {
    /// The ring that is read, if anything has arrived.
    current: Option<&'r mut Ring>,
    /// Up to this time the current ring has the oldest record. Then another ring has, or the end is reached.
    bound_ns: u64,
    /// The other rings in which records have arrived.
    others: BinaryHeap<WaitingRing<'r>>,
    until: MonotonicNs,
    limit: usize,
    left: usize,
}

/// A ring, and when its oldest record completed.
struct WaitingRing<'r> {
    head_ns: u64,
    ring: &'r mut Ring,
}

impl<'r> WaitingRing<'r> {
    fn new(ring: &'r mut Ring) -> Option<Self> {
        let head_ns = ring.head_ns()?;
        Some(Self { head_ns, ring })
    }
}

impl<'r> ArrivedRecords<'r> {
    fn new(rings: &'r mut [Ring], until: MonotonicNs, limit: usize, used_max: &mut u64) -> Self {
        let others = rings.iter_mut().filter_map(|ring| {
            ring.look();
            *used_max = ring.used().max(*used_max);
            WaitingRing::new(ring)
        });
        let mut arrived = Self {
            others: others.collect(),
            current: None,
            bound_ns: 0,
            until,
            limit,
            left: limit,
        };
        arrived.turn_to_oldest();
        arrived
    }

    /// The number of records read so far.
    pub fn read(&self) -> usize {
        self.limit - self.left
    }

    /// All requests that completed before this were read. Only valid at the end of the records.
    pub fn read_until(&mut self) -> MonotonicNs {
        let heads = [
            self.current.as_mut().and_then(|ring| ring.head_ns()),
            self.others.peek().map(|other| other.head_ns),
        ];
        let oldest_ns = heads.into_iter().flatten().min().unwrap_or(u64::MAX);
        MonotonicNs(oldest_ns).min(self.until)
    }

    /// Turns to the ring with the oldest record, unless none completed in time.
    fn turn_to_oldest(&mut self) -> Option<()> {
        self.current = Some(self.exchange_for_oldest()?);
        let other_ns = self.others.peek().map_or(u64::MAX, |other| other.head_ns);
        self.bound_ns = self.until.0.min(other_ns);
        Some(())
    }

    fn exchange_for_oldest(&mut self) -> Option<&'r mut Ring> {
        let mut oldest = self.others.peek_mut()?;
        if oldest.head_ns > self.until.0 {
            return None;
        }
        let oldest = match self.current.take().and_then(WaitingRing::new) {
            Some(left) => mem::replace(&mut *oldest, left),
            None => PeekMut::pop(oldest),
        };
        Some(oldest.ring)
    }
}

impl RequestStream for ArrivedRecords<'_> {
    #[inline]
    fn peek(&mut self) -> &[RequestRecord] {
        while self.left > 0
            && let Some(ring) = &mut self.current
            && ring.records().is_empty()
        {
            ring.find(self.bound_ns, self.left);
            if ring.records().is_empty() && self.turn_to_oldest().is_none() {
                break;
            }
        }
        let current = self.current.as_ref();
        let found = current.map_or(&[][..], |ring| ring.records());
        &found[..found.len().min(self.left)]
    }

    #[inline]
    fn pass(&mut self, count: usize) {
        if let Some(ring) = &mut self.current {
            ring.pass(count);
            self.left -= count;
        }
    }
}

/// The oldest is the greatest, because `BinaryHeap` returns the greatest first.
impl Ord for WaitingRing<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.head_ns.cmp(&self.head_ns)
    }
}

impl PartialOrd for WaitingRing<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for WaitingRing<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.head_ns == other.head_ns
    }
}

impl Eq for WaitingRing<'_> {}

fn watch(maps: &[MapData]) -> io::Result<OwnedFd> {
    let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for map in maps {
        // Edge-triggered: records that remain in a ring do not wake the recorder again.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&all, map.fd().as_fd(), epoll::EventData::new_u64(0), flags)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rings::record_ring::tests::Programs;
    use crate::rings::ring_buffer::tests::{Kernel, record};

    /// Writes to a ring.
    enum Writer {
        Kernel(Kernel),
        Programs(Programs),
    }

    impl Writer {
        /// Alternates between the two kinds of rings.
        fn ring(number: usize) -> (Self, Ring) {
            if number.is_multiple_of(2) {
                let (kernel, ring) = Kernel::ring(1 << 16, 0);
                (Self::Kernel(kernel), Ring::Buffer(ring))
            } else {
                let (programs, ring) = Programs::ring(64, 0);
                (Self::Programs(programs), Ring::Slots(ring))
            }
        }

        fn put(&mut self, record: &RequestRecord) {
            match self {
                Self::Kernel(kernel) => kernel.put(record),
                Self::Programs(programs) => programs.put(record),
            }
        }
    }

    fn take(arrived: &mut ArrivedRecords) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        loop {
            let next = arrived.peek();
            // Takes some of the records, not always all.
            let some = next.len().div_ceil(2);
            if some == 0 {
                return taken;
            }
            taken.extend(
                next[..some]
                    .iter()
                    .map(|record| (record.end_ns, record.fileid)),
            );
            arrived.pass(some);
        }
    }

    proptest! {
        #[test]
        fn records_of_all_rings_come_in_the_order_of_completion(
            steps in prop::collection::vec((0_usize..4, 0_u64..3), 0..50),
            untils in prop::collection::vec(0_u64..80, 0..4),
            limit in 1_usize..20,
        ) {
            let (mut writers, mut rings): (Vec<_>, Vec<_>) = (0..4).map(Writer::ring).unzip();
            let mut times = Vec::new();
            for (number, (ring, step)) in steps.iter().enumerate() {
                let now_ns = times.last().unwrap_or(&1) + step;
                writers[*ring].put(&record(now_ns, number as u64));
                times.push(now_ns);
            }
            let mut all = Vec::new();
            for until in untils.into_iter().map(MonotonicNs) {
                let mut arrived = ArrivedRecords::new(&mut rings, until, limit, &mut 0);
                let taken = take(&mut arrived);
                prop_assert_eq!(taken.len(), arrived.read());
                prop_assert!(taken.len() <= limit);
                prop_assert!(taken.iter().all(|(end_ns, _)| *end_ns <= until.0));
                all.extend(&taken);
                let oldest_ns = times.get(all.len()).map_or(u64::MAX, |ns| *ns);
                prop_assert!(taken.len() == limit || oldest_ns > until.0, "stopped early");
                prop_assert_eq!(arrived.read_until().0, oldest_ns.min(until.0));
            }
            loop {
                let mut arrived = ArrivedRecords::new(&mut rings, MonotonicNs(u64::MAX), limit, &mut 0);
                let taken = take(&mut arrived);
                if taken.is_empty() {
                    break;
                }
                all.extend(taken);
            }
            prop_assert!(all.is_sorted_by_key(|(end_ns, _)| *end_ns));
            let mut numbers: Vec<_> = all.iter().map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            prop_assert!(numbers.into_iter().eq(0..steps.len() as u64));
        }
    }

    #[test]
    fn the_ring_that_only_wakes_is_emptied() {
        let (mut kernel, bell) = Kernel::ring(4096, 0);
        let mut rings = Rings {
            rings: Vec::new(),
            used_max: 0,
            bell: Some(bell),
            wakeups: watch(&[]).unwrap(),
            _maps: Vec::new(),
        };
        // More entries than the ring has room for.
        for _ in 0..1000 {
            kernel.ring_bell();
            assert!(rings.arrived(MonotonicNs(0), 1).peek().is_empty());
        }
    }

    #[test]
    fn rings_stay_within_the_memory_that_they_are_given() {
        let sizes = |memory, cpus| {
            let RingSizes { count, bytes } = RingSizes::for_memory(memory, cpus, 4096);
            (count, bytes)
        };
        assert_eq!(sizes(16 << 20, 1), (1, 16 << 20));
        assert_eq!(sizes(16 << 20, 2), (2, 8 << 20));
        assert_eq!(sizes(16 << 20, 3), (4, 4 << 20), "powers of two");
        assert_eq!(sizes(16 << 20, 32), (32, 512 << 10));
        assert_eq!(sizes(16 << 20, 512), (32, 512 << 10), "CPUs share them");
        assert_eq!(
            sizes(64 << 10, 64),
            (16, 4096),
            "no ring is less than a page"
        );
        assert_eq!(sizes(0, 4), (1, 4096));
        assert_eq!(sizes(1 << 40, 1), (1, 1 << 31));
        let slots = |memory, cpus| RingSizes::for_memory(memory, cpus, 4096).slots();
        assert_eq!(slots(16 << 20, 1), 1 << 17);
        assert_eq!(slots(64 << 10, 64), 32);
    }
}

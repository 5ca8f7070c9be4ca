//! The rings that requests arrive in: one per CPU, read as one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;
use std::mem;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::maps::{ArrayOfMaps, MapData, MapError, MapType};
use rustix::event::epoll;
use trackiops_schemas::ring::{MAX_RINGS, RequestRecord};

use crate::clock::MonotonicNs;
use crate::ring::Ring;
use crate::rollup::Requests;

/// How many rings, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Rings.
    pub count: u32,
    /// Bytes of each: a power of two, and of pages.
    pub bytes: u32,
}

impl RingSizes {
    /// What fits into `memory` bytes, for that many CPUs: a ring for each, up to [`MAX_RINGS`], and none smaller
    /// than a page.
    pub fn of(memory: u64, cpus: u32, page: u32) -> Self {
        let fitting = u32::try_from(memory / u64::from(page)).unwrap_or(u32::MAX);
        let count = cpus.min(MAX_RINGS).min(fitting).max(1);
        // The kernel's bound is 2^31: it counts in signed 32 bits.
        let each = (memory / u64::from(count)).clamp(u64::from(page), 1 << 31);
        Self {
            count,
            bytes: 1 << each.ilog2(),
        }
    }
}

/// The rings.
pub struct Rings {
    rings: Vec<Ring>,
    /// Here to be used again.
    heads: BinaryHeap<Head>,
    /// Readable when any ring wants to be read.
    wakeups: OwnedFd,
    /// Whose descriptors are watched.
    _maps: Vec<MapData>,
}

/// When the oldest record of a ring completed, and which ring: the oldest of all is the greatest.
type Head = Reverse<(u64, usize)>;

impl Rings {
    /// Makes them, and lets the programs use them.
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
        let map = |map: &MapData| Ring::map(map.fd(), sizes.bytes);
        let rings: Vec<Ring> = maps
            .iter()
            .map(map)
            .collect::<io::Result<_>>()
            .map_err(MapError::IoError)?;
        Ok(Self {
            heads: BinaryHeap::with_capacity(rings.len()),
            rings,
            wakeups: watch(&maps).map_err(MapError::IoError)?,
            _maps: maps,
        })
    }

    /// A descriptor of its own that is readable when any ring wants to be read.
    pub fn wakeups(&self) -> io::Result<OwnedFd> {
        self.wakeups.try_clone()
    }

    /// What has arrived by now and completed by `until`, but not more than `limit` requests.
    pub fn arrived(&mut self, until: MonotonicNs, limit: usize) -> Arrived<'_> {
        Arrived::new(&mut self.rings, &mut self.heads, until, limit)
    }
}

/// Requests from all rings in the order of their completion, whichever CPU they are from. What arrives in the
/// meantime is not among them.
pub struct Arrived<'r> {
    rings: &'r mut [Ring],
    /// Of the rings but the current one.
    heads: &'r mut BinaryHeap<Head>,
    /// Which ring is read, and until when: then comes another one, or the end.
    current: usize,
    bound_ns: u64,
    until: MonotonicNs,
    limit: usize,
    left: usize,
    read_until: MonotonicNs,
}

impl<'r> Arrived<'r> {
    fn new(
        rings: &'r mut [Ring],
        heads: &'r mut BinaryHeap<Head>,
        until: MonotonicNs,
        limit: usize,
    ) -> Self {
        heads.clear();
        for (index, ring) in rings.iter_mut().enumerate() {
            ring.look();
            heads.extend(head(ring, index));
        }
        let mut arrived = Self {
            rings,
            heads,
            current: 0,
            bound_ns: 0,
            until,
            limit,
            left: limit,
            read_until: until,
        };
        if let Some(Reverse((_, oldest))) = arrived.heads.pop() {
            arrived.turn_to(oldest);
        }
        arrived
    }

    /// How many there were so far.
    pub fn read(&self) -> usize {
        self.limit - self.left
    }

    /// Once there are no more: what completed before this was read.
    pub fn read_until(&self) -> MonotonicNs {
        self.read_until
    }

    fn turn_to(&mut self, ring: usize) {
        self.current = ring;
        let other_ns = self.heads.peek().map_or(u64::MAX, |Reverse((ns, _))| *ns);
        self.bound_ns = self.until.0.min(other_ns);
    }

    /// Turns to the ring with the oldest record, unless there is none that completed in time.
    fn turn(&mut self) -> bool {
        let Some(oldest) = self.oldest() else {
            return false;
        };
        self.turn_to(oldest);
        true
    }

    /// Exchanges the current ring for the one with the oldest record.
    fn oldest(&mut self) -> Option<usize> {
        let mut oldest = self.heads.peek_mut()?;
        if oldest.0.0 > self.until.0 {
            return None;
        }
        let Reverse((_, ring)) = match head(&self.rings[self.current], self.current) {
            Some(left) => mem::replace(&mut *oldest, left),
            None => PeekMut::pop(oldest),
        };
        Some(ring)
    }
}

fn head(ring: &Ring, index: usize) -> Option<Head> {
    ring.head().map(|record| Reverse((record.end_ns, index)))
}

impl Requests for Arrived<'_> {
    #[inline]
    fn peek(&mut self) -> Option<&RequestRecord> {
        if self.left == 0 {
            return None;
        }
        loop {
            match self.rings.get(self.current)?.head() {
                Some(record) if record.end_ns <= self.bound_ns => break,
                _ => {
                    if !self.turn() {
                        return None;
                    }
                }
            }
        }
        self.rings[self.current].head()
    }

    #[inline]
    fn pass(&mut self) {
        self.left -= 1;
        let ring = &mut self.rings[self.current];
        if self.left == 0
            && let Some(record) = ring.head()
        {
            self.read_until = MonotonicNs(record.end_ns);
        }
        ring.pass();
    }
}

fn watch(maps: &[MapData]) -> io::Result<OwnedFd> {
    let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for map in maps {
        // Edge-triggered: what is left in a ring does not ask again.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&all, map.fd().as_fd(), epoll::EventData::new_u64(0), flags)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ring::tests::{Kernel, record};

    fn take(arrived: &mut Arrived) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        while let Some(record) = arrived.peek() {
            taken.push((record.end_ns, record.fileid));
            arrived.pass();
        }
        taken
    }

    proptest! {
        #[test]
        fn records_of_all_rings_come_in_the_order_of_completion(
            steps in prop::collection::vec((0_usize..4, 0_u64..3), 0..50),
            untils in prop::collection::vec(0_u64..80, 0..4),
            limit in 1_usize..20,
        ) {
            let (mut kernels, mut rings): (Vec<_>, Vec<_>) = (0..4).map(|_| Kernel::ring(4096, 0)).unzip();
            let mut heads = BinaryHeap::new();
            let mut now_ns = 0;
            for (number, (ring, step)) in steps.iter().enumerate() {
                now_ns += step;
                kernels[*ring].put(&record(now_ns, number as u64));
            }
            let mut all = Vec::new();
            for until in untils.into_iter().map(MonotonicNs) {
                let mut arrived = Arrived::new(&mut rings, &mut heads, until, limit);
                let taken = take(&mut arrived);
                prop_assert_eq!(taken.len(), arrived.read());
                let read_until = arrived.read_until();
                all.extend(taken);
                // Of those that completed at that very time, some may be left.
                let in_time = |until_ns| {
                    let mut time_ns = 0;
                    steps.iter().filter(|(_, step)| { time_ns += step; time_ns <= until_ns }).count()
                };
                if arrived.read() < limit {
                    prop_assert_eq!(read_until, until);
                    prop_assert!(all.len() >= in_time(until.0));
                } else {
                    prop_assert_eq!(read_until.0, all[all.len() - 1].0);
                    prop_assert!(read_until.0 == 0 || all.len() >= in_time(read_until.0 - 1));
                }
            }
            loop {
                let mut arrived = Arrived::new(&mut rings, &mut heads, MonotonicNs(u64::MAX), limit);
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
    fn rings_stay_within_the_memory_that_they_are_given() {
        let sizes = |memory, cpus| {
            let RingSizes { count, bytes } = RingSizes::of(memory, cpus, 4096);
            (count, bytes)
        };
        assert_eq!(sizes(16 << 20, 1), (1, 16 << 20));
        assert_eq!(sizes(16 << 20, 2), (2, 8 << 20));
        assert_eq!(sizes(16 << 20, 3), (3, 4 << 20), "a power of two each");
        assert_eq!(sizes(16 << 20, 32), (32, 512 << 10));
        assert_eq!(sizes(16 << 20, 512), (32, 512 << 10), "CPUs share them");
        assert_eq!(
            sizes(64 << 10, 64),
            (16, 4096),
            "no ring is less than a page"
        );
        assert_eq!(sizes(0, 4), (1, 4096));
        assert_eq!(sizes(1 << 40, 1), (1, 1 << 31));
    }
}

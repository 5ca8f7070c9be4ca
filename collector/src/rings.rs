//! The rings that requests arrive in: one per CPU, read as one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::maps::{ArrayOfMaps, Map, MapData, MapError, RingBuf};
use rustix::event::epoll;
use trackiops_schemas::ring::{MAX_RINGS, RequestRecord};

use crate::clock::MonotonicNs;

/// How many rings, and how large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Rings: a power of two, so that a CPU finds its own by a mask.
    pub count: u32,
    /// Bytes of each: a power of two, and of pages.
    pub bytes: u32,
}

impl RingSizes {
    /// What fits into `memory` bytes, for that many CPUs: a ring for each, up to [`MAX_RINGS`], and none smaller
    /// than a page.
    pub fn of(memory: u64, cpus: u32, page: u32) -> Self {
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
}

/// The rings.
pub struct Rings {
    rings: Vec<RingBuf<MapData>>,
    /// The oldest record of each ring that has any.
    heads: BinaryHeap<Head>,
    /// Readable when any ring wants to be read.
    wakeups: OwnedFd,
}

struct Head {
    record: RequestRecord,
    ring: usize,
}

impl Rings {
    /// Makes them, and lets the programs use them.
    pub fn create(
        sizes: RingSizes,
        mut programs: ArrayOfMaps<&mut MapData, RingBuf<MapData>>,
    ) -> Result<Self, MapError> {
        let ring_type = aya::maps::MapType::RingBuf as u32;
        let mut rings = Vec::new();
        for index in 0..sizes.count {
            let map = aya_obj::Map::new_from_params(ring_type, 0, 0, sizes.bytes, 0);
            let ring = RingBuf::try_from(Map::RingBuf(MapData::create(map, "ring", None)?))?;
            programs.set(index, &ring, 0)?;
            rings.push(ring);
        }
        let wakeups = watch(&rings).map_err(MapError::IoError)?;
        Ok(Self {
            heads: BinaryHeap::with_capacity(rings.len()),
            rings,
            wakeups,
        })
    }

    /// A descriptor of its own that is readable when any ring wants to be read.
    pub fn wakeups(&self) -> io::Result<OwnedFd> {
        self.wakeups.try_clone()
    }

    /// Begins a pass over all that has arrived.
    pub fn look(&mut self) {
        let mut has_head = [false; MAX_RINGS as usize];
        for head in &self.heads {
            has_head[head.ring] = true;
        }
        for ring in (0..self.rings.len()).filter(|ring| !has_head[*ring]) {
            self.heads.extend(next(&mut self.rings, ring));
        }
    }

    /// The oldest record that completed by `until`. What arrives in a ring that was found empty is
    /// left to the next pass: so records come in the order of their completion, whichever CPU they are from,
    /// if [`Self::look`] was called after `until`.
    pub fn pop(&mut self, until: MonotonicNs) -> Option<RequestRecord> {
        let mut oldest = self.heads.peek_mut()?;
        if oldest.record.end_ns > until.0 {
            return None;
        }
        match next(&mut self.rings, oldest.ring) {
            Some(head) => Some(std::mem::replace(&mut *oldest, head).record),
            None => Some(PeekMut::pop(oldest).record),
        }
    }
}

/// The next record of a ring. What cannot be decoded is passed over: it is missing from what was read,
/// and so shows in the books.
fn next(rings: &mut [RingBuf<MapData>], ring: usize) -> Option<Head> {
    while let Some(item) = rings.get_mut(ring)?.next() {
        if let Ok(record) = RequestRecord::decode(&item) {
            return Some(Head { record, ring });
        }
    }
    None
}

fn watch(rings: &[RingBuf<MapData>]) -> io::Result<OwnedFd> {
    let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for ring in rings {
        // Edge-triggered: what is left in a ring does not ask again.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&all, ring.as_fd(), epoll::EventData::new_u64(0), flags)?;
    }
    Ok(all)
}

/// The oldest is the greatest.
impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        other.record.end_ns.cmp(&self.record.end_ns)
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.record.end_ns == other.record.end_ns
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_stay_within_the_memory_that_they_are_given() {
        let sizes = |memory, cpus| {
            let RingSizes { count, bytes } = RingSizes::of(memory, cpus, 4096);
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
    }
}

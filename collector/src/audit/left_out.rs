//! Requests that a filter leaves out: the kernel's counters include them, and rows do not.

use std::io;
use std::mem::{self, offset_of};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use ahash::AHashMap;
use trackiops_schemas::ebpf::left_out::{
    LEFT_OUT_PLACES, LEFT_OUT_WORDS, LeftOut as Tables, LeftOutSum,
};
use trackiops_schemas::identity::Dev;

use crate::audit::look::COUNTED_WITHIN_NS;
use crate::audit::transfers::Transfers;
use crate::clock::MonotonicNs;
use crate::shared_memory::SharedWords;

/// The shared place of devices without a separate place.
const OTHERS: usize = LEFT_OUT_PLACES - 1;

/// Transfers left out since the programs were loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOutSums {
    /// By device; the block devices count as one.
    pub by_device: AHashMap<Dev, Transfers>,
    /// For mounts without a separate place.
    pub of_others: Transfers,
}

impl LeftOutSums {
    /// The fewest transfers that can have been left out of a device.
    fn least(&self, dev: Dev) -> Transfers {
        self.by_device.get(&dev).copied().unwrap_or_default()
    }

    /// The most.
    fn most(&self, dev: Dev) -> Transfers {
        let mut most = self.least(dev);
        most.add(self.of_others);
        most
    }
}

/// The programs' counts of left-out requests, per CPU.
pub struct SharedLeftOut {
    words: SharedWords,
}

impl SharedLeftOut {
    /// Maps the array whose descriptor `map` is.
    pub fn map(map: impl AsFd, cpus: u32) -> io::Result<Self> {
        let words = SharedWords::map(map, cpus as usize * size_of::<Tables>() / 8)?;
        Ok(Self { words })
    }

    /// The sums of all CPUs.
    pub fn read(&self) -> LeftOutSums {
        let mut sums = LeftOutSums::default();
        let places = self.words.words().chunks_exact(LEFT_OUT_WORDS);
        for (number, place) in places.enumerate() {
            let load = |offset: usize| place[offset / 8].load(Ordering::Acquire);
            let requests = load(offset_of!(LeftOutSum, requests));
            let bytes = load(offset_of!(LeftOutSum, bytes));
            if requests == 0 && bytes == 0 {
                continue;
            }
            let is_write = !(number / LEFT_OUT_PLACES).is_multiple_of(2);
            let left_out = Transfers::of_direction(is_write, (requests, bytes));
            let of = match number % LEFT_OUT_PLACES {
                OTHERS => &mut sums.of_others,
                _ => {
                    let device = load(offset_of!(LeftOutSum, device)).saturating_sub(1);
                    sums.by_device.entry(Dev(device as u32)).or_default()
                }
            };
            of.add(left_out);
        }
        sums
    }
}

/// Sums at different times. A request that the sums had a moment before a look is certainly in the kernel's counters. One that they still
/// lack a moment after the look certainly is not.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Old enough that the kernel has counted all of it.
    settled: LeftOutSums,
    settling: LeftOutSums,
    settling_since: MonotonicNs,
    latest: LeftOutSums,
}

impl LeftOut {
    /// Takes note of the current sums.
    pub fn see(&mut self, now: MonotonicNs, sums: LeftOutSums) {
        if now.0.saturating_sub(self.settling_since.0) >= COUNTED_WITHIN_NS {
            self.settled = mem::replace(&mut self.settling, sums.clone());
            self.settling_since = now;
        }
        self.latest = sums;
    }

    /// The left-out transfers that the kernel certainly has counted for a device, if it is looked at now.
    pub fn counted(&self, dev: Dev) -> Transfers {
        self.settled.least(dev)
    }

    /// The left-out transfers that it may have counted at most.
    pub fn most(&self, dev: Dev) -> Transfers {
        self.latest.most(dev)
    }
}

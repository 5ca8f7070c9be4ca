//! What a filter has left out: the kernel's counters have it, and rows do not.

use ahash::AHashMap;
use trackiops_schemas::identity::Dev;

use crate::audit::look::COUNTED_WITHIN_NS;
use crate::audit::transfers::Transfers;
use crate::clock::MonotonicNs;

/// Transfers that were left out since the programs were loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOutSums {
    /// By device, the block devices as one.
    pub by_device: AHashMap<Dev, Transfers>,
    /// Of mounts, it is not known which.
    pub of_others: Transfers,
}

impl LeftOutSums {
    /// The least that was left out of a device.
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

/// The sums at different times. A request is in the kernel's counters at a look for certain if it was in the sums a moment before that, and
/// is not in them for certain if it is not in the sums a moment later.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// Long enough ago for the kernel to have counted all of it.
    settled: LeftOutSums,
    settling: LeftOutSums,
    settling_since: MonotonicNs,
    latest: LeftOutSums,
}

impl LeftOut {
    /// Takes note of the sums of now.
    pub fn see(&mut self, now: MonotonicNs, sums: LeftOutSums) {
        if now.0.saturating_sub(self.settling_since.0) >= COUNTED_WITHIN_NS {
            self.settled = std::mem::replace(&mut self.settling, sums.clone());
            self.settling_since = now;
        }
        self.latest = sums;
    }

    /// What the kernel has counted of a device if it is looked at now.
    pub fn counted(&self, dev: Dev) -> Transfers {
        self.settled.least(dev)
    }

    /// What it has counted at the most of all that has been seen.
    pub fn most(&self, dev: Dev) -> Transfers {
        self.latest.most(dev)
    }
}

//! Judges recent requests for which no program ran: how many they are, and whether that is an alarm.

use std::mem;
use std::time::Duration;

use ahash::AHashMap;
use trackiops_schemas::identity::Dev;
use trackiops_schemas::unit::grouped;

use crate::audit::transfers::Transfers;
use crate::clock::MonotonicNs;

/// Results of comparisons are forgotten after once or twice this time.
const FORGET_AFTER: Duration = Duration::from_secs(600);
/// Alarm if unexplained requests exceed this share of those that the kernel has counted for a mount, or for the block devices.
///
/// Some kernels run no program for up to 2 % of the requests to block devices (a 6.18 virtual machine: its own counters and
/// ftrace have them, `recursion_misses` is 0). An engine that reads the wrong memory, or a probe that is not attached, misses most.
pub const ALARM_PERCENT: u64 = 5;
/// Fewer requests are no alarm, whatever their share: one of three requests is 33 %.
const ALARM_REQUESTS: u64 = 20;

/// Requests for which no program ran, for an unknown reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unprobed {
    /// The mount, or the block devices.
    pub of: String,
    /// Requests that the kernel has counted, and no row of a file has.
    pub missed: u64,
    /// All requests that the kernel has counted in the same time.
    pub counted: u64,
}

impl Unprobed {
    /// A description for people.
    pub fn text(&self) -> String {
        let Self {
            of,
            missed,
            counted,
        } = self;
        let percent = match 100.0 * *missed as f64 / (*counted).max(1) as f64 {
            small if small < 0.01 => "below 0.01".to_owned(),
            percent => format!("{percent:.2}"),
        };
        format!(
            "missed {} of {} requests of {of}, {percent} %: no probe ran; they are in its row (missed)",
            grouped(*missed),
            grouped(*counted)
        )
    }
}

/// Results of the comparisons of a device over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Counted by the kernel.
    pub kernel: Transfers,
    /// The part that was found in no row.
    pub booked: Transfers,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.kernel.add(other.kernel);
        self.booked.add(other.booked);
    }

    /// Whether the booked requests, less the explained ones, are an alarm.
    fn is_alarming(&self, explained: u64) -> bool {
        let is_beyond = |part: u64, all: u64| {
            u128::from(part) * 100 > u128::from(all) * u128::from(ALARM_PERCENT)
        };
        match self.booked.requests() {
            // Booked bytes imply at least one request, even if the kernel counts none.
            0 => is_beyond(self.booked.bytes(), self.kernel.bytes()),
            booked => {
                let unexplained = booked.saturating_sub(explained);
                unexplained >= ALARM_REQUESTS && is_beyond(unexplained, self.kernel.requests())
            }
        }
    }
}

/// Recent bookings, by device.
pub struct Lately {
    turned: MonotonicNs,
    /// Since `turned`, and in the period before.
    now: AHashMap<Dev, Tally>,
    before: AHashMap<Dev, Tally>,
    /// Requests that were known to be missed or lost when each period began.
    explained: [u64; 2],
}

impl Lately {
    /// Begins the first period.
    pub fn new(now: MonotonicNs) -> Self {
        Self {
            turned: now,
            now: AHashMap::new(),
            before: AHashMap::new(),
            explained: [0, 0],
        }
    }

    /// Adds the result of a comparison.
    pub fn add(&mut self, dev: Dev, kernel: Transfers, booked: Transfers) {
        self.now
            .entry(dev)
            .or_default()
            .add(Tally { kernel, booked });
    }

    /// Drops the older period when it has expired.
    pub fn forget(&mut self, now: MonotonicNs, explained: u64) {
        let age = Duration::from_nanos(now.0.saturating_sub(self.turned.0));
        if age >= FORGET_AFTER {
            self.turned = now;
            self.before = mem::take(&mut self.now);
            self.explained = [explained, self.explained[0]];
        }
    }

    /// Devices with booked requests without an explanation, and whether any of them is an alarm.
    pub fn judge(&self, explained: u64) -> (Vec<(Dev, Tally)>, bool) {
        let explained = explained.saturating_sub(self.explained[1]);
        let mut all = self.before.clone();
        for (dev, tally) in &self.now {
            all.entry(*dev).or_default().add(*tally);
        }
        all.retain(|_, tally| !tally.booked.without_calls().is_none());
        let is_alarm = all.values().any(|tally| tally.is_alarming(explained));
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_unstable_by_key(|(dev, _)| *dev);
        (all, is_alarm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_probe_ran_for_is_named_with_its_share() {
        let missed = |missed, counted| {
            let of = "vda".to_owned();
            Unprobed {
                of,
                missed,
                counted,
            }
            .text()
        };
        assert!(
            missed(12, 26_010)
                .starts_with("missed 12 of 26,010 requests of vda, 0.05 %: no probe ran;")
        );
        assert!(missed(1_234_567, 1_234_567).contains(" 1,234,567 of 1,234,567 "));
        assert!(missed(1, 31_624).contains(" of vda, below 0.01 %: "));
        assert!(missed(100, 1000).starts_with("missed 100 of 1,000 "));
    }

    fn judged(kernel: u64, booked: u64, explained: u64) -> bool {
        let reads = |n: u64| Transfers::new((n, n * 4096), (0, 0));
        let mut lately = Lately::new(MonotonicNs(0));
        lately.add(Dev(1), reads(kernel), reads(booked));
        lately.add(Dev(2), reads(kernel), Transfers::default());
        let (of, is_alarm) = lately.judge(explained);
        assert_eq!(of.len(), usize::from(booked > 0));
        is_alarm
    }

    #[test]
    fn an_alarm_is_a_large_share_of_a_device() {
        assert!(!judged(26_010, 12, 0));
        assert!(!judged(100_000, 2_000, 0), "2 % are known of kernels");
        assert!(judged(100_000, 6_000, 0));
        assert!(!judged(100_000, 6_000, 2_000), "these are explained");
        assert!(!judged(3, 1, 0), "too few to tell");
        assert!(judged(30, 30, 0), "all of them");
        assert!(!judged(30, 0, 0));
    }

    #[test]
    fn bytes_without_requests_count_by_their_share() {
        let bytes = |n: u64| Transfers::new((0, n), (0, 0));
        let alarm = |kernel, booked| {
            let mut lately = Lately::new(MonotonicNs(0));
            lately.add(Dev(1), bytes(kernel), bytes(booked));
            lately.judge(0).1
        };
        assert!(!alarm(1000, 50));
        assert!(alarm(1000, 51));
    }

    #[test]
    fn what_is_old_does_not_hide_what_is_new() {
        let reads = |n: u64| Transfers::new((n, n), (0, 0));
        let mut lately = Lately::new(MonotonicNs(0));
        lately.add(Dev(1), reads(1_000_000), reads(0));
        lately.add(Dev(1), reads(100), reads(100));
        assert!(!lately.judge(0).1);
        for seconds in [600, 1200] {
            lately.forget(MonotonicNs(seconds * 1_000_000_000), 50);
        }
        assert!(lately.judge(50).0.is_empty());
        lately.add(Dev(1), reads(100), reads(100));
        assert!(lately.judge(50).1);
        assert!(!lately.judge(140).1, "90 of them are explained");
    }
}

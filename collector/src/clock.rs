//! Kernel time to wall clock.
//!
//! The probes stamp `CLOCK_MONOTONIC`; windows are UTC. The offset between the two is sampled
//! regularly, to follow slewing and to notice steps.

use std::ops::Range;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use trackiops_schemas::time::{Granularity, UtcMs};

/// If the offset changes by more than this between two samples, the clock was set: slewing
/// (500 ppm) and sampling errors change it less.
const STEP: Duration = Duration::from_millis(20);

/// `CLOCK_MONOTONIC` in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MonotonicNs(pub u64);

/// Maps `CLOCK_MONOTONIC` to UTC.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// UTC minus monotonic, ns.
    offset_ns: i64,
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub struct ClockSample {
    /// The monotonic clock.
    pub now: MonotonicNs,
    /// UTC minus monotonic, ns.
    pub offset_ns: i64,
}

impl ClockSample {
    /// Reads both clocks.
    pub fn take() -> Self {
        // Takes the tightest of a few bracketed readings, so that a preemption does not look like a
        // step.
        let mut best = (
            u64::MAX,
            Self {
                now: MonotonicNs(0),
                offset_ns: 0,
            },
        );
        for _ in 0..3 {
            let before = read_ns(ClockId::Monotonic);
            let utc = read_ns(ClockId::Realtime);
            let after = read_ns(ClockId::Monotonic);
            let width = after - before;
            if width < best.0 {
                let middle = before + width / 2;
                best = (
                    width,
                    Self {
                        now: MonotonicNs(after),
                        offset_ns: utc.wrapping_sub(middle).cast_signed(),
                    },
                );
            }
        }
        best.1
    }
}

fn read_ns(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    t.tv_sec
        .cast_unsigned()
        .wrapping_mul(1_000_000_000)
        .wrapping_add(t.tv_nsec.cast_unsigned())
}

impl Clock {
    /// A clock that maps as `sample` does.
    pub fn new(sample: ClockSample) -> Self {
        Self {
            offset_ns: sample.offset_ns,
        }
    }

    /// Takes over the offset of `sample`. Returns the size of a step of the clock, if there was one.
    pub fn follow(&mut self, sample: ClockSample) -> Option<i64> {
        let change = sample.offset_ns - self.offset_ns;
        self.offset_ns = sample.offset_ns;
        (change.unsigned_abs() > STEP.as_nanos() as u64).then_some(change)
    }

    /// The wall clock at a monotonic time, ns since the epoch.
    pub fn utc_ns(&self, at: MonotonicNs) -> i64 {
        at.0.cast_signed().wrapping_add(self.offset_ns)
    }

    /// The monotonic times, in ns, of a window that begins at `start`.
    pub fn monotonic(&self, start: UtcMs, length: Granularity) -> Range<u64> {
        let at = |utc: UtcMs| {
            let ns = utc
                .0
                .saturating_mul(1_000_000)
                .saturating_sub(self.offset_ns);
            ns.max(0).cast_unsigned()
        };
        at(start)..at(start.plus(length))
    }

    /// The wall clock at a monotonic time.
    pub fn utc(&self, at: MonotonicNs) -> UtcMs {
        UtcMs(self.utc_ns(at).div_euclid(1_000_000))
    }
}

/// Whether `every` has passed since `last`, which is then set to `now`.
pub fn is_due(last: &mut Option<MonotonicNs>, now: MonotonicNs, every: Duration) -> bool {
    let due = last.is_none_or(|at| u128::from(now.0.saturating_sub(at.0)) > every.as_nanos());
    if due {
        *last = Some(now);
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slewing_is_followed_and_a_step_is_told() {
        let sample = |offset_ns| ClockSample {
            now: MonotonicNs(0),
            offset_ns,
        };
        let mut clock = Clock::new(sample(1_000_000_000));
        assert_eq!(clock.follow(sample(1_001_000_000)), None);
        assert_eq!(clock.utc(MonotonicNs(5_000_000)), UtcMs(1006));
        assert_eq!(
            clock.follow(sample(3_601_001_000_000)),
            Some(3_600_000_000_000)
        );
        assert_eq!(clock.follow(sample(3_601_001_000_000)), None);
    }

    #[test]
    fn the_mapping_agrees_with_the_system() {
        let sample = ClockSample::take();
        let utc = Clock::new(sample).utc(sample.now).0;
        let system = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        assert!((system.as_millis() as i64 - utc).abs() < 1000);
    }
}

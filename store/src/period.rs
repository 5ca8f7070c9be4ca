//! When journals end.

use trackiops_schemas::time::{DAY_MS, Granularity, UtcMs};

/// The time between two rotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    start: i64,
    length: i64,
}

impl Period {
    /// The period of a window: rotations are at multiples of `rotate` and at midnight, UTC.
    pub(crate) fn of(window: UtcMs, rotate: Granularity) -> Self {
        let length = rotate.ms().min(DAY_MS);
        Self {
            start: window.0.div_euclid(length) * length,
            length,
        }
    }

    /// Whether a window of `other` ends a journal of this period. Late windows of the period before stay in the
    /// journal. Earlier windows mean that the clock was set back: without this rule, the period could take years to
    /// end.
    pub(crate) fn is_over_at(self, other: Self) -> bool {
        other.start > self.start || other.start.saturating_add(self.length) < self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_are_cut_at_multiples_of_the_rotation_and_at_midnight() {
        let period = |ms, rotate: &str| Period::of(UtcMs(ms), rotate.parse().unwrap());
        let over = |from, to, rotate| period(from, rotate).is_over_at(period(to, rotate));
        assert!(!over(0, 899_000, "15m"));
        assert!(over(899_000, 900_000, "15m"));
        assert!(over(DAY_MS - 1000, DAY_MS, "7d"));
        assert!(!over(900_000, 899_000, "15m"), "a late window");
        assert!(over(9_000_000, 899_000, "15m"), "a clock step");
    }
}

//! Ranges of time.

use trackiops_schemas::time::UtcMs;

/// A half-open range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interval {
    /// Start, inclusive.
    pub start: UtcMs,
    /// End, exclusive.
    pub end: UtcMs,
}

impl Interval {
    /// The range `[start, end)`.
    pub fn new(start: UtcMs, end: UtcMs) -> Self {
        Self { start, end }
    }

    /// Length, ms; 0 if it is empty.
    pub fn ms(self) -> u64 {
        u64::try_from(self.end.0.saturating_sub(self.start.0)).unwrap_or(0)
    }

    /// Whether it is empty.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The overlap; empty if there is none.
    pub fn intersect(self, other: Self) -> Self {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// The smallest range that contains both.
    pub fn hull(self, other: Self) -> Self {
        Self::new(self.start.min(other.start), self.end.max(other.end))
    }
}

//! Lost time: what requests took beyond the time that as many of them would have taken before.
//!
//! `lost = requests x (mean now - mean before)`, for reads and writes apart. Without enough requests before, it is unknown, and not 0.

use trackiops_schemas::row::{Direction, Row};
use trackiops_schemas::time::UtcMs;

use crate::interval::Interval;

/// A range is compared with as long a time before it, and at least with this, ms.
const LEAST_BEFORE_MS: u64 = 600_000;
/// A mean latency is usual if it is of this many requests.
const LEAST_REQUESTS: u64 = 3;

/// The begin of the time before a range that it is compared with.
pub fn begin_before(range: Interval) -> UtcMs {
    let ms = range.ms().max(LEAST_BEFORE_MS).cast_signed();
    UtcMs(range.start.0.saturating_sub(ms))
}

/// The usual latency, ns: the mean of the requests before. `None` with too few of them.
pub fn usual_ns(before: &Direction) -> Option<f64> {
    let mean_ns = before.latency_ns_mean();
    mean_ns.filter(|_| before.requests >= LEAST_REQUESTS)
}

/// What requests took beyond a usual latency, ns; negative if they were faster. `None` if either is unknown.
pub fn beyond_ns(requests: &Direction, usual_ns: Option<f64>) -> Option<f64> {
    let mean_ns = requests.latency_ns_mean()?;
    Some(requests.timed() as f64 * (mean_ns - usual_ns?))
}

/// Usual latencies of reads and of writes, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usual {
    /// Of reads; `None` if it is unknown.
    pub read_ns: Option<f64>,
    /// Of writes; `None` if it is unknown.
    pub write_ns: Option<f64>,
}

impl Usual {
    /// The usual latencies by the reads and the writes before.
    pub fn of(read: &Direction, write: &Direction) -> Self {
        Self {
            read_ns: usual_ns(read),
            write_ns: usual_ns(write),
        }
    }

    /// What requests lost. Several rows of the same requests may be compared one by one: their lost times add up to that of their sum.
    pub fn lost(self, now: &Row) -> Lost {
        Lost {
            read_ns: beyond_ns(&now.read, self.read_ns),
            write_ns: beyond_ns(&now.write, self.write_ns),
        }
    }
}

/// Lost time of reads and of writes, ns; negative if they were faster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lost {
    /// Of reads; `None` if it is unknown.
    pub read_ns: Option<f64>,
    /// Of writes; `None` if it is unknown.
    pub write_ns: Option<f64>,
}

impl Lost {
    /// The lost time of requests, compared with the same requests before.
    pub fn of(before: &Row, now: &Row) -> Self {
        Usual::of(&before.read, &before.write).lost(now)
    }

    /// Adds the lost time of other requests.
    pub fn add(&mut self, other: Self) {
        self.read_ns = sum(self.read_ns, other.read_ns);
        self.write_ns = sum(self.write_ns, other.write_ns);
    }

    /// Reads and writes together, as far as they are known.
    pub fn both_ns(self) -> Option<f64> {
        sum(self.read_ns, self.write_ns)
    }
}

/// The sum of the known ones.
fn sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (known, None) | (None, known) => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(requests: u64, us: u64) -> Row {
        let mut row = Row::default();
        row.read.requests = requests;
        row.read.latency_ns_sum = requests * us * 1000;
        row
    }

    #[test]
    fn what_took_longer_is_lost_and_what_compares_with_nothing_is_unknown() {
        let read_ms = |before: &Row, now: &Row| Lost::of(before, now).read_ns.map(|ns| ns / 1e6);
        let usual = reads(100, 1000);
        assert_eq!(read_ms(&usual, &reads(10, 3000)), Some(20.0));
        assert_eq!(read_ms(&usual, &reads(500, 1000)), Some(0.0));
        assert_eq!(read_ms(&usual, &reads(10, 600)), Some(-4.0));
        assert_eq!(read_ms(&usual, &Row::default()), None);
        // Two requests say little about what is usual.
        assert_eq!(read_ms(&reads(2, 1000), &reads(10, 3000)), None);
        let mut untimed = reads(10, 3000);
        untimed.read.untimed = 10;
        assert_eq!(read_ms(&usual, &untimed), None);
    }

    #[test]
    fn known_ones_add_up_and_unknown_ones_are_no_zeros() {
        let known = Lost::of(&reads(100, 1000), &reads(10, 3000));
        let mut sum = Lost::default();
        assert_eq!(sum.both_ns(), None);
        sum.add(known);
        sum.add(Lost::default());
        sum.add(known);
        assert_eq!(sum.both_ns(), Some(40e6));
        assert_eq!(sum.write_ns, None);
    }
}

//! `slow`: when a mount was slow, which part of the latency grew, who suffered and what changed.
//!
//! 1. [`change_point`] finds when a place's latency was above its baseline, to the interval.
//! 2. [`comparison`] compares the requests of such a time with the baseline: parts of their latency, and other changes.
//! 3. [`suffering`] ranks tenants or files by the additional time that their requests took.
//!
//! The baseline is the time before the range, or a time that the question names.

pub mod change_point;
mod columns;
pub mod comparison;
pub mod report;
pub mod suffering;

use std::ops::Range;

use trackiops_schemas::row::Direction;

use change_point::{Excursion, excursions};

/// With fewer requests, a p99 means little.
const MIN_P99_REQUESTS: u64 = 100;

/// A measure of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// The mean.
    Mean,
    /// The 99th percentile.
    P99,
}

impl Latency {
    /// The value in the column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P99 => "p99",
        }
    }

    fn of(self, requests: &Direction) -> Option<f64> {
        match self {
            Self::Mean => requests.latency_ns_mean().map(|ns| ns / 1000.0),
            Self::P99 => {
                let is_known = requests.latency.total() >= MIN_P99_REQUESTS;
                is_known
                    .then(|| requests.latency.quantile_us(0.99))
                    .flatten()
            }
        }
    }
}

/// A time in which a place was slow.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// The latency that rose: the mean if both did.
    pub latency: Latency,
    /// The intervals.
    pub intervals: Range<usize>,
    /// The latency relative to the baseline's usual one: the geometric mean over the intervals.
    pub ratio: f64,
}

/// Finds when a place was slow. `requests` has its reads and writes together, by interval; `None` is not recorded. `baseline` and `range`
/// are ranges of its indices.
pub fn find(requests: &[Option<Direction>], baseline: Range<usize>, range: Range<usize>) -> Found {
    let series = |latency: Latency, range: Range<usize>| -> Vec<Option<f64>> {
        let of = requests[range].iter().map(|of| latency.of(of.as_ref()?));
        of.collect()
    };
    let mut slow: Vec<Slow> = Vec::new();
    for latency in [Latency::Mean, Latency::P99] {
        let found = excursions(
            &series(latency, baseline.clone()),
            &series(latency, range.clone()),
        );
        let Some(found) = found else {
            match latency {
                Latency::Mean => return Found::NoBaseline,
                Latency::P99 => break,
            }
        };
        for Excursion { intervals, ratio } in found {
            let intervals = range.start + intervals.start..range.start + intervals.end;
            let overlaps = |of: &Slow| {
                of.intervals.start < intervals.end && intervals.start < of.intervals.end
            };
            if !slow.iter().any(overlaps) {
                slow.push(Slow {
                    latency,
                    intervals,
                    ratio,
                });
            }
        }
    }
    slow.sort_by_key(|of| of.intervals.start);
    Found::Compared(slow)
}

/// Findings about a place.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// The baseline has too few intervals with requests.
    NoBaseline,
    /// The slow times; empty if it never was slow.
    Compared(Vec<Slow>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_testkit::generated::Numbers;

    /// `count` requests of about `us` each.
    fn requests(numbers: &mut Numbers, count: u64, us: u64) -> Option<Direction> {
        let mut of = Direction::default();
        for _ in 0..count {
            let ns = (us / 2 + numbers.below(us)) * 1000;
            of.requests += 1;
            of.latency_ns_sum += ns;
            of.latency.record(ns);
        }
        Some(of)
    }

    fn series(seed: u64, us: impl Fn(usize) -> u64) -> Vec<Option<Direction>> {
        let mut numbers = Numbers(seed);
        (0..720)
            .map(|t| requests(&mut numbers, 150, us(t)))
            .collect()
    }

    fn found(series: &[Option<Direction>]) -> Vec<(Latency, Range<usize>)> {
        match find(series, 0..360, 360..720) {
            Found::Compared(slow) => slow
                .into_iter()
                .map(|of| (of.latency, of.intervals))
                .collect(),
            Found::NoBaseline => panic!("no baseline"),
        }
    }

    #[test]
    fn a_slow_time_begins_and_ends_to_the_interval() {
        for seed in 0..20 {
            let slow = series(seed, |t| if (400..430).contains(&t) { 900 } else { 500 });
            assert_eq!(found(&slow), [(Latency::Mean, 400..430)], "{seed}");
            let still = series(seed, |t| if t >= 650 { 5000 } else { 500 });
            assert_eq!(found(&still), [(Latency::Mean, 650..720)], "{seed}");
        }
    }

    #[test]
    fn nothing_is_slow_in_what_is_as_before() {
        for seed in 0..20 {
            assert_eq!(found(&series(seed, |_| 500)), []);
            assert_eq!(
                found(&series(seed, |t| if t < 360 { 5000 } else { 500 })),
                []
            );
        }
    }

    #[test]
    fn a_tail_is_found_where_the_mean_is_as_before() {
        let mut tailed = series(1, |_| 500);
        for of in tailed[500..520].iter_mut().flatten() {
            for _ in 0..4 {
                of.requests += 1;
                of.latency_ns_sum += 4_000_000;
                of.latency.record(4_000_000);
            }
        }
        assert_eq!(found(&tailed), [(Latency::P99, 500..520)]);
    }

    #[test]
    fn unrecorded_time_is_neither_slow_nor_fast() {
        let mut slow = series(3, |t| if (400..430).contains(&t) { 900 } else { 500 });
        slow[380..400].fill(None);
        slow[410..412].fill(None);
        assert_eq!(found(&slow), [(Latency::Mean, 400..430)]);
        slow[..355].fill(None);
        assert_eq!(find(&slow, 0..360, 360..720), Found::NoBaseline);
    }
}

//! Checks that fine and coarse windows agree.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use trackiops_schemas::time::{Granularity, UtcMs};

use super::report::{Covers, REBUILD, Report};
use crate::layout::Dataset;
use crate::segment::metadata::JournalSpan;

/// The counters of rows in one number: the sum of each counter times a power of a factor. It takes little room, and
/// adds up like the counters do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    counters: u64,
    hash: u64,
}

impl Sum {
    pub(super) fn of(counters: &[u64]) -> Self {
        let mut sum = Self::default();
        sum.extend(counters);
        sum
    }

    /// Adds further counters of the same row.
    pub(super) fn extend(&mut self, counters: &[u64]) {
        // 2^64 divided by the golden ratio. It is odd, so no power of it drops bits of a counter.
        const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
        for counter in counters {
            self.counters += 1;
            let factor = FACTOR.wrapping_pow(self.counters as u32);
            self.hash = self.hash.wrapping_add(counter.wrapping_mul(factor));
        }
    }

    /// Adds the sum of another row or window.
    pub(super) fn add(&mut self, other: Self) {
        self.hash = self.hash.wrapping_add(other.hash);
    }
}

/// A granularity of a dataset of a host.
pub(super) type Series = (Dataset, String, Granularity);

/// Sums of all windows, and time ranges with missing rows.
#[derive(Default)]
pub(super) struct Totals {
    sums: BTreeMap<Series, BTreeMap<UtcMs, Sum>>,
    holes: BTreeMap<Series, Vec<(UtcMs, UtcMs)>>,
}

impl Totals {
    /// Adds the sums of a segment.
    pub(super) fn add(&mut self, series: Series, sums: BTreeMap<UtcMs, Sum>) {
        let of = self.sums.entry(series).or_default();
        for (time, sum) in sums {
            of.entry(time).or_default().add(sum);
        }
    }

    /// Records that rows of this time are missing.
    pub(super) fn miss(&mut self, series: Series, start: UtcMs, end: UtcMs) {
        self.holes.entry(series).or_default().push((start, end));
    }

    /// Records which granularities have no rows of some journals, because those rows have expired.
    pub(super) fn miss_expired(
        &mut self,
        journals: &[(String, JournalSpan)],
        has: impl Fn(&str, Granularity, u64) -> bool,
    ) {
        let granularities: BTreeSet<_> = self.sums.keys().map(|(_, _, g)| *g).collect();
        for (host, journal) in journals {
            for granularity in &granularities {
                if !has(host, *granularity, journal.number) {
                    for dataset in Dataset::ALL {
                        let series = (dataset, host.clone(), *granularity);
                        self.miss(series, journal.start, journal.end);
                    }
                }
            }
        }
    }

    /// Compares each granularity with the next finer one that divides it.
    pub(super) fn compare(&self, store: &Path, report: &mut Report) {
        for (series, coarse) in &self.sums {
            let (dataset, host, granularity) = series;
            let finer = self.sums.iter().rev().find(|((d, h, g), _)| {
                (d, h) == (dataset, host) && g < granularity && granularity.is_multiple_of(*g)
            });
            let Some((finer, fine)) = finer else { continue };
            let mut expected: BTreeMap<UtcMs, Sum> = BTreeMap::new();
            for (time, sum) in fine {
                expected
                    .entry(time.align(*granularity))
                    .or_default()
                    .add(*sum);
            }
            let windows: BTreeSet<_> = expected.keys().chain(coarse.keys()).collect();
            let hash = |sums: &BTreeMap<UtcMs, Sum>, at| sums.get(at).map_or(0, |sum| sum.hash);
            let differ = windows.into_iter().filter(|at| {
                let end = at.plus(*granularity);
                let is_known = |series| !self.is_hole(series, **at, end);
                hash(&expected, at) != hash(coarse, at) && is_known(series) && is_known(finer)
            });
            let differ: Vec<_> = differ.collect();
            if let (Some(first), Some(last)) = (differ.first(), differ.last()) {
                let path = store.join(dataset.name());
                let path = path.join(format!("granularity={granularity}"));
                let why = format!(
                    "{} windows of {granularity} are not the sums of those of {}",
                    differ.len(),
                    finer.2
                );
                let covers = Covers::time(**first, last.plus(*granularity));
                report.find(&path, why, Some(covers), REBUILD);
            }
        }
    }

    fn is_hole(&self, series: &Series, start: UtcMs, end: UtcMs) -> bool {
        let holes = self.holes.get(series).into_iter().flatten();
        holes.into_iter().any(|hole| hole.0 < end && hole.1 > start)
    }
}

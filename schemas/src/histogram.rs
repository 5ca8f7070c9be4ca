//! Sparse base-2 exponential histogram of schema 5, the shape that OpenTelemetry's exponential
//! histograms and Prometheus' native histograms share.
//!
//! Bucket `i` counts latencies in `(2^(i/32), 2^((i+1)/32)]` microseconds. A bucket's geometric
//! middle is within 1.1 % of everything in it. Merging adds counts, so it is exact.

use std::array;
use std::sync::LazyLock;

use crate::ebpf::op_sums::OP_CELL_BITS;
use crate::unit::us_from_ns;

/// OpenTelemetry's scale and Prometheus' schema: the end of a bucket is its begin times `2^(2^-5)`.
pub const SCALE: i32 = 5;
/// Added to a bucket number here, it gives OpenTelemetry's number.
pub const OPENTELEMETRY_OFFSET: i32 = 0;
/// Added to a bucket number here, it gives Prometheus' number, which counts buckets by their upper bounds.
pub const PROMETHEUS_OFFSET: i32 = 1;
/// Buckets per power of two.
const BUCKETS_PER_OCTAVE: f64 = (1 << SCALE) as f64;

/// A sparse histogram of latencies, ordered by bucket.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    buckets: Vec<(i32, u64)>,
    /// Where to look first: number of the last bucket that was counted in, minus its place in `buckets`. Buckets of a
    /// run without gaps share the same shift.
    shift: i32,
}

/// The bucket of a latency. 0 ns counts as 1 ns, the clock's resolution.
#[inline]
pub fn bucket_of(latency_ns: u64) -> i32 {
    static TABLE: LazyLock<BucketTable> = LazyLock::new(BucketTable::new);
    TABLE.bucket_of(latency_ns.max(1))
}

/// Cells of latencies from `1 << first` to `1 << end` ns, `1 << OP_CELL_BITS` to a power of two. Each cell is narrower
/// than a bucket. Yields the bucket of a cell's first latency, and the cell's last latency in that bucket, ns. Later
/// latencies of the cell are in the next bucket.
pub fn cells(first: u32, end: u32) -> impl Iterator<Item = (i32, u64)> {
    let table = BucketTable::new();
    let range = (first as usize) << CELL_BITS..(end as usize) << CELL_BITS;
    range.map(move |index| (table.cells[index].bucket, table.cells[index].last_ns))
}

/// [`bucket_of`] by its definition.
fn defined_bucket_of(latency_ns: u64) -> i32 {
    let us = latency_ns as f64 / 1000.0;
    // 1 ns is bucket -319 and u64::MAX ns is bucket 1730, so the cast cannot saturate.
    ((us.log2() * BUCKETS_PER_OCTAVE).ceil() - 1.0) as i32
}

/// Number of bits below the leading one that select a cell of the table.
const CELL_BITS: u32 = OP_CELL_BITS;

/// Cells of 64 octaves.
const CELLS: usize = 64 << CELL_BITS;

/// Finds buckets without a logarithm, which would be a tenth of the work for a record.
///
/// A cell is narrower than a bucket, so at most one bucket ends in it.
struct BucketTable {
    cells: [Cell; CELLS],
}

struct Cell {
    /// The bucket of the cell's first latency.
    bucket: i32,
    /// The cell's last latency in that bucket, ns.
    last_ns: u64,
}

impl BucketTable {
    fn new() -> Self {
        let cells = array::from_fn(|index| {
            let index = index as u64;
            let (octave, part) = (index >> CELL_BITS, index & ((1 << CELL_BITS) - 1));
            let lead = 1 << octave;
            let first_ns = lead + scale(part, octave);
            let end_ns = match scale(part + 1, octave) {
                // The last octave ends at `u64::MAX`.
                width if width >= lead => lead - 1 + lead,
                width => (lead + width).max(first_ns + 1) - 1,
            };
            let bucket = defined_bucket_of(first_ns);
            // Bisect: `last_ns` is in the bucket, `beyond` is not.
            let (mut last_ns, mut beyond) = (first_ns, end_ns);
            if defined_bucket_of(end_ns) == bucket {
                last_ns = end_ns;
            }
            while beyond - last_ns > 1 {
                let middle = last_ns + (beyond - last_ns) / 2;
                if defined_bucket_of(middle) == bucket {
                    last_ns = middle;
                } else {
                    beyond = middle;
                }
            }
            Cell { bucket, last_ns }
        });
        Self { cells }
    }

    #[inline]
    fn bucket_of(&self, latency_ns: u64) -> i32 {
        let octave = latency_ns.ilog2();
        // Shift out the leading bit.
        let below = (latency_ns << (63 - octave)) << 1;
        let part = below >> (64 - CELL_BITS);
        let index = (octave << CELL_BITS) as usize + part as usize;
        let cell = &self.cells[index];
        cell.bucket + i32::from(latency_ns > cell.last_ns)
    }
}

/// Length in ns of `part` cells in the octave that is `1 << octave` ns long.
fn scale(part: u64, octave: u64) -> u64 {
    match octave.checked_sub(u64::from(CELL_BITS)) {
        Some(shift) => part << shift,
        None => part >> (u64::from(CELL_BITS) - octave),
    }
}

/// The meaning of bucket numbers as JSON, for the metadata of files.
pub fn mapping() -> String {
    format!(
        r#"{{"unit":"us","bucket":"(2^(i/32), 2^((i+1)/32)]","opentelemetry":{{"scale":{SCALE},"index_offset":{OPENTELEMETRY_OFFSET}}},"prometheus":{{"schema":{SCALE},"index_offset":{PROMETHEUS_OFFSET}}}}}"#
    )
}

/// The upper, inclusive bound of a bucket, us.
pub fn upper_bound_us(bucket: i32) -> f64 {
    ((f64::from(bucket) + 1.0) / BUCKETS_PER_OCTAVE).exp2()
}

/// The geometric middle of a bucket, us: the value that stands for everything in it.
pub fn middle_us(bucket: i32) -> f64 {
    ((f64::from(bucket) + 0.5) / BUCKETS_PER_OCTAVE).exp2()
}

/// The octave of a bucket: octave `i` has the buckets of latencies in `(2^i, 2^(i+1)]` microseconds.
pub fn octave_of(bucket: i32) -> i32 {
    bucket >> SCALE
}

/// The upper, inclusive bound of the latencies of an octave, us. The lower bound is half of it.
pub fn octave_bound_us(octave: i32) -> f64 {
    (f64::from(octave) + 1.0).exp2()
}

/// Compares the counts and ignores `shift`.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.buckets == other.buckets
    }
}

impl Eq for Histogram {}

impl Histogram {
    /// From buckets in ascending order, with their counts.
    pub fn of_ascending(buckets: impl IntoIterator<Item = (i32, u64)>) -> Self {
        let buckets: Vec<_> = buckets.into_iter().collect();
        debug_assert!(buckets.is_sorted_by(|(one, _), (next, _)| one < next));
        Self { buckets, shift: 0 }
    }

    /// Counts one request.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        self.add(bucket_of(latency_ns), 1);
    }

    /// Adds `count` requests to a bucket.
    #[inline]
    pub fn add(&mut self, bucket: i32, count: u64) {
        // A bucket before the first one wraps around to a place beyond the last one.
        let place = bucket.wrapping_sub(self.shift).cast_unsigned() as usize;
        match self.buckets.get_mut(place) {
            Some((at, total)) if *at == bucket => *total = total.saturating_add(count),
            _ => self.search_and_add(bucket, count),
        }
    }

    #[cold]
    fn search_and_add(&mut self, bucket: i32, count: u64) {
        // Buckets read back from a file arrive in ascending order, so append.
        let is_last = self.buckets.last().is_none_or(|(last, _)| *last < bucket);
        let place = match is_last {
            true => Err(self.buckets.len()),
            false => self.buckets.binary_search_by_key(&bucket, |(b, _)| *b),
        };
        let place = match place {
            Ok(place) => {
                let total = &mut self.buckets[place].1;
                *total = total.saturating_add(count);
                place
            }
            Err(place) => {
                self.buckets.insert(place, (bucket, count));
                place
            }
        };
        // There are fewer than 2^12 buckets, so the place fits.
        self.shift = bucket.wrapping_sub(place as i32);
    }

    /// Adds another histogram to this one.
    pub fn merge(&mut self, other: &Self) {
        // Both are in order. A sum of many histograms already has nearly all buckets of the next one.
        let mut own = self.buckets.iter_mut();
        let mut next = own.next();
        let mut only_other = 0;
        for (bucket, count) in &other.buckets {
            while next.as_ref().is_some_and(|(own, _)| own < bucket) {
                next = own.next();
            }
            match &mut next {
                Some((own, total)) if own == bucket => *total = total.saturating_add(*count),
                _ => only_other += 1,
            }
        }
        if only_other > 0 {
            self.insert_missing(&other.buckets, only_other);
        }
    }

    /// Inserts the buckets of the ascending `buckets` that this histogram lacks: `missing` of them. Grows the list at
    /// its end, then fills it from the end.
    fn insert_missing(&mut self, buckets: &[(i32, u64)], missing: usize) {
        let mut left = self.buckets.len();
        self.buckets.resize(left + missing, (0, 0));
        let mut place = self.buckets.len();
        for (bucket, count) in buckets.iter().rev() {
            while left > 0 && self.buckets[left - 1].0 > *bucket {
                (left, place) = (left - 1, place - 1);
                self.buckets[place] = self.buckets[left];
            }
            if left == 0 || self.buckets[left - 1].0 < *bucket {
                place -= 1;
                self.buckets[place] = (*bucket, *count);
            }
        }
    }

    /// The occupied buckets, ascending, with their counts.
    pub fn buckets(&self) -> &[(i32, u64)] {
        &self.buckets
    }

    /// Number of requests in all buckets.
    pub fn total(&self) -> u64 {
        let counts = self.buckets.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// The latency, in us, that a share `q` (0 to 1) of the requests does not exceed, within 1.1 %
    /// (nearest rank). `None` when it is empty.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        let total = self.total();
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut below = 0_u64;
        for (bucket, count) in &self.buckets {
            below = below.saturating_add(*count);
            if below >= rank {
                return Some(middle_us(*bucket));
            }
        }
        None
    }

    /// Like [`Self::quantile_us`], but at most the largest latency as its column holds it. The middle of the last
    /// bucket may exceed that. A largest latency of 0 us is unknown, or too short for the column.
    pub fn quantile_us_up_to(&self, q: f64, max_ns: u64) -> Option<f64> {
        let us = self.quantile_us(q)?;
        Some(match us_from_ns(max_ns) {
            0 => us,
            max_us => us.min(max_us as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_table_of_buckets_agrees_with_their_definition() {
        for ns in 1..200_000 {
            assert_eq!(bucket_of(ns), defined_bucket_of(ns), "{ns}");
        }
        for octave in 0..64 {
            for ns in [1_u64 << octave, (1_u64 << octave) | 1, u64::MAX >> octave] {
                assert_eq!(bucket_of(ns), defined_bucket_of(ns), "{ns}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_latency_is_in_the_bucket_that_is_defined(ns: u64, octaves in 0..64_u32) {
            let ns = (ns >> octaves).max(1);
            prop_assert_eq!(bucket_of(ns), defined_bucket_of(ns));
        }
    }

    #[test]
    fn no_quantile_is_above_the_largest_latency() {
        let mut histogram = Histogram::default();
        (0..3).for_each(|_| histogram.record(2_300_000));
        assert!(histogram.quantile_us(0.99).is_some_and(|us| us > 2300.0));
        assert_eq!(histogram.quantile_us_up_to(0.99, 2_300_000), Some(2300.0));
        assert_eq!(
            histogram.quantile_us_up_to(0.99, 0),
            histogram.quantile_us(0.99)
        );
        assert_eq!(
            Histogram::default().quantile_us_up_to(0.99, 2_300_000),
            None
        );
    }

    #[test]
    fn an_octave_ends_at_a_power_of_two() {
        for (ns, bound_us) in [
            (1, 1.0 / 512.0),
            (1000, 1.0),
            (1001, 2.0),
            (2000, 2.0),
            (3_600_000_000_000, 4_294_967_296.0),
        ] {
            assert_eq!(octave_bound_us(octave_of(bucket_of(ns))), bound_us, "{ns}");
        }
    }

    #[test]
    fn bucket_bounds_are_upper_inclusive() {
        assert_eq!(bucket_of(1000), -1);
        assert_eq!(bucket_of(1001), 0);
        assert_eq!(bucket_of(2000), 31);
        assert_eq!(bucket_of(2001), 32);
        assert_eq!(bucket_of(0), bucket_of(1));
        assert!(bucket_of(u64::MAX) > bucket_of(u64::MAX / 2));
    }

    /// Asserts that a bucket of the other format holds a value, by its bounds.
    fn holds(lower: f64, us: f64, upper: f64) -> bool {
        const ROUNDING: f64 = 1e-9;
        lower < us * (1.0 + ROUNDING) && us <= upper * (1.0 + ROUNDING)
    }

    proptest! {
        /// OpenTelemetry, "Metrics Data Model", Exponential Scale and Exponential Buckets: `base = 2 ** (2 ** (-scale))`, and bucket
        /// `index` is of values greater than `base ** index` and less than or equal to `base ** (index + 1)`.
        #[test]
        fn buckets_are_those_of_opentelemetry(ns: u64, octaves in 0..64_u32) {
            let ns = (ns >> octaves).max(1);
            let base = 2_f64.powf(2_f64.powi(-SCALE));
            let index = bucket_of(ns) + OPENTELEMETRY_OFFSET;
            let us = ns as f64 / 1000.0;
            prop_assert!(holds(base.powi(index), us, base.powi(index + 1)), "{ns} ns in {index}");
        }

        /// Prometheus, "Native Histograms", Standard exponential schemas: the upper, inclusive bound of the positive bucket `i` is
        /// `(2 ** (2 ** -n)) ** i` for schema `n`, and the lower, exclusive one that of the bucket before.
        #[test]
        fn buckets_are_those_of_prometheus(ns: u64, octaves in 0..64_u32) {
            let ns = (ns >> octaves).max(1);
            let base = 2_f64.powf(2_f64.powi(-SCALE));
            let index = bucket_of(ns) + PROMETHEUS_OFFSET;
            let us = ns as f64 / 1000.0;
            prop_assert!(holds(base.powi(index - 1), us, base.powi(index)), "{ns} ns in {index}");
        }
    }

    /// Both formats have a separate bucket for zero and values near it (`zero_count`, `zero_threshold`). It stays empty
    /// here: 0 ns counts as 1 ns, the clock's resolution, which is in an ordinary bucket.
    #[test]
    fn nothing_is_in_a_bucket_of_zero() {
        let mut histogram = Histogram::default();
        histogram.record(0);
        assert_eq!(histogram.buckets(), [(-319, 1)]);
        assert!(upper_bound_us(-320) < 0.001 && 0.001 <= upper_bound_us(-319));
        // 1 us is the upper bound of OpenTelemetry's bucket -1 and of Prometheus' bucket 0.
        let one = bucket_of(1000);
        assert_eq!(
            (one + OPENTELEMETRY_OFFSET, one + PROMETHEUS_OFFSET),
            (-1, 0)
        );
        assert_eq!(upper_bound_us(one), 1.0);
    }

    #[test]
    fn files_say_what_a_bucket_is() {
        assert_eq!(
            mapping(),
            r#"{"unit":"us","bucket":"(2^(i/32), 2^((i+1)/32)]","opentelemetry":{"scale":5,"index_offset":0},"prometheus":{"schema":5,"index_offset":1}}"#
        );
    }

    proptest! {
        #[test]
        fn the_middle_is_within_its_stated_error(ns in 1_u64..u64::MAX / 2) {
            let us = ns as f64 / 1000.0;
            let bucket = bucket_of(ns);
            prop_assert!(us <= upper_bound_us(bucket) * (1.0 + 1e-12));
            prop_assert!((middle_us(bucket) / us - 1.0).abs() <= 0.011);
        }

        #[test]
        fn merging_preserves_totals_and_order_of_arrival_does_not_matter(
            a in prop::collection::vec(0_u64..1 << 40, 0..50),
            b in prop::collection::vec(0_u64..1 << 40, 0..50),
        ) {
            let mut ha = Histogram::default();
            a.iter().for_each(|v| ha.record(*v));
            let mut hb = Histogram::default();
            b.iter().for_each(|v| hb.record(*v));
            let (mut ab, mut ba) = (ha.clone(), hb.clone());
            ab.merge(&hb);
            ba.merge(&ha);
            prop_assert_eq!(ab.total() as usize, a.len() + b.len());
            prop_assert_eq!(ab, ba);
        }

        #[test]
        fn buckets_are_ascending_and_hold_what_was_added(added in prop::collection::vec((-9_i32..9, 1_u64..9), 0..60)) {
            let mut h = Histogram::default();
            let mut plain = BTreeMap::new();
            for (bucket, count) in added {
                h.add(bucket * 7 % 10, count);
                *plain.entry(bucket * 7 % 10).or_insert(0) += count;
            }
            prop_assert_eq!(h.buckets(), plain.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn a_quantile_is_near_the_true_one(mut v in prop::collection::vec(1_u64..1 << 40, 1..200), q in 0.0..=1.0_f64) {
            let mut h = Histogram::default();
            v.iter().for_each(|ns| h.record(*ns));
            v.sort_unstable();
            let rank = ((q * v.len() as f64).ceil() as usize).clamp(1, v.len());
            let truth = v[rank - 1] as f64 / 1000.0;
            prop_assert!((h.quantile_us(q).unwrap() / truth - 1.0).abs() <= 0.011);
        }
    }
}

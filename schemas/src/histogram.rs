//! Sparse base-2 exponential histogram of schema 5, the shape that OpenTelemetry's exponential
//! histograms and Prometheus' native histograms share.
//!
//! Bucket `i` counts latencies in `(2^(i/32), 2^((i+1)/32)]` microseconds. A bucket's geometric
//! middle is within 1.1 % of everything in it. Merging adds counts, so it is exact.

/// Buckets per power of two: 2^5 for schema 5.
const BUCKETS_PER_OCTAVE: f64 = 32.0;

/// A sparse histogram of latencies, ordered by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: Vec<(i16, u64)>,
}

/// The bucket of a latency. 0 ns counts as 1 ns, the clock's resolution.
pub fn bucket_of(latency_ns: u64) -> i16 {
    let us = latency_ns.max(1) as f64 / 1000.0;
    // 1 ns is bucket -319 and u64::MAX ns is bucket 1730, so the cast cannot saturate.
    ((us.log2() * BUCKETS_PER_OCTAVE).ceil() - 1.0) as i16
}

/// The upper, inclusive bound of a bucket, us.
pub fn upper_bound_us(bucket: i16) -> f64 {
    ((f64::from(bucket) + 1.0) / BUCKETS_PER_OCTAVE).exp2()
}

/// The geometric middle of a bucket, us: the value that stands for everything in it.
pub fn middle_us(bucket: i16) -> f64 {
    ((f64::from(bucket) + 0.5) / BUCKETS_PER_OCTAVE).exp2()
}

impl Histogram {
    /// Counts one request.
    pub fn record(&mut self, latency_ns: u64) {
        self.add(bucket_of(latency_ns), 1);
    }

    /// Adds `count` requests to a bucket.
    pub fn add(&mut self, bucket: i16, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(b, _)| *b) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Adds another histogram to this one.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            self.add(*bucket, *count);
        }
    }

    /// The occupied buckets, ascending, with their counts.
    pub fn buckets(&self) -> &[(i16, u64)] {
        &self.buckets
    }

    /// How many requests it holds.
    pub fn total(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// The latency, in us, that a share `q` (0 to 1) of the requests does not exceed, within 1.1 %
    /// (nearest rank). `None` when it is empty.
    pub fn quantile_us(&self, q: f64) -> Option<f64> {
        let total = self.total();
        let rank = ((q * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut below = 0;
        for (bucket, count) in &self.buckets {
            below += count;
            if below >= rank {
                return Some(middle_us(*bucket));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bucket_bounds_are_upper_inclusive() {
        assert_eq!(bucket_of(1000), -1);
        assert_eq!(bucket_of(1001), 0);
        assert_eq!(bucket_of(2000), 31);
        assert_eq!(bucket_of(2001), 32);
        assert_eq!(bucket_of(0), bucket_of(1));
        assert!(bucket_of(u64::MAX) > bucket_of(u64::MAX / 2));
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

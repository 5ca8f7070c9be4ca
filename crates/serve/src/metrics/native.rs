//! Buckets of native and exponential histograms, in seconds.
//!
//! The store's buckets are in microseconds. In seconds, their bounds fall between the bounds of the same schema: 10^6 is not a whole power
//! of `2^(1/32)`, but its 637.81st. Bucket `i` becomes bucket `i - 638`: counts stay exact, and bounds are 0.41 % too low.

use trackiops_schemas::histogram::{Histogram, OPENTELEMETRY_OFFSET, PROMETHEUS_OFFSET};

/// The number of buckets in a factor of 10^6: `32 * log2(10^6)`, rounded.
const PER_MILLION: i32 = 638;

/// The number of a bucket in Prometheus.
pub fn of_prometheus(bucket: i32) -> i32 {
    bucket - PER_MILLION + PROMETHEUS_OFFSET
}

/// The number of a bucket in OpenTelemetry.
pub fn of_opentelemetry(bucket: i32) -> i32 {
    bucket - PER_MILLION + OPENTELEMETRY_OFFSET
}

/// Runs of consecutive buckets: the number of the first bucket, and the counts.
pub fn runs(histogram: &Histogram) -> Vec<(i32, Vec<u64>)> {
    let mut runs: Vec<(i32, Vec<u64>)> = Vec::new();
    for (bucket, count) in histogram.buckets() {
        match runs.last_mut() {
            Some((first, counts)) if *first + counts.len() as i32 == *bucket => counts.push(*count),
            _ => runs.push((*bucket, vec![*count])),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use trackiops_schemas::histogram::{SCALE, bucket_of, upper_bound_us};

    use super::*;

    #[test]
    fn bounds_in_seconds_are_told_half_a_percent_too_low_at_most() {
        let base = 2_f64.powf(2_f64.powi(-SCALE));
        for ns in [1_000, 450_000, 1_000_000_000, 40_000_000_000] {
            let bucket = bucket_of(ns);
            let truth = upper_bound_us(bucket) / 1e6;
            for told in [
                base.powi(of_prometheus(bucket)),
                base.powi(of_opentelemetry(bucket) + 1),
            ] {
                assert!(
                    (-0.0042..0.0).contains(&(told / truth - 1.0)),
                    "{told} {truth}"
                );
            }
        }
    }
}

//! The others' latency.
//!
//! Tenants differ: one has large writes, another small reads. So each tenant's mean latency in an interval is divided by its usual latency,
//! reads and writes apart. The others' latency is the median of these ratios. A single tenant that waits for another reason does not move
//! the median. Neither does a change in the mix of tenants.

use crate::median::median;

use super::{Activity, Part, Place};

/// An entity counts in intervals with at least this many requests of known latency.
pub const MIN_REQUESTS: u64 = 5;

/// Natural logarithms of an entity's latency relative to its usual one, by interval.
fn relative(activity: &Activity, part: Part, recorded: &[bool]) -> Vec<Option<f64>> {
    let usual = [0, 1].map(|direction| {
        let means = activity
            .iter()
            .zip(recorded)
            .filter_map(|(flows, recorded)| {
                let (count, sum_ns) = part.of(&flows[direction]);
                (*recorded && count > 0 && sum_ns > 0).then(|| sum_ns as f64 / count as f64)
            });
        median(&mut means.collect::<Vec<_>>())
    });
    let of = |(flows, recorded): (&[super::Flow; 2], &bool)| {
        let (mut requests, mut sum) = (0, 0.0);
        for (flow, usual_ns) in flows.iter().zip(usual) {
            let (count, sum_ns) = part.of(flow);
            if count > 0 && sum_ns > 0 {
                requests += count;
                sum += count as f64 * f64::ln(sum_ns as f64 / count as f64 / usual_ns);
            }
        }
        (*recorded && requests >= MIN_REQUESTS).then(|| sum / requests as f64)
    };
    activity.iter().zip(recorded).map(of).collect()
}

/// Relative latencies of all entities.
pub struct Latencies(Vec<Vec<Option<f64>>>);

impl Latencies {
    /// The latencies of a place.
    pub fn new(place: &Place, part: Part) -> Self {
        let of = |activity| relative(activity, part, &place.recorded);
        Self(place.entities.iter().map(of).collect())
    }

    /// The latency of all but one entity in an interval, as a natural logarithm; `None` if none of them did enough.
    pub fn of_others(&self, entity: usize, interval: usize) -> Option<f64> {
        let others = self
            .0
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != entity);
        let mut there: Vec<_> = others.filter_map(|(_, series)| series[interval]).collect();
        (!there.is_empty()).then(|| median(&mut there))
    }
}

//! Series of numbers over intervals: ranks, and removal of their slow course.

use super::{Measure, Place};

/// The slow course of a series is its mean over this time around each interval, ms.
const COURSE_MS: u64 = 3_600_000;
/// The window of this mean is at most this part of the range.
const COURSE_PART: usize = 8;

/// Half the length of that window, in intervals, for a series of `count` intervals.
pub fn half_course(interval_ms: u64, count: usize) -> usize {
    let half = COURSE_MS / 2 / interval_ms.max(1);
    usize::try_from(half)
        .unwrap_or(usize::MAX)
        .min(count / 2 / COURSE_PART)
        .max(1)
}

/// Ranks from 0 to 1. Equal values have the mean of their ranks.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<_> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]).then(a.cmp(b)));
    let mut ranks = vec![0.0; values.len()];
    let scale = 1.0 / values.len().max(1) as f64;
    let mut first = 0;
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let mean = first as f64 + 0.5 * equal.len() as f64;
        equal.iter().for_each(|place| ranks[*place] = mean * scale);
        first += equal.len();
    }
    ranks
}

/// Values minus the mean of the `half` values before and after each.
pub fn without_course(values: &[f64], half: usize) -> Vec<f64> {
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(values.iter().scan(0.0, |sum, value| {
            *sum += value;
            Some(*sum)
        }))
        .collect();
    let course = |place: usize| {
        let (first, end) = (
            place.saturating_sub(half),
            (place + half + 1).min(values.len()),
        );
        (sums[end] - sums[first]) / (end - first) as f64
    };
    (0..values.len())
        .map(|at| values[at] - course(at))
        .collect()
}

/// The load of each entity by each measure: ranks without their slow course, of the recorded intervals.
pub struct Loads {
    /// Each interval's index in the series.
    places: Vec<Option<usize>>,
    /// By entity and measure.
    ranks: Vec<[Vec<f64>; 2]>,
}

impl Loads {
    /// The loads at a place.
    pub fn new(place: &Place) -> Self {
        let mut count = 0;
        let places = place.recorded.iter().map(|recorded| {
            count += usize::from(*recorded);
            recorded.then(|| count - 1)
        });
        let places: Vec<_> = places.collect();
        let half = half_course(place.interval_ms, count);
        let ranks = place.entities.iter().map(|activity| {
            Measure::ALL.map(|measure| {
                let recorded = activity.iter().zip(&places).filter(|(_, at)| at.is_some());
                let load = recorded.map(|(flows, _)| measure.of(flows) as f64);
                without_course(&ranks(&load.collect::<Vec<_>>()), half)
            })
        });
        let ranks = ranks.collect();
        Self { places, ranks }
    }

    /// The load of an entity in these intervals. All of them were recorded.
    pub fn of(
        &self,
        entity: usize,
        measure: Measure,
        intervals: impl Iterator<Item = usize>,
    ) -> Vec<f64> {
        let ranks = &self.ranks[entity][measure as usize];
        intervals
            .map(|t| self.places[t].map_or(0.0, |at| ranks[at]))
            .collect()
    }

    /// Whether an interval and the `lags` before it were recorded.
    pub fn has(&self, interval: usize, lags: usize) -> bool {
        interval >= lags
            && self.places[interval - lags..=interval]
                .iter()
                .all(Option::is_some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_their_ranks() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 7.0]), [0.5, 0.125, 0.5, 0.875]);
        assert_eq!(ranks(&[]), [0.0; 0]);
    }

    #[test]
    fn a_slow_course_is_taken_out() {
        let line: Vec<f64> = (0..100).map(f64::from).collect();
        let left = without_course(&line, 5);
        assert!(left[5..95].iter().all(|value| value.abs() < 1e-9));
        assert_eq!(left[0], -2.5);
    }
}

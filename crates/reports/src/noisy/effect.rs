//! How much longer the others wait while a candidate's load is high.

use crate::median::median;

use super::correlation::Candidate;
use super::{Part, Place, queue_share};

/// A load is high above the middle between its median and this quantile.
const HIGH_QUANTILE: f64 = 0.995;
/// High intervals with at most this many other intervals between them are one episode.
const EPISODE_GAP: usize = 3;
/// An interval is compared with intervals at most this far away, ms.
const NEAR_MS: u64 = 3_600_000;
/// The others' own load is alike if its predicted latency differs by at most this many standard deviations.
const ALIKE: f64 = 0.5;
/// Least number of intervals to compare one interval with.
const MIN_MATCHES: usize = 5;

/// What happened while a candidate's load was high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// Load above which it is high, requests or bytes in an interval.
    pub high_above: u64,
    /// Intervals with a high load.
    pub high: usize,
    /// Number of episodes that they form.
    pub episodes: usize,
    /// Episodes in which the others waited longer than in the comparable intervals.
    pub episodes_longer: usize,
    /// Share of the high intervals that have comparable intervals, 0 to 1.
    pub compared: f64,
    /// The others' latency in high intervals, relative to intervals in which the others' own load was alike.
    pub ratio: f64,
    /// The others' mean latency in high intervals, us.
    pub others_us_high: f64,
    /// The others' mean latency in all other intervals, us.
    pub others_us_otherwise: f64,
    /// The candidate's share of the requests in the system in high intervals, 0 to 1.
    pub queue_share_high: Option<f64>,
}

/// Measures the effect of a candidate; `None` if its load never varied.
pub fn measure(place: &Place, part: Part, entity: usize, candidate: &Candidate) -> Option<Effect> {
    let tested = &candidate.tested;
    let load = |t: &usize| tested.measure.of(&place.entities[entity][*t - tested.lag]);
    let loads: Vec<_> = candidate.intervals.iter().map(load).collect();
    let high_above = threshold(&loads)?;
    let is_high: Vec<_> = loads.iter().map(|load| *load > high_above).collect();
    let differences = differences(place, candidate, &is_high);
    let mut known: Vec<_> = differences
        .iter()
        .filter_map(|(_, difference)| *difference)
        .collect();
    let (episodes, episodes_longer) = episodes(&differences);
    let high = differences.len();
    let mean_us = |high: bool| {
        let intervals = candidate
            .intervals
            .iter()
            .zip(&is_high)
            .filter(|(_, is)| **is == high);
        let (mut count, mut sum_ns) = (0, 0.0);
        for (t, _) in intervals {
            for (other, activity) in place.entities.iter().enumerate() {
                for flow in activity[*t].iter().filter(|_| other != entity) {
                    let (requests, ns) = part.of(flow);
                    count += requests;
                    sum_ns += ns as f64;
                }
            }
        }
        sum_ns / 1000.0 / (count.max(1)) as f64
    };
    let high_intervals = candidate.intervals.iter().zip(&is_high);
    let high_intervals = high_intervals.filter(|(_, high)| **high).map(|(t, _)| *t);
    Some(Effect {
        high_above,
        high,
        episodes,
        episodes_longer,
        compared: known.len() as f64 / high.max(1) as f64,
        ratio: f64::exp(median(&mut known)),
        others_us_high: mean_us(true),
        others_us_otherwise: mean_us(false),
        queue_share_high: queue_share(place, entity, high_intervals),
    })
}

/// The load above which it counts as high; `None` if it hardly varies.
fn threshold(loads: &[u64]) -> Option<u64> {
    let mut sorted = loads.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().checked_sub(1)?;
    let (middle, top) = (
        sorted[last / 2],
        sorted[(last as f64 * HIGH_QUANTILE) as usize],
    );
    (top > middle).then(|| middle + (top - middle) / 2)
}

/// For each high interval: its place, and the rise of the others' log latency over comparable intervals near by.
fn differences(
    place: &Place,
    candidate: &Candidate,
    is_high: &[bool],
) -> Vec<(usize, Option<f64>)> {
    let Candidate {
        intervals,
        latency,
        own_load,
        ..
    } = candidate;
    let spread = own_load.iter().map(|of| of * of).sum::<f64>() / own_load.len() as f64;
    let alike = ALIKE * spread.sqrt();
    let near = usize::try_from(NEAR_MS / place.interval_ms.max(1)).unwrap_or(usize::MAX);
    let high = (0..intervals.len()).filter(|at| is_high[*at]);
    high.map(|at| {
        let first = intervals.partition_point(|t| t.saturating_add(near) < intervals[at]);
        let end = intervals.partition_point(|t| *t <= intervals[at].saturating_add(near));
        let matches = (first..end)
            .filter(|other| !is_high[*other] && (own_load[*other] - own_load[at]).abs() <= alike);
        let mut matched: Vec<_> = matches.map(|other| latency[other]).collect();
        let difference = (matched.len() >= MIN_MATCHES).then(|| latency[at] - median(&mut matched));
        (intervals[at], difference)
    })
    .collect()
}

/// The number of episodes, and of the episodes in which the others waited longer.
fn episodes(differences: &[(usize, Option<f64>)]) -> (usize, usize) {
    let episodes = differences.chunk_by(|(a, _), (b, _)| b - a <= EPISODE_GAP + 1);
    let is_longer = |episode: &[(usize, Option<f64>)]| {
        let mut known: Vec<_> = episode.iter().filter_map(|(_, of)| *of).collect();
        !known.is_empty() && median(&mut known) > 0.0
    };
    episodes.fold((0, 0), |(all, longer), episode| {
        (all + 1, longer + usize::from(is_longer(episode)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_is_half_way_up() {
        let loads: Vec<u64> = (0..1000)
            .map(|t| if t % 10 == 0 { 500 } else { 100 })
            .collect();
        assert_eq!(threshold(&loads), Some(300));
        assert_eq!(threshold(&[7; 100]), None);
        assert_eq!(threshold(&[]), None);
    }

    #[test]
    fn short_gaps_do_not_end_an_episode() {
        let longer = |t| (t, Some(0.5));
        let shorter = |t| (t, Some(-0.5));
        let all = [longer(1), longer(2), longer(6), shorter(20), (40, None)];
        assert_eq!(episodes(&all), (3, 1));
        assert_eq!(episodes(&[]), (0, 0));
    }
}

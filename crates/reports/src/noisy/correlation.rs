//! Lagged partial rank correlation of a candidate's load with the others' latency, and its significance.
//!
//! Load and latency come in bursts, so neighbouring intervals are not independent. A permutation test would therefore overstate
//! significance. Instead, one series is shifted circularly against the other: that keeps the bursts of both and leaves only coincidence.
//! All candidates, measures and lags get the same shift, and only the largest correlation counts (Westfall and Young). So the level holds
//! for the whole place.

use super::latency::Latencies;
use super::least_squares::{Design, centre, product};
use super::series::{Loads, half_course, ranks, without_course};
use super::{Measure, Part, Place};

/// Load may be this many intervals ahead of latency.
pub const MAX_LAG: usize = 2;
/// Fewer intervals are not enough: half an hour at 10 s.
pub const MIN_INTERVALS: usize = 180;
/// Number of circular shifts.
const SHIFTS: usize = 249;
/// Number of others whose loads are controls, those with the most requests first. The rest together are one more control.
const MAX_CONTROLS: usize = 8;
/// Least number of intervals for each control.
const INTERVALS_PER_CONTROL: usize = 30;

/// The correlation of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tested {
    /// The measure of load and the lag that correlate most clearly.
    pub measure: Measure,
    /// By how many intervals load is ahead.
    pub lag: usize,
    /// Partial rank correlation, from -1 to 1.
    pub correlation: f64,
    /// How often chance gives a correlation as clear as the largest of all candidates, 0 to 1.
    pub chance: f64,
    /// Share of the variance of the candidate's load that the others' load explains, 0 to 1.
    pub shared: f64,
}

/// A candidate, and the data behind its correlation.
pub struct Candidate {
    /// The intervals.
    pub intervals: Vec<usize>,
    /// The others' latency in them, as a natural logarithm.
    pub latency: Vec<f64>,
    /// The part of it that the others' own load explains, in ranks.
    pub own_load: Vec<f64>,
    /// The result.
    pub tested: Tested,
}

/// Residuals of a candidate: of the latency, and of the load by measure and lag.
struct Residuals {
    candidate: Candidate,
    loads: Vec<(Measure, usize, Vec<f64>)>,
    latency: Vec<f64>,
}

/// Tests all entities of a place. An error is the number of intervals, if they are too few.
pub fn test(place: &Place, part: Part, loads: &Loads) -> Vec<Result<Candidate, usize>> {
    let latencies = Latencies::new(place, part);
    let requests: Vec<u64> = place
        .entities
        .iter()
        .map(|of| Measure::Requests.of(&total(of)))
        .collect();
    let candidates = (0..place.entities.len())
        .map(|entity| residuals(place, loads, &latencies, &requests, entity));
    let mut candidates: Vec<_> = candidates.collect();
    let mut largest = vec![f64::MIN; SHIFTS];
    let mut clarities = Vec::new();
    for of in &mut candidates {
        clarities.push(of.as_mut().ok().map(|of| clarity(of, &mut largest)));
    }
    for (of, clarity) in candidates.iter_mut().zip(clarities) {
        if let (Ok(of), Some(clarity)) = (of, clarity) {
            let as_large = largest
                .iter()
                .filter(|by_chance| **by_chance >= clarity)
                .count();
            of.candidate.tested.chance = (1 + as_large) as f64 / (1 + SHIFTS) as f64;
        }
    }
    candidates
        .into_iter()
        .map(|of| of.map(|of| of.candidate))
        .collect()
}

fn total(activity: &super::Activity) -> [super::Flow; 2] {
    [0, 1].map(|direction| super::Flow {
        requests: activity.iter().map(|flows| flows[direction].requests).sum(),
        bytes: activity.iter().map(|flows| flows[direction].bytes).sum(),
        ..super::Flow::default()
    })
}

fn residuals(
    place: &Place,
    loads: &Loads,
    latencies: &Latencies,
    requests: &[u64],
    entity: usize,
) -> Result<Residuals, usize> {
    let known = |t: usize| Some((t, latencies.of_others(entity, t)?));
    let there = (0..place.recorded.len()).filter(|t| loads.has(*t, MAX_LAG));
    let (intervals, latency): (Vec<_>, Vec<_>) = there.filter_map(known).unzip();
    if intervals.len() < MIN_INTERVALS {
        return Err(intervals.len());
    }
    let half = half_course(place.interval_ms, intervals.len());
    let mut y = without_course(&ranks(&latency), half);
    centre(&mut y);
    let (design, own_load) = controls(loads, requests, entity, &intervals).raising(&y);
    let lagged = |measure| (0..=MAX_LAG).map(move |lag| (measure, lag));
    let mut shared: f64 = 0.0;
    let loads = Measure::ALL
        .into_iter()
        .flat_map(lagged)
        .map(|(measure, lag)| {
            let mut x = loads.of(entity, measure, intervals.iter().map(|t| t - lag));
            centre(&mut x);
            let residuals = design.residuals(&x);
            if lag == 0 {
                let left = product(&residuals, &residuals) / product(&x, &x).max(1e-12);
                shared = shared.max(1.0 - left);
            }
            (measure, lag, residuals)
        });
    let loads: Vec<_> = loads.collect();
    Ok(Residuals {
        latency: design.residuals(&y),
        loads,
        candidate: Candidate {
            intervals,
            latency,
            own_load,
            tested: Tested {
                measure: Measure::Requests,
                lag: 0,
                correlation: 0.0,
                chance: 1.0,
                shared,
            },
        },
    })
}

/// The loads of the others.
fn controls(loads: &Loads, requests: &[u64], entity: usize, intervals: &[usize]) -> Design {
    let mut others: Vec<_> = (0..requests.len())
        .filter(|other| *other != entity)
        .collect();
    others.sort_by_key(|other| (std::cmp::Reverse(requests[*other]), *other));
    let most = MAX_CONTROLS.min(intervals.len() / INTERVALS_PER_CONTROL / 2);
    let of = |other: usize| {
        Measure::ALL.map(|measure| loads.of(other, measure, intervals.iter().copied()))
    };
    let (single, rest) = others.split_at(most.min(others.len()));
    let mut columns: Vec<Vec<f64>> = single.iter().flat_map(|other| of(*other)).collect();
    if let Some((first, more)) = rest.split_first() {
        let mut sums = of(*first);
        for other in more {
            for (sum, column) in sums.iter_mut().zip(of(*other)) {
                sum.iter_mut()
                    .zip(column)
                    .for_each(|(sum, value)| *sum += value);
            }
        }
        columns.extend(sums);
    }
    Design::new(columns)
}

/// How many standard deviations of chance the clearest correlation has. Stores the clearest one, and raises `largest`, the maximum of each
/// shift.
fn clarity(of: &mut Residuals, largest: &mut [f64]) -> f64 {
    let length = of.latency.len();
    let nearest = half_course(1, length).max(MAX_LAG + 1).min(length / 4);
    let mut clearest = f64::MIN;
    // Twice as long, so that a shift is a slice.
    let twice: Vec<_> = of.latency.iter().chain(&of.latency).copied().collect();
    for (measure, lag, load) in &of.loads {
        let scale = (product(load, load) * product(&of.latency, &of.latency)).sqrt();
        if scale < 1e-9 {
            continue;
        }
        let at = |shift: usize| product(load, &twice[shift..shift + length]) / scale;
        let shift = |number: usize| nearest + (length - 2 * nearest) * number / SHIFTS;
        let by_chance: Vec<_> = (0..SHIFTS).map(|number| at(shift(number))).collect();
        let deviation = (product(&by_chance, &by_chance) / SHIFTS as f64)
            .sqrt()
            .max(1e-9);
        for (most, correlation) in largest.iter_mut().zip(&by_chance) {
            *most = most.max(correlation / deviation);
        }
        let correlation = at(0);
        if correlation / deviation > clearest {
            clearest = correlation / deviation;
            let tested = &mut of.candidate.tested;
            (tested.measure, tested.lag, tested.correlation) = (*measure, *lag, correlation);
        }
    }
    clearest
}

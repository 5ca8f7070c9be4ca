//! `noisy`: whose load rose when the others' latency rose.
//!
//! A place is a server or a mount. Its entities are its users, for example tenants. Each entity is a candidate. [`examine`] asks of each:
//! do the others wait longer when it does more? The answer is a verdict with its evidence:
//!
//! 1. [`latency`]: the latency of the others in each interval, relative to the usual latency of each.
//! 2. [`correlation`]: lagged partial rank correlation of the candidate's load with it. Both are corrected for the others' own load and
//!    for the slow course of the day. Circular shifts give the significance, over all candidates at once.
//! 3. [`effect`]: how much longer the others wait while the candidate's load is high. It compares with near intervals in which the
//!    others do as much.
//! 4. [`verdict`]: names the candidate if both are clear. Otherwise it says why not, or why the data does not suffice.
//!
//! Nothing is random: equal data has equal answers.

mod correlation;
mod effect;
mod latency;
mod least_squares;
pub mod report;
mod series;
mod verdict;

pub use verdict::{Reason, Verdict};

use correlation::Tested;
use effect::Effect;

/// Requests of one entity in one interval and one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Completed requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests whose latency is known.
    pub timed: u64,
    /// The sum of these latencies, ns.
    pub latency_ns: u64,
    /// Requests whose time at network and server is also known.
    pub split: u64,
    /// The sum of these times, ns.
    pub server_ns: u64,
}

/// What an entity did in each interval: reads and writes.
pub type Activity = Vec<[Flow; 2]>;

/// A server or a mount, over a range of intervals of equal length.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// Length of an interval, ms.
    pub interval_ms: u64,
    /// Whether each interval was recorded completely.
    pub recorded: Vec<bool>,
    /// Its entities. Each has all intervals, with zeros where it was idle.
    pub entities: Vec<Activity>,
}

/// A measure of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Requests/s.
    Requests,
    /// Bytes/s.
    Bytes,
}

impl Measure {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Requests, Self::Bytes];

    fn of(self, flows: &[Flow; 2]) -> u64 {
        let of = |flow: &Flow| match self {
            Self::Requests => flow.requests,
            Self::Bytes => flow.bytes,
        };
        flows.iter().map(of).sum()
    }
}

/// Which part of the time counts as the others' latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Network and server.
    Server,
    /// The whole latency, if the part at network and server is unknown for most requests.
    Whole,
}

impl Part {
    /// The number of requests with this time, and its sum, ns.
    fn of(self, flow: &Flow) -> (u64, u64) {
        match self {
            Self::Server => (flow.split, flow.server_ns),
            Self::Whole => (flow.timed, flow.latency_ns),
        }
    }
}

/// Findings about one candidate.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Its number in the place.
    pub entity: usize,
    /// Whether it is named, and why not.
    pub verdict: Verdict,
    /// Intervals in which the others' latency and the load before are known, also if they are too few to be compared.
    pub intervals: usize,
    /// The correlation, if there were enough intervals to compute it.
    pub tested: Option<Tested>,
    /// The effect of a high load, if it ever was high.
    pub effect: Option<Effect>,
    /// Its share of the time that all requests spent in the system. By Little's law this is its share of the requests there. 0 to 1; `None`
    /// if no time is known of its requests, or of any.
    pub queue_share: Option<f64>,
}

/// Findings about a place.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// The part of the time that the latencies are of.
    pub part: Part,
    /// One for each entity: named ones first, then by correlation, then by queueing share.
    pub evidence: Vec<Evidence>,
}

/// Examines each entity of a place.
pub fn examine(place: &Place) -> Findings {
    let part = part(place);
    let ranks = series::Loads::new(place);
    let mut evidence: Vec<_> = correlation::test(place, part, &ranks)
        .into_iter()
        .enumerate()
        .map(|(entity, candidate)| {
            let intervals = match &candidate {
                Ok(candidate) => candidate.intervals.len(),
                Err(too_few) => *too_few,
            };
            let candidate = candidate.ok();
            let effect = candidate
                .as_ref()
                .and_then(|candidate| effect::measure(place, part, entity, candidate));
            let tested = candidate.map(|candidate| candidate.tested);
            let verdict = verdict::of(place, entity, tested.as_ref(), effect.as_ref());
            Evidence {
                entity,
                verdict,
                intervals,
                tested,
                effect,
                queue_share: queue_share(place, entity, 0..place.recorded.len()),
            }
        })
        .collect();
    let correlation = |of: &Evidence| of.tested.as_ref().map_or(f64::MIN, |t| t.correlation);
    let share = |of: &Evidence| of.queue_share.unwrap_or_default();
    evidence.sort_by(|a, b| {
        (b.verdict == Verdict::Named)
            .cmp(&(a.verdict == Verdict::Named))
            .then_with(|| correlation(b).total_cmp(&correlation(a)))
            .then_with(|| share(b).total_cmp(&share(a)))
            .then_with(|| a.entity.cmp(&b.entity))
    });
    Findings { part, evidence }
}

/// The time at network and server, if it is known of most requests. A neighbour does not cause the queue inside a client.
fn part(place: &Place) -> Part {
    let flows = place.entities.iter().flatten().flatten();
    let (split, timed) = flows.fold((0, 0), |(split, timed), flow| {
        (split + flow.split, timed + flow.timed)
    });
    match 2 * split >= timed {
        true => Part::Server,
        false => Part::Whole,
    }
}

/// An entity's share of the time that requests spent in the system in these intervals. `None` if no time is known, or if the entity had
/// requests but none of their times is known.
fn queue_share(
    place: &Place,
    entity: usize,
    intervals: impl Iterator<Item = usize> + Clone,
) -> Option<f64> {
    let flows = |activity: &Activity| {
        intervals
            .clone()
            .flat_map(|t| activity[t])
            .collect::<Vec<_>>()
    };
    let time = |activity: &Activity| -> f64 {
        let flows = flows(activity).into_iter();
        flows.map(|flow| flow.latency_ns as f64).sum()
    };
    let own = flows(&place.entities[entity]);
    let is_untimed =
        own.iter().any(|flow| flow.requests > 0) && own.iter().all(|flow| flow.timed == 0);
    let all: f64 = place.entities.iter().map(time).sum();
    (all > 0.0 && !is_untimed).then(|| time(&place.entities[entity]) / all)
}

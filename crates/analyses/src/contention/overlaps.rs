//! Which owners had requests in flight at a server at the same time, and for how long.

use std::collections::VecDeque;

use ahash::AHashMap;

use super::Class;
use crate::source::Name;

/// Ended requests of a server that are kept, because a request that overlaps them may still end. If more end during one request, it counts
/// only the last of them.
const MOST_ENDED: usize = 512;

/// Number of an owner of requests.
pub type Owner = u32;
/// No owner: stands for time of a request without others beside it.
pub const NOBODY: Owner = Owner::MAX;

/// A request that has ended.
pub struct Flight {
    pub owner: Owner,
    pub class: Class,
    pub start_ns: i64,
    pub end_ns: i64,
}

struct Ended {
    flight: Flight,
    /// The owners of requests in flight at the same time, and the overlap of each with this request.
    beside: Vec<(Owner, u64)>,
}

/// The share of latencies of one class and owner that overlapped with another owner's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beside {
    /// Number of requests, weighted by their shares.
    pub requests: f64,
    /// Latencies, weighted by their shares, ns.
    pub latency_ns: f64,
}

/// Sums up overlaps of owners. Requests must come in the order of their ends.
#[derive(Default)]
pub struct Overlaps {
    servers: AHashMap<Name, VecDeque<Ended>>,
    sums: AHashMap<(Owner, Owner, Class), Beside>,
}

impl Overlaps {
    /// Adds a request.
    pub fn add(&mut self, flight: Flight) {
        let ended = self.servers.entry(flight.class.server).or_default();
        if ended.len() >= MOST_ENDED
            && let Some(oldest) = ended.pop_front()
        {
            count(&mut self.sums, &oldest);
        }
        let mut beside = Vec::new();
        let during = |other: &&mut Ended| other.flight.end_ns > flight.start_ns;
        for other in ended.iter_mut().rev().take_while(during) {
            let from = flight.start_ns.max(other.flight.start_ns);
            let to = flight.end_ns.min(other.flight.end_ns);
            if let Some(ns @ 1..) = to.checked_sub(from).and_then(|ns| u64::try_from(ns).ok()) {
                add(&mut other.beside, flight.owner, ns);
                add(&mut beside, other.flight.owner, ns);
            }
        }
        ended.push_back(Ended { flight, beside });
    }

    /// The sums by owner, the owner beside it, and class; sorted.
    pub fn sums(&self) -> Vec<((Owner, Owner, Class), Beside)> {
        let mut sums = self.sums.clone();
        let left = self.servers.values().flatten();
        left.for_each(|ended| count(&mut sums, ended));
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|(key, _)| *key);
        sums
    }
}

fn add(beside: &mut Vec<(Owner, u64)>, owner: Owner, ns: u64) {
    match beside.iter_mut().find(|(known, _)| *known == owner) {
        Some((_, sum)) => *sum = sum.saturating_add(ns),
        None => beside.push((owner, ns)),
    }
}

fn count(sums: &mut AHashMap<(Owner, Owner, Class), Beside>, ended: &Ended) {
    let Flight {
        owner,
        class,
        start_ns,
        end_ns,
    } = ended.flight;
    let latency_ns = end_ns.saturating_sub(start_ns) as f64;
    let mut count = |other, share: f64| {
        let sum = sums.entry((owner, other, class)).or_default();
        sum.requests += share;
        sum.latency_ns += latency_ns * share;
    };
    let all: u64 = ended.beside.iter().map(|(_, ns)| ns).sum();
    if all == 0 {
        count(NOBODY, 1.0);
    }
    for (other, ns) in &ended.beside {
        count(*other, *ns as f64 / all as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(owner: Owner, start_ns: i64, end_ns: i64) -> Flight {
        let class = Class {
            server: 0,
            is_other: false,
            op: 0,
            size: 12,
        };
        Flight {
            owner,
            class,
            start_ns,
            end_ns,
        }
    }

    fn sums(flights: impl IntoIterator<Item = Flight>) -> Vec<(Owner, Owner, f64, f64)> {
        let mut overlaps = Overlaps::default();
        flights.into_iter().for_each(|flight| overlaps.add(flight));
        let sums = overlaps.sums().into_iter();
        sums.map(|((of, beside, _), sum)| (of, beside, sum.requests, sum.latency_ns))
            .collect()
    }

    #[test]
    fn requests_are_shared_out_by_the_time_beside_each() {
        // 1 is beside 2 for 30 ns and beside 3 for 10 ns; 2 and 3 have no others beside them.
        let found = sums([flight(2, 0, 30), flight(3, 90, 110), flight(1, 0, 100)]);
        let expected = [
            (1, 2, 0.75, 75.0),
            (1, 3, 0.25, 25.0),
            (2, 1, 1.0, 30.0),
            (3, 1, 1.0, 20.0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn one_that_ends_when_another_begins_is_beside_nobody() {
        let found = sums([flight(1, 0, 10), flight(2, 10, 20), flight(2, 15, 30)]);
        assert_eq!(found, [(1, NOBODY, 1.0, 10.0), (2, 2, 2.0, 25.0)]);
    }

    #[test]
    fn what_is_kept_is_bounded_and_every_request_counts_once() {
        let many = (0..3 * MOST_ENDED as i64).map(|n| flight(n as u32 % 5, n, n + 3));
        let found = sums(many);
        let requests: f64 = found.iter().map(|(_, _, requests, _)| requests).sum();
        assert!(
            (requests - 3.0 * MOST_ENDED as f64).abs() < 1e-3,
            "{requests}"
        );
        assert!(found.iter().all(|(_, beside, ..)| *beside != NOBODY));
    }
}

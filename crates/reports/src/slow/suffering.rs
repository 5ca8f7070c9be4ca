//! Who suffered: the additional time that the requests of each tenant or file took.

use trackiops_query::lost::Lost;
use trackiops_schemas::row::{Direction, Row};

use super::comparison::{Figures, NOTABLE_RATIO};

/// A load rose because of one subject if this part of the rise is its own.
const OWN_PART: f64 = 0.7;

/// How one tenant or file suffered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suffering {
    /// Its index in the input.
    pub place: usize,
    /// Its requests in the slow time.
    pub requests: u64,
    /// Its mean latency before, us; `None` if it did nothing then.
    pub before_us: Option<f64>,
    /// Its mean latency in the slow time, us.
    pub now_us: Option<f64>,
    /// Lost time: `requests x (mean now - mean before)`, reads and writes apart, seconds. Excludes a direction that is new; `None` if both are,
    /// because their usual latency is unknown.
    pub added_s: Option<f64>,
    /// Whether it did nothing before.
    pub is_new: bool,
}

/// From pairs of rows before and now: the subjects with requests now, those that lost most time first.
pub fn ranked<'r>(pairs: impl IntoIterator<Item = (&'r Row, &'r Row)>) -> Vec<Suffering> {
    let pairs = pairs.into_iter().enumerate();
    let mut all: Vec<_> = pairs
        .map(|(place, (before, now))| {
            let (both_before, both_now) = (
                super::comparison::both(before),
                super::comparison::both(now),
            );
            Suffering {
                place,
                requests: both_now.requests,
                before_us: both_before.latency_ns_mean().map(|ns| ns / 1000.0),
                now_us: both_now.latency_ns_mean().map(|ns| ns / 1000.0),
                added_s: Lost::of(before, now).both_ns().map(|ns| ns / 1e9),
                is_new: both_before.requests == 0,
            }
        })
        .filter(|of| of.requests > 0)
        .collect();
    // Unknown ones come last.
    let order = |of: &Suffering| of.added_s.unwrap_or(f64::NEG_INFINITY);
    all.sort_by(|a, b| order(b).total_cmp(&order(a)).then(a.place.cmp(&b.place)));
    all
}

/// For each pair of rows, before and now: whether the load of the mount rose notably, and most of the rise is the pair's own. Its requests may
/// then wait because of itself. `all` are the figures of the mount, `recorded_ms` the lengths of both times.
pub fn raised_load(pairs: &[(&Row, &Row)], all: [&Figures; 2], recorded_ms: [u64; 2]) -> Vec<bool> {
    type Measure = (fn(&Direction) -> u64, fn(&Figures) -> f64);
    const MEASURES: [Measure; 2] = [
        (|of| of.requests, |of| of.iops),
        (|of| of.bytes, |of| of.throughput),
    ];
    let mut raised = vec![false; pairs.len()];
    for (own, of_all) in MEASURES {
        if of_all(all[1]) < NOTABLE_RATIO * of_all(all[0]) {
            continue;
        }
        let rate = |row: &Row, ms: u64| {
            let sum = own(&row.read).saturating_add(own(&row.write));
            sum as f64 / ms.max(1) as f64
        };
        let added = pairs.iter().map(|&(before, now)| {
            let added = rate(now, recorded_ms[1]) - rate(before, recorded_ms[0]);
            added.max(0.0)
        });
        let added: Vec<f64> = added.collect();
        let sum: f64 = added.iter().sum();
        for (raised, added) in raised.iter_mut().zip(added) {
            *raised |= sum > 0.0 && added >= OWN_PART * sum;
        }
    }
    raised
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(requests: u64, ms: u64) -> Row {
        let read = Direction {
            requests,
            latency_ns_sum: requests * ms * 1_000_000,
            ..Direction::default()
        };
        Row {
            read,
            ..Row::default()
        }
    }

    #[test]
    fn who_has_most_of_a_risen_load_is_marked() {
        let none = Row::default();
        let usual = reads(100, 1);
        let raised = |now: [u64; 2], before: [&Row; 2], recorded_ms: [u64; 2]| {
            let now = now.map(|requests| reads(requests, 5));
            let sum = |rows: [&Row; 2], ms| {
                let mut sum = rows[0].clone();
                sum.merge(rows[1]);
                Figures::new(&sum, ms)
            };
            let all = [
                sum(before, recorded_ms[0]),
                sum([&now[0], &now[1]], recorded_ms[1]),
            ];
            let pairs = [(before[0], &now[0]), (before[1], &now[1])];
            raised_load(&pairs, [&all[0], &all[1]], recorded_ms)
        };
        let both = [&usual, &usual];
        assert_eq!(raised([110, 900], both, [1000, 1000]), [false, true]);
        // Also if it is new.
        assert_eq!(
            raised([100, 900], [&usual, &none], [1000, 1000]),
            [false, true]
        );
        // The load hardly rose; it rose for both; the time is longer, and the load as before.
        assert_eq!(raised([100, 150], both, [1000, 1000]), [false, false]);
        assert_eq!(raised([500, 500], both, [1000, 1000]), [false, false]);
        assert_eq!(raised([200, 200], both, [1000, 2000]), [false, false]);
    }

    #[test]
    fn added_time_ranks() {
        let (few, many, gone, none) = (reads(10, 1), reads(1000, 1), reads(5, 1), Row::default());
        let now = [
            reads(10, 101),
            reads(3000, 2),
            Row::default(),
            reads(7, 900),
        ];
        let ranked = ranked([
            (&few, &now[0]),
            (&many, &now[1]),
            (&gone, &now[2]),
            (&none, &now[3]),
        ]);
        let short: Vec<_> = ranked
            .iter()
            .map(|of| (of.place, of.added_s, of.is_new))
            .collect();
        assert_eq!(
            short,
            [
                (1, Some(3.0), false),
                (0, Some(1.0), false),
                (3, None, true)
            ]
        );
    }
}

//! Who suffered: the additional time that the requests of each tenant or file took.

use trackiops_schemas::row::{Direction, Row};

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
    /// `requests x (mean now - mean before)`, reads and writes apart, seconds. Excludes a direction that is new, because its usual latency
    /// is unknown.
    pub added_s: f64,
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
                added_s: added_s(&before.read, &now.read) + added_s(&before.write, &now.write),
                is_new: both_before.requests == 0,
            }
        })
        .filter(|of| of.requests > 0)
        .collect();
    all.sort_by(|a, b| b.added_s.total_cmp(&a.added_s).then(a.place.cmp(&b.place)));
    all
}

fn added_s(before: &Direction, now: &Direction) -> f64 {
    let means = before.latency_ns_mean().zip(now.latency_ns_mean());
    means.map_or(0.0, |(before_ns, now_ns)| {
        now.requests as f64 * (now_ns - before_ns) / 1e9
    })
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
        assert_eq!(short, [(1, 3.0, false), (0, 1.0, false), (3, 0.0, true)]);
    }
}

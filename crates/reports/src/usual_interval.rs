//! Lengths of intervals that suit a short recording.

use std::iter;

use trackiops_query::ask::ask_steps;
use trackiops_query::times::show_length;
use trackiops_query::{QueryError, Question};
use trackiops_schemas::time::Granularity;

use crate::series::Intervals;

/// Lengths that a report proposes, ms, the longest first.
const LENGTHS_MS: [i64; 10] = [
    3_600_000, 1_800_000, 600_000, 300_000, 60_000, 30_000, 10_000, 5_000, 2_000, 1_000,
];

/// Lengths of intervals that a report can propose: the present one, and shorter ones.
pub(crate) struct Proposals {
    own: Granularity,
    /// Shorter usual ones, the longest first.
    shorter: Vec<Granularity>,
}

impl Proposals {
    /// Proposes only what can be asked: what is stored of each question's range adds up to it, and `intervals` are not too many then.
    pub(crate) fn new(questions: &[&Question], intervals: Intervals) -> Result<Self, QueryError> {
        let own = intervals.length;
        let usual = LENGTHS_MS.into_iter().filter(|ms| *ms < own.ms());
        let usual = usual.filter_map(|ms| Granularity::from_ms(ms).ok());
        let are_few =
            |length: &Granularity| Intervals::covering(intervals.range(), *length).is_ok();
        let mut shorter: Vec<_> = usual.filter(are_few).collect();
        for question in questions {
            shorter = ask_steps(question, &shorter)?;
        }
        Ok(Self { own, shorter })
    }

    /// The longest that fits into a recorded time at least `count` times. `None` if not even the shortest one does.
    pub(crate) fn interval_with(&self, count: usize, recorded_ms: u64) -> Option<Granularity> {
        let fits = |length: &Granularity| {
            let needed = length.ms().unsigned_abs().saturating_mul(count as u64);
            needed <= recorded_ms
        };
        let all = iter::once(&self.own).chain(&self.shorter);
        all.copied().find(fits)
    }

    /// How long `count` intervals are: `140 s, or 14 s with --interval 1s`.
    pub(crate) fn time_of(&self, count: usize) -> String {
        let of = |length: Granularity| {
            let ms = length.ms().unsigned_abs();
            show_length((count as u64).saturating_mul(ms))
        };
        let time = of(self.own);
        match self.shorter.last() {
            Some(shortest) => format!("{time}, or {} with --interval {shortest}", of(*shortest)),
            None => time,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn proposals(own: &str, shorter: &[&str]) -> Proposals {
        Proposals {
            own: own.parse().unwrap(),
            shorter: shorter
                .iter()
                .map(|length| length.parse().unwrap())
                .collect(),
        }
    }

    #[test]
    fn the_longest_interval_that_fits_is_proposed() {
        let of = |count, ms, own: &str, shorter: &[&str]| {
            let found = proposals(own, shorter).interval_with(count, ms);
            found.map(|found| found.to_string())
        };
        let stored = ["10s", "5s", "2s", "1s"];
        assert_eq!(of(14, 140_000, "10s", &stored[1..]).as_deref(), Some("10s"));
        assert_eq!(of(14, 139_999, "10s", &stored[1..]).as_deref(), Some("5s"));
        assert_eq!(of(14, 14_000, "1m", &stored).as_deref(), Some("1s"));
        assert_eq!(of(14, 13_999, "1m", &stored), None);
        // Also an own length that is not a usual one.
        assert_eq!(of(14, 280_000, "20s", &stored).as_deref(), Some("20s"));
        assert_eq!(of(14, 279_999, "20s", &stored).as_deref(), Some("10s"));
        assert_eq!(of(14, 1_400, "100ms", &[]).as_deref(), Some("100ms"));
        assert_eq!(of(14, 1_399, "100ms", &[]), None);
    }

    #[test]
    fn a_time_is_said_for_what_is_stored() {
        let time = |own: &str, shorter: &[&str]| proposals(own, shorter).time_of(14);
        let with_seconds = time("10s", &["5s", "1s"]);
        assert_eq!(with_seconds, "2.33 min, or 14 s with --interval 1s");
        assert_eq!(time("10s", &[]), "2.33 min");
    }
}

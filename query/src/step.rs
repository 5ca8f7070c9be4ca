//! Windows of an answer, set by the question or chosen to suit the range.

use std::str::FromStr;

use trackiops_schemas::time::{DAY_MS, Granularity, GranularityError};

use crate::error::QueryError;
use crate::interval::Interval;
use crate::times::{Zone, show_range};

/// Most windows of an answer without `--step`, if a coarser granularity is stored. A screen or a plot shows about as
/// many.
const MAX_DEFAULT_WINDOWS: u64 = 600;

/// Windows of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Windows of one length.
    Windows(Granularity),
    /// One window for the whole range.
    All,
}

impl FromStr for Step {
    type Err = GranularityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::Windows),
        }
    }
}

impl Step {
    /// Whether windows of `granularity` add up to this step.
    pub(crate) fn accepts(self, granularity: Granularity) -> bool {
        match self {
            Self::Windows(step) => step.is_multiple_of(granularity),
            Self::All => true,
        }
    }
}

/// A journal, as far as the step depends on it.
pub(crate) struct Part {
    pub(crate) host: String,
    /// Time of the journal. `None` for an unsealed journal, which is always read.
    pub(crate) extent: Option<Interval>,
    /// Granularities in which it is stored.
    pub(crate) granularities: Vec<Granularity>,
}

/// Recorded data, as far as the step depends on it.
pub(crate) struct Recorded {
    /// Granularities in the store, ascending.
    pub(crate) stored: Vec<Granularity>,
    /// Journals in the range.
    pub(crate) parts: Vec<Part>,
    /// Time zone of error messages.
    pub(crate) zone: Zone,
}

impl Recorded {
    fn refuses(&self, step: Step) -> Option<&Part> {
        let accepts = |part: &&Part| part.granularities.iter().any(|g| step.accepts(*g));
        self.parts.iter().find(|part| !accepts(part))
    }

    /// Returns the step if every journal in the range adds up to it.
    pub(crate) fn check(&self, asked: Step) -> Result<Step, QueryError> {
        let Step::Windows(step) = asked else {
            return Ok(asked);
        };
        if !self.stored.iter().any(|g| step.is_multiple_of(*g)) {
            let stored = self.stored.clone();
            return Err(QueryError::StepNotStored { step, stored });
        }
        match self.refuses(asked) {
            None => Ok(asked),
            Some(part) => Err(QueryError::StepNotRecorded {
                step,
                host: part.host.clone(),
                range: part.extent.map_or("just now".into(), |extent| {
                    show_range(extent.start, extent.end, self.zone)
                }),
                stored: part.granularities.clone(),
            }),
        }
    }

    /// Returns the finest step that keeps the answer readable and that every journal adds up to. If none is stored, it
    /// tries a day, a multiple of nearly every granularity. The second result is the finest possible step, if that is
    /// finer.
    pub(crate) fn choose(
        &self,
        range: Interval,
    ) -> Result<(Step, Option<Granularity>), QueryError> {
        let accepted = |g: &Granularity| self.refuses(Step::Windows(*g)).is_none();
        let mut steps: Vec<_> = self.stored.iter().copied().filter(accepted).collect();
        if steps.is_empty() {
            steps.extend(Granularity::from_ms(DAY_MS).ok().filter(accepted));
        }
        let readable = |g: &Granularity| range.ms().div_ceil(g.ms() as u64) <= MAX_DEFAULT_WINDOWS;
        let chosen = steps.iter().copied().find(readable);
        match (chosen.or(steps.last().copied()), steps.first()) {
            (Some(step), Some(finest)) => {
                let finer = (step > *finest).then_some(*finest);
                Ok((Step::Windows(step), finer))
            }
            _ => Err(QueryError::NoCommonStep {
                stored: self.stored.clone(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_schemas::time::UtcMs;

    fn g(text: &str) -> Granularity {
        text.parse().unwrap()
    }

    fn seconds(start: i64, end: i64) -> Interval {
        Interval::new(UtcMs(start * 1000), UtcMs(end * 1000))
    }

    fn recorded(lists: &[&[&str]]) -> Recorded {
        let part = |list: &&[&str]| Part {
            host: "h".into(),
            extent: Some(seconds(0, 1)),
            granularities: list.iter().map(|text| g(text)).collect(),
        };
        let parts: Vec<_> = lists.iter().map(part).collect();
        let mut stored: Vec<_> = parts.iter().flat_map(|p| p.granularities.clone()).collect();
        stored.sort_unstable();
        stored.dedup();
        let zone = Zone::utc();
        Recorded {
            stored,
            parts,
            zone,
        }
    }

    #[test]
    fn the_default_step_keeps_an_answer_readable() {
        let usual = recorded(&[&["1s", "10s", "1m", "1h"]]);
        for (length_s, step) in [
            (1, "1s"),
            (600, "1s"),
            (601, "10s"),
            (6000, "10s"),
            (86_400, "1h"),
            (9_000_000, "1h"),
        ] {
            let (chosen, finer) = usual.choose(seconds(0, length_s)).unwrap();
            assert_eq!(chosen, Step::Windows(g(step)), "{length_s}");
            assert_eq!(finer.is_some(), step != "1s");
        }
    }

    #[test]
    fn the_default_step_suits_every_recording() {
        let two = recorded(&[&["1s", "10s"], &["5s", "1m"]]);
        assert_eq!(
            two.choose(seconds(0, 60)).unwrap().0,
            Step::Windows(g("5s"))
        );
        let odd = recorded(&[&["90s"], &["1m"]]);
        assert_eq!(
            odd.choose(seconds(0, 60)).unwrap().0,
            Step::Windows(g("1d"))
        );
        let odder = recorded(&[&["2d"], &["5d"]]);
        assert!(odder.choose(seconds(0, 60)).is_err());
    }

    #[test]
    fn a_step_must_be_a_sum_of_what_is_stored() {
        let two = recorded(&[&["1s", "10s"], &["5s", "1m"]]);
        assert!(two.check(Step::Windows(g("30s"))).is_ok());
        assert!(two.check(Step::All).is_ok());
        let error = two
            .check(Step::Windows(g("100ms")))
            .unwrap_err()
            .to_string();
        assert!(error.contains("1s, 5s, 10s, 1m"), "{error}");
        let error = two.check(Step::Windows(g("1s"))).unwrap_err().to_string();
        assert!(error.contains("only 5s, 1m"), "{error}");
    }
}

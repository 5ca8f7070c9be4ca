//! Which journals answer a question, each at which granularity.
//!
//! A journal was sealed into all its granularities, so any one of them holds all of it: exactly
//! one is read, the coarsest that adds up to the step and that the asked range does not cut.

use std::collections::BTreeMap;

use trackiops_schemas::rollup::Health;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{Dataset, JournalTail, Segment, Snapshot};

use crate::coverage::Interval;
use crate::error::QueryError;
use crate::merge::HostIndex;
use crate::step::{Part, Recorded, Step};
use crate::times::Zone;

/// The asked range; an open end is an end of what was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Its start.
    pub since: Option<UtcMs>,
    /// The first point after it.
    pub until: Option<UtcMs>,
}

/// Which window starts of a journal belong to the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    from: Option<UtcMs>,
    before: Option<UtcMs>,
}

impl Bounds {
    /// Whether the window that starts at `time` belongs to the range.
    pub fn contains(&self, time: UtcMs) -> bool {
        self.from.is_none_or(|from| time >= from) && self.before.is_none_or(|before| time < before)
    }

    /// The bounds within a journal of `extent`, in whole windows of `finest`. An end that lies
    /// outside the journal binds nothing.
    fn of(asked: Interval, extent: Interval, finest: Granularity) -> Self {
        let from = (asked.start > extent.start).then(|| asked.start.align(finest));
        let before = (asked.end < extent.end).then(|| align_up(asked.end, finest));
        Self { from, before }
    }

    fn are_aligned_to(&self, granularity: Granularity) -> bool {
        let aligned = |at: Option<UtcMs>| at.is_none_or(|at| at.align(granularity) == at);
        aligned(self.from) && aligned(self.before)
    }
}

fn align_up(at: UtcMs, granularity: Granularity) -> UtcMs {
    match at.align(granularity) {
        aligned if aligned == at => at,
        aligned => aligned.plus(granularity),
    }
}

/// A sealed journal and what to read of it.
#[derive(Debug)]
pub struct Journal {
    /// Who recorded it.
    pub host: HostIndex,
    /// From its first to its last window of the finest granularity.
    pub extent: Interval,
    /// What of it belongs to the range.
    pub bounds: Bounds,
    /// The granularity to read.
    pub granularity: Granularity,
    /// Rows of that granularity, of the dataset that was planned for.
    pub rows: Vec<Segment>,
    /// Health rows of that granularity.
    pub health: Vec<Segment>,
    /// Its finest granularity.
    pub finest: Granularity,
    /// Rows of the finest granularity; empty where that is the one to read.
    pub finest_rows: Vec<Segment>,
    /// Health rows of the finest granularity; empty where that is the one to read.
    pub finest_health: Vec<Segment>,
}

/// A journal that is not sealed yet.
#[derive(Debug)]
pub struct Tail<'s> {
    /// Who recorded it.
    pub host: HostIndex,
    /// What of it belongs to the range.
    pub bounds: Bounds,
    /// Whether it may hold something of the range. What it holds in all matters in any case.
    pub in_range: bool,
    /// The journal.
    pub tail: &'s JournalTail,
}

/// What to read.
#[derive(Debug)]
pub struct Plan<'s> {
    /// What is asked.
    pub dataset: Dataset,
    /// The recording hosts.
    pub hosts: Vec<String>,
    /// What each host's sealed journals hold in all.
    pub spans: Vec<Option<Interval>>,
    /// The range.
    pub asked: Interval,
    /// The windows of the answer.
    pub step: Step,
    /// The finest granularity that a finer step could have, if the step was chosen here.
    pub finer: Option<Granularity>,
    /// Sealed journals in the range.
    pub journals: Vec<Journal>,
    /// Unsealed journals.
    pub tails: Vec<Tail<'s>>,
}

impl Plan<'_> {
    /// The start of the answer's window that holds `time`.
    pub fn window(&self, time: UtcMs) -> UtcMs {
        match self.step {
            Step::Windows(step) => time.align(step),
            Step::All => self.asked.start,
        }
    }

    /// For how long of a window that which is asked was recorded, ms.
    pub fn covered_ms(&self, health: &Health) -> u64 {
        match self.dataset {
            Dataset::Rollup | Dataset::Health => health.covered_ms,
            Dataset::Ops => health.ops_covered_ms,
        }
    }

    /// What a health row says of that which is asked.
    pub fn account(&self, health: Health) -> Health {
        match self.dataset {
            Dataset::Rollup | Dataset::Health => health,
            Dataset::Ops => Health {
                covered_ms: self.covered_ms(&health),
                seen: health.ops_seen,
                recorded: health.ops_seen,
                folded: 0,
                lost: 0,
                missed: health.ops_missed,
                ..health
            },
        }
    }
}

/// Everything of one sealed journal, as far as it is in question.
#[derive(Default)]
struct Sealed {
    segments: BTreeMap<Granularity, (Vec<Segment>, Vec<Segment>)>,
}

impl Sealed {
    fn finest(&self) -> Option<(Granularity, Interval)> {
        let (finest, (rows, health)) = self.segments.first_key_value()?;
        let extents = rows.iter().chain(health);
        let extent = extents
            .map(|s| Interval::new(s.start, s.end))
            .reduce(Interval::hull)?;
        Some((*finest, extent))
    }
}

/// Plans a question to `dataset` about `range` of a store that recorded `span`. `zone` is for error messages.
pub fn plan<'s>(
    snapshot: &'s Snapshot,
    dataset: Dataset,
    span: Interval,
    range: Range,
    step: Option<Step>,
    zone: Zone,
) -> Result<Plan<'s>, QueryError> {
    let asked = Interval::new(
        range.since.unwrap_or(span.start),
        range.until.unwrap_or(span.end),
    );
    let Catalogued {
        hosts,
        spans,
        sealed,
    } = sealed_journals(snapshot, dataset, asked)?;
    let tails = tails(snapshot, &hosts, asked)?;
    let recorded = Recorded {
        stored: snapshot.granularities(),
        parts: parts(&sealed, &tails, &hosts),
        zone,
    };
    let (step, finer) = match step {
        Some(step) => (recorded.check(step)?, None),
        None => recorded.choose(asked.intersect(span))?,
    };
    let open = |(host, sealed)| journal(host, sealed, asked, step);
    let journals = sealed.into_iter().filter_map(open).collect();
    Ok(Plan {
        dataset,
        hosts,
        spans,
        asked: asked_or_recorded(asked, span),
        step,
        finer,
        journals,
        tails,
    })
}

/// The range as it is shown: without the part before the recording when that is merely long ago.
fn asked_or_recorded(asked: Interval, span: Interval) -> Interval {
    let within = asked.intersect(span);
    if within.is_empty() { asked } else { within }
}

/// What the catalog has for a range.
struct Catalogued {
    hosts: Vec<String>,
    /// What each host recorded in all.
    spans: Vec<Option<Interval>>,
    /// The sealed journals that overlap the range.
    sealed: Vec<(HostIndex, Sealed)>,
}

fn sealed_journals(
    snapshot: &Snapshot,
    dataset: Dataset,
    asked: Interval,
) -> Result<Catalogued, QueryError> {
    let health = snapshot.segments(Dataset::Health, None)?;
    let rows = snapshot.segments(dataset, Some((asked.start, asked.end)))?;
    let tail_hosts = snapshot.tails().iter().map(|tail| tail.host().to_owned());
    let mut hosts: Vec<String> = health.iter().chain(&rows).map(|s| s.host.clone()).collect();
    hosts.extend(tail_hosts);
    hosts.sort_unstable();
    hosts.dedup();

    let mut journals: BTreeMap<(HostIndex, u64), Sealed> = BTreeMap::new();
    for segment in rows.into_iter().chain(health) {
        let host = index_of(&hosts, &segment.host);
        let sealed = journals.entry((host, segment.journal)).or_default();
        let (rows, health) = sealed.segments.entry(segment.granularity).or_default();
        match segment.dataset {
            Dataset::Rollup | Dataset::Ops => rows.push(segment),
            Dataset::Health => health.push(segment),
        }
    }
    let mut spans: Vec<Option<Interval>> = vec![None; hosts.len()];
    let mut in_range = Vec::new();
    for ((host, _), sealed) in journals {
        let Some((_, extent)) = sealed.finest() else {
            continue;
        };
        spans[host] = Some(spans[host].map_or(extent, |span| span.hull(extent)));
        if !extent.intersect(asked).is_empty() {
            in_range.push((host, sealed));
        }
    }
    Ok(Catalogued {
        hosts,
        spans,
        sealed: in_range,
    })
}

/// `hosts` is sorted and has every host.
fn index_of(hosts: &[String], host: &str) -> HostIndex {
    hosts.partition_point(|known| known.as_str() < host)
}

fn tails<'s>(
    snapshot: &'s Snapshot,
    hosts: &[String],
    asked: Interval,
) -> Result<Vec<Tail<'s>>, QueryError> {
    let everything = Interval::new(UtcMs(i64::MIN), UtcMs(i64::MAX));
    let finest = snapshot.granularities().first().copied();
    let mut tails = Vec::new();
    for tail in snapshot.tails() {
        let granularity = tail.granularity();
        // One of a coarse recorder must not forbid fine steps for ranges that it is not in. The
        // usual one forbids nothing, so it need not be read to know where it is.
        let in_range = Some(granularity) == finest || overlaps(tail, asked)?;
        tails.push(Tail {
            host: index_of(hosts, tail.host()),
            bounds: Bounds::of(asked, everything, granularity),
            in_range,
            tail,
        });
    }
    Ok(tails)
}

fn overlaps(tail: &JournalTail, asked: Interval) -> Result<bool, QueryError> {
    let mut overlaps = false;
    tail.windows(&mut |window| {
        let window = Interval::new(window.start, window.start.plus(tail.granularity()));
        overlaps |= !window.intersect(asked).is_empty();
    })?;
    Ok(overlaps)
}

fn journal(host: HostIndex, mut sealed: Sealed, asked: Interval, step: Step) -> Option<Journal> {
    let (finest, extent) = sealed.finest()?;
    let bounds = Bounds::of(asked, extent, finest);
    let fits = |g: &&Granularity| step.accepts(**g) && bounds.are_aligned_to(**g);
    let granularity = *sealed.segments.keys().rev().find(fits)?;
    let (rows, health) = sealed.segments.remove(&granularity)?;
    let of_finest = sealed.segments.remove(&finest);
    let (finest_rows, finest_health) = of_finest.unwrap_or_default();
    Some(Journal {
        host,
        extent,
        bounds,
        granularity,
        rows,
        health,
        finest,
        finest_rows,
        finest_health,
    })
}

fn parts(sealed: &[(HostIndex, Sealed)], tails: &[Tail<'_>], hosts: &[String]) -> Vec<Part> {
    let sealed = sealed.iter().map(|(host, sealed)| Part {
        host: hosts[*host].clone(),
        extent: sealed.finest().map(|(_, extent)| extent),
        granularities: sealed.segments.keys().copied().collect(),
    });
    let tails = tails.iter().filter(|tail| tail.in_range);
    let tails = tails.map(|tail| Part {
        host: hosts[tail.host].clone(),
        extent: None,
        granularities: vec![tail.tail.granularity()],
    });
    sealed.chain(tails).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn g(text: &str) -> Granularity {
        text.parse().unwrap()
    }

    fn seconds(start: i64, end: i64) -> Interval {
        Interval::new(UtcMs(start * 1000), UtcMs(end * 1000))
    }

    #[test]
    fn an_end_outside_the_journal_binds_nothing() {
        let extent = seconds(900, 1800);
        let open = Bounds {
            from: None,
            before: None,
        };
        assert_eq!(Bounds::of(seconds(900, 1800), extent, g("1s")), open);
        assert_eq!(Bounds::of(seconds(0, 9000), extent, g("1s")), open);
        // The hour of 0 s, of which this journal holds a part, starts before the asked range.
        assert!(open.contains(UtcMs(0)) && open.are_aligned_to(g("1h")));
    }

    #[test]
    fn ends_within_the_journal_are_taken_in_whole_windows() {
        let asked = Interval::new(UtcMs(930_400), UtcMs(990_001));
        let bounds = Bounds::of(asked, seconds(900, 1800), g("1s"));
        assert_eq!(bounds.from, Some(UtcMs(930_000)));
        assert_eq!(bounds.before, Some(UtcMs(991_000)));
        assert!(bounds.are_aligned_to(g("1s")) && !bounds.are_aligned_to(g("10s")));
        assert!(bounds.contains(UtcMs(930_000)) && bounds.contains(UtcMs(990_000)));
        assert!(!bounds.contains(UtcMs(929_000)) && !bounds.contains(UtcMs(991_000)));
    }
}

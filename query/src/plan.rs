//! Which journals answer a question, and when which granularity of them.
//!
//! A journal was sealed into all its granularities, so any one of them holds all of it, until it expires. What each
//! is asked for is parted among those that add up to the step (`tile`): the coarsest wherever the range does not cut
//! it, finer ones at the edges. Journals that share a segment, since their small ones were merged, are parted together.

mod sealed;

use trackiops_schemas::rollup::Health;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{Dataset, JournalTail, Segment, Snapshot};

use crate::coverage::Interval;
use crate::error::QueryError;
use crate::explain::{self, Stage, Stored};
use crate::granularity_cover::align_up;
use crate::origin::HostIndex;
use crate::question::Question;
use crate::step::{Part, Recorded, Step};
use sealed::Sealed;

/// Which window starts of a journal belong to the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    from: UtcMs,
    before: UtcMs,
}

impl Bounds {
    /// Whether the window that starts at `time` belongs to the range.
    pub fn contains(&self, time: UtcMs) -> bool {
        self.from <= time && time < self.before
    }

    /// Those of a range, in whole windows of `finest`.
    fn of(asked: Interval, finest: Granularity) -> Self {
        Self::exactly(Interval::new(
            asked.start.align(finest),
            align_up(asked.end, finest),
        ))
    }

    /// From the first window start to behind the last.
    pub fn range(&self) -> Interval {
        Interval::new(self.from, self.before)
    }

    fn exactly(range: Interval) -> Self {
        Self {
            from: range.start,
            before: range.end,
        }
    }
}

/// A part of what a sealed journal, or several that were merged, hold: of one granularity.
#[derive(Debug)]
pub struct Journal {
    /// Who recorded it.
    pub host: HostIndex,
    /// From the first to the last window of the finest granularity of the journal.
    pub extent: Interval,
    /// The part.
    pub bounds: Bounds,
    /// The granularity to read.
    pub granularity: Granularity,
    /// Rows of that granularity, of the dataset that was planned for.
    pub rows: Vec<Segment>,
    /// Health rows of that granularity.
    pub health: Vec<Segment>,
    /// The same part, parted among the health rows of that granularity and of coarser ones: coarse wherever they can.
    pub coarse_health: Vec<HealthPart>,
    /// The finest granularity that has all of the part.
    pub finest: Granularity,
    /// Rows of the finest granularity; empty where that is the one to read.
    pub finest_rows: Vec<Segment>,
    /// Health rows of the finest granularity; empty where that is the one to read.
    pub finest_health: Vec<Segment>,
}

/// A part of a time, and the health rows that tell of it.
#[derive(Debug)]
pub struct HealthPart {
    /// The part.
    pub bounds: Bounds,
    /// The granularity of the rows.
    pub granularity: Granularity,
    /// The rows.
    pub segments: Vec<Segment>,
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
    /// Times of which two of the stores or exports have a host's data.
    pub twice: Vec<(HostIndex, Interval)>,
}

impl Plan<'_> {
    /// The start of the answer's window that holds `time`.
    pub fn window(&self, time: UtcMs) -> UtcMs {
        match self.step {
            Step::Windows(step) => time.align(step),
            Step::All => self.asked.start,
        }
    }

    /// The window of the answer that starts at `time`.
    pub fn window_at(&self, time: UtcMs) -> Interval {
        match self.step {
            Step::Windows(step) => Interval::new(time, time.plus(step)),
            Step::All => Interval::new(time, UtcMs(i64::MAX)),
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

/// Plans a question to `dataset` of a store that recorded `span`, with another `step`.
pub fn plan<'s>(
    snapshot: &'s Snapshot,
    dataset: Dataset,
    span: Interval,
    question: &Question,
    step: Option<Step>,
) -> Result<Plan<'s>, QueryError> {
    let explain = &question.explain;
    let plan = explain.time(Stage::Plan, || {
        make(snapshot, dataset, span, question, step)
    })?;
    if explain.is_on() {
        let segments = plan.journals.iter().map(|j| j.rows.len() as u64).sum();
        let parts = plan.journals.iter().map(|journal| explain::Part {
            host: plan.hosts[journal.host].clone(),
            range: journal.bounds.range(),
            granularity: journal.granularity,
        });
        let stored = Stored::count(snapshot, dataset, plan.asked)?;
        explain.planned(segments, plan.tails.len() as u64, parts, stored);
    }
    Ok(plan)
}

fn make<'s>(
    snapshot: &'s Snapshot,
    dataset: Dataset,
    span: Interval,
    question: &Question,
    step: Option<Step>,
) -> Result<Plan<'s>, QueryError> {
    let (range, zone) = (question.range, question.zone);
    let asked = Interval::new(
        range.since.unwrap_or(span.start),
        range.until.unwrap_or(span.end),
    );
    let Sealed {
        hosts,
        spans,
        journals: sealed,
        twice,
    } = Sealed::new(snapshot, dataset, asked)?;
    let tails = tails(snapshot, &hosts, asked)?;
    let mut parts: Vec<_> = sealed
        .iter()
        .flat_map(|sealed| sealed.parts(asked, &hosts))
        .collect();
    parts.extend(tails.iter().filter(|tail| tail.in_range).map(|tail| Part {
        host: hosts[tail.host].clone(),
        extent: None,
        granularities: vec![tail.tail.granularity()],
    }));
    let recorded = Recorded {
        stored: snapshot.granularities(),
        parts,
        zone,
    };
    let (step, finer) = match step {
        Some(step) => (recorded.check(step)?, None),
        None => recorded.choose(asked.intersect(span))?,
    };
    let journals = sealed.iter().flat_map(|sealed| sealed.plan(asked, step));
    let journals = journals.collect();
    Ok(Plan {
        dataset,
        hosts,
        spans,
        asked: asked_or_recorded(asked, span),
        step,
        finer,
        journals,
        tails,
        twice,
    })
}

/// The range as it is shown: without the part before the recording when that is merely long ago.
fn asked_or_recorded(asked: Interval, span: Interval) -> Interval {
    let within = asked.intersect(span);
    if within.is_empty() { asked } else { within }
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
    let finest = snapshot.granularities().first().copied();
    let mut tails = Vec::new();
    for tail in snapshot.tails() {
        let granularity = tail.granularity();
        // One of a coarse recorder must not forbid fine steps for ranges that it is not in. The
        // usual one forbids nothing, so it need not be read to know where it is.
        let in_range = Some(granularity) == finest || overlaps(tail, asked)?;
        tails.push(Tail {
            host: index_of(hosts, tail.host()),
            bounds: Bounds::of(asked, granularity),
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

//! Plans a query: the journals that it reads, and the granularity for each.
//!
//! A journal is sealed into all granularities, so each granularity holds all of its data until it expires. The plan
//! splits the range of a journal among the granularities that add up to the step (`granularity_cover`). It uses the
//! coarsest one that the range does not cut, and finer ones at the edges. Journals that share a merged segment are
//! split together.

mod sealed;

use trackiops_schemas::row::Health;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{Dataset, JournalTail, Segment, Snapshot};

use crate::coverage::recorded_time::RecordedTime;
use crate::error::QueryError;
use crate::explain::{self, Stage, Stored};
use crate::granularity_cover::align_up;
use crate::interval::Interval;
use crate::origin::HostIndex;
use crate::question::{Question, Range};
use crate::step::{Part, Recorded, Step};
use crate::times::Zone;
use sealed::Sealed;

/// Least recorded time for rates of a window of a second or longer. For shorter windows, it is a twentieth of the
/// window.
const LEAST_RATE_MS: u64 = 50;

/// Window starts of a journal that belong to the range.
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

    /// The bounds of a range, in whole windows of `finest`.
    fn of(asked: Interval, finest: Granularity) -> Self {
        Self::exactly(Interval::new(
            asked.start.align(finest),
            align_up(asked.end, finest),
        ))
    }

    /// From the first window start to the end of the last window.
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

/// A part of a sealed journal, or of several merged ones, in one granularity.
#[derive(Debug)]
pub struct Journal {
    /// The host that recorded it.
    pub host: HostIndex,
    /// From the start of the first to the end of the last window, in the finest granularity of the journal.
    pub extent: Interval,
    /// The part.
    pub bounds: Bounds,
    /// The granularity to read.
    pub granularity: Granularity,
    /// Rows of that granularity, in the planned dataset.
    pub rows: Vec<Segment>,
    /// Health rows of that granularity.
    pub health: Vec<Segment>,
    /// The same part, split among health rows of that granularity and coarser ones. Coarse rows are used wherever
    /// possible.
    pub coarse_health: Vec<HealthPart>,
    /// The finest granularity that has all data of the part.
    pub finest: Granularity,
    /// Rows of the finest granularity; empty if it is the one to read.
    pub finest_rows: Vec<Segment>,
    /// Health rows of the finest granularity; empty if it is the one to read.
    pub finest_health: Vec<Segment>,
}

/// A part of a range, and its health rows.
#[derive(Debug)]
pub struct HealthPart {
    /// The part.
    pub bounds: Bounds,
    /// Granularity of the rows.
    pub granularity: Granularity,
    /// Segments with the rows.
    pub segments: Vec<Segment>,
}

/// A journal that is not sealed.
#[derive(Debug)]
pub struct Tail<'s> {
    /// The host that recorded it.
    pub host: HostIndex,
    /// Its windows that belong to the range.
    pub bounds: Bounds,
    /// Whether it may have data in the range. The query always needs the time of its data.
    pub in_range: bool,
    /// The journal.
    pub tail: &'s JournalTail,
}

/// The reads of a query.
#[derive(Debug)]
pub struct Plan<'s> {
    /// The dataset of the question.
    pub dataset: Dataset,
    /// Hosts that recorded data.
    pub hosts: Vec<String>,
    /// Time of all of each host's sealed journals.
    pub spans: Vec<Option<Interval>>,
    /// The part of the range that was recorded.
    pub asked: Interval,
    /// Windows of the answer.
    pub step: Step,
    /// The finest step that `--step` could select, if the plan chose a coarser one.
    pub finer: Option<Granularity>,
    /// Sealed journals in the range.
    pub journals: Vec<Journal>,
    /// Journals that are not sealed.
    pub tails: Vec<Tail<'s>>,
    /// Times for which two stores or exports have data of one host.
    pub twice: Vec<Twice>,
}

/// A time for which two stores or exports have data of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Twice {
    /// The host.
    pub host: HostIndex,
    /// From the first to the last such time.
    pub range: Interval,
    /// Whether the stores share an id: one is a copy or an export of the other, or both are copies.
    pub are_related: bool,
}

impl Plan<'_> {
    /// Start of the answer's window that contains `time`.
    pub fn window(&self, time: UtcMs) -> UtcMs {
        match self.step {
            Step::Windows(step) => time.align(step),
            Step::All => self.asked.start,
        }
    }

    /// The answer's window that starts at `time`.
    pub fn window_at(&self, time: UtcMs) -> Interval {
        match self.step {
            Step::Windows(step) => Interval::new(time, time.plus(step)),
            Step::All => Interval::new(time, UtcMs(i64::MAX)),
        }
    }

    /// The recorded time of a host in the answer's window that starts at `time`, ms, for rates. It is 0, so the rate is
    /// unknown, if the time is very short. Otherwise, when a recorder starts just before a window ends, one request
    /// would look like many per second.
    pub fn rate_ms(&self, covered: &RecordedTime, host: HostIndex, time: UtcMs) -> u64 {
        let window_ms = match self.step {
            Step::Windows(step) => step.ms().cast_unsigned(),
            Step::All => self.asked.ms(),
        };
        match covered.ms(host, self.window_at(time)) {
            ms if ms < LEAST_RATE_MS.min(window_ms / 20) => 0,
            ms => ms,
        }
    }

    /// Recorded time of a window for the planned dataset, ms.
    pub fn covered_ms(&self, health: &Health) -> u64 {
        match self.dataset {
            Dataset::Rollup | Dataset::Health => health.covered_ms,
            Dataset::Ops => health.ops_covered_ms,
        }
    }

    /// The health row as it applies to the planned dataset. For operations, it has their counters.
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
                // Only rows of files take part in comparisons.
                audit_missed_requests: 0,
                audit_missed_bytes: 0,
                audit_alarms: 0,
                ..health
            },
        }
    }
}

/// Plans a query of `dataset`. `span` is the recorded time; `step` replaces the question's step.
///
/// Errors: errors of the store, and errors of a step that does not fit the stored granularities.
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
    let asked = asked(span, question);
    let sealed = Sealed::new(snapshot, dataset, asked)?;
    let tails = tails(snapshot, &sealed.hosts, asked)?;
    let recorded = recorded(snapshot, &sealed, &tails, asked, question.zone);
    let (step, finer) = match step {
        Some(step) => (recorded.check(step)?, None),
        None => recorded.choose(asked.intersect(span))?,
    };
    let Sealed {
        hosts,
        spans,
        journals: sealed,
        twice,
    } = sealed;
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

/// Keeps the steps to which everything adds up that is stored for the range of a question.
pub fn possible_steps(
    snapshot: &Snapshot,
    question: &Question,
    steps: &[Granularity],
) -> Result<Vec<Granularity>, QueryError> {
    let Some((start, end)) = snapshot.span() else {
        return Ok(Vec::new());
    };
    let asked = asked(Interval::new(start, end), question);
    let sealed = Sealed::new(snapshot, Dataset::Rollup, asked)?;
    let tails = tails(snapshot, &sealed.hosts, asked)?;
    let recorded = recorded(snapshot, &sealed, &tails, asked, question.zone);
    let is_possible = |step: &Granularity| recorded.check(Step::Windows(*step)).is_ok();
    Ok(steps.iter().copied().filter(is_possible).collect())
}

/// The range of a question. An open end becomes the end of the recorded time.
pub fn asked(span: Interval, question: &Question) -> Interval {
    let Range { since, until } = question.range;
    Interval::new(since.unwrap_or(span.start), until.unwrap_or(span.end))
}

/// What the range has, as far as the step depends on it.
fn recorded(
    snapshot: &Snapshot,
    sealed: &Sealed,
    tails: &[Tail<'_>],
    asked: Interval,
    zone: Zone,
) -> Recorded {
    let of_journals = sealed.journals.iter();
    let mut parts: Vec<_> = of_journals
        .flat_map(|journals| journals.parts(asked, &sealed.hosts))
        .collect();
    parts.extend(tails.iter().filter(|tail| tail.in_range).map(|tail| Part {
        host: sealed.hosts[tail.host].clone(),
        extent: None,
        granularities: vec![tail.tail.granularity()],
    }));
    Recorded {
        stored: snapshot.granularities(),
        parts,
        zone,
    }
}

/// The part of the range within the recorded time. Without an overlap, the range itself.
fn asked_or_recorded(asked: Interval, span: Interval) -> Interval {
    let within = asked.intersect(span);
    if within.is_empty() { asked } else { within }
}

/// Index of a host; `hosts` is sorted and contains it.
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
        // A journal with a coarse granularity must not forbid fine steps for ranges outside of it. The finest
        // granularity forbids nothing, so its journals need no read here.
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

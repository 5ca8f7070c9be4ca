//! Lists events: what people noted, stalls of servers, settings of the clock, and when no recorder ran.
//!
//! Charts draw them as vertical lines, because each may explain what changes there.

use trackiops_schemas::time::UtcMs;
use trackiops_store::Mark;

use crate::answer::{Answer, Outcome};
use crate::coverage::stalls::Stall;
use crate::coverage::{Coverage, Gap};
use crate::error::QueryError;
use crate::group::GroupBy;
use crate::interval::Interval;
use crate::marks::marks_in;
use crate::of_health::ask_of_health;
use crate::question::Question;
use crate::times::show_length;

/// Windows round their recorded time to milliseconds, so a shorter gap may be none.
const LEAST_GAP_MS: u64 = 10;
/// A shorter gap is one event: a restart.
const LEAST_STOP_MS: u64 = 1000;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// A person noted something.
    Mark,
    /// A server stopped answering.
    Stall,
    /// It answered again.
    StallEnd,
    /// The wall clock was set.
    ClockStep,
    /// The recorder ended, or was stopped.
    RecorderEnded,
    /// A recorder started.
    RecorderStarted,
    /// It ended, and started again within a second.
    RecorderRestarted,
    /// A tenant that was idle began to make much of the load.
    TenantStart,
}

impl EventKind {
    /// Its word in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Stall => "stall",
            Self::StallEnd => "stall-end",
            Self::ClockStep => "clock-step",
            Self::RecorderEnded => "recorder-ended",
            Self::RecorderStarted => "recorder-started",
            Self::RecorderRestarted => "recorder-restarted",
            Self::TenantStart => "tenant-start",
        }
    }
}

/// Something that happened at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The moment, as exactly as it is known: at worst the start of its window.
    pub time: UtcMs,
    /// The host on which it happened, or was noted.
    pub host: String,
    /// Its kind.
    pub kind: EventKind,
    /// What happened, for people.
    pub text: String,
}

impl From<Mark> for Event {
    fn from(Mark { time, host, text }: Mark) -> Self {
        Self {
            time,
            host,
            kind: EventKind::Mark,
            text,
        }
    }
}

/// Lists the marks in the range of a question, and the events that the recorder noted, by time.
pub fn ask_events(question: &Question) -> Result<Outcome<Event>, QueryError> {
    let noted = ask_of_health(
        question,
        "events",
        |host, coverage, gaps| events_of(host, coverage, gaps, question),
        |event| (event.time, event.host.clone()),
    )?;
    let (marks, damage) = marks_in(&question.stores, question.range)?;
    let marks = marks.into_iter().map(Event::from).collect();
    Ok(noted.and_events(marks).with(damage))
}

impl Outcome<Event> {
    /// The same with further events.
    pub fn and_events(self, mut more: Vec<Event>) -> Self {
        let Some(any) = more.first().map(|event| event.time) else {
            return self;
        };
        let (rows, range, notes) = match self {
            Self::Found(answer) => (answer.rows, Some(answer.range), answer.notes),
            Self::Nothing { notes, .. } => (Vec::new(), None, notes),
        };
        more.extend(rows);
        more.sort_by(|a, b| (a.time, a.kind, &a.host).cmp(&(b.time, b.kind, &b.host)));
        let [first, last] = [more.first(), more.last()].map(|of| of.map_or(any, |of| of.time));
        let range = range.unwrap_or(Interval::new(first, last));
        Self::Found(Answer::of_range(more, GroupBy::HOST, range, notes))
    }
}

/// The events of a host that its recorder noted.
fn events_of(host: &str, coverage: &mut Coverage, gaps: &[Gap], question: &Question) -> Vec<Event> {
    let mut events = Vec::new();
    let mut add = |time, kind, text: String| {
        let host = host.to_owned();
        events.push(Event {
            time,
            host,
            kind,
            text,
        });
    };
    let recorded_until = coverage.recorded_until();
    for Stall { server, range } in coverage.stalls() {
        add(
            range.start,
            EventKind::Stall,
            format!("{server} does not answer"),
        );
        // Otherwise the stall may go on.
        if recorded_until.is_some_and(|until| range.end < until) {
            add(
                range.end,
                EventKind::StallEnd,
                format!("{server} answers again"),
            );
        }
    }
    let mut steps: Vec<_> = coverage.clock_steps().collect();
    steps.sort_unstable();
    steps.dedup();
    for step in &steps {
        add(
            step.start,
            EventKind::ClockStep,
            "the clock was set".to_owned(),
        );
    }
    // Each client of a capture is a host, and no recorder ran there.
    if coverage.sources().next().is_some() {
        return events;
    }
    // A window in which the clock was set is recorded in part.
    let is_of_clock = |gap: &Gap| {
        let mut steps = steps.iter();
        steps.any(|step| step.start <= gap.range.end && gap.range.start <= step.end)
    };
    for gap in gaps {
        if gap.missing_ms < LEAST_GAP_MS || is_of_clock(gap) {
            continue;
        }
        let missing = show_length(gap.missing_ms);
        // A gap that is cut by the range has no known end there.
        let (since, until) = (question.range.since, question.range.until);
        let until = until.map_or(question.now, |until| until.min(question.now));
        let has_begin = since.is_none_or(|since| since < gap.range.start);
        let has_end = gap.range.end < until;
        if has_begin && has_end && gap.missing_ms < LEAST_STOP_MS {
            let text = format!("the recorder restarted: {missing} not recorded");
            add(gap.range.start, EventKind::RecorderRestarted, text);
            continue;
        }
        if has_begin {
            let text = format!("the recorder ended: {missing} not recorded");
            add(gap.range.start, EventKind::RecorderEnded, text);
        }
        if has_end {
            let text = "the recorder started".to_owned();
            add(gap.range.end, EventKind::RecorderStarted, text);
        }
    }
    events
}

//! Runs a question: opens a snapshot of the stores, and retries if a planned segment has vanished.

use std::collections::HashSet;
use std::path::PathBuf;

use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{Snapshot, StoreError};

use crate::answer::{EmptyReason, OrEmpty, Outcome};
use crate::coverage::damage::{LeftOut, of_journals};
use crate::error::QueryError;
use crate::explain::Stage;
use crate::interval::Interval;
pub use crate::plan::asked;
use crate::plan::possible_steps;
use crate::question::{Question, Range};
use crate::times::{Zone, show};

/// Most retries. Each follows a segment that vanished between plan and scan.
const ATTEMPTS: usize = 32;

/// Answers a question with `ask_once`, and calls it again after a segment has vanished or turned out to be damaged. The
/// catalog removes a segment before its file is deleted. So a segment that vanishes again in a new plan is missing. A
/// retry skips missing and damaged files, and the notes list them. If the question comes with a view, these are errors,
/// because only the caller can open another view.
pub fn ask_with<R>(
    question: &Question,
    ask_once: impl Fn(&Snapshot, &Question) -> Result<Outcome<R>, QueryError>,
) -> Result<Outcome<R>, QueryError> {
    check(question)?;
    if let Some(view) = &question.view {
        let outcome = ask_once(view, question)?;
        return Ok(outcome.with(of_journals(view, question.range)));
    }
    let mut damage = LeftOut::default();
    let mut vanished = HashSet::new();
    loop {
        let stores = question.stores.iter().map(PathBuf::as_path);
        let opened = question
            .explain
            .time(Stage::Open, || Snapshot::open_all(stores))?;
        let snapshot = opened.without(&damage.paths);
        let (path, why) = match ask_once(&snapshot, question) {
            Err(QueryError::Vanished(path))
                if vanished.len() < ATTEMPTS && vanished.insert(path.clone()) =>
            {
                question.explain.again();
                continue;
            }
            Err(QueryError::Vanished(path)) => (path, "it is missing".to_owned()),
            Err(QueryError::Damaged { path, why }) => (path, why),
            // A journal with valid checksums but invalid windows.
            Err(QueryError::Store(StoreError::Damaged { path, why, .. })) => (path, why.to_owned()),
            answered => {
                let mut notes = damage.notes();
                notes.extend(of_journals(&snapshot, question.range));
                return answered.map(|outcome| outcome.with(notes));
            }
        };
        damage.leave_out(&snapshot, question.range, path, why)?;
        question.explain.again();
    }
}

/// Checks the range.
///
/// Errors: [`QueryError::EmptyRange`], and [`QueryError::Future`] if it starts after now.
pub fn check(question: &Question) -> Result<(), QueryError> {
    check_range(question.range, question.now, question.zone)
}

/// Checks a range at the time `now`, like [`check`]. Errors name times in `zone`.
pub fn check_range(range: Range, now: UtcMs, zone: Zone) -> Result<(), QueryError> {
    let shown = |at| show(at, zone);
    match (range.since, range.until) {
        (Some(since), _) if since > now => Err(QueryError::Future {
            since: shown(since),
        }),
        (Some(since), Some(until)) if since >= until => Err(QueryError::EmptyRange {
            since: shown(since),
            until: shown(until),
        }),
        _ => Ok(()),
    }
}

/// An outcome without rows.
pub fn nothing<R>(why: EmptyReason) -> Outcome<R> {
    let notes = Vec::new();
    Outcome::Nothing { why, notes }
}

/// The recorded time of all stores, from its first to its last point. Fails for an empty store.
pub fn recorded(snapshot: &Snapshot, question: &Question) -> OrEmpty<Interval> {
    let (start, end) = snapshot
        .span()
        .ok_or_else(|| EmptyReason::EmptyStore(question.stores.clone()))?;
    Ok(Interval::new(start, end))
}

/// The recorded time of a question's stores or view; or the reason why there is none.
pub fn ask_span(question: &Question) -> Result<OrEmpty<Interval>, QueryError> {
    if let Some(view) = &question.view {
        return Ok(recorded(view, question));
    }
    let stores = question.stores.iter().map(PathBuf::as_path);
    Ok(recorded(&Snapshot::open_all(stores)?, question))
}

/// Keeps the steps to which everything adds up that is stored for the range of a question.
pub fn ask_steps(
    question: &Question,
    steps: &[Granularity],
) -> Result<Vec<Granularity>, QueryError> {
    if let Some(view) = &question.view {
        return possible_steps(view, question, steps);
    }
    let stores = question.stores.iter().map(PathBuf::as_path);
    possible_steps(&Snapshot::open_all(stores)?, question, steps)
}

/// Fails if the range does not overlap the recorded time.
pub fn within(span: Interval, question: &Question) -> OrEmpty<()> {
    let asked = asked(span, question);
    if !asked.intersect(span).is_empty() {
        return Ok(());
    }
    let Range { since, until } = question.range;
    let until = until.unwrap_or(question.now);
    // An open start is the start of the recorded time, which may be later.
    let start = since.map_or_else(|| asked.start.min(until), |_| asked.start);
    let asked = Interval::new(start, until.max(start));
    Err(EmptyReason::NotRecorded { asked, span })
}

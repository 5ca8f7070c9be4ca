//! Asking any question: opens a view of the store, and asks again where what was planned is gone.

use std::collections::HashSet;
use std::path::PathBuf;

use trackiops_store::{Snapshot, StoreError};

use crate::answer::{EmptyReason, Outcome};
use crate::coverage::Interval;
use crate::coverage::damage::{LeftOut, of_journals};
use crate::error::QueryError;
use crate::explain::Stage;
use crate::question::{Question, Range};
use crate::times::show;

/// How often a question is planned again because another segment vanished between plan and scan.
const ATTEMPTS: usize = 32;

/// Answers a question by `ask_once`, which is called again where a segment has vanished meanwhile. The catalog forgets a segment
/// before it is deleted, so one that a new plan has once more is missing.
pub fn ask_with<R>(
    question: &Question,
    ask_once: impl Fn(&Snapshot, &Question) -> Result<Outcome<R>, QueryError>,
) -> Result<Outcome<R>, QueryError> {
    check(question)?;
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
            // A journal whose checksums hold and whose windows make no sense.
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

/// Refuses a range that is empty or in the future.
pub fn check(question: &Question) -> Result<(), QueryError> {
    let Range { since, until } = question.range;
    let shown = |at| show(at, question.zone);
    match (since, until) {
        (Some(since), _) if since > question.now => Err(QueryError::Future {
            since: shown(since),
        }),
        (Some(since), Some(until)) if since >= until => Err(QueryError::EmptyRange {
            since: shown(since),
            until: shown(until),
        }),
        _ => Ok(()),
    }
}

/// An answer without rows, and why there are none.
pub fn nothing<R>(why: EmptyReason) -> Outcome<R> {
    let notes = Vec::new();
    Outcome::Nothing { why, notes }
}

/// What was recorded in all.
pub fn recorded(snapshot: &Snapshot, question: &Question) -> Result<Interval, EmptyReason> {
    let (start, end) = snapshot
        .span()
        .ok_or_else(|| EmptyReason::EmptyStore(question.stores.clone()))?;
    Ok(Interval::new(start, end))
}

/// The range that is asked for: what it leaves open ends with what was recorded.
pub fn asked(span: Interval, question: &Question) -> Interval {
    let Range { since, until } = question.range;
    Interval::new(since.unwrap_or(span.start), until.unwrap_or(span.end))
}

/// Whether the range has something in common with what was recorded.
pub fn within(span: Interval, question: &Question) -> Result<(), EmptyReason> {
    let asked = asked(span, question);
    if !asked.intersect(span).is_empty() {
        return Ok(());
    }
    let until = question.range.until;
    let until = until.unwrap_or(question.now).max(asked.start);
    let asked = Interval::new(asked.start, until);
    Err(EmptyReason::NotRecorded { asked, span })
}

//! Requests that are in windows but were not kept one by one, because the recorder ran without `--requests`.

use std::cmp::Reverse;

use trackiops_schemas::level::IoLevel;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{RequestsView, Snapshot};

use crate::answer::Outcome;
use crate::ask::ask_steps;
use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::explain::Explain;
use crate::file_rows::{about_sums, ask};
use crate::interval::Interval;
use crate::projection::Projection;
use crate::question::{Question, READ, Range, WRITE, is_asked};

/// Most parts of time of a store that are looked at, the longest first.
const MOST_HOLES: usize = 16;

/// A note about READs and WRITEs in the time in which a store kept no single ones. Files that cannot be read have notes of their own.
pub(crate) fn note(
    question: &Question,
    asked: Interval,
    views: &[RequestsView],
) -> Result<Option<Note>, QueryError> {
    let mut found: Option<(Interval, u64)> = None;
    for view in views {
        if !view.has_any() || view.is_incomplete() {
            continue;
        }
        let start = asked
            .start
            .max(view.deleted_before().unwrap_or(asked.start));
        let mut holes = view.holes(start..asked.end.min(question.now));
        holes.sort_by_key(|hole| Reverse(hole.end.0.saturating_sub(hole.start.0)));
        for hole in holes.into_iter().take(MOST_HOLES) {
            let hole = Interval::new(hole.start, hole.end);
            let Some((range, count)) = count_within(question, view, hole)? else {
                continue;
            };
            found = Some(match found {
                Some((known, sum)) => (known.hull(range), sum.saturating_add(count)),
                None => (range, count),
            });
        }
    }
    Ok(found.map(|(range, count)| Note::RequestsNotKept { range, count }))
}

/// The requests in whole windows of a range, and the range of these windows.
fn count_within(
    question: &Question,
    view: &RequestsView,
    range: Interval,
) -> Result<Option<(Interval, u64)>, QueryError> {
    // Calls and functions are no requests.
    let is_of_requests = |level: &IoLevel| matches!(level, IoLevel::Wire | IoLevel::Block);
    let levels: Vec<_> = question
        .levels
        .iter()
        .copied()
        .filter(is_of_requests)
        .collect();
    if levels.is_empty() && !question.levels.is_empty() {
        return Ok(None);
    }
    let within = |start: UtcMs, end: UtcMs| Question {
        stores: vec![view.store().to_owned()],
        range: Range {
            since: Some(start),
            until: Some(end),
        },
        projection: Projection::bytes().only_transfers(true),
        levels: levels.clone(),
        explain: Explain::default(),
        view: None,
        ..about_sums(question)
    };
    let stored = Snapshot::open_all([view.store()])?.granularities();
    let steps = ask_steps(&within(range.start, range.end), &stored)?;
    let Some(step) = steps.into_iter().min() else {
        return Ok(None);
    };
    let start = match range.start.align(step) {
        start if start == range.start => start,
        start => start.plus(step),
    };
    let end = range.end.align(step);
    if start >= end {
        return Ok(None);
    }
    let Outcome::Found(answer) = ask(&within(start, end))? else {
        return Ok(None);
    };
    let mut count: u64 = 0;
    for row in &answer.rows {
        for (op, sums) in [(READ, row.sum.read()), (WRITE, row.sum.write())] {
            if is_asked(&question.ops, Some(op)) {
                count = count.saturating_add(sums.requests);
            }
        }
    }
    Ok((count > 0).then_some((Interval::new(start, end), count)))
}

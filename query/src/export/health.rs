//! The recorder's own account, piece by piece.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use trackiops_schemas::columns::health_schema;
use trackiops_schemas::rollup::Health;
use trackiops_schemas::time::UtcMs;
use trackiops_store::batch::{HealthRow, health_batch};
use trackiops_store::{Dataset, Snapshot};

use super::pieces::{self, MOST_ROWS, Took};
use super::{Export, Exported, Sink, add_damage};
use crate::answer::{Answer, Nothing, Outcome, Question, ask_with, recorded};
use crate::coverage::Interval;
use crate::error::QueryError;
use crate::group::By;
use crate::plan::{Range, plan};
use crate::scan;
use crate::sheet::of_arrow;
use crate::step::Step;

/// A window of a host.
type At = (UtcMs, String);

pub(super) fn run<E: From<QueryError>>(export: &Export, sink: Sink<'_, E>) -> Result<Exported, E> {
    let snapshot = export.snapshot()?;
    let range = match export.range(&snapshot)? {
        Ok(range) => range,
        Err(why) => return Ok(Exported::nothing(why, Vec::new())),
    };
    let step = export.step(&snapshot, Dataset::Health)?;
    drop(snapshot);
    let (mut rows, mut notes) = (0, Vec::new());
    pieces::take(range, step, |piece, may_refuse| {
        let question = Question {
            range: Range {
                since: Some(piece.start),
                until: Some(piece.end),
            },
            step: Some(Step::Windows(step)),
            most_rows: may_refuse.then_some(MOST_ROWS),
            ..export.question.clone()
        };
        let found = match ask_with(&question, of_piece) {
            Err(QueryError::TooManyRows) => return Ok(Took::TooMany),
            Err(error) => return Err(error.into()),
            Ok(Outcome::Nothing { notes: more, .. }) => {
                add_damage(&mut notes, &more);
                return Ok(Took::Rows(0));
            }
            Ok(Outcome::Found(answer)) => answer,
        };
        add_damage(&mut notes, &found.notes);
        let taken = found.rows.len();
        if taken > 0 {
            let batch = batch(found.rows);
            sink(batch.map_err(|error| QueryError::Rows(of_arrow(error)))?)?;
        }
        rows += taken as u64;
        Ok::<_, E>(Took::Rows(taken))
    })?;
    if rows == 0 {
        let what = "rows that can be read".into();
        let why = Nothing::NoneOf { what, asked: range };
        return Ok(Exported::nothing(why, notes));
    }
    Ok(Exported {
        rows,
        granularity: Some(step),
        range: Some(range),
        nothing: None,
        notes,
    })
}

fn of_piece(snapshot: &Snapshot, question: &Question) -> Result<Outcome<(At, Health)>, QueryError> {
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(crate::answer::nothing(why)),
    };
    let plan = plan(snapshot, Dataset::Health, span, question, question.step)?;
    let most_rows = question.most_rows.unwrap_or(usize::MAX);
    let mut rows: BTreeMap<At, Health> = BTreeMap::new();
    for journal in &plan.journals {
        let host = &plan.hosts[journal.host];
        for segment in &journal.health {
            for (time, health) in scan::health(segment, &question.explain)? {
                if journal.bounds.contains(time) {
                    let key = (plan.window(time), host.clone());
                    rows.entry(key).or_default().merge(&health);
                }
            }
        }
    }
    for tail in &plan.tails {
        let host = &plan.hosts[tail.host];
        tail.tail.windows(&mut |window| {
            if tail.bounds.contains(window.start) {
                let key = (plan.window(window.start), host.clone());
                rows.entry(key).or_default().merge(&window.health);
            }
        })?;
    }
    if rows.len() > most_rows {
        return Err(QueryError::TooManyRows);
    }
    Ok(Outcome::Found(Answer {
        rows: rows.into_iter().collect(),
        step: plan.step,
        by: By::HOST,
        range: Interval::new(plan.asked.start, plan.asked.end),
        notes: Vec::new(),
    }))
}

/// Rows of several hosts, in order.
fn batch(rows: Vec<(At, Health)>) -> Result<RecordBatch, ArrowError> {
    let mut batches = Vec::new();
    let mut rows = rows.into_iter().peekable();
    while let Some(((time, host), health)) = rows.next() {
        let mut run = vec![HealthRow { time, health }];
        while let Some(((time, _), health)) = rows.next_if(|((_, next), _)| *next == host) {
            run.push(HealthRow { time, health });
        }
        batches.push(health_batch(&host, &run)?);
    }
    concat_batches(&health_schema(), &batches)
}

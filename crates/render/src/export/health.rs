//! Exports health rows, piece by piece.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::error::ArrowError;
use trackiops_schemas::columns::health_schema;
use trackiops_schemas::row::Health;
use trackiops_schemas::time::UtcMs;
use trackiops_store::batch::{HealthRow, health_batch};
use trackiops_store::{Dataset, Snapshot};

use super::rows::windows;
use super::{Export, Exported, Sink, add_damage};
use trackiops_query::answer::{Answer, Outcome};
use trackiops_query::ask::{ask_with, nothing, recorded};
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::damage::of_journals;
use trackiops_query::error::QueryError;
use trackiops_query::group::GroupBy;
use trackiops_query::plan::plan;
use trackiops_query::question::Question;
use trackiops_query::scan;

/// A window of a host.
type At = (UtcMs, String);

pub(super) fn run<E: From<QueryError>>(export: &Export, sink: Sink<'_, E>) -> Result<Exported, E> {
    let snapshot = export.snapshot()?;
    // Answers about pieces cover only readable data and have no notes about damage, so collect these notes here.
    let mut notes = Vec::new();
    add_damage(&mut notes, &of_journals(&snapshot, export.question.range));
    let range = match export.range(&snapshot)? {
        Ok(range) => range,
        Err(why) => return Ok(Exported::nothing(why, notes)),
    };
    let step = export.step(&snapshot, Dataset::Health)?;
    drop(snapshot);
    let ask = |question: &Question| ask_with(question, of_piece);
    windows(export, range, step, notes, ask, batch, sink)
}

fn of_piece(snapshot: &Snapshot, question: &Question) -> Result<Outcome<(At, Health)>, QueryError> {
    let span = match recorded(snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(nothing(why)),
    };
    let plan = plan(snapshot, Dataset::Health, span, question, question.step)?;
    let row_limit = question.row_limit.unwrap_or(usize::MAX);
    let mut rows: BTreeMap<At, Health> = BTreeMap::new();
    for journal in &plan.journals {
        let host = &plan.hosts[journal.host];
        for segment in &journal.health {
            let is_asked = |time| journal.bounds.contains(time);
            for (time, health) in scan::health(segment, is_asked, &question.explain)? {
                let key = (plan.window(time), host.clone());
                rows.entry(key).or_default().merge(&health);
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
    if rows.len() > row_limit {
        return Err(QueryError::TooManyRows);
    }
    Ok(Outcome::Found(Answer {
        rows: rows.into_iter().collect(),
        step: plan.step,
        by: GroupBy::HOST,
        range: Interval::new(plan.asked.start, plan.asked.end),
        notes: Vec::new(),
        recorded: Default::default(),
    }))
}

/// A batch of several hosts' rows, in order.
fn batch(rows: &[(At, Health)]) -> Result<RecordBatch, ArrowError> {
    let runs = rows.chunk_by(|((_, host), _), ((_, next), _)| host == next);
    let batches = runs.map(|run| {
        let ((_, host), _) = &run[0];
        let rows = run.iter().map(|((time, _), health)| HealthRow {
            time: *time,
            health: health.clone(),
        });
        health_batch(host, &rows.collect::<Vec<_>>())
    });
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    concat_batches(&health_schema(), &batches)
}

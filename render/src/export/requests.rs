//! Exports single requests, piece by piece, in order of completion.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::error::ArrowError;
use trackiops_schemas::columns::request_schema;
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::{RequestsView, ends_ns};

use super::pieces::{self, MOST_ROWS, Took};
use super::rows::overview;
use super::{BATCH_ROWS, Export, Exported, Sink};
use crate::formats::of_arrow;
use trackiops_query::answer::{Answer, EmptyReason, Outcome};
use trackiops_query::ask;
use trackiops_query::ask::{asked, recorded};
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::damage::unread;
use trackiops_query::coverage::note::Note;
use trackiops_query::error::QueryError;
use trackiops_query::requests::{Chosen, none_kept, open};

/// Pieces start and end at whole seconds, ms.
const STEP_MS: i64 = 1000;

pub(super) fn run<E: From<QueryError>>(export: &Export, sink: Sink<'_, E>) -> Result<Exported, E> {
    let question = &export.question;
    let mut notes = match overview(export, ask)? {
        Outcome::Found(Answer { notes, .. }) => notes,
        // The last second may have requests, but no closed window yet.
        Outcome::Nothing {
            why: EmptyReason::Idle { .. } | EmptyReason::NotRecorded { .. },
            notes,
        } => notes,
        Outcome::Nothing { why, notes } => return Ok(Exported::nothing(why, notes)),
    };
    let snapshot = export.snapshot()?;
    let span = match recorded(&snapshot, question) {
        Ok(span) => span,
        Err(why) => return Ok(Exported::nothing(why, notes)),
    };
    let chosen = Chosen::new(&snapshot, question, asked(span, question))?;
    let mut views = open(question)?;
    let begin = views.iter().filter_map(RequestsView::start).min();
    let start = question.range.since.max(begin).unwrap_or(span.start);
    let end = question.range.until.unwrap_or(question.now).max(start);
    let range = Interval::new(start, end);
    let step = Granularity::from_ms(STEP_MS).map_err(QueryError::Step)?;
    let mut rows = 0;
    pieces::take(range, step, |piece, may_refuse| {
        let row_limit = if may_refuse { MOST_ROWS } else { usize::MAX };
        let Some(batch) = of_piece(&mut views, piece, &chosen, row_limit)? else {
            return Ok(Took::TooMany);
        };
        for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
            sink(batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start)))?;
        }
        rows += batch.num_rows() as u64;
        Ok::<_, E>(Took::Rows(batch.num_rows()))
    })?;
    let damaged = views.iter().flat_map(RequestsView::damaged);
    notes.extend(damaged.map(|(path, why)| Note::Damaged {
        path: path.clone(),
        why: why.clone(),
        covers: None,
    }));
    for view in &views {
        notes.extend(unread(
            view.unread(),
            question.range.since,
            question.range.until,
        ));
    }
    if rows == 0 {
        return Ok(Exported::nothing(none_kept(asked(span, question)), notes));
    }
    Ok(Exported {
        rows,
        granularity: None,
        range: Some(range),
        nothing: None,
        notes,
    })
}

/// The requests of a piece, in order; `None` if there are too many.
fn of_piece(
    views: &mut [RequestsView],
    piece: Interval,
    chosen: &Chosen,
    row_limit: usize,
) -> Result<Option<RecordBatch>, QueryError> {
    let ns = |time: UtcMs| time.0.saturating_mul(1_000_000);
    let mut batches = Vec::new();
    let mut rows = 0;
    for view in views {
        view.read(ns(piece.start)..ns(piece.end), &mut |batch| {
            let batch = chosen.of(&batch)?;
            rows += batch.num_rows();
            batches.push(batch);
            Ok(rows <= row_limit)
        })?;
    }
    if rows > row_limit {
        return Ok(None);
    }
    in_order(&batches)
        .map(Some)
        .map_err(|error| QueryError::Rows(of_arrow(error)))
}

/// Sorts by time of completion.
fn in_order(batches: &[RecordBatch]) -> Result<RecordBatch, ArrowError> {
    let all = concat_batches(&request_schema(), batches)?;
    let ends = ends_ns(&all);
    let mut places: Vec<u32> = (0..).take(ends.len()).collect();
    places.sort_by_key(|place| ends[*place as usize]);
    take_record_batch(&all, &UInt32Array::from(places))
}

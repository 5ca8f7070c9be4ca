//! Exports single requests, piece by piece, in order of completion.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::error::ArrowError;
use trackiops_schemas::columns::request_schema;
use trackiops_schemas::time::Granularity;
use trackiops_store::ends_ns;

use super::pieces::{self, MOST_ROWS, Took};
use super::{BATCH_ROWS, Export, Exported, Sink};
use crate::formats::of_arrow;
use trackiops_query::coverage::Interval;
use trackiops_query::error::QueryError;
use trackiops_query::requests::KeptRequests;

/// Pieces start and end at whole seconds, ms.
const STEP_MS: i64 = 1000;

pub(super) fn run<E: From<QueryError>>(export: &Export, sink: Sink<'_, E>) -> Result<Exported, E> {
    let question = &export.question;
    let mut kept = match KeptRequests::open(question)? {
        Ok(kept) => kept,
        Err((why, notes)) => return Ok(Exported::nothing(why, notes)),
    };
    let range = kept.range;
    let step = Granularity::from_ms(STEP_MS).map_err(QueryError::Step)?;
    let mut rows = 0;
    pieces::take(range, step, |piece, may_refuse| {
        let row_limit = if may_refuse { MOST_ROWS } else { usize::MAX };
        let Some(batch) = of_piece(&mut kept, piece, row_limit)? else {
            return Ok(Took::TooMany);
        };
        for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
            sink(batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start)))?;
        }
        rows += batch.num_rows() as u64;
        Ok::<_, E>(Took::Rows(batch.num_rows()))
    })?;
    let (_, none, notes) = kept.finish(question);
    if rows == 0 {
        return Ok(Exported::nothing(none, notes));
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
    kept: &mut KeptRequests,
    piece: Interval,
    row_limit: usize,
) -> Result<Option<RecordBatch>, QueryError> {
    let mut batches = Vec::new();
    let mut rows = 0;
    kept.read(piece, &mut |batch| {
        rows += batch.num_rows();
        batches.push(batch);
        Ok(rows <= row_limit)
    })?;
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

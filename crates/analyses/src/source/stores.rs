//! Single requests of stores, in order of completion.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::requests::KeptRequests;
use trackiops_query::{EmptyReason, Question};
use trackiops_schemas::time::UtcMs;
use trackiops_store::ends_ns;

use crate::error::AnalysisError;

/// Most rows to sort at a time. Rows that completed within [`LEAST_MS`] may be more.
const MOST_ROWS: usize = 1 << 20;
/// Length of the first piece, ms.
const FIRST_MS: i64 = 60_000;
/// Least length of a piece, ms.
const LEAST_MS: i64 = 1000;

/// Passes on requests in order of completion. A store has several files for a time, so this reads pieces of time and sorts each piece.
/// Returns notes, and the reason if there are no requests.
pub fn read(
    question: &Question,
    mut each: impl FnMut(&RecordBatch) -> Result<(), AnalysisError>,
) -> Result<(Option<EmptyReason>, Vec<Note>), AnalysisError> {
    let mut kept = match KeptRequests::open(question)? {
        Ok(kept) => kept,
        Err((why, notes)) => return Ok((Some(why), notes)),
    };
    kept.keep_one_level()?;
    let range = kept.range;
    let (mut start, mut length, mut any) = (range.start.0, FIRST_MS, false);
    while start < range.end.0 {
        let end = start.saturating_add(length).min(range.end.0);
        let mut batches = Vec::new();
        let mut rows = 0;
        let may_stop = length > LEAST_MS;
        kept.read(Interval::new(UtcMs(start), UtcMs(end)), &mut |batch| {
            rows += batch.num_rows();
            batches.push(batch);
            Ok(rows <= MOST_ROWS || !may_stop)
        })?;
        if rows > MOST_ROWS && may_stop {
            length = (length / 4).max(LEAST_MS);
            continue;
        }
        any |= rows > 0;
        if let Some(first) = batches.first() {
            let all = concat_batches(&first.schema(), &batches)?;
            let ends = ends_ns(&all);
            let mut places: Vec<u32> = (0..).take(ends.len()).collect();
            places.sort_by_key(|place| ends[*place as usize]);
            each(&take_record_batch(&all, &UInt32Array::from(places))?)?;
        }
        if rows < MOST_ROWS / 4 {
            length = length.saturating_mul(2);
        }
        start = end;
    }
    let (_, none, notes) = kept.finish(question);
    Ok(((!any).then_some(none), notes))
}

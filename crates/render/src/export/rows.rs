//! Exports rows of files and of operations, piece by piece.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use trackiops_schemas::identity::FileKey;
use trackiops_schemas::time::Granularity;
use trackiops_store::Dataset;

use super::pieces::{self, MOST_ROWS, Took};
use super::{BATCH_ROWS, Export, Exported, Sink, add_damage, ops_columns};
use crate::formats::{self, of_arrow};
use trackiops_query::Projection;
use trackiops_query::answer::{Answer, AnswerRow, EmptyReason, Outcome};
use trackiops_query::ask;
use trackiops_query::columns::{Columns, Record};
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::error::QueryError;
use trackiops_query::group::GroupBy;
use trackiops_query::operations::{Connections, OperationAnswer, ask_operations};
use trackiops_query::question::{Question, Range};
use trackiops_query::step::Step;

/// Exports rows of files. Within a window, they are in order of their keys, which are hashes. An order by name would reveal
/// something about names that pseudonyms replace.
pub(super) fn files<E: From<QueryError>>(
    export: &Export,
    sink: Sink<'_, E>,
) -> Result<Exported, E> {
    let order = |row: &AnswerRow| {
        let key = row.file.as_ref().map_or(FileKey(0), |file| file.key);
        (
            row.time,
            key,
            row.host.clone(),
            GroupBy::FILE_USER.tenant(&row.tenant),
        )
    };
    let sorted = |question: &Question| {
        let mut outcome = ask(question)?;
        if let Outcome::Found(answer) = &mut outcome {
            answer.rows.sort_by_cached_key(order);
        }
        Ok(outcome)
    };
    run(export, Dataset::Rollup, &Columns::usual(), sorted, sink)
}

/// Exports rows of operations.
pub(super) fn operations<E: From<QueryError>>(
    export: &Export,
    sink: Sink<'_, E>,
) -> Result<Exported, E> {
    let ask = |question: &Question| ask_operations(question, Connections::Stored);
    run::<OperationAnswer, E>(export, Dataset::Ops, &ops_columns(), ask, sink)
}

/// Answers the question for the whole range in one row per host, for its notes and its recorded range.
pub(super) fn overview<R>(
    export: &Export,
    ask: impl Fn(&Question) -> Result<Outcome<R>, QueryError>,
) -> Result<Outcome<R>, QueryError> {
    ask(&Question {
        step: Some(Step::All),
        by: GroupBy {
            levels: true,
            ..GroupBy::HOST
        },
        projection: Projection::bytes(),
        ..export.question.clone()
    })
}

fn run<R: Record, E: From<QueryError>>(
    export: &Export,
    dataset: Dataset,
    columns: &Columns<R>,
    ask: impl Fn(&Question) -> Result<Outcome<R>, QueryError>,
    sink: Sink<'_, E>,
) -> Result<Exported, E> {
    let (range, notes) = match overview(export, &ask)? {
        Outcome::Nothing { why, notes } => return Ok(Exported::nothing(why, notes)),
        Outcome::Found(Answer { range, notes, .. }) => (range, notes),
    };
    let step = export.step(&export.snapshot()?, dataset)?;
    let batch = |rows: &[R]| formats::batch(columns, rows);
    windows(export, range, step, notes, ask, batch, sink)
}

/// Answers the question piece by piece, and sends the batches that `batch` makes to the sink.
pub(super) fn windows<R, E: From<QueryError>>(
    export: &Export,
    range: Interval,
    step: Granularity,
    mut notes: Vec<Note>,
    ask: impl Fn(&Question) -> Result<Outcome<R>, QueryError>,
    batch: impl Fn(&[R]) -> Result<RecordBatch, ArrowError>,
    sink: Sink<'_, E>,
) -> Result<Exported, E> {
    let mut rows = 0;
    pieces::take(range, step, |piece, may_refuse| {
        let question = piece_of(export, piece, step, may_refuse);
        let answer = match ask(&question) {
            Err(QueryError::TooManyRows) => return Ok(Took::TooMany),
            Err(error) => return Err(error.into()),
            Ok(Outcome::Nothing { notes: more, .. }) => {
                add_damage(&mut notes, &more);
                return Ok(Took::Rows(0));
            }
            Ok(Outcome::Found(answer)) => answer,
        };
        add_damage(&mut notes, &answer.notes);
        for rows in answer.rows.chunks(BATCH_ROWS) {
            sink(batch(rows).map_err(|error| QueryError::Rows(of_arrow(error)))?)?;
        }
        rows += answer.rows.len() as u64;
        Ok::<_, E>(Took::Rows(answer.rows.len()))
    })?;
    if rows == 0 {
        // The overview found data, so the rows are in damaged files.
        let what = "rows".into();
        let why = EmptyReason::NoneOf { what, asked: range };
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

fn piece_of(export: &Export, piece: Interval, step: Granularity, may_refuse: bool) -> Question {
    Question {
        range: Range {
            since: Some(piece.start),
            until: Some(piece.end),
        },
        step: Some(Step::Windows(step)),
        by: GroupBy {
            levels: true,
            ..GroupBy::FILE_USER
        },
        projection: Projection::all(),
        row_limit: may_refuse.then_some(MOST_ROWS),
        ..export.question.clone()
    }
}

//! Exports single requests, piece by piece, in order of completion.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::Int64Type;
use arrow::error::ArrowError;
use trackiops_schemas::columns::{DEV, FILE_KEY, FILEID, MOUNT, PATH, request_schema};
use trackiops_schemas::identity::{Dev, FileKey};
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
use trackiops_query::file_selector::{FileMatch, FileSelection, resolve};
use trackiops_query::mount_filter::MountFilter;
use trackiops_query::origin::File;
use trackiops_query::question::Question;

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
    let mut views = views(question)?;
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
        let why = EmptyReason::NoneOf {
            what: "single requests kept (`trackiops record --requests` keeps them)".into(),
            asked: asked(span, question),
        };
        return Ok(Exported::nothing(why, notes));
    }
    Ok(Exported {
        rows,
        granularity: None,
        range: Some(range),
        nothing: None,
        notes,
    })
}

/// Opens each store once.
fn views(question: &Question) -> Result<Vec<RequestsView>, QueryError> {
    let mut known = HashSet::new();
    let mut views = Vec::new();
    for store in &question.stores {
        let id = store.metadata().ok().map(|of| (of.dev(), of.ino()));
        if known.insert(id) {
            views.push(RequestsView::open(store)?);
        }
    }
    Ok(views)
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

/// The selected requests.
struct Chosen {
    wanted: Option<FileSelection>,
    mounts: Option<MountFilter>,
}

impl Chosen {
    fn new(
        snapshot: &trackiops_store::Snapshot,
        question: &Question,
        range: Interval,
    ) -> Result<Self, QueryError> {
        Ok(Self {
            wanted: resolve(snapshot, &question.files, range)?.wanted,
            mounts: MountFilter::new(snapshot, &question.mounts)?,
        })
    }

    fn of(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        if self.wanted.is_none() && self.mounts.is_none() {
            return Ok(batch.clone());
        }
        let column = |name| batch.column_by_name(name).map(|array| array.as_ref());
        let text = |name| column(name).and_then(|array: &dyn Array| array.as_string_opt::<i32>());
        let number = |name| column(name).and_then(|array| array.as_primitive_opt::<Int64Type>());
        let ends = ends_ns(batch);
        let some = |array: Option<&StringArray>, row| {
            let array = array.filter(|array| array.is_valid(row))?;
            Some(array.value(row).to_owned())
        };
        let is_wanted = |row: usize| {
            let file = File {
                key: FileKey(number(FILE_KEY).map_or(0, |keys| keys.value(row))),
                dev: some(text(DEV), row)
                    .and_then(|dev| dev.parse().ok())
                    .unwrap_or(Dev(0)),
                fileid: number(FILEID).map_or(0, |ids| ids.value(row).cast_unsigned()),
                mount: some(text(MOUNT), row),
                path: some(text(PATH), row),
                path_inferred: None,
            };
            let mounts = self.mounts.as_ref();
            let on = mounts.is_none_or(|mounts| mounts.matches(file.mount.as_deref()));
            let at = UtcMs(ends[row].div_euclid(1_000_000));
            on && self
                .wanted
                .as_ref()
                .is_none_or(|wanted| match wanted.match_of(&file) {
                    FileMatch::All => true,
                    FileMatch::None => false,
                    FileMatch::Depends => wanted.holds(at, file.key),
                })
        };
        let wanted: BooleanArray = (0..batch.num_rows())
            .map(|row| Some(is_wanted(row)))
            .collect();
        filter_record_batch(batch, &wanted)
    }
}

//! Lists marks: notes about moments.

use std::path::PathBuf;

use trackiops_schemas::time::UtcMs;
use trackiops_store::{Mark, Snapshot, marks};

use crate::answer::{Answer, EmptyReason, Outcome};
use crate::coverage::Interval;
use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::group::GroupBy;
use crate::question::Range;

/// The marks of these stores in a range, ordered by time, and notes about unreadable marks. Exports have no marks.
pub fn marks_in(stores: &[PathBuf], range: Range) -> Result<(Vec<Mark>, Vec<Note>), QueryError> {
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for store in stores.iter().filter(|store| store.is_dir()) {
        let found = marks(store)?;
        all.extend(found.marks);
        notes.extend(found.damage.map(|why| Note::Damaged {
            path: found.path,
            why,
            covers: None,
        }));
    }
    let is_in = |time: UtcMs| {
        range.since.is_none_or(|since| since <= time)
            && range.until.is_none_or(|until| time < until)
    };
    all.retain(|mark| is_in(mark.time));
    all.sort_by_key(|mark| mark.time);
    Ok((all, notes))
}

/// Lists the marks of these stores in a range.
pub fn ask_marks(stores: &[PathBuf], range: Range) -> Result<Outcome<Mark>, QueryError> {
    let (rows, notes) = marks_in(stores, range)?;
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        let snapshot = Snapshot::open_all(stores.iter().map(PathBuf::as_path))?;
        let why = match snapshot.span() {
            None => EmptyReason::EmptyStore(stores.to_owned()),
            Some((start, end)) => EmptyReason::NoneOf {
                what: "marks".into(),
                asked: Interval::new(range.since.unwrap_or(start), range.until.unwrap_or(end)),
            },
        };
        return Ok(Outcome::Nothing { why, notes });
    };
    let range = Interval::new(first.time, last.time);
    Ok(Outcome::Found(Answer::of_range(
        rows,
        GroupBy::HOST,
        range,
        notes,
    )))
}

//! Lists marks: notes about moments.

use std::path::PathBuf;

use trackiops_schemas::time::UtcMs;
use trackiops_store::{Mark, Snapshot, marks};

use crate::answer::{Answer, EmptyReason, Outcome};
use crate::ask::check;
use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::group::GroupBy;
use crate::interval::Interval;
use crate::question::{Question, Range};

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

/// Lists the marks of a question's stores in its range. A mark may be of a time that is to come.
pub fn ask_marks(question: &Question) -> Result<Outcome<Mark>, QueryError> {
    let (stores, range) = (&question.stores, question.range);
    let (rows, notes) = marks_in(stores, range)?;
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        check(question)?;
        let snapshot = Snapshot::open_all(stores.iter().map(PathBuf::as_path))?;
        let why = match snapshot.span() {
            None => EmptyReason::EmptyStore(stores.clone()),
            Some((start, end)) => {
                let start = range.since.unwrap_or(start);
                // Marks may be of time in which nothing was recorded.
                let end = range
                    .until
                    .unwrap_or(if start < end { end } else { question.now });
                EmptyReason::NoneOf {
                    what: "marks".into(),
                    asked: Interval::new(start.min(end), end),
                }
            }
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

//! Questions about what was mounted where, and when.

use std::path::PathBuf;

use trackiops_store::{MountSeen, Snapshot};

use crate::answer::{Answer, Nothing, Outcome};
use crate::coverage::Interval;
use crate::error::QueryError;
use crate::group::By;
use crate::step::Step;

/// All mounts that were seen while stores were recorded, in the order in which they came.
pub fn ask_mounts(stores: &[PathBuf]) -> Result<Outcome<MountSeen>, QueryError> {
    let snapshot = Snapshot::open_all(stores.iter().map(PathBuf::as_path))?;
    let rows = snapshot.mounts()?;
    let times = rows.iter().map(|row| Interval::new(row.seen.0, row.seen.1));
    let Some(range) = times.reduce(Interval::hull) else {
        let why = match snapshot.span() {
            None => Nothing::EmptyStore(stores.to_owned()),
            Some(_) if snapshot.has_exports() => {
                Nothing::NotExported("list of mounts: ask the store")
            }
            Some((start, end)) => Nothing::NoneOf {
                what: "mounts recorded".into(),
                asked: Interval::new(start, end),
            },
        };
        let notes = Vec::new();
        return Ok(Outcome::Nothing { why, notes });
    };
    Ok(Outcome::Found(Answer {
        rows,
        step: Step::All,
        by: By::MOUNT,
        range,
        notes: Vec::new(),
    }))
}

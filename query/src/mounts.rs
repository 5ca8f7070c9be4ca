//! Lists mounts: where and when each was mounted.

use std::path::PathBuf;

use trackiops_store::{MountSeen, Snapshot};

use crate::answer::{Answer, EmptyReason, Outcome};
use crate::coverage::Interval;
use crate::error::QueryError;
use crate::group::GroupBy;

/// Lists all mounts that the recorders of these stores saw, by when they were first seen.
pub fn ask_mounts(stores: &[PathBuf]) -> Result<Outcome<MountSeen>, QueryError> {
    let snapshot = Snapshot::open_all(stores.iter().map(PathBuf::as_path))?;
    let rows = snapshot.mounts()?;
    let times = rows.iter().map(|row| Interval::new(row.seen.0, row.seen.1));
    let Some(range) = times.reduce(Interval::hull) else {
        let why = match snapshot.span() {
            None => EmptyReason::EmptyStore(stores.to_owned()),
            Some(_) if snapshot.has_exports() => {
                EmptyReason::NotExported("list of mounts: ask the store")
            }
            Some((start, end)) => EmptyReason::NoneOf {
                what: "mounts recorded".into(),
                asked: Interval::new(start, end),
            },
        };
        let notes = Vec::new();
        return Ok(Outcome::Nothing { why, notes });
    };
    Ok(Outcome::Found(Answer::of_range(
        rows,
        GroupBy::MOUNT,
        range,
        Vec::new(),
    )))
}

//! Lists mounts: where and when each was mounted.

use std::path::PathBuf;

use trackiops_store::{MountSeen, Snapshot, Unread};

use crate::answer::{Answer, EmptyReason, Outcome};
use crate::coverage::damage::unread;
use crate::coverage::note::Note;
use crate::error::QueryError;
use crate::group::GroupBy;
use crate::interval::Interval;

/// Lists all mounts that the recorders of these stores saw, by when they were first seen.
pub fn ask_mounts(stores: &[PathBuf]) -> Result<Outcome<MountSeen>, QueryError> {
    let snapshot = Snapshot::open_all(stores.iter().map(PathBuf::as_path))?;
    let rows = snapshot.mount_history()?;
    // Mount points are in the catalog alone, so unreadable journals do not matter.
    let older = snapshot.unread().iter().filter(|of| of.is_catalog());
    let older: Vec<Unread> = older.cloned().collect();
    let mut notes: Vec<Note> = unread(&older, None, None).collect();
    let are_unknown = snapshot.may_lack_mounts()?;
    let times = rows.iter().map(|row| Interval::new(row.seen.0, row.seen.1));
    let Some(range) = times.reduce(Interval::hull) else {
        let why = match snapshot.span() {
            None => EmptyReason::EmptyStore(stores.to_owned()),
            Some(_) if snapshot.has_exports() => {
                EmptyReason::NotExported("list of mounts: ask the store")
            }
            Some(_) if are_unknown => EmptyReason::NoMount(
                "no mounts are known: the catalog was rebuilt without the earlier one, and segments do not have them"
                    .into(),
            ),
            Some((start, end)) => EmptyReason::NoneOf {
                what: "mounts recorded".into(),
                asked: Interval::new(start, end),
            },
        };
        return Ok(Outcome::Nothing { why, notes });
    };
    if are_unknown {
        notes.push(Note::MountsUnknown);
    }
    Ok(Outcome::Found(Answer::of_range(
        rows,
        GroupBy::MOUNT,
        range,
        notes,
    )))
}

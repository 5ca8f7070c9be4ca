//! Checks single requests. No catalog lists their files, so each file is checked by itself.

use std::io;
use std::path::Path;

use super::report::{Report, of_date, verified};
use super::{journals, rows};
use crate::beneath;
use crate::error::StoreError;
use crate::layout;
use crate::requests::journal_damage;
use crate::segment::metadata::check_requests;

/// What to do about a damaged segment of requests.
const RESTORE_REQUESTS: &str =
    "restore it from a copy, or move it out of the store; windows have all of its requests as sums";

pub(super) fn check(store: &Path, report: &mut Report) -> Result<(), StoreError> {
    for number in layout::requests_journals(store)? {
        let path = layout::requests_journal(store, number);
        match journals::settled(|| journal_damage(&path), |damaged| *damaged == Some(0)) {
            Ok(None) => {}
            Ok(Some(damaged)) => {
                report.journals += 1;
                if damaged > 0 {
                    let why = format!(
                        "{damaged} bytes are not a whole batch: cut off while they were written, or damaged"
                    );
                    report.find(&path, why, None, journals::RECORD);
                }
            }
            Err(error @ StoreError::OtherFormat { .. }) => return Err(error),
            Err(error) => report.find(&path, journals::why(&error), None, journals::RECORD),
        }
    }
    for (_, path) in layout::requests_segments(store)? {
        let file = match beneath::read(store, &path) {
            // Deleted in the meantime, because of the budget.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            file => file,
        };
        let rows = verified(file, &path, None, report).and_then(|reader| {
            check_requests(reader.metadata(), &path)?;
            rows::requests(reader)
        });
        match rows {
            Ok(rows) => report.rows += rows,
            Err(why) => report.find(&path, why, of_date(&path), RESTORE_REQUESTS),
        }
    }
    Ok(())
}

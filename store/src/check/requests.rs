//! Single requests: no catalog knows their files, which are checked each in itself.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{RESTORE, Report, journals, of_date, rows};
use crate::checksum::{self, Checked};
use crate::error::StoreError;
use crate::layout;
use crate::requests::journal_damage;

pub(super) fn check(store: &Path, report: &mut Report) -> Result<(), StoreError> {
    for number in layout::requests_journals(store)? {
        let path = layout::requests_journal(store, number);
        match journals::settled(|| journal_damage(&path), |damaged| *damaged == Some(0)) {
            Ok(None) => {}
            Ok(Some(damaged)) => {
                report.journals += 1;
                if damaged > 0 {
                    let why = format!(
                        "{damaged} bytes are no whole batch: cut off while they were written, or damaged"
                    );
                    report.find(&path, why, None, journals::RECORD);
                }
            }
            Err(error @ StoreError::Damaged { .. }) => {
                report.find(&path, journals::why(&error), None, journals::RECORD);
            }
            Err(error) => return Err(error),
        }
    }
    for (_, path) in layout::requests_segments(store)? {
        let file = match File::open(&path) {
            // Deleted by its budget meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            file => file.map_err(StoreError::io("open", &path))?,
        };
        let covers = of_date(&path);
        report.segments += 1;
        let read = || StoreError::io("read", &path);
        report.bytes += file.metadata().map_err(read())?.len();
        match checksum::check(&file).map_err(read())? {
            Checked::Damaged => {
                let why = "it does not match its checksum";
                report.find(&path, why, covers, RESTORE);
                continue;
            }
            Checked::Intact => {}
            Checked::NoChecksum => report.without_checksum += 1,
        }
        match rows::requests(file, &path) {
            Ok(rows) => report.rows += rows,
            Err(why) => report.find(&path, why, covers, RESTORE),
        }
    }
    Ok(())
}

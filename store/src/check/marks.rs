//! Checks that each line of the marks is valid and none is missing.

use std::path::Path;

use super::Report;
use crate::error::StoreError;
use crate::marks::marks;

const REMOVE: &str = "restore marks.jsonl and marks.sum from a copy; or move both away, and note with `trackiops mark --at` what is right";

pub(super) fn check(store: &Path, report: &mut Report) -> Result<(), StoreError> {
    let marks = marks(store)?;
    if let Some(why) = marks.damage {
        report.find(&marks.path, why, None, REMOVE);
    }
    Ok(())
}

//! Checks the marks: each line is one.

use std::path::Path;

use super::Report;
use crate::error::StoreError;
use crate::marks::marks;

const REMOVE: &str = "the others are read; remove these lines, and the finding ends";

pub(super) fn check(store: &Path, report: &mut Report) -> Result<(), StoreError> {
    let marks = marks(store)?;
    if let Some(why) = marks.damage {
        report.find(&marks.path, why, None, REMOVE);
    }
    Ok(())
}

//! Checks the marks: each line is one.

use std::path::Path;

use super::Report;
use crate::error::StoreError;
use crate::layout;
use crate::marks::marks;

const REMOVE: &str = "the others are read; remove these lines, and the finding ends";

pub(super) fn check(store: &Path, report: &mut Report) -> Result<(), StoreError> {
    if let (_, unread @ 1..) = marks(store)? {
        let why = format!("{unread} of its lines are no marks");
        report.find(&layout::marks(store), why, None, REMOVE);
    }
    Ok(())
}

//! Checks that the progress of each import can be read and none is missing.

use std::path::Path;

use super::journals::why;
use super::report::{Report, fresh};
use crate::error::StoreError;
use crate::imports;
use crate::layout;

/// What to do about a damaged file.
const RESTORE: &str =
    "restore it from a copy; until then, `trackiops import` refuses the same files";
/// What to do about missing files.
const RESTORE_ALL: &str = "restore them from a copy; until then, `trackiops import` refuses new files, because the store may have them already";

pub(super) fn check(store: &Path, report: &mut Report) -> Result<(), StoreError> {
    // Read before the files: an import has its file before the catalog counts it. The check of the catalog reports its
    // damage.
    let known = fresh(store).and_then(|view| view.imports().ok());
    let known = known.unwrap_or(0);
    let count = imports::count(store)?;
    if count < known {
        let why = format!(
            "{} of {known} files with the progress of imports are missing",
            known - count
        );
        report.find(&layout::imports_dir(store), why, None, RESTORE_ALL);
    }
    for (path, error) in imports::damaged(store)? {
        report.find(&path, why(&error), None, RESTORE);
    }
    Ok(())
}

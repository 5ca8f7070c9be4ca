//! Whether a store is what was written: journals, segments and the catalog each in itself, and against each other.
//!
//! A recorder may be at work meanwhile.

mod catalog;
mod journals;
mod names;
mod report;
mod requests;
mod rows;
mod segments;
mod totals;

use std::path::Path;

pub use self::report::{Covers, Finding, Report};
use crate::error::StoreError;
use crate::snapshot::check_is_store;

/// Reads all of a store. An error says that it could not be checked.
pub fn check(store: &Path) -> Result<Report, StoreError> {
    let mut report = Report::default();
    match check_is_store(store) {
        Ok(()) | Err(StoreError::NoCatalog(_)) => {}
        Err(error) => return Err(error),
    }
    let view = catalog::check(store, &mut report)?;
    journals::check(store, view.as_ref(), &mut report)?;
    segments::check(store, view.as_ref(), &mut report)?;
    names::check(store, &mut report)?;
    requests::check(store, &mut report)?;
    Ok(report)
}

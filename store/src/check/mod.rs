//! Verifies a store: journals, segments and the catalog, by themselves and against each other.
//!
//! A recorder may be running at the same time.

mod catalog;
mod imports;
mod journals;
mod marks;
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

/// Reads the whole store. Damage is in the report. An error means that the store could not be
/// checked.
pub fn check(store: &Path) -> Result<Report, StoreError> {
    let mut report = Report::default();
    match check_is_store(store) {
        Ok(()) | Err(StoreError::NoCatalog(_)) => {}
        Err(error) => return Err(error),
    }
    let view = catalog::check(store, &mut report)?;
    report.ids = view.as_ref().and_then(|view| view.store_ids().ok());
    journals::check(store, view.as_ref(), &mut report)?;
    segments::check(store, view.as_ref(), &mut report)?;
    names::check(store, &mut report)?;
    marks::check(store, &mut report)?;
    imports::check(store, &mut report)?;
    requests::check(store, view.as_ref(), &mut report)?;
    Ok(report)
}

//! Checks the catalog by itself.

use std::path::Path;

use super::report::{REBUILD, Report};
use crate::catalog::CatalogView;
use crate::error::StoreError;
use crate::layout;

/// Checks the catalog. Returns it if it can be opened.
pub(super) fn check(store: &Path, report: &mut Report) -> Result<Option<CatalogView>, StoreError> {
    let path = layout::catalog(store);
    let view = match CatalogView::open(store) {
        Ok(view) => view,
        // Another format, or a file that cannot be read, is not damage: the check itself fails.
        Err(error @ (StoreError::OtherFormat { .. } | StoreError::Io { .. })) if path.exists() => {
            return Err(error);
        }
        Err(error) if layout::has_files(store)? => {
            let why = match path.exists() {
                true => without_next_step(&error),
                false => "it is missing".to_owned(),
            };
            report.find(&path, why, None, REBUILD);
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    report.bytes += path.metadata().map_or(0, |metadata| metadata.len());
    let damage = match view.damage() {
        Ok(damage) => damage,
        Err(error) => vec![without_next_step(&error)],
    };
    for why in damage {
        report.find(&path, why, None, REBUILD);
    }
    Ok(Some(view))
}

/// The message of an error without its next step, which the finding already has.
pub(super) fn without_next_step(error: &StoreError) -> String {
    match error {
        StoreError::Catalog { source, .. } => source.to_string(),
        StoreError::NotAStore { why, .. } => (*why).to_owned(),
        StoreError::DamagedCatalog { why, .. } => why.clone(),
        other => other.to_string(),
    }
}

//! Finds journals that are gone or empty. Each journal names its predecessor, and the catalog names the last journal in
//! use:
//!
//! ```text
//! journal 1 <- journal 2 <- journal 3 <- catalog: last_begun
//! ```
//!
//! A journal is named only after its first windows or requests are durable. So a journal that is named but has none was
//! cut.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use trackiops_schemas::time::UtcMs;

use crate::catalog::{CatalogView, SealedRow};
use crate::error::StoreError;
use crate::journal::header::Header;
use crate::layout::Series;
use crate::names::Seen;
use crate::unread::Unread;

/// An unsealed journal, readable or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) number: u64,
    /// Its predecessor.
    previous: Option<u64>,
    /// Start of its first window.
    start: Option<UtcMs>,
}

impl Link {
    /// A journal that is not readable.
    pub(crate) fn unreadable(number: u64) -> Self {
        Self {
            number,
            previous: None,
            start: None,
        }
    }

    /// A journal whose first window or request is of that time.
    pub(crate) fn of(header: &Header, start: Option<UtcMs>) -> Self {
        Self {
            number: header.number,
            previous: header.previous.map(|previous| previous.number),
            start,
        }
    }
}

/// Journals that another journal or the catalog names, but that are neither sealed nor in the directory, or have no
/// windows or requests. List the files before you open the catalog.
pub(crate) fn missing(
    store: &Path,
    series: Series,
    catalog: &CatalogView,
    unsealed: &[Link],
) -> Result<Vec<Unread>, StoreError> {
    let links = catalog.links(series)?;
    let named = links.iter().filter_map(|(_, previous)| *previous);
    let named = named.chain(unsealed.iter().filter_map(|link| link.previous));
    let named: BTreeSet<_> = named.chain(catalog.last_begun(series)?).collect();
    let sealed = links.iter().map(|(number, _)| *number);
    let known: HashSet<_> = sealed
        .chain(unsealed.iter().map(|link| link.number))
        .collect();
    let gone = named.into_iter().filter(|number| !known.contains(number));
    let gone = gone.filter(|number| !series.has(store, *number));
    let gone: Vec<_> = gone.collect();
    if gone.is_empty() {
        return Ok(Vec::new());
    }
    // One that was begun in the meantime may be sealed by now.
    let sealed = CatalogView::open(store)?.sealed(series)?;
    let gone = gone.into_iter().filter(|number| !sealed.contains(number));
    gone.map(|number| {
        let path = series.journal(store, number);
        Ok(Unread::gone(
            path,
            around(&catalog.sealed_rows(series)?, unsealed, number),
        ))
    })
    .collect()
}

/// The time range between the neighbours of a missing journal. `None` if unknown.
fn around(rows: &[SealedRow], unsealed: &[Link], number: u64) -> Option<Seen> {
    let before = rows.iter().rev().filter(|row| row.journal < number);
    let before = before.filter_map(|row| row.seen).map(|(_, end)| end).next();
    let sealed = rows.iter().filter(|row| row.previous == Some(number));
    let sealed = sealed.filter_map(|row| row.seen).map(|(start, _)| start);
    let unsealed = unsealed.iter().filter(|link| link.previous == Some(number));
    let after = sealed.chain(unsealed.filter_map(|link| link.start)).min();
    // If the clock was set back in between, the range is unknown.
    before.zip(after).filter(|(before, after)| before < after)
}

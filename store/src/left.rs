//! Journals that an earlier writer left behind.

use std::path::Path;

use crate::error::StoreError;
use crate::identity::Ids;
use crate::journal::file::JournalFile;
use crate::journal::header::{Header, Previous};
use crate::layout::Series;

/// A journal of an earlier writer.
pub(crate) struct Left {
    pub(crate) number: u64,
    /// Number of its durable bytes. `None` if unknown, or if its header cannot be read.
    bytes: Option<u64>,
}

/// The journals of an earlier writer. Fails if one has another format: such a store is not changed.
pub(crate) fn left(store: &Path, series: Series, ids: &Ids) -> Result<Vec<Left>, StoreError> {
    let of = |number| {
        let opened = JournalFile::open(&series.journal(store, number));
        let bytes = match opened.map(|journal| journal.map(|journal| journal.of_store(ids))) {
            Ok(Some(journal)) => match Header::read(&journal, |kind| kind != 0) {
                // The next journal must not name one whose requests a power cut took, or may still take.
                Ok(header) => header
                    .and(journal.extent)
                    .filter(|extent| extent.bytes > 0)
                    .map(|extent| extent.bytes),
                Err(error @ StoreError::OtherFormat { .. }) => return Err(error),
                // Sealing the journal reports other errors.
                Err(_) => None,
            },
            _ => None,
        };
        Ok(Left { number, bytes })
    };
    series.journals(store)?.into_iter().map(of).collect()
}

/// The last journal with windows or requests, among these numbers and the left journals.
pub(crate) fn last_used(known: &[u64], left: &[Left]) -> Option<Previous> {
    let known = known.iter().map(|number| Previous {
        number: *number,
        bytes: 0,
    });
    let left = left.iter().filter_map(|left| {
        let number = left.number;
        left.bytes.map(|bytes| Previous { number, bytes })
    });
    let last = known.chain(left).max_by_key(|of| (of.number, of.bytes));
    last.filter(|last| last.number > 0)
}

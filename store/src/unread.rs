//! Journals that cannot be read completely.

use std::path::{Path, PathBuf};

use trackiops_schemas::time::UtcMs;

use crate::error::StoreError;
use crate::journal::end::Extent;
use crate::layout;

/// Why a missing journal is not read.
pub(crate) const LOST: &str = "it was deleted before it was sealed";

/// Why a journal is not read that only other journals name.
const GONE: &str = "it is missing: it was deleted before it was sealed, its segments were deleted before the catalog was rebuilt, or the catalog is of an earlier time";

/// Why a journal is not read that has nothing, although others name it.
const EMPTIED: &str =
    "it is empty, although windows or requests were written to it: it was cut or overwritten";

/// A journal that cannot be read completely, or a catalog that lacks segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
    /// Start and end of its recording. `None` if unknown.
    pub covers: Option<(UtcMs, UtcMs)>,
}

impl Unread {
    /// A journal that `error` makes unreadable. Returns the error itself if it concerns more than the journal.
    pub(crate) fn journal(path: PathBuf, error: StoreError) -> Result<Self, StoreError> {
        let why = match error {
            StoreError::Damaged { why, .. } => why.to_owned(),
            StoreError::Io { source, .. } => format!("it cannot be read: {source}"),
            error => return Err(error),
        };
        Ok(Self {
            covers: covers(&path, []),
            path,
            why,
        })
    }

    /// A damaged journal that was sealed and set aside. `known` holds the time ranges of its readable part.
    pub(crate) fn sealed(path: PathBuf, known: impl IntoIterator<Item = (UtcMs, UtcMs)>) -> Self {
        Self {
            covers: covers(&path, known),
            path,
            why: "segments have only its readable part".to_owned(),
        }
    }

    /// A journal whose torn end may have been durable. How much of it is missing is unknown.
    pub(crate) fn torn(path: PathBuf, bytes: u64) -> Self {
        Self {
            path,
            why: torn(bytes),
            covers: None,
        }
    }

    /// A journal that was deleted.
    pub(crate) fn lost(path: PathBuf) -> Self {
        Self {
            covers: covers(&path, []),
            path,
            why: LOST.to_owned(),
        }
    }

    /// A missing journal that another one names. `around` is the time between its neighbours.
    pub(crate) fn gone(path: PathBuf, around: Option<(UtcMs, UtcMs)>) -> Self {
        Self {
            covers: covers(&path, []).or(around),
            path,
            why: GONE.to_owned(),
        }
    }

    /// A journal that was emptied. `around` is the time between its neighbours.
    pub(crate) fn emptied(path: PathBuf, around: Option<(UtcMs, UtcMs)>) -> Self {
        Self {
            why: EMPTIED.to_owned(),
            ..Self::gone(path, around)
        }
    }

    /// Whether it is the catalog, which lacks segments.
    pub fn is_catalog(&self) -> bool {
        let store = self.path.parent().unwrap_or(&self.path);
        self.path == layout::catalog(store)
    }

    /// Whether it may overlap the half-open range.
    pub fn may_overlap(&self, since: Option<UtcMs>, until: Option<UtcMs>) -> bool {
        self.covers.is_none_or(|(start, end)| {
            since.is_none_or(|since| since < end) && until.is_none_or(|until| start < until)
        })
    }
}

/// The problem with a journal that ends in this many bytes that are not a whole frame.
pub(crate) fn torn(bytes: u64) -> String {
    format!(
        "its last {bytes} bytes are incomplete, and without its .end file it is unknown how long it was"
    )
}

/// Time range of a journal, from its `.end` file. Without that, the range is unknown: the readable part may be shorter.
fn covers(path: &Path, known: impl IntoIterator<Item = (UtcMs, UtcMs)>) -> Option<(UtcMs, UtcMs)> {
    let own = Extent::read(path)?.span;
    let all = known.into_iter().chain([own]);
    all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

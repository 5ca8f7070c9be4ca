//! Journals that are not read.

use std::path::{Path, PathBuf};

use trackiops_schemas::time::UtcMs;

use crate::error::StoreError;
use crate::journal::end::Extent;

/// Why a journal is not read that is not there, either.
pub(crate) const LOST: &str = "it was deleted before it was sealed";

/// A journal that is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Its file.
    pub path: PathBuf,
    /// Why.
    pub why: String,
    /// From when on it was recorded, and until when; `None` where that is not known.
    pub covers: Option<(UtcMs, UtcMs)>,
}

impl Unread {
    /// One that cannot be read for this error, if the error is of the journal alone.
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

    /// A damaged one that was sealed and is in quarantine; `known` is when its windows were, as far as they could be read.
    pub(crate) fn sealed(path: PathBuf, known: impl IntoIterator<Item = (UtcMs, UtcMs)>) -> Self {
        Self {
            covers: covers(&path, known),
            path,
            why: "segments have only what of it could be read".to_owned(),
        }
    }

    /// One that is gone.
    pub(crate) fn lost(path: PathBuf) -> Self {
        Self {
            covers: covers(&path, []),
            path,
            why: LOST.to_owned(),
        }
    }

    /// Whether it may be of the half-open range.
    pub fn may_overlap(&self, since: Option<UtcMs>, until: Option<UtcMs>) -> bool {
        self.covers.is_none_or(|(start, end)| {
            since.is_none_or(|since| since < end) && until.is_none_or(|until| start < until)
        })
    }
}

/// When a journal was recorded, as what is beside it says: what is known otherwise may lack the damaged part.
fn covers(path: &Path, known: impl IntoIterator<Item = (UtcMs, UtcMs)>) -> Option<(UtcMs, UtcMs)> {
    let own = Extent::read(path)?.span;
    let all = known.into_iter().chain([own]);
    all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

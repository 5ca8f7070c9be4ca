//! Errors of an import.

use std::path::PathBuf;

use trackiops_store::StoreError;

use crate::source::SourceError;

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A source cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store cannot be opened or committed to.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Windows or requests of a host cannot be written.
    #[error("cannot write what {host} did to {store}", store = .store.display())]
    WriteHost {
        /// The host.
        host: String,
        /// The store.
        store: PathBuf,
        /// The store's error.
        source: Box<StoreError>,
    },
    /// The last windows cannot be sealed.
    #[error("cannot write to {store}", store = .store.display())]
    Write {
        /// The store.
        store: PathBuf,
        /// The store's error.
        source: Box<StoreError>,
    },
}

//! Errors of a comparison.

use trackiops_capture::PacketsError;
use trackiops_query::QueryError;
use trackiops_store::StoreError;

use crate::source::SourceError;

/// Why a store and a capture cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A file of the capture cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A file of the capture cannot be read.
    #[error("cannot read {name}")]
    Capture {
        /// The file.
        name: String,
        /// The cause.
        source: PacketsError,
    },
    /// The capture is empty.
    #[error("--pcap: there is no packet in the capture; capture with `tcpdump port 2049`")]
    NoPackets,
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The question cannot be asked.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The store is empty.
    #[error("nothing is recorded in the store yet; record with `trackiops record --requests`")]
    NothingRecorded,
    /// Capture and recording have no time in common.
    #[error(
        "the capture has nothing of the time of the recording that is asked for: compare its times with those of `trackiops query`"
    )]
    OtherTime,
    /// The store has no single requests of the common time.
    #[error(
        "no single requests are kept in the store for the time of the capture; record with `trackiops record --requests`"
    )]
    NoRequests,
    /// Single requests cannot be read.
    #[error("single requests cannot be read")]
    Requests(#[source] QueryError),
    /// No request of the store can be found in the capture.
    #[error(
        "the single requests of the store have no xids, so they cannot be found in a capture; \
         they are recorded on kernels with BTF (see `trackiops doctor`)"
    )]
    NoXids,
}

//! The files that TrackIOps keeps on disk.
//!
//! ```text
//! closed windows -> journal (append, CRC, fsync) -> seal -> segments (Parquet) -> catalog (SQLite)
//! requests       -> journal (append, CRC)        -> seal -> segments (Parquet)
//! ```
//!
//! The recorder uses [`WindowQueue`] and the [`Writer`] behind it; readers use [`Snapshot`]. Both may use the same
//! store at once, in different processes. A store has one writer at a time. [`RequestsWriter`] keeps single requests
//! beside the windows. Rows are mergeable partial aggregates: all rows of a file and window add up, in one segment or
//! in several.

mod allocator;
pub mod batch;
mod beneath;
mod catalog;
mod chain;
mod check;
mod column_values;
mod compact;
mod copy;
mod decode_panic;
mod error;
mod exported;
mod file_backoff;
mod file_index;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
#[allow(clippy::expect_used)] // a fuzz target reports a violation by panicking
pub mod fuzzing;
mod glob_view;
mod housekeeping;
mod identity;
mod imports;
mod journal;
mod layout;
mod left;
pub mod live;
mod lock;
mod lost;
mod machine;
mod marks;
mod mount_roots;
mod mount_times;
mod names;
mod newer;
mod options;
mod parquet_file;
mod period;
mod quarantine;
mod queue;
mod read_memory;
mod rebuild;
mod record_limit;
mod repair;
mod requests;
mod retention;
mod sandbox;
mod seal;
mod sealer;
mod segment;
mod snapshot;
#[cfg(test)]
mod unit_tests;
mod unread;
mod varint;
mod warning;
mod writer;

pub use catalog::mounts::MountSeen;
pub use check::{Covers, Finding, Report, check};
pub use copy::{Copied, copy};
pub use decode_panic::caught;
pub use error::StoreError;
pub use file_index::{FileIndex, PackedIndex};
pub use identity::{StoreId, StoreIds};
pub use imports::{Counts, Import};
pub use journal::scan::Damage;
pub use journal::write::UncertainTail;
pub use layout::{Dataset, stores_in};
pub use marks::{Mark, Marks, marks, marks_changed};
pub use mount_roots::MountRoots;
pub use names::{FileHistory, NameSeen, Names, Seen, is_below, is_in};
pub use options::{GranularitySet, Options, OptionsError, Retention, RetentionPolicy};
pub use parquet_file::{ParquetBatches, ParquetFile};
pub use queue::{QueueError, WindowQueue};
pub use read_memory::{beyond_limit, limit_read_memory, most_decoded_bytes, read_memory};
pub use rebuild::{Rebuilt, rebuild_catalog};
pub use record_limit::{RecordEnds, RecordLimit};
pub use repair::{Repaired, repair};
pub use requests::{
    DiskBudget, EachBatch, RequestCounts, RequestQueue, RequestsView, RequestsWriter,
    WAITING_BYTES, WAITING_REQUESTS, ends_ns,
};
pub use segment::checksum::{Summed, UNKNOWN as UNKNOWN_CRC32C, created_by};
pub use segment::metadata::JournalSpan;
pub use segment::reader::{Batches, SegmentReader};
pub use segment::{Segment, StoreIndex};
pub use snapshot::{JournalTail, SealedJournal, Snapshot, store_ids};
pub use unread::Unread;
pub use warning::Warning;
pub use writer::Writer;

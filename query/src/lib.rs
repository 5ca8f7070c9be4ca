//! What is asked of a TrackIOps store: plan, prune, scan, merge.
//!
//! [`ask`] takes a [`Question`] to its [`Outcome`]: files are looked up in the catalog
//! ([`mod@file`]), the journals in the range are each given one granularity ([`mod@plan`]), their wanted
//! pages are read ([`scan`]) and added up ([`mod@execute`], [`mod@group`], [`aggregation`]), what was not
//! recorded is found ([`coverage`]).
//! [`ask_operations`] goes the same way with operations ([`mod@operations`]). Which [`columns`] an answer has decides what is
//! read. How an answer looks is another crate's.

// Unit tests share helpers with the integration tests, which name the crate.
#[cfg(test)]
extern crate self as trackiops_query;

pub mod aggregation;
pub mod answer;
pub mod ask;
pub mod columns;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
pub mod condition;
pub mod coverage;
pub mod error;
pub mod execute;
pub mod explain;
pub mod file;
pub mod file_rows;
pub mod files;
pub mod filter_and_sort;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod granularity_cover;
pub mod group;
mod literal;
pub mod mount_filter;
pub mod mounts;
pub mod operations;
pub mod origin;
pub mod parallel;
pub mod plan;
mod projection;
pub mod question;
mod ranking;
pub mod scan;
pub mod sparse_row;
mod stat_with_timeout;
pub mod step;
mod suggestions;
pub mod times;
pub mod volume;

pub use answer::{Answer, AnswerRow, EmptyReason, Outcome};
pub use columns::{Columns, Record};
pub use condition::Condition;
pub use error::QueryError;
pub use explain::Explain;
pub use file::FileSelector;
pub use file_rows::ask;
pub use files::{FileActivity, ask_files};
pub use group::{Entity, GroupBy, Level};
pub use literal::{Literal, SizeError, parse_size};
pub use mounts::ask_mounts;
pub use operations::{
    Connections, KnownBytes, OperationAnswer, Subject, ask_operations, ask_operations_by,
};
pub use projection::{Figures, Projection};
pub use question::{Question, Range, Sort};
pub use step::Step;
pub use volume::{Volume, ask_volume, plan_volume, sizes};

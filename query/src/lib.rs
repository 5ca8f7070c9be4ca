//! What is asked of a TrackIOps store: plan, prune, scan, merge, render.
//!
//! [`ask`] takes a [`Question`] to its [`Outcome`]: files are looked up in the catalog
//! ([`mod@file`]), the journals in the range are each given one granularity ([`mod@plan`]), their wanted
//! pages are read ([`scan`]) and added up ([`mod@execute`], [`mod@group`], [`merge`]), what was not
//! recorded is found ([`coverage`]), and who did not answer ([`stall`]), and told ([`note`]).
//! [`ask_operations`] goes the same way with operations ([`mod@operations`]). Which [`columns`] an answer has decides what is
//! read; [`render`] writes it down.

// Unit tests share helpers with the integration tests, which name the crate.
#[cfg(test)]
extern crate self as trackiops_query;

pub mod answer;
pub mod ask;
pub mod columns;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
pub mod condition;
pub mod coverage;
pub mod covered;
pub mod error;
pub mod execute;
pub mod explain;
pub mod export;
pub mod file;
pub mod files;
pub mod flame;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod group;
mod literal;
pub mod merge;
pub mod mounts;
mod near;
mod needs;
pub mod note;
mod on;
pub mod operations;
pub mod origin;
mod parallel;
pub mod plan;
pub mod pseudonym;
pub mod question;
pub mod render;
mod report;
pub mod scan;
pub mod sheet;
pub mod stall;
mod stat;
pub mod step;
pub mod sum;
pub mod terms;
mod tile;
pub mod times;
pub mod volume;

pub use answer::{Answer, AnswerRow, Nothing, Outcome};
pub use ask::ask;
pub use columns::{Columns, Record};
pub use condition::Condition;
pub use error::QueryError;
pub use explain::Explain;
pub use export::{Export, Exported, Table};
pub use file::FileSelector;
pub use files::{FileActivity, ask_files};
pub use group::{By, Level, Of};
pub use literal::{Literal, SizeError, parse_size};
pub use mounts::ask_mounts;
pub use needs::Needs;
pub use operations::{
    Connections, KnownBytes, OperationAnswer, Subject, ask_operations, ask_operations_by,
};
pub use question::{Detail, Figures, Question, Range, Sort};
pub use render::Format;
pub use step::Step;
pub use volume::{Volume, ask_volume, plan_volume, sizes};

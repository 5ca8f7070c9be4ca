//! What is asked of a TrackIOps store: plan, prune, scan, merge, render.
//!
//! [`ask`] takes a [`Question`] to its [`Outcome`]: files are looked up in the catalog
//! ([`mod@file`]), the journals in the range are each given one granularity ([`mod@plan`]), their wanted
//! pages are read ([`scan`]) and added up ([`mod@execute`], [`mod@group`], [`merge`]), what was not
//! recorded is found ([`coverage`]), and who did not answer ([`stall`]), and told ([`note`]).
//! [`ask_operations`] goes the same way with operations ([`mod@operations`]). [`render`] writes the answer down.

pub mod answer;
pub mod coverage;
pub mod error;
pub mod execute;
pub mod file;
pub mod files;
pub mod flame;
pub mod group;
pub mod merge;
pub mod mounts;
mod near;
pub mod note;
pub mod operations;
pub mod plan;
pub mod render;
mod report;
pub mod scan;
pub mod stall;
mod stat;
pub mod step;
mod tile;
pub mod times;
pub mod volume;

pub use answer::{Answer, AnswerRow, Nothing, Outcome, Question, ask};
pub use error::QueryError;
pub use file::FileSelector;
pub use files::{FileActivity, ask_files};
pub use group::{By, Of};
pub use mounts::ask_mounts;
pub use operations::{Connections, OperationAnswer, Subject, ask_operations};
pub use plan::Range;
pub use render::{Figures, Format};
pub use scan::Detail;
pub use step::Step;
pub use volume::{Volume, ask_volume, plan_volume};

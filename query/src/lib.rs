//! Query engine of a TrackIOps store: plan, prune, scan, merge.
//!
//! [`ask()`] turns a [`Question`] into its [`Outcome`]:
//!
//! 1. look up the files in the catalog ([`mod@file_selector`]);
//! 2. choose one granularity for each journal in the range ([`mod@plan`]);
//! 3. read the needed pages ([`scan`]) and add up their rows (`execute`, `aggregation`, [`mod@group`]);
//! 4. find unrecorded time ([`coverage`]).
//!
//! [`ask_operations`] does the same for operations ([`mod@operations`]).
//! The [`columns`] of an answer decide which pages a query reads.
//! The crate `trackiops-render` formats answers.

mod account;
mod aggregation;
pub mod answer;
pub mod ask;
pub mod audit;
pub mod captures;
mod column;
pub mod columns;
pub mod condition;
pub mod coverage;
pub mod error;
pub mod events;
mod execute;
pub mod explain;
mod file_groups;
pub mod file_rows;
pub mod file_selector;
mod file_sums;
pub mod files;
pub mod filter_and_sort;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod granularity_cover;
pub mod group;
mod grouping;
mod interval;
mod literal;
pub mod lost;
pub mod marks;
mod matched_by_rules;
pub mod mount_filter;
pub mod mounts;
mod near_words;
mod needed_notes;
mod of_health;
pub mod operations;
pub mod origin;
pub mod parallel;
pub mod plan;
pub mod processes;
mod projection;
pub mod question;
mod ranking;
pub mod requests;
pub mod scan;
mod shell_pattern;
pub mod sparse_row;
pub mod stalls;
mod stat_with_timeout;
pub mod step;
mod suggestions;
pub mod tenant_filter;
mod time_before;
pub mod times;
mod unkept_requests;
mod usual_latencies;
pub mod volume;
pub mod volume_names;

pub use answer::{Answer, AnswerRow, EmptyReason, Outcome};
pub use captures::{HostStream, ask_captures};
pub use columns::{Columns, Record};
pub use condition::Condition;
pub use error::QueryError;
pub use events::{Event, EventKind, ask_events};
pub use explain::Explain;
pub use file_rows::ask;
pub use file_selector::FileSelector;
pub use files::{FileActivity, ask_files};
pub use group::{Entity, GroupBy, Level};
pub use grouping::Grouping;
pub use literal::{Literal, SizeError, parse_size};
pub use marks::ask_marks;
pub use matched_by_rules::{Matched, ask_matched};
pub use mount_filter::add_absolute;
pub use mounts::ask_mounts;
pub use near_words::near;
pub use operations::{
    Connections, KnownBytes, OperationAnswer, Subject, ask_operation_latencies, ask_operations,
    ask_operations_by,
};
pub use processes::{ProcessActivity, ask_processes};
pub use projection::{Figures, Projection};
pub use question::{Question, Range, Sort};
pub use requests::{KeptRequest, ask_requests};
pub use stalls::{ServerStall, ask_stalls};
pub use step::Step;
pub use time_before::ask_usual_latencies;
pub use usual_latencies::UsualLatencies;
pub use volume::{Volume, ask_volume, plan_volume, sizes};

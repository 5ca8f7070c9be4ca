//! What tests and benchmarks make stores of, and read them with.
//!
//! * [`windows`] and [`generated`]: windows as a recorder hands them on, a few that a test spells out, and many from a seed;
//! * [`stores`]: stores made of them; [`case`]: stores made of plain text; [`lake`]: two hosts' stores below one directory;
//! * [`incidents`]: hosts on which one thing goes wrong;
//! * [`recording`]: a recorder without a kernel, to which others listen;
//! * [`merging`]: a store that is asked while its recorder merges;
//! * [`usage`]: two hosts with single requests, for reports;
//! * [`content`]: all that a store holds; [`forge`]: segments that were changed, with checksums to match;
//! * [`questions`]: questions and their straightforward answers;
//! * [`queueing`]: a day of several tenants at one server, as a simulation of a queue;
//! * [`program`]: how tests start a program.
//!
//! Everything panics where it fails: that is a test's failure. Unit tests of the store see its types as another crate's here, and so use only
//! what takes and returns paths and types of `trackiops-schemas`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "helpers of tests are tests"
)]

pub mod case;
pub mod content;
pub mod forge;
pub mod generated;
pub mod incidents;
pub mod lake;
pub mod merging;
pub mod program;
pub mod questions;
pub mod queueing;
pub mod recording;
pub mod stores;
pub mod usage;
pub mod windows;

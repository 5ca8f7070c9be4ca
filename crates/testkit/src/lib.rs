//! Helpers of tests and benchmarks that make and read stores.
//!
//! * [`windows`] and [`generated`]: windows as a recorder writes them, a few spelled out by a test, and many from a seed;
//! * [`stores`]: stores made of them; [`case`]: stores made of plain text; [`lake`]: two hosts' stores below one directory;
//! * [`incidents`]: hosts with one planted incident;
//! * [`golden`]: what the store of the current format in `store/tests/` holds; [`promise`]: golden files that are only added to;
//! * [`recording`]: a recorder without a kernel, with listeners;
//! * [`merging`]: a store that is queried while its recorder merges;
//! * [`usage`]: two hosts with single requests, for reports;
//! * [`content`]: the content of a store; [`forge`]: forged segments with matching checksums;
//! * [`questions`]: questions and their straightforward answers;
//! * [`queueing`]: a day of several tenants at one server, by simulation of a queue;
//! * [`program`]: how tests start a program.
//!
//! Failures panic, because they fail the test. Unit tests of the store see its types as another crate's here, so they use only functions
//! with paths and types of `trackiops-schemas`.
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
pub mod golden;
pub mod incidents;
pub mod lake;
pub mod merging;
pub mod program;
pub mod promise;
pub mod questions;
pub mod queueing;
pub mod recording;
pub mod stores;
pub mod usage;
pub mod windows;

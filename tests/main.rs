//! The program as its users have it, through every door. Those in guests are beside it (`guest/`).
//!
//! One program for all, because to build and link one takes as long as most of its tests. `cargo test --test program NAME::` runs
//! those of a file.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

mod analyze;
mod block;
mod bombs;
mod browser;
mod cli;
mod config;
mod containers;
mod docs;
mod doors;
mod endings;
mod equality;
mod export;
mod fast09;
mod import;
mod imports;
mod metrics;
mod notebooks;
mod packages;
mod query_cases;
mod report;
mod report_data;
mod report_forms;
mod report_numbers;
mod requests;
mod serve;
mod server;
mod supply;
mod tables;
mod tenants;
mod top;
mod watch;
mod why;

//! Tests the program as users run it, through every interface. Tests in guests are separate (`guest/`).
//!
//! One test program for all: building and linking one takes as long as running most of its tests. `cargo test --test program NAME::` runs
//! the tests of one file.
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
mod crates;
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
mod promise;
mod query_cases;
mod report;
mod report_data;
mod report_forms;
mod report_numbers;
mod repositories;
mod requests;
mod serve;
mod server;
mod setup;
mod supply;
mod tables;
mod tasks;
mod tenants;
mod tls;
mod top;
mod watch;
mod why;

//! Questions to stores, and the reads for their answers.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

mod events;
mod expired;
mod explain;
mod flips;
mod gaps;
mod lost;
mod missing;
mod operations;
mod pruning;
mod stores;
mod volume;

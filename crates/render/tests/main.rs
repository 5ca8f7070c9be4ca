//! Output of answers, for people and in files.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

mod columns;
mod damage;
mod distributions;
mod extremes;
mod flame;
mod goldens;
mod journals;
mod names;
mod plots;
mod sums;
mod terminal_plots;
mod types;

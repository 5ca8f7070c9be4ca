//! Analyses of single requests, messages and packets: those of "Capture, conversion, and analysis of an intense NFS workload"
//! (Anderson, FAST 2009), and what they tell of a store of TrackIOps.
//!
//! [`source`] reads rows, one after the other; each analysis is a struct that takes rows (`add`) and ends with tables (`finish`).
//! None keeps the rows: memory is bounded by what is open at a time, and [`distribution`] by a number of values.

pub mod burst;
pub mod contention;
pub mod cube;
pub mod distribution;
pub mod error;
pub mod files;
pub mod join;
pub mod latency;
pub mod outstanding;
pub mod paths;
pub mod reuse;
pub mod sequentiality;
pub mod sheet;
pub mod sizes;
pub mod source;
pub mod xids;

pub use error::AnalysisError;

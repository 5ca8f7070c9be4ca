//! Analyses of single requests, messages and packets, from "Capture, conversion, and analysis of an intense NFS workload" (Anderson, FAST
//! 2009). They apply to captures and to stores of TrackIOps.
//!
//! [`source`] reads rows, one after the other. Each analysis is a struct that takes rows (`add`) and returns tables (`sheets`). No analysis
//! keeps the rows: its memory grows only with open requests and groups, and [`distribution`] keeps a limited number of values.

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

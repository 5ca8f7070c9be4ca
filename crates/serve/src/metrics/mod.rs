//! Exports the counters of a running recorder to Prometheus and OpenTelemetry.
//!
//! [`LastTotals`] keeps the recorder's last totals. They are cumulative since the recording began, so a restart here resets nothing.
//! [`catalogue`] lists all metrics; [`exposition`] gives them values; [`text`], [`protobuf`] and [`otlp`] write them.

mod accept;
mod access;
pub mod catalogue;
mod collector_url;
mod exposition;
mod last_totals;
mod names;
mod native;
mod otlp;
mod protobuf;
mod push;
mod service;
mod text;
mod top_files;

pub use access::{AccessError, AccessFiles};
pub use collector_url::{OtlpUrl, OtlpUrlError};
pub use exposition::MOST_SERIES;
pub use last_totals::{LastTotals, Recording};
pub use push::Pusher;
pub use service::app;
pub use top_files::MOST_TOP_FILES;

//! What TrackIOps serves over HTTP.
//!
//! [`http`] listens, and decides who may ask. [`metrics`] exports the counters of a running recorder. [`page`] has the page and the API of
//! `trackiops serve`.

pub mod http;
pub mod metrics;
pub mod page;

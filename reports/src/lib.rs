//! Reports: what is computed from answers of the query engine for a purpose, such as a bill.
//!
//! A report asks the engine for rows by window ([`mod@series`]), computes rows of its own from them, and returns these as tables
//! ([`report::Table`]) with what is to be said of them ([`report::About`]). `trackiops-render` writes any such table.
//!
//! Time that was not recorded is never counted as idle: [`series`] tells both apart.

pub mod billing;
pub mod by;
pub mod carbon;
pub mod columns;
pub mod median;
pub mod noisy;
pub mod percentile;
pub mod period;
pub mod placement;
pub mod report;
pub mod series;
pub mod settings;
pub mod slow;
pub mod subject;
pub mod usage;
pub mod why;

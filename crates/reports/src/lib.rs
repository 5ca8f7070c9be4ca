//! Reports: computed from answers of the query engine for one purpose, such as a bill.
//!
//! A report asks the engine for rows by window ([`mod@series`]) and computes tables ([`report::Table`]) from them. [`report::About`] has
//! its notes and method. `trackiops-render` writes any such table.
//!
//! Time that was not recorded never counts as idle: [`series`] keeps the two apart.

pub mod billing;
pub mod by;
pub mod carbon;
pub mod columns;
pub mod connections;
pub mod events;
pub mod median;
pub mod network_or_server;
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
mod usual_interval;
pub mod why;

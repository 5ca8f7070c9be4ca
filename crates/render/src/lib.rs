//! Output of answers: tables, CSV, JSON, Parquet and Arrow, plots, flame graphs, exports and pseudonyms.
//!
//! [`write()`] writes an [`Answer`](trackiops_query::Answer) in a [`Format`]. `trackiops_query` defines the content of answers,
//! and does not depend on this crate.

mod answer;
mod captures;
pub mod check;
pub mod connections;
mod distribution;
mod events;
mod explain;
pub mod export;
mod file_rows;
mod files;
pub mod flame;
pub mod formats;
pub mod incident;
mod json;
mod mounts;
mod operations;
pub mod paper;
pub mod parties;
mod plot;
mod processes;
pub mod pseudonym;
pub mod report;
mod requests;
mod selected_columns;
mod stalls;
pub mod suffix;
pub mod table;
mod terminal_plot;
pub mod terminal_style;
pub mod units;
pub mod visible;
pub mod volume;
pub mod why;

pub use answer::{Format, FormatError, Render, list_columns, write, write_columns};
pub use distribution::{
    DistributionFormat, DistributionFormatError, write_call_distribution, write_distribution,
    write_distributions,
};
pub use explain::explain;
pub use export::{Export, ExportDataset, Exported};
pub use plot::distributions::{Curve, plot_distributions};
pub use plot::{PictureFormat, Plot, PlotError, plot};
pub use terminal_plot::{TerminalPlot, plot_in_terminal};

//! Errors of analyses.

use std::path::PathBuf;

use arrow::error::ArrowError;
use trackiops_query::QueryError;

/// Why an analysis failed.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// The query failed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A file cannot be read.
    #[error("cannot read {path}: {why}; name a Parquet file, or a directory of some")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// The source lacks what the analysis needs.
    #[error("{analysis} needs {needs}, and {source_name} has none: {remedy}")]
    Lacks {
        /// The analysis.
        analysis: &'static str,
        /// The column, or the kind of rows.
        needs: String,
        /// The name of the source.
        source_name: String,
        /// How to supply it.
        remedy: &'static str,
    },
    /// The flags contradict each other, or do not fit the rows.
    #[error("{0}")]
    Unsuitable(String),
    /// Rows cannot be decoded.
    #[error("rows cannot be decoded: {0}; check the file with another reader of Parquet")]
    Rows(#[from] ArrowError),
}

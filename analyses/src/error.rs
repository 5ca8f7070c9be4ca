//! Why an analysis cannot be made.

use std::path::PathBuf;

use arrow::error::ArrowError;
use trackiops_query::QueryError;

/// Why an analysis cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum AnalysisError {
    /// The store cannot answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// A file cannot be read.
    #[error("cannot read {path}: {why}; name a Parquet file, or a directory of some")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The source lacks what the analysis needs.
    #[error("{analysis} needs {needs}, and {source_name} has none: {remedy}")]
    Lacks {
        /// What was asked for.
        analysis: &'static str,
        /// The column, or the kind of rows.
        needs: String,
        /// Where it was looked for.
        source_name: String,
        /// What would supply it.
        remedy: &'static str,
    },
    /// The flags do not fit each other, or what was read.
    #[error("{0}")]
    Unsuitable(String),
    /// Rows cannot be decoded.
    #[error("rows cannot be decoded: {0}; check the file with another reader of Parquet")]
    Rows(#[from] ArrowError),
}

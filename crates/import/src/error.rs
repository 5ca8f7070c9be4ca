//! Errors of an import.

use std::io;
use std::path::PathBuf;

use trackiops_analyses::AnalysisError;
use trackiops_capture::PacketsError;
use trackiops_store::StoreError;

use crate::captures::MessagesError;
use crate::source::SourceError;
use crate::tables::{ColumnsError, ValueError};

/// Why an import failed.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A source cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store cannot be opened or committed to.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Windows or requests of a host cannot be written.
    #[error("cannot write what {host} did to {store}", store = .store.display())]
    WriteHost {
        /// The host.
        host: String,
        /// The store.
        store: PathBuf,
        /// The store's error.
        source: Box<StoreError>,
    },
    /// The last windows cannot be sealed.
    #[error("cannot write to {store}", store = .store.display())]
    Write {
        /// The store.
        store: PathBuf,
        /// The store's error.
        source: Box<StoreError>,
    },
    /// A source cannot be read.
    #[error("cannot read {name}")]
    Read {
        /// The source.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// A capture cannot be imported.
    #[error("cannot import {name}")]
    Capture {
        /// The capture.
        name: String,
        /// The cause.
        source: PacketsError,
    },
    /// Messages of a capture cannot be written.
    #[error(transparent)]
    Messages(#[from] MessagesError),
    /// A table cannot be imported.
    #[error("cannot import {name}")]
    Table {
        /// The table.
        name: String,
        /// The cause.
        source: Box<ImportError>,
    },
    /// A text cannot be read or decompressed.
    #[error(transparent)]
    Text(#[from] io::Error),
    /// A text is not CSV.
    #[error(transparent)]
    Csv(#[from] csv::Error),
    /// A Parquet file cannot be read.
    #[error(transparent)]
    Parquet(Box<AnalysisError>),
    /// Parquet needs a file.
    #[error("this is Parquet, which cannot be read from standard input; name its file")]
    ParquetOfStdin,
    /// The first line has too many columns.
    #[error("its first line names {count} columns, and at most {most} are read")]
    TooManyColumns {
        /// Number of columns.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// A line has another number of fields than the header.
    #[error(
        "line {line} has {fields} field{}, and the header {columns}",
        if *.fields == 1 { "" } else { "s" }
    )]
    FieldCount {
        /// Number of the line.
        line: u64,
        /// Its fields.
        fields: usize,
        /// Fields of the header.
        columns: usize,
    },
    /// The columns do not have what a request needs.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// A value is not understood.
    #[error(transparent)]
    Value(#[from] ValueError),
}

// An `AnalysisError` would make every result large.
impl From<AnalysisError> for ImportError {
    fn from(error: AnalysisError) -> Self {
        Self::Parquet(Box::new(error))
    }
}

//! Files for other programs: Parquet, Arrow, CSV. Readers and writers work in batches, so the rows need not fit into memory.

mod arrays;
mod arrow_file;
mod read;
pub(crate) mod text;
mod timeline;
mod write;

use std::io;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use parquet::errors::ParquetError;

pub use read::{ReadError, Reader};
pub use write::Writer;

use trackiops_query::columns::Columns;

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Parquet, compressed.
    Parquet,
    /// An Arrow IPC file (Feather 2), uncompressed, so that programs can map it into memory.
    Arrow,
    /// An Arrow IPC stream, for sequential reading.
    ArrowStream,
    /// A JSON object per line.
    Json,
    /// CSV with a header. Unknown values are empty; a list is JSON.
    Csv(Texts),
    /// Single requests on a timeline, as trace events in JSON.
    Chrome,
    /// The same in Perfetto's own format.
    Perfetto,
}

/// How CSV writes texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Texts {
    /// Unchanged.
    #[default]
    AsTheyAre,
    /// With a `'` before everything that a spreadsheet would read as a formula.
    ForSpreadsheets,
}

impl Kind {
    /// Extension of file names.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow | Self::ArrowStream => "arrow",
            Self::Json => "jsonl",
            Self::Csv(_) => "csv",
            Self::Chrome => "json",
            Self::Perfetto => "pftrace",
        }
    }

    /// Whether it has single requests on a timeline, and nothing else.
    pub fn is_timeline(self) -> bool {
        matches!(self, Self::Chrome | Self::Perfetto)
    }

    /// The name in `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chrome => "chrome",
            Self::Json => "json",
            Self::Perfetto => "perfetto",
            other => other.extension(),
        }
    }
}

/// Converts rows to a batch with these columns.
pub(crate) fn batch<R: 'static>(
    columns: &Columns<R>,
    rows: &[R],
) -> Result<RecordBatch, ArrowError> {
    let arrays = columns.iter().map(|column| {
        let values = rows.iter().map(|row| column.value(row)).collect();
        arrays::array(&column.data_type, values)
    });
    RecordBatch::try_new(columns.schema(), arrays.collect::<Result<_, _>>()?)
}

/// Keeps the kind of an I/O error, because callers handle a broken pipe separately.
pub(crate) fn of_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        other => io::Error::other(other),
    }
}

fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

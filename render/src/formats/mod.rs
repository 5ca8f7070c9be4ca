//! Rows as files that other programs read: Parquet, Arrow, CSV. They are written batch by batch, so that what is written need
//! not be in memory, and read back the same way.

mod arrays;
mod read;
pub(crate) mod text;
mod write;

use std::io;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use parquet::errors::ParquetError;

pub use read::{ReadError, Reader};
pub use write::Writer;

use trackiops_query::columns::{Columns, Record};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Parquet, compressed.
    Parquet,
    /// An Arrow IPC file (Feather 2), uncompressed, so that it can be mapped.
    Arrow,
    /// CSV with a header. Unknown values are empty; a list is its JSON text.
    Csv(Texts),
}

/// How CSV has texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Texts {
    /// As they are.
    #[default]
    AsTheyAre,
    /// With a `'` wherever a spreadsheet would begin a formula.
    ForSpreadsheets,
}

impl Kind {
    /// What names of such files end in.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Csv(_) => "csv",
        }
    }
}

/// Columns of some rows.
pub(crate) fn batch<R: Record>(
    columns: &Columns<R>,
    rows: &[R],
) -> Result<RecordBatch, ArrowError> {
    let arrays = columns.iter().map(|column| {
        let values = rows.iter().map(|row| column.value(row)).collect();
        arrays::array(&column.data_type, values)
    });
    RecordBatch::try_new(columns.schema(), arrays.collect::<Result<_, _>>()?)
}

/// Keeps the kind of an I/O error: a broken pipe is told apart.
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

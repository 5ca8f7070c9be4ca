//! CSV with a header. Unknown values are empty; a list is its JSON text.

use std::io::{self, Write};

use super::text;
use crate::answer::Answer;
use crate::columns::Columns;
use crate::columns::Record;

pub(super) fn write<R: Record>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer
        .write_record(columns.iter().map(|column| &column.name))
        .map_err(io_error)?;
    for row in &answer.rows {
        for column in columns.iter() {
            let value = text::csv(&column.data_type, &column.value(row))?;
            writer.write_field(value).map_err(io_error)?;
        }
        writer.write_record(None::<&[u8]>).map_err(io_error)?;
    }
    writer.flush()
}

/// Keeps the kind of an I/O error: a broken pipe is told apart.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

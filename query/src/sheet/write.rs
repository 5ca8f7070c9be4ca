//! Writes record batches. Parquet and Arrow end in a footer, so that half of one is not taken for a whole.

use std::io::{self, Write};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use arrow_ipc::writer::FileWriter;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use trackiops_schemas::columns::META_WRITER;

use super::{Kind, arrays, of_arrow, of_parquet, text};
use crate::columns::{Columns, Record, Value};

/// Rows of a row group of Parquet, which is in memory until it is complete.
const ROW_GROUP_ROWS: usize = 1 << 16;

/// A file that is being written.
pub enum Writer<W: Write + Send> {
    /// Parquet.
    Parquet(Box<ArrowWriter<W>>),
    /// Arrow.
    Arrow(Box<FileWriter<W>>),
    /// CSV.
    Csv(Box<csv::Writer<W>>),
}

impl<W: Write + Send> Writer<W> {
    /// Begins a file with such columns.
    pub fn new(kind: Kind, schema: &SchemaRef, out: W) -> io::Result<Self> {
        Ok(match kind {
            Kind::Parquet => {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let writer = KeyValue::new(META_WRITER.to_owned(), version);
                let properties = WriterProperties::builder()
                    .set_compression(Compression::ZSTD(Default::default()))
                    .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
                    .set_key_value_metadata(Some(vec![writer]))
                    .build();
                let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties));
                Self::Parquet(Box::new(writer.map_err(of_parquet)?))
            }
            Kind::Arrow => {
                let writer = FileWriter::try_new(out, schema).map_err(of_arrow)?;
                Self::Arrow(Box::new(writer))
            }
            Kind::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                let header = schema.fields().iter().map(|field| field.name());
                writer.write_record(header).map_err(of_csv)?;
                Self::Csv(Box::new(writer))
            }
        })
    }

    /// Writes rows.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match self {
            Self::Parquet(writer) => writer.write(batch).map_err(of_parquet),
            Self::Arrow(writer) => writer.write(batch).map_err(of_arrow),
            Self::Csv(writer) => lines(writer, batch),
        }
    }

    /// Writes what columns have of some rows.
    pub fn write_rows<R: Record>(&mut self, columns: &Columns<R>, rows: &[R]) -> io::Result<()> {
        let Self::Csv(writer) = self else {
            return self.write(&columns.batch(rows).map_err(of_arrow)?);
        };
        // Not by way of a batch, which takes as long again.
        let mut room = String::new();
        rows.iter().try_for_each(|row| {
            let cells = columns.iter().map(|c| Ok((&c.data_type, c.value(row))));
            line(writer, cells, &mut room)
        })
    }

    /// Completes the file.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Parquet(writer) => writer.into_inner().map_err(of_parquet),
            Self::Arrow(mut writer) => {
                writer.finish().map_err(of_arrow)?;
                writer.into_inner().map_err(of_arrow)
            }
            Self::Csv(writer) => writer.into_inner().map_err(|error| error.into_error()),
        }
    }
}

fn lines<W: Write>(writer: &mut csv::Writer<W>, batch: &RecordBatch) -> io::Result<()> {
    let mut room = String::new();
    for row in 0..batch.num_rows() {
        let cells = batch.columns().iter().map(|column| {
            let value = arrays::value(column, row).map_err(of_arrow)?;
            Ok((column.data_type(), value))
        });
        line(writer, cells, &mut room)?;
    }
    Ok(())
}

fn line<'v, W: Write>(
    writer: &mut csv::Writer<W>,
    cells: impl Iterator<Item = io::Result<(&'v DataType, Value<'v>)>>,
    room: &mut String,
) -> io::Result<()> {
    for cell in cells {
        let (data_type, value) = cell?;
        room.clear();
        text::put_csv(data_type, &value, room)?;
        writer.write_field(&*room).map_err(of_csv)?;
    }
    writer.write_record(None::<&[u8]>).map_err(of_csv)
}

/// Keeps the kind of an I/O error: a broken pipe is told apart.
fn of_csv(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

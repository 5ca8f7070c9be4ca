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
    Csv(W),
}

impl<W: Write + Send> Writer<W> {
    /// Begins a file with such columns.
    pub fn new(kind: Kind, schema: &SchemaRef, mut out: W) -> io::Result<Self> {
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
                let names = schema.fields().iter().map(|field| field.name());
                let names = names.map(|name| Ok((&DataType::Utf8, Value::text(name))));
                let mut header = String::new();
                text::put_line(names, &mut header)?;
                out.write_all(header.as_bytes())?;
                Self::Csv(out)
            }
        })
    }

    /// Writes rows.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match self {
            Self::Parquet(writer) => writer.write(batch).map_err(of_parquet),
            Self::Arrow(writer) => writer.write(batch).map_err(of_arrow),
            Self::Csv(out) => {
                let rows: Vec<_> = (0..batch.num_rows()).collect();
                text::write_lines(&rows, out, |row, line| {
                    let cells = batch.columns().iter().map(|column| {
                        let value = arrays::value(column, *row).map_err(of_arrow)?;
                        Ok((column.data_type(), value))
                    });
                    text::put_line(cells, line)
                })
            }
        }
    }

    /// Writes what columns have of some rows.
    pub fn write_rows<R: Record>(&mut self, columns: &Columns<R>, rows: &[R]) -> io::Result<()> {
        let Self::Csv(out) = self else {
            return self.write(&columns.batch(rows).map_err(of_arrow)?);
        };
        // Not by way of a batch, which takes as long again.
        text::write_lines(rows, out, |row, line| {
            let cells = columns.iter().map(|c| Ok((&c.data_type, c.value(row))));
            text::put_line(cells, line)
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
            Self::Csv(out) => Ok(out),
        }
    }
}

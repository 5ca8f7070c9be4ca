//! Writes record batches. Parquet and Arrow end with a footer, so readers detect an incomplete file.

use std::io::{self, Write};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use trackiops_schemas::columns::{END_TIME, META_CRC32C, META_WRITER, histogram_metadata};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Mark, Summed, UNKNOWN_CRC32C, created_by};

use super::timeline::Timeline;
use super::{Kind, Texts, arrays, batch, of_arrow, of_parquet, text};
use trackiops_query::columns::{Columns, Value};

/// Rows per row group of Parquet. A row group stays in memory until it is complete.
const ROW_GROUP_ROWS: usize = 1 << 16;

/// A file during writing.
pub enum Writer<W: Write + Send> {
    /// Parquet.
    Parquet(Box<ArrowWriter<Summed<W>>>),
    /// Arrow.
    Arrow(Box<FileWriter<W>>),
    /// Arrow without a footer.
    ArrowStream(Box<StreamWriter<W>>),
    /// JSON.
    Json(W),
    /// CSV.
    Csv(W, Texts),
    /// Single requests on a timeline.
    Timeline(Box<Timeline<W>>),
}

/// Indices of the rows of a batch.
fn rows_of(batch: &RecordBatch) -> Vec<usize> {
    (0..batch.num_rows()).collect()
}

/// A value of a batch, for text formats.
fn cell<'b>(field: &Field, column: &'b ArrayRef, row: usize) -> io::Result<Value<'b>> {
    Ok(match arrays::value(column, row).map_err(of_arrow)? {
        // Windows start at whole ms, and all formats write them so.
        Value::TimeUs(us) if field.name() != END_TIME => Value::Time(UtcMs(us.div_euclid(1000))),
        value => value,
    })
}

/// A completed file.
pub struct Finished<W> {
    /// The output.
    pub out: W,
    /// Requests of a timeline whose arrows may be incomplete.
    pub partial: u64,
}

impl<W: Write + Send> Writer<W> {
    /// Starts a file with these columns.
    pub fn new(kind: Kind, schema: &SchemaRef, mut out: W) -> io::Result<Self> {
        Ok(match kind {
            Kind::Parquet => {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let mut metadata = vec![KeyValue::new(META_WRITER.to_owned(), version)];
                let histogram = histogram_metadata(schema);
                metadata
                    .extend(histogram.map(|(key, mapping)| KeyValue::new(key.to_owned(), mapping)));
                let sum = (META_CRC32C.to_owned(), UNKNOWN_CRC32C.to_owned());
                metadata.push(KeyValue::new(sum.0, sum.1));
                let properties = WriterProperties::builder()
                    .set_created_by(created_by())
                    .set_compression(Compression::ZSTD(Default::default()))
                    .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
                    .set_key_value_metadata(Some(metadata))
                    .build();
                let out = Summed::new(out);
                let writer = ArrowWriter::try_new(out, schema.clone(), Some(properties));
                Self::Parquet(Box::new(writer.map_err(of_parquet)?))
            }
            Kind::Arrow => {
                let writer = FileWriter::try_new(out, schema).map_err(of_arrow)?;
                Self::Arrow(Box::new(writer))
            }
            Kind::ArrowStream => {
                let writer = StreamWriter::try_new(out, schema).map_err(of_arrow)?;
                Self::ArrowStream(Box::new(writer))
            }
            Kind::Json => Self::Json(out),
            Kind::Csv(texts) => {
                let names = schema.fields().iter().map(|field| field.name());
                let names = names.map(|name| Ok((&DataType::Utf8, Value::text(name))));
                let mut header = String::new();
                text::put_line(names, texts, &mut header)?;
                out.write_all(header.as_bytes())?;
                Self::Csv(out, texts)
            }
            Kind::Chrome => Self::Timeline(Box::new(Timeline::chrome(out)?)),
            Kind::Perfetto => Self::Timeline(Box::new(Timeline::perfetto(out))),
        })
    }

    /// Writes a batch.
    pub fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        match self {
            Self::Parquet(writer) => writer.write(batch).map_err(of_parquet),
            Self::Arrow(writer) => writer.write(batch).map_err(of_arrow),
            Self::ArrowStream(writer) => writer.write(batch).map_err(of_arrow),
            Self::Timeline(timeline) => timeline.write(batch),
            Self::Csv(out, texts) => {
                let schema = batch.schema();
                text::write_lines(&rows_of(batch), out, |row, line| {
                    let fields = schema.fields().iter().zip(batch.columns());
                    let cells = fields
                        .map(|(field, column)| Ok((field.data_type(), cell(field, column, *row)?)));
                    text::put_line(cells, *texts, line)
                })
            }
            Self::Json(out) => {
                let schema = batch.schema();
                text::write_lines(&rows_of(batch), out, |row, line| {
                    let fields = schema.fields().iter().zip(batch.columns());
                    for (place, (field, column)) in fields.enumerate() {
                        let before = if place == 0 { "{\"" } else { ",\"" };
                        let value = text::json(field.data_type(), &cell(field, column, *row)?)?;
                        line.extend([before, field.name(), "\":", &value]);
                    }
                    line.push_str("}\n");
                    Ok(())
                })
            }
        }
    }

    /// Writes columns of some rows.
    pub fn write_rows<R: Sync + 'static>(
        &mut self,
        columns: &Columns<R>,
        rows: &[R],
    ) -> io::Result<()> {
        let Self::Csv(out, texts) = self else {
            return self.write(&batch(columns, rows).map_err(of_arrow)?);
        };
        // Writes rows directly: building a batch first would double the time.
        text::write_lines(rows, out, |row, line| {
            let cells = columns.iter().map(|c| Ok((&c.data_type, c.value(row))));
            text::put_line(cells, *texts, line)
        })
    }

    /// Adds metadata to a Parquet file; other formats ignore it.
    pub fn describe<'d>(&mut self, pairs: impl IntoIterator<Item = (&'d str, String)>) {
        if let Self::Parquet(writer) = self {
            for (key, value) in pairs {
                writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
            }
        }
    }

    /// Adds marks to a timeline as its last events; other formats ignore them.
    pub fn mark(&mut self, marks: &[Mark]) -> io::Result<()> {
        match self {
            Self::Timeline(timeline) => timeline.marks(marks),
            _ => Ok(()),
        }
    }

    /// Completes the file.
    pub fn finish(self) -> io::Result<Finished<W>> {
        let out = match self {
            Self::Parquet(mut writer) => {
                writer.flush().map_err(of_parquet)?;
                writer.inner_mut().hold();
                let mut out = writer.into_inner().map_err(of_parquet)?;
                out.enter()?;
                out.into_inner()
            }
            Self::Arrow(mut writer) => {
                writer.finish().map_err(of_arrow)?;
                writer.into_inner().map_err(of_arrow)?
            }
            Self::ArrowStream(mut writer) => {
                writer.finish().map_err(of_arrow)?;
                writer.into_inner().map_err(of_arrow)?
            }
            Self::Csv(out, _) | Self::Json(out) => out,
            Self::Timeline(timeline) => {
                let (out, partial) = timeline.finish()?;
                return Ok(Finished { out, partial });
            }
        };
        Ok(Finished { out, partial: 0 })
    }
}

//! Rows of tables, CSV or Parquet, as texts.

use std::io::{self, BufRead as _, Read};
use std::mem;
use std::path::Path;

use arrow::array::{Array, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use trackiops_analyses::source::files::{Batches, columns_of};
use trackiops_capture::decompressed;
use trackiops_schemas::identity::name_text;
use trackiops_store::RecordLimit;

use super::values::Row;
use crate::error::ImportError;
use crate::process::Process;
use crate::source::Source;

/// Bytes of the first line to inspect.
const LONGEST_LINE: u64 = 1 << 16;
/// Most columns of CSV.
const MOST_COLUMNS: usize = 1000;
/// Magic number of Parquet files.
const PARQUET: [u8; 4] = *b"PAR1";

/// Receives the names of columns first, and then each row.
pub trait Rows {
    /// Names of the columns.
    fn header(&mut self, header: &[String]) -> Result<(), ImportError>;
    /// Takes the next row.
    fn row(&mut self, row: &dyn Row) -> Result<(), ImportError>;
}

/// Reads a table. Its first bytes decide the format.
pub fn read(
    source: &Source,
    process: &dyn Process,
    rows: &mut impl Rows,
) -> Result<(), ImportError> {
    let mut input = source.open_until_signal(process)?;
    let mut magic = Vec::with_capacity(PARQUET.len());
    let name = &source.name;
    let mut begin = input.by_ref().take(PARQUET.len() as u64);
    let read = begin.read_to_end(&mut magic);
    read.map_err(|source| ImportError::Read {
        name: name.clone(),
        source,
    })?;
    match source.path() {
        Some(path) if magic == PARQUET => {
            drop(input);
            parquet(path, process, rows)
        }
        None if magic == PARQUET => Err(ImportError::ParquetOfStdin),
        _ => csv(io::Cursor::new(magic).chain(input), process, rows),
    }
    .map_err(|error| ImportError::Table {
        name: name.clone(),
        source: Box::new(error),
    })
}

struct CsvRow<'a> {
    record: &'a csv::StringRecord,
    line: u64,
}

impl Row for CsvRow<'_> {
    fn value(&self, column: usize) -> Option<&str> {
        self.record.get(column).filter(|value| !value.is_empty())
    }

    fn place(&self) -> String {
        format!("line {}", self.line)
    }
}

fn csv(
    input: impl Read + Send,
    process: &dyn Process,
    rows: &mut impl Rows,
) -> Result<(), ImportError> {
    let (input, ends) = RecordLimit::new(decompressed(input)?);
    let mut input = io::BufReader::new(input);
    let mut first = Vec::new();
    input
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut first)?;
    let line_end = LineEnd::of(&first);
    let input = io::Cursor::new(first).chain(input);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(input);
    let header = reader.headers()?;
    if header.len() > MOST_COLUMNS {
        return Err(ImportError::TooManyColumns {
            count: header.len(),
            most: MOST_COLUMNS,
        });
    }
    let header: Vec<String> = header.iter().map(str::to_owned).collect();
    rows.header(&header)?;
    let mut bytes = csv::ByteRecord::new();
    while reader.read_byte_record(&mut bytes)? {
        ends.ended();
        if process.was_ended() {
            // The last line may be incomplete.
            break;
        }
        let record = text_of(mem::take(&mut bytes));
        let line = line_end.line_of(&record);
        if record.len() != header.len() {
            return Err(ImportError::FieldCount {
                line,
                fields: record.len(),
                columns: header.len(),
            });
        }
        rows.row(&CsvRow {
            record: &record,
            line,
        })?;
        bytes = record.into_byte_record();
    }
    Ok(())
}

/// A record as text. Names of files need not be UTF-8; other bytes are written as the recorder writes them.
fn text_of(record: csv::ByteRecord) -> csv::StringRecord {
    csv::StringRecord::from_byte_record(record).unwrap_or_else(|error| {
        let record = error.into_byte_record();
        let mut text: csv::StringRecord = record.iter().map(name_text).collect();
        text.set_position(record.position().cloned());
        text
    })
}

/// The line ends of a text.
#[derive(Clone, Copy)]
enum LineEnd {
    Lf,
    CrLf,
}

impl LineEnd {
    /// Detects the line ends of the first line.
    fn of(text: &[u8]) -> Self {
        let end = text.iter().position(|byte| *byte == b'\n');
        match end.and_then(|end| text[..end].last()) {
            Some(b'\r') => Self::CrLf,
            _ => Self::Lf,
        }
    }

    /// The line of a record. The reader counts line feeds, and lets a record begin before the line feed of the previous line.
    fn line_of(self, record: &csv::StringRecord) -> u64 {
        let line = record.position().map_or(0, csv::Position::line);
        match self {
            Self::Lf => line,
            Self::CrLf => line + 1,
        }
    }
}

struct ParquetRow<'a> {
    columns: &'a [StringArray],
    row: usize,
    number: u64,
}

impl Row for ParquetRow<'_> {
    fn value(&self, column: usize) -> Option<&str> {
        let column = self.columns.get(column)?;
        let value = column.is_valid(self.row).then(|| column.value(self.row));
        value.filter(|value| !value.is_empty())
    }

    fn place(&self) -> String {
        format!("row {}", self.number)
    }
}

fn parquet(path: &Path, process: &dyn Process, rows: &mut impl Rows) -> Result<(), ImportError> {
    let header = columns_of(path)?;
    rows.header(&header)?;
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut number = 0;
    for batch in Batches::open(path, &names)? {
        let batch = batch?;
        let columns = header.iter().map(|name| {
            // A value without a text, such as a list, is not a value of a request.
            let column = batch.column_by_name(name);
            let texts = column.and_then(|column| cast(column, &DataType::Utf8).ok());
            match texts {
                Some(texts) => texts.as_string::<i32>().clone(),
                None => StringArray::new_null(batch.num_rows()),
            }
        });
        let columns: Vec<StringArray> = columns.collect();
        for row in 0..batch.num_rows() {
            number += 1;
            if process.was_ended() {
                return Ok(());
            }
            rows.row(&ParquetRow {
                columns: &columns,
                row,
                number,
            })?;
        }
    }
    Ok(())
}

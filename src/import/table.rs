//! Rows of tables, CSV or Parquet, as texts.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};
use arrow::array::{Array, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use trackiops_analyses::source::files::{Batches, columns_of};
use trackiops_capture::decompressed;

use super::source::Source;

/// How Parquet files begin.
const PARQUET: [u8; 4] = *b"PAR1";

/// A row.
pub trait Row {
    /// The value of a column; `None` where it is empty or null.
    fn value(&self, column: usize) -> Option<&str>;
    /// Where it stands, for messages.
    fn place(&self) -> String;
}

/// Takes the names of columns first, and then each row.
pub trait Rows {
    /// Names of the columns.
    fn header(&mut self, header: &[String]) -> anyhow::Result<()>;
    /// The next row.
    fn row(&mut self, row: &dyn Row) -> anyhow::Result<()>;
}

/// Reads a table, whichever it is by its first bytes.
pub fn read(source: &Source, rows: &mut impl Rows) -> anyhow::Result<()> {
    let mut input = source.open()?;
    let mut magic = Vec::with_capacity(PARQUET.len());
    let name = &source.name;
    let mut begin = input.by_ref().take(PARQUET.len() as u64);
    let read = begin.read_to_end(&mut magic);
    read.with_context(|| format!("cannot read {name}"))?;
    match source.path() {
        Some(path) if magic == PARQUET => {
            drop(input);
            parquet(path, rows)
        }
        None if magic == PARQUET => {
            bail!("this is Parquet, which cannot be read from standard input; name its file")
        }
        _ => csv(io::Cursor::new(magic).chain(input), rows),
    }
    .with_context(|| format!("cannot import {name}"))
}

struct CsvRow<'a>(&'a csv::StringRecord);

impl Row for CsvRow<'_> {
    fn value(&self, column: usize) -> Option<&str> {
        self.0.get(column).filter(|value| !value.is_empty())
    }

    fn place(&self) -> String {
        let position = self.0.position();
        position.map_or_else(String::new, |position| format!("line {}", position.line()))
    }
}

fn csv(input: impl Read + Send, rows: &mut impl Rows) -> anyhow::Result<()> {
    let mut reader = csv::Reader::from_reader(decompressed(input)?);
    let header: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
    rows.header(&header)?;
    let mut record = csv::StringRecord::new();
    while reader.read_record(&mut record)? {
        rows.row(&CsvRow(&record))?;
    }
    Ok(())
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

fn parquet(path: &Path, rows: &mut impl Rows) -> anyhow::Result<()> {
    let header = columns_of(path)?;
    rows.header(&header)?;
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut number = 0;
    for batch in Batches::open(path, &names)? {
        let batch = batch?;
        let columns = header.iter().map(|name| {
            // What is no text, such as a list, is no value of a request.
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
            rows.row(&ParquetRow {
                columns: &columns,
                row,
                number,
            })?;
        }
    }
    Ok(())
}

//! How an answer is written down.

use std::io::{self, Write};
use std::str::FromStr;

use crate::answer::{Answer, AnswerRow};
use crate::operations::OperationAnswer;
use crate::scan::Detail;
use crate::times::Zone;

use record::Record;
use table::Table;

mod csv;
mod files;
mod json;
mod operations;
pub mod record;
pub mod table;
pub mod units;

/// The way an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Table,
    /// A header and one line per row.
    Csv,
    /// One object per line.
    Json,
}

impl Format {
    /// What it shows of a row.
    pub fn detail(self) -> Detail {
        match self {
            Self::Table => Detail::Figures,
            Self::Csv | Self::Json => Detail::Full,
        }
    }
}

/// No such format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format: write table, csv or json")]
pub struct FormatError(String);

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "table" => Ok(Self::Table),
            "csv" => Ok(Self::Csv),
            "json" => Ok(Self::Json),
            _ => Err(FormatError(text.into())),
        }
    }
}

/// Writes an answer. Tables show times of `zone`; CSV and JSON are in UTC always.
pub fn write<R: Render>(
    answer: &Answer<R>,
    format: Format,
    zone: Zone,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Table => R::table(answer, zone).write(out),
        Format::Csv => csv::write(answer, out),
        Format::Json => json::write(answer, out),
    }
}

/// A row of an answer, as it is written.
pub trait Render: Record + Sized {
    /// The answer for people.
    fn table(answer: &Answer<Self>, zone: Zone) -> Table;
}

impl Render for AnswerRow {
    fn table(answer: &Answer, zone: Zone) -> Table {
        files::table(answer, zone)
    }
}

impl Render for OperationAnswer {
    fn table(answer: &Answer<Self>, zone: Zone) -> Table {
        operations::table(answer, zone)
    }
}

//! How an answer is written down.

use std::io::{self, Write};
use std::str::FromStr;

use trackiops_store::MountSeen;

use crate::answer::{Answer, AnswerRow};
use crate::files::FileActivity;
use crate::operations::OperationAnswer;
use crate::scan::Detail;
use crate::times::Zone;
use crate::volume::Volume;

use record::Record;
use table::Table;
pub(crate) use table::printable;

mod csv;
mod files;
mod json;
mod listing;
mod mounts;
mod operations;
pub mod record;
pub mod table;
pub mod units;
mod volume;

/// The way an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Table(Figures),
    /// A header and one line per row.
    Csv,
    /// One object per line.
    Json,
}

/// What a table tells of each direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Figures {
    /// Requests, throughput and latency.
    #[default]
    Rates,
    /// Requests, and of what their latency consists.
    Parts,
}

impl Format {
    /// What it shows of a row.
    pub fn detail(self) -> Detail {
        match self {
            Self::Table(figures) => Detail::Figures(figures),
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
            "table" => Ok(Self::Table(Figures::Rates)),
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
        Format::Table(figures) => R::table(answer, figures, zone).write(out),
        Format::Csv => csv::write(answer, out),
        Format::Json => json::write(answer, out),
    }
}

/// A row of an answer, as it is written.
pub trait Render: Record + Sized {
    /// The answer for people. `figures` is for files and what they are added up to.
    fn table(answer: &Answer<Self>, figures: Figures, zone: Zone) -> Table;
}

impl Render for AnswerRow {
    fn table(answer: &Answer, figures: Figures, zone: Zone) -> Table {
        files::table(answer, figures, zone)
    }
}

impl Render for FileActivity {
    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        listing::table(answer, zone)
    }
}

impl Render for MountSeen {
    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        mounts::table(answer, zone)
    }
}

impl Render for OperationAnswer {
    fn table(answer: &Answer<Self>, _: Figures, zone: Zone) -> Table {
        operations::table(answer, zone)
    }
}

impl Render for Volume {
    fn table(answer: &Answer<Self>, _: Figures, _: Zone) -> Table {
        volume::table(answer)
    }
}

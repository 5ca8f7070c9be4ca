//! Formats of reports.

use std::str::FromStr;

use crate::answer::Format;

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportFormat {
    /// Rows, in a format of `query`.
    Rows(Format),
    /// A page for a browser.
    Html,
}

/// The text of `--format` is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a format: write table, csv, json, parquet, arrow or html")]
pub struct ReportFormatError(String);

impl FromStr for ReportFormat {
    type Err = ReportFormatError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            _ if text == "html" => Ok(Self::Html),
            Ok(format) => Ok(Self::Rows(format)),
            Err(_) => Err(ReportFormatError(text.into())),
        }
    }
}

impl ReportFormat {
    /// Its name in `--format`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows(format) => format.name(),
            Self::Html => "html",
        }
    }
}

//! The format of reports that are not tables: text, or JSON for other programs.

use clap::ValueEnum;

/// How a report is written.
#[derive(clap::Args)]
pub struct ReportFlags {
    /// How the report is written
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// For people
    Text,
    /// One object per line, times in UTC
    Json,
}

impl ReportFlags {
    /// Whether the output is JSON for other programs.
    pub fn is_json(&self) -> bool {
        self.json || self.format == ReportFormat::Json
    }
}

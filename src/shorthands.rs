//! Short forms of `--format`.

use anyhow::bail;
use trackiops_render::Format;
use trackiops_render::formats::Texts;

use crate::help_headings::OUTPUT;

/// Short forms of --format, beside which they stand.
#[derive(clap::Args)]
pub struct Shorthands {
    /// The same as --format json
    #[arg(long, conflicts_with_all = ["format", "csv", "csv_safe"], help_heading = OUTPUT)]
    json: bool,
    /// The same as --format csv
    #[arg(long, conflicts_with = "format", help_heading = OUTPUT)]
    csv: bool,
    /// CSV for a spreadsheet: no name in it is run as a formula
    ///
    /// Use it for every CSV that will be opened in Excel, LibreOffice or Google Sheets: a file may be called
    /// `x;=HYPERLINK(...)`. A `'` goes before text where a spreadsheet could begin a formula; numbers stay numbers.
    #[arg(long, help_heading = OUTPUT)]
    csv_safe: bool,
}

impl Shorthands {
    /// The chosen format, and the flag that chose it.
    pub fn option(&self) -> Option<(Format, String)> {
        let csv = Format::Csv(Texts::AsTheyAre);
        let asked = [
            (self.json, Format::Json, "--json"),
            (self.csv, csv, "--csv"),
            (self.csv_safe, csv, "--csv-safe"),
        ];
        let asked = asked.into_iter().find(|(is_given, ..)| *is_given);
        asked.map(|(_, format, flag)| (format, flag.to_owned()))
    }

    /// Whether CSV is for a spreadsheet. Fails if the output is not CSV; `name` is its format.
    pub fn is_for_spreadsheets(&self, is_csv: bool, name: &str) -> anyhow::Result<bool> {
        if self.csv_safe && !is_csv {
            bail!("--csv-safe is for CSV; leave out --format {name}");
        }
        Ok(self.csv_safe)
    }
}

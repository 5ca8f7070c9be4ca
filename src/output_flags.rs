//! `--format`, its short forms and `--output`: how an answer is written, and where to.

use std::error::Error;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::bail;
use trackiops_process::output::Output;
use trackiops_query::Figures;
use trackiops_render::formats::Texts;
use trackiops_render::report::ReportFormat;
use trackiops_render::suffix::{self, FormatsBySuffix};
use trackiops_render::{DistributionFormat, Format};

use crate::help_headings::OUTPUT;
use crate::umask_flag::UmaskFlag;

/// What `--format` of a command takes.
pub trait OutputFormat:
    Copy + PartialEq + Send + Sync + 'static + FromStr<Err: Error + Send + Sync>
{
    /// Flags that stand for some of the formats.
    type ShortForms: ShortForms;
    /// The formats, by suffix.
    const BY_SUFFIX: &'static FormatsBySuffix<Self>;
    /// The help of `--format`, and its paragraph in the long help.
    const HELP: [&'static str; 2];
    /// The suffixes, for the help of `--output`.
    const SUFFIXES: &'static str;

    /// The format that writes rows like this one.
    fn of_rows(format: Format) -> Self;

    /// Its name in `--format`.
    fn name(self) -> &'static str;

    /// Whether a terminal cannot show it.
    fn is_only_for_files(self) -> bool;
}

impl OutputFormat for Format {
    type ShortForms = Shorthands;
    const BY_SUFFIX: &'static FormatsBySuffix<Self> = suffix::ANSWERS;
    const HELP: [&'static str; 2] = [
        "table, csv, json, parquet, arrow [default: by --output, or table]",
        "JSON is one object per line. All but tables have raw units and UTC. Arrow is an IPC file, also known as Feather 2.",
    ];
    const SUFFIXES: &'static str =
        ".parquet, .csv, .json (.jsonl, .ndjson), .arrow (.feather, .ipc), .txt for a table.";

    fn of_rows(format: Format) -> Self {
        format
    }

    fn name(self) -> &'static str {
        Format::name(self)
    }

    fn is_only_for_files(self) -> bool {
        self.is_binary()
    }
}

impl OutputFormat for ReportFormat {
    type ShortForms = Shorthands;
    const BY_SUFFIX: &'static FormatsBySuffix<Self> = suffix::REPORTS;
    const HELP: [&'static str; 2] = [
        "table, csv, json, parquet, arrow, html [default: by --output, or table]",
        "JSON is one object per line. html is a page with all tables, notes and the method; it runs no script and loads nothing. All but \
         tables and pages have raw units and UTC.",
    ];
    const SUFFIXES: &'static str = ".parquet, .csv, .json (.jsonl, .ndjson), .arrow (.feather, .ipc), .txt for a table, .html (.htm).";

    fn of_rows(format: Format) -> Self {
        Self::Rows(format)
    }

    fn name(self) -> &'static str {
        ReportFormat::name(self)
    }

    fn is_only_for_files(self) -> bool {
        match self {
            Self::Rows(format) => format.is_binary(),
            Self::Html => true,
        }
    }
}

impl OutputFormat for DistributionFormat {
    type ShortForms = JsonOrCsv;
    const BY_SUFFIX: &'static FormatsBySuffix<Self> = suffix::DISTRIBUTIONS;
    const HELP: [&'static str; 2] = [
        "table, csv or json [default: by --output, or table]",
        "JSON is an object for each direction, and CSV a line for each bucket: direction, bounds in us, count. Both have all buckets.",
    ];
    const SUFFIXES: &'static str = ".csv, .json (.jsonl, .ndjson), .txt for a table.";

    fn of_rows(format: Format) -> Self {
        match format {
            Format::Csv(_) => Self::Csv,
            Format::Json => Self::Json,
            Format::Table(_) | Format::Parquet | Format::Arrow => Self::Table,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
        }
    }

    fn is_only_for_files(self) -> bool {
        false
    }
}

/// Flags that stand for a `--format`.
pub trait ShortForms: clap::Args {
    /// The chosen format, and the flag that chose it.
    fn option(&self) -> Option<(Format, &'static str)>;

    /// Whether CSV is for a spreadsheet.
    fn is_for_spreadsheets(&self) -> bool;
}

/// Short forms of all commands with `--format`.
#[derive(clap::Args)]
pub struct JsonOrCsv {
    /// The same as --format json
    #[arg(long, conflicts_with_all = ["format", "csv"], help_heading = OUTPUT)]
    json: bool,
    /// The same as --format csv
    #[arg(long, conflicts_with = "format", help_heading = OUTPUT)]
    csv: bool,
}

impl ShortForms for JsonOrCsv {
    fn option(&self) -> Option<(Format, &'static str)> {
        match (self.json, self.csv) {
            (true, _) => Some((Format::Json, "--json")),
            (false, true) => Some((Format::Csv(Texts::AsTheyAre), "--csv")),
            (false, false) => None,
        }
    }

    fn is_for_spreadsheets(&self) -> bool {
        false
    }
}

/// Short forms of commands whose rows have names.
#[derive(clap::Args)]
pub struct Shorthands {
    #[command(flatten)]
    plain: JsonOrCsv,
    /// CSV for a spreadsheet: no name in it is run as a formula
    ///
    /// Use it for every CSV that will be opened in Excel, LibreOffice or Google Sheets: a file may be called
    /// `x;=HYPERLINK(...)`. A `'` goes before text where a spreadsheet could begin a formula; numbers stay numbers.
    #[arg(long, conflicts_with = "json", help_heading = OUTPUT)]
    csv_safe: bool,
}

impl ShortForms for Shorthands {
    fn option(&self) -> Option<(Format, &'static str)> {
        let csv = (Format::Csv(Texts::AsTheyAre), "--csv-safe");
        self.plain.option().or(self.csv_safe.then_some(csv))
    }

    fn is_for_spreadsheets(&self) -> bool {
        self.csv_safe
    }
}

/// How an answer is written.
#[derive(clap::Args)]
pub struct FormatFlag<F: OutputFormat> {
    #[arg(long, value_name = "FORMAT", help_heading = OUTPUT, value_parser = F::from_str, help = F::HELP[0], long_help = F::HELP.join("\n\n"))]
    format: Option<F>,
    #[command(flatten)]
    short: F::ShortForms,
}

/// Where an answer is written to.
#[derive(clap::Args)]
pub struct OutputFlag<F: OutputFormat> {
    /// Write into this file, which is replaced atomically; - is stdout
    #[arg(short, long, value_name = "FILE", help_heading = OUTPUT, long_help = format!(
        "Write into this file, which is replaced atomically; - is stdout\n\nIts ending chooses the format: {}", F::SUFFIXES
    ))]
    output: Option<PathBuf>,
    #[command(flatten)]
    pub access: UmaskFlag,
    #[arg(skip)]
    format: PhantomData<F>,
}

/// How an answer is written, and where to.
#[derive(clap::Args)]
pub struct OutputFlags<F: OutputFormat = Format> {
    #[command(flatten)]
    format: FormatFlag<F>,
    #[command(flatten)]
    pub output: OutputFlag<F>,
}

impl<F: OutputFormat> OutputFlags<F> {
    /// The format, and the destination of the answer. Fails if they contradict each other.
    pub fn choose(&self) -> anyhow::Result<(F, Output)> {
        self.format.choose(&self.output)
    }
}

impl<F: OutputFormat> FormatFlag<F> {
    /// The format, and the destination of the answer. Fails if they contradict each other.
    pub fn choose(&self, destination: &OutputFlag<F>) -> anyhow::Result<(F, Output)> {
        let path = destination.output.clone();
        let output = Output::new(path.clone(), destination.access)?;
        let option = match self.format {
            None => self
                .short
                .option()
                .map(|(rows, flag)| (F::of_rows(rows), flag.to_owned())),
            Some(format) => Some((format, format!("--format {}", format.name()))),
        };
        let option = option.as_ref().map(|(format, option)| (*format, &**option));
        let usual = F::of_rows(Format::Table(Figures::Rates));
        let mut format = suffix::format_of(path.as_deref(), F::BY_SUFFIX, option, usual)?;
        if self.short.is_for_spreadsheets() {
            if format != F::of_rows(Format::Csv(Texts::AsTheyAre)) {
                bail!(
                    "--csv-safe is for CSV; leave out --format {}",
                    format.name()
                );
            }
            format = F::of_rows(Format::Csv(Texts::ForSpreadsheets));
        }
        if format.is_only_for_files() && output.is_terminal() {
            bail!(
                "refusing to write {} to a terminal; use --output FILE, or pipe it to a program that reads it",
                format.name()
            );
        }
        Ok((format, output))
    }
}

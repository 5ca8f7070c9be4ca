//! `trackiops analyze paths`: paths of files, from a capture with attributes.

use std::process::ExitCode;

use trackiops_analyses::paths::Paths;
use trackiops_analyses::source::Seen;
use trackiops_analyses::source::attributes::AttributesReader;

use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze paths capture                           of all files with a name
  trackiops analyze paths capture --handle 0138c000         of a file
  trackiops analyze paths attrs.parquet -o paths.parquet    for a program";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Tell the paths of files, from the names by which a capture saw them looked up

A path begins with the handle of the last parent that is known. Names are those of the capture; some encrypt them.";

const ANALYSIS: Analysis = Analysis {
    name: "paths",
    title: "Paths",
    method: &[
        "Of each handle the first name and parent count, and so on upwards until a handle without one.",
    ],
};

/// What `trackiops analyze paths` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// Only the file with this handle, in hexadecimal digits; repeatable
    #[arg(long, value_name = "HEX", help_heading = ROWS)]
    handle: Vec<String>,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::tables(args.tables, &Paths::TABLES)?;
    let source = args.source.source()?;
    let mut paths = Paths::default();
    let mut attributes = AttributesReader::open(&source, ANALYSIS.name)?;
    let mut seen = Seen::default();
    while let Some(row) = attributes.read_next()? {
        seen.rows += 1;
        paths.add(&row)?;
    }
    let sheet = paths.sheet(&args.handle);
    outcome::write(&form, ANALYSIS, &seen, None, Vec::new(), [sheet])
}

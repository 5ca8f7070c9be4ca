//! `trackiops analyze operations`: sums of the operations on each file, from a capture with attributes.

use std::process::ExitCode;

use trackiops_analyses::join::{self, By, Rollup};
use trackiops_analyses::source::messages::Messages;

use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze operations capture                         by file
  trackiops analyze operations capture --by filesystem         by filesystem
  trackiops analyze operations capture --handle 0138c0 --table operations";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Sum up what was done to each file or filesystem, from a capture with attributes

Each reply with attributes and a call counts: operations, bytes of results, mean latency. --handle lists the operations on a file. A \
filesystem is told by its handles, which holds for the servers of the paper; by mount is what a store can tell (`trackiops query --by mount`).";

const ANALYSIS: Analysis = Analysis {
    name: "operations",
    title: "Operations on files",
    method: &[
        "Each reply with attributes is joined with its call by their numbers in the capture; of several attributes the first ones count.",
    ],
};

/// What `trackiops analyze operations` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// A row stands for: file, `op,file` or filesystem, of a server
    #[arg(long, value_name = "WHAT", default_value = "file", help_heading = ROWS)]
    by: By,
    /// List the operations on the file of this handle (hexadecimal); repeatable
    #[arg(long, value_name = "HEX", help_heading = ROWS)]
    handle: Vec<String>,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::tables(args.tables, &Rollup::TABLES)?;
    let source = args.source.source()?;
    let mut rollup = Rollup::new(args.by, args.handle);
    let mut messages = Messages::default();
    let without_call = join::read(&source, ANALYSIS.name, &mut messages, |row, names| {
        rollup.add(row, names);
    })?;
    let mut remarks = messages.remarks();
    if without_call > 0 {
        remarks.push(format!(
            "{without_call} replies with attributes have no call in the capture, and are left out"
        ));
    }
    let sheets = rollup.sheets(&messages);
    outcome::write(&form, ANALYSIS, &messages.seen, None, remarks, sheets)
}

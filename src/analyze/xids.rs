//! `trackiops analyze xids`: calls that are missing in a capture.

use std::process::ExitCode;

use trackiops_analyses::source::messages::Messages;
use trackiops_analyses::xids::Xids;

use super::outcome::{self, Analysis, Forms, TableFlags};
use super::source_flags::SourceFlags;
use crate::help_headings::ROWS;

const EXAMPLES: &str = "\
Examples:
  trackiops analyze xids capture                           of a capture
  trackiops analyze xids capture/records.parquet --batch 500
  trackiops analyze xids capture --table skipped           after which operations ids were skipped";

/// The text of --help besides the flags. Each paragraph is one line, which is wrapped to the terminal.
pub const ABOUT: &str = "\
Estimate which calls a capture misses, by gaps in the xids of its clients

It holds for clients that count their xids up by one, as Linux does for each transport. Calls of a client are looked at in batches; what is \
left in the end is unknown.";

const ANALYSIS: Analysis = Analysis {
    name: "xids",
    title: "Missing calls",
    method: &[
        "The ids of a batch are sorted. A difference of 1 is good; up to 128 ids between two calls are skipped; more are another sequence.",
    ],
};

/// What `trackiops analyze xids` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    source: SourceFlags,
    /// Calls of a client that are looked at together
    #[arg(long, value_name = "N", default_value_t = trackiops_analyses::xids::BATCH, help_heading = ROWS)]
    batch: usize,
    #[command(flatten)]
    tables: TableFlags,
}

/// Runs the command. Status 0: it is written; 1: nothing matched; 3: a part is damaged.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let form = Forms::tables(args.tables, &Xids::TABLES)?;
    let source = args.source.source()?;
    let mut xids = Xids::new(args.batch);
    let mut messages = Messages::default();
    messages.read(&source, ANALYSIS.name, |message, _| {
        xids.add(message);
        Ok(())
    })?;
    xids.finish();
    let sheets = xids.sheets(&messages.ops);
    outcome::write(
        &form,
        ANALYSIS,
        &messages.seen,
        None,
        messages.remarks(),
        sheets,
    )
}

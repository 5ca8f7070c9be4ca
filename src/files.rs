//! `trackiops files`: lists the files of a store with activity.

use std::process::ExitCode;

use trackiops_query::{Format, ask_files};

use crate::question::{self, Selection};

/// What `trackiops files` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    /// table, csv or json (one object per line)
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

/// Runs the command. Status 0: there are files; 1: nothing matched.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let question = args.selection.question()?;
    question::show(ask_files(&question)?, args.format, question.zone)
}

//! `trackiops stalls`: lists server stalls.

use std::process::ExitCode;

use trackiops_process::progress::with_progress;
use trackiops_query::ask_stalls;

use crate::outcome;
use crate::question_flags::ListFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops stalls                                        all that were recorded
  trackiops stalls --since 7d                             of the last week
  trackiops stalls --store web-1 --store web-2 --csv-safe  of two hosts, for a spreadsheet";

/// What `trackiops stalls` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    list: ListFlags,
}

/// Runs the command. Status 0: there were stalls; 1: none.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (question, format, output) = args.list.question()?;
    let outcome = with_progress(&question.explain, || ask_stalls(&question))?;
    outcome::write_outcome(outcome, None, format, &output, question.zone)
}

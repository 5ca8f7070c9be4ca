//! `trackiops import account`: shows where the bytes of imported captures went.

use std::process::ExitCode;

use trackiops_process::progress::with_progress;
use trackiops_query::ask_captures;

use crate::outcome;
use crate::question_flags::ListFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops import account --store captured                 all that were imported
  trackiops import account --store captured --since 1h      of the last hour
  trackiops import account --store a --store b --csv        of two stores, for a program";

/// What `trackiops import account` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    list: ListFlags,
}

/// Lists the connections. Status 0: there are some; 1: none.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (question, format, output) = args.list.question()?;
    let outcome = with_progress(&question.explain, || ask_captures(&question))?;
    outcome::write_outcome(outcome, None, format, &output, question.zone)
}

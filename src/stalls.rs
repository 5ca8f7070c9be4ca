//! `trackiops stalls`: lists when which server did not answer.

use std::process::ExitCode;

use trackiops_query::ask_stalls;
use trackiops_query::times::Zone;

use crate::help_headings::WHAT;
use crate::outcome;
use crate::progress::with_progress;
use crate::question_flags::{FileFlags, FormatFlags, WhenFlags, now};
use crate::store_flag::StoreFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops stalls                                        all that were recorded
  trackiops stalls --since 7d                             of the last week
  trackiops stalls --store web-1 --store web-2 --csv-safe  of two hosts, for a spreadsheet";

/// What `trackiops stalls` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten, next_help_heading = WHAT)]
    stores: StoreFlags,
    #[command(flatten)]
    when: WhenFlags,
    #[command(flatten)]
    form: FormatFlags,
}

/// Runs the command. Status 0: there were stalls; 1: none.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (format, output) = args.form.choose()?;
    let time = (Zone::Local, now());
    let range = args.when.range(time)?;
    let question = FileFlags::default().question(args.stores.existing()?, range, time)?;
    let outcome = with_progress(&question.explain, || ask_stalls(&question))?;
    outcome::write_outcome(outcome, None, format, &output, question.zone)
}

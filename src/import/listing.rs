//! `trackiops import account`: where the bytes of captures went that are in a store.

use std::process::ExitCode;

use trackiops_query::ask_captures;
use trackiops_query::times::Zone;

use crate::help_headings::WHAT;
use crate::outcome;
use crate::progress::with_progress;
use crate::question_flags::{FileFlags, FormatFlags, WhenFlags, now};
use crate::store_flag::StoreFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops import account --store captured                 all that were imported
  trackiops import account --store captured --since 1h      of the last hour
  trackiops import account --store a --store b --csv        of two stores, for a program";

/// What `trackiops import account` takes.
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

/// Lists the connections. Status 0: there are some; 1: none.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (format, output) = args.form.choose()?;
    let time = (Zone::Local, now());
    let range = args.when.range(time)?;
    let question = FileFlags::default().question(args.stores.existing()?, range, time)?;
    let outcome = with_progress(&question.explain, || ask_captures(&question))?;
    outcome::write_outcome(outcome, None, format, &output, question.zone)
}

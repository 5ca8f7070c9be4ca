//! `trackiops mounts`: lists mounts and their mount points.

use std::process::ExitCode;

use trackiops_query::ask_mounts;
use trackiops_query::times::Zone;

use crate::help_headings::WHAT;
use crate::outcome;
use crate::output_flags::OutputFlags;
use crate::store_flag::StoreFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops mounts                                  what was mounted where, and when
  trackiops mounts --store web-1 --store web-2      the mounts of two hosts
  trackiops mounts --csv-safe --output mounts.csv  a list for a spreadsheet";

/// What `trackiops mounts` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten, next_help_heading = WHAT)]
    stores: StoreFlags,
    #[command(flatten)]
    form: OutputFlags,
}

/// Runs the command. Status 0: there were mounts; 1: none; 3: the catalog lacks segments, and maybe mounts.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (format, output) = args.form.choose()?;
    let outcome = ask_mounts(&args.stores.existing()?)?;
    outcome::write_outcome(outcome, None, format, &output, Zone::Local)
}

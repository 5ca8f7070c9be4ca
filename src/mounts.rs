//! `trackiops mounts`: lists what was mounted where.

use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_query::times::Zone;
use trackiops_query::{Format, ask_mounts};

use crate::question;

/// What `trackiops mounts` takes.
#[derive(clap::Args)]
pub struct Args {
    /// The store that `trackiops record` wrote
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// table, csv or json (one object per line)
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

/// Runs the command. Status 0: there were mounts; 1: none.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    question::show(ask_mounts(&args.store)?, args.format, Zone::Local)
}

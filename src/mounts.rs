//! `trackiops mounts`: lists what was mounted where.

use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_query::ask_mounts;
use trackiops_query::times::Zone;

use crate::question::{self, Form};

/// What `trackiops mounts` takes.
#[derive(clap::Args)]
pub struct Args {
    /// The store that `trackiops record` wrote. May be given several times, for those of several hosts
    #[arg(long, value_name = "DIR", required = true)]
    store: Vec<PathBuf>,
    #[command(flatten)]
    form: Form,
}

/// Runs the command. Status 0: there were mounts; 1: none.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (format, output) = args.form.choose()?;
    let outcome = ask_mounts(&args.store)?;
    question::show(outcome, None, format, &output, Zone::Local)
}

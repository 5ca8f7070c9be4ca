//! `trackiops mounts`: lists what was mounted where.

use std::process::ExitCode;

use trackiops_query::ask_mounts;
use trackiops_query::times::Zone;

use crate::question::{self, Form};
use crate::store_flag::StoreFlags;

/// What `trackiops mounts` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    stores: StoreFlags,
    #[command(flatten)]
    form: Form,
}

/// Runs the command. Status 0: there were mounts; 1: none.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (format, output) = args.form.choose()?;
    let outcome = ask_mounts(&args.stores.existing()?)?;
    question::show(outcome, None, format, &output, Zone::Local)
}

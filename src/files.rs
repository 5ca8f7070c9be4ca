//! `trackiops files`: lists the files of a store with activity.

use std::process::ExitCode;

use trackiops_query::ask_files;

use crate::progress::watched;
use crate::question::{self, Form, Rows, Selection};

const EXAMPLES: &str = "\
Examples:
  trackiops files --since 24h --dir /mnt/nfs/logs  which logs were used today?
  trackiops files --top 10 --sort write_bytes      the 10 files that were written most
  trackiops files --where 'write_requests = 0'     files that were only read";

/// What `trackiops files` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    form: Form,
}

/// Runs the command. Status 0: there are files; 1: nothing matched.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Some(columns) = args.rows.columns()? else {
        return Ok(ExitCode::SUCCESS);
    };
    let (format, output) = args.form.choose()?;
    let question = args.rows.of(args.selection.question()?);
    let outcome = watched(&question.explain, || ask_files(&question))?;
    question::show(outcome, columns.as_ref(), format, &output, question.zone)
}

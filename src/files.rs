//! `trackiops files`: lists the files of a store with activity.

use std::process::ExitCode;

use trackiops_query::ask_files;

use crate::progress::watched;
use crate::question::{self, Form, Selection};

/// What `trackiops files` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    form: Form,
}

/// Runs the command. Status 0: there are files; 1: nothing matched.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let (format, output) = args.form.choose()?;
    let question = args.selection.question()?;
    let outcome = watched(&question.explain, || ask_files(&question))?;
    question::show(outcome, None, format, &output, question.zone)
}

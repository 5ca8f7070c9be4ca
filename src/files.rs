//! `trackiops files`: lists the files of a store with activity.

use std::mem;
use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_process::progress::with_progress;
use trackiops_query::ask_files;

use crate::outcome;
use crate::output_flags::OutputFlags;
use crate::question_flags::{ColumnsFlag, RowFlags, SelectionFlags};

const EXAMPLES: &str = "\
Examples:
  trackiops files --since 24h --dir /mnt/nfs/logs  which logs were used today?
  trackiops files --top 10 --sort write_bytes      the 10 files that were written most
  trackiops files --where 'write_requests = 0'     files that were only read";

/// What `trackiops files` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only these files, as with --file
    #[arg(value_name = "FILE")]
    named: Vec<PathBuf>,
    #[command(flatten)]
    selection: SelectionFlags,
    #[command(flatten)]
    rows: RowFlags,
    #[command(flatten)]
    form: OutputFlags,
}

/// Runs the command. Status 0: there are files; 1: nothing matched.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.selection.add_files(mem::take(&mut args.named));
    let ColumnsFlag::Rows(columns) = args.rows.columns()? else {
        return Ok(ExitCode::SUCCESS);
    };
    let (format, output) = args.form.choose()?;
    let question = args.rows.add_to(args.selection.question()?);
    let outcome = with_progress(&question.explain, || ask_files(&question))?;
    outcome::write_outcome(outcome, columns.as_ref(), format, &output, question.zone)
}

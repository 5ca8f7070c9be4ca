//! `trackiops requests`: lists the slowest requests, one by one.

use std::mem;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_query::ask_requests;

use crate::help_headings::ROWS;
use crate::outcome;
use crate::progress::with_progress;
use crate::query::{op_names, style};
use crate::question_flags::{FormatFlags, RowFlags, SelectionFlags};

const EXAMPLES: &str = "\
Examples:
  trackiops requests --since 1h                             the 20 slowest requests of an hour
  trackiops requests --file /mnt/nfs/orders.db --op write   the slowest WRITEs of a file
  trackiops requests --where 'queue > 50ms' --sort queue    those that waited for the client";

/// Rows of a table without `--top`. Other formats have all rows.
const MOST_ROWS: NonZeroUsize = NonZeroUsize::new(20).unwrap();

/// What `trackiops requests` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only these files, as with --file
    #[arg(value_name = "FILE")]
    named: Vec<PathBuf>,
    #[command(flatten)]
    selection: SelectionFlags,
    /// Only these: read, write; of calls of applications fsync and open, too
    #[arg(long, value_name = "OP,...", value_delimiter = ',', help_heading = ROWS)]
    op: Vec<String>,
    #[command(flatten)]
    rows: RowFlags,
    #[command(flatten)]
    form: FormatFlags,
}

/// Runs the command. Status 0: there are requests; 1: nothing matched.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.selection.add_files(mem::take(&mut args.named));
    let Some(columns) = args.rows.columns()? else {
        return Ok(ExitCode::SUCCESS);
    };
    let (format, output) = args.form.choose()?;
    let mut question = args.rows.add_to(args.selection.question()?);
    question.ops = op_names(&args.op)?;
    if format.is_table() {
        question.top.get_or_insert(MOST_ROWS);
    }
    let outcome = with_progress(&question.explain, || ask_requests(&question))?;
    outcome::write_outcome(outcome, columns.as_ref(), format, &output, style(&question))
}

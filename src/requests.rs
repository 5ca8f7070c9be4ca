//! `trackiops requests`: lists the slowest requests, one by one.

use std::mem;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_process::progress::with_progress;
use trackiops_query::{Outcome, QueryError, Question, ask_processes, ask_requests};
use trackiops_render::Render;

use crate::help_headings::ROWS;
use crate::outcome;
use crate::output_flags::OutputFlags;
use crate::query::{op_names, style};
use crate::question_flags::{ColumnsFlag, RowFlags, SelectionFlags};

const EXAMPLES: &str = "\
Examples:
  trackiops requests --since 1h                             the 20 slowest requests of an hour
  trackiops requests --file /mnt/nfs/orders.db --op write   the slowest WRITEs of a file
  trackiops requests --by process                           which processes moved most bytes";

/// Rows of a table without `--top`. Other formats have all rows.
const MOST_ROWS: NonZeroUsize = NonZeroUsize::new(20).unwrap();

/// What rows stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// One request each
    Request,
    /// All requests of a process, by its name and number
    Process,
}

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
    /// A row is a request, or a process with its requests
    ///
    /// Processes are known of requests to NFS servers and of single calls (`record --requests`), not of requests to devices. Those with the
    /// most bytes come first.
    #[arg(long, value_name = "WHAT", value_enum, default_value = "request", hide_possible_values = true, help_heading = ROWS)]
    by: By,
    #[command(flatten)]
    rows: RowFlags,
    #[command(flatten)]
    form: OutputFlags,
}

/// Runs the command. Status 0: there are requests; 1: nothing matched.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.selection.add_files(mem::take(&mut args.named));
    match args.by {
        By::Request => write(args, ask_requests),
        By::Process => write(args, ask_processes),
    }
}

fn write<R: Render>(
    args: Args,
    ask: impl Fn(&Question) -> Result<Outcome<R>, QueryError>,
) -> anyhow::Result<ExitCode> {
    let ColumnsFlag::Rows(columns) = args.rows.columns()? else {
        return Ok(ExitCode::SUCCESS);
    };
    let (format, output) = args.form.choose()?;
    let mut question = args.rows.add_to(args.selection.question()?);
    question.ops = op_names(&args.op)?;
    if format.is_table() {
        question.top.get_or_insert(MOST_ROWS);
    }
    let outcome = with_progress(&question.explain, || ask(&question))?;
    outcome::write_outcome(outcome, columns.as_ref(), format, &output, style(&question))
}

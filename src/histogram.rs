//! `trackiops histogram`: the latency distribution of selected requests.

use std::mem;
use std::path::PathBuf;
use std::process::ExitCode;

use trackiops_process::output::Output;
use trackiops_process::progress::with_progress;
use trackiops_query::question::{READ, WRITE};
use trackiops_query::requests::ask_call_latencies;
use trackiops_query::{GroupBy, Outcome, Projection, Question, ask, ask_operation_latencies};
use trackiops_render::terminal_style::Style;
use trackiops_render::{
    DistributionFormat, write_call_distribution, write_distribution, write_distributions,
};
use trackiops_schemas::columns::{DIRECTIONS, LATENCY_HIST};

use crate::help_headings::ROWS;
use crate::outcome;
use crate::output_flags::OutputFlags;
use crate::query::op_names;
use crate::question_flags::SelectionFlags;

const EXAMPLES: &str = "\
Examples:
  trackiops histogram --file /mnt/nfs/orders.db --since 24h  one file's day
  trackiops histogram --dir /mnt/nfs/home --op read          reads of a tree
  trackiops histogram --since 1h --csv                       all buckets, for a spreadsheet";

/// Stored columns of a direction that a distribution needs.
const NEEDED: [&str; 6] = [
    "requests",
    "untimed",
    "folded",
    "latency_us_sum",
    "latency_us_max",
    LATENCY_HIST,
];

/// What `trackiops histogram` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only these files, as with --file
    #[arg(value_name = "FILE")]
    named: Vec<PathBuf>,
    #[command(flatten)]
    selection: SelectionFlags,
    /// Only read, write, or calls such as fsync and open [default: read and write]
    ///
    /// Reads and writes are requests, or calls with --level app. Other operations are calls for local files, of recordings with
    /// `--app-latency`; where their sums have no times, single calls of applications, of recordings with `--levels app --requests`.
    #[arg(long, value_name = "OP", help_heading = ROWS)]
    op: Option<String>,
    #[command(flatten)]
    form: OutputFlags<DistributionFormat>,
}

/// Runs the command. Status 0: there are requests; 1: nothing matched.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.selection.add_files(mem::take(&mut args.named));
    let (format, output) = args.form.choose()?;
    let question = args.selection.question()?;
    let ops = op_names(args.op.as_slice())?;
    let named = ops.first().map(|op| op.to_lowercase());
    if named.as_deref().is_some_and(|op| !DIRECTIONS.contains(&op)) {
        return of_others(&Question { ops, ..question }, format, &output);
    }
    let directions = match &named {
        Some(op) => vec![op.as_str()],
        None => DIRECTIONS.to_vec(),
    };
    let is_of_calls = question.is_of_calls();
    let question = Question {
        by: GroupBy::HOST,
        ops: match ops.is_empty() {
            false => ops,
            true => vec![READ.to_owned(), WRITE.to_owned()],
        },
        projection: match is_of_calls {
            true => Projection::calls()
                .with(Projection::call_times())
                .only_transfers(true)
                .named(),
            false => projection(),
        },
        ..question
    };
    let style = Style {
        look: output.look(),
        ..question.zone.into()
    };
    let outcome = with_progress(&question.explain, || ask(&question))?;
    let write = match is_of_calls {
        true => write_call_distribution,
        false => write_distribution,
    };
    outcome::write_found(outcome, &output, question.zone, |answer, out| {
        write(answer, &directions, format, &style, out)
    })
}

/// Distributions of other operations: from sums, or from single calls if the sums lack times.
fn of_others(
    question: &Question,
    format: DistributionFormat,
    output: &Output,
) -> anyhow::Result<ExitCode> {
    let style = Style {
        look: output.look(),
        ..question.zone.into()
    };
    let outcome = with_progress(&question.explain, || {
        match ask_operation_latencies(question)? {
            Outcome::Found(answer) => Ok(Outcome::Found(answer)),
            Outcome::Nothing { .. } => ask_call_latencies(question),
        }
    })?;
    outcome::write_found(outcome, output, question.zone, |answer, out| {
        let rows = answer.rows.iter().map(|(op, sums)| (op.as_str(), sums));
        let rows: Vec<_> = rows.collect();
        write_distributions(answer.range, &rows, format, &style, out)
    })
}

fn projection() -> Projection {
    let of = |direction| NEEDED.map(|column| format!("{direction}_{column}"));
    let columns = DIRECTIONS.map(of);
    let columns = columns.as_flattened().iter().map(String::as_str);
    Projection::new(columns).only_transfers(true)
}

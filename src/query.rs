//! `trackiops query`: asks a store what files did.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use trackiops_query::{
    By, Figures, Format, QueryError, Question, Step, Subject, ask, ask_operations,
};

use crate::question::{self, Selection};

/// What `trackiops query` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Length of a row's window, a multiple of a recorded granularity (1s, 10s, 1m ...), or `all`
    /// for one row per file. Chosen to suit the range without it
    #[arg(long, value_name = "G|all")]
    step: Option<String>,
    /// Only the N files (directories, mounts ...) with the most bytes, in that order
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,
    /// What a row stands for: `file`; `dir` for all files below a directory (see --depth); `mount`, `host` for all files of
    /// one; `tenant` for what each user and cgroup did with a file; `op` for every operation of the NFS protocol;
    /// `transport` for operations over each connection
    #[arg(
        long,
        value_name = "file|dir|mount|tenant|host|op|transport",
        default_value = "file"
    )]
    by: Subject,
    /// With --by dir: how many directories deep, counted from --dir, or without it from the directory that all names of
    /// the mount have in common, which usually is where it is mounted [default: 1]
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// table, csv or json (one object per line)
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// In tables: of what latencies consist, on average: waiting in the client, network and server, the client's
    /// completion. CSV and JSON always tell
    #[arg(long)]
    parts: bool,
}

/// Runs the command. Status 0: there are rows; 1: nothing matched.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let format = match args.format {
        Format::Table(_) if args.parts => Format::Table(Figures::Parts),
        format => format,
    };
    let step = args.step.as_deref().map(str::parse::<Step>).transpose();
    let by = match (args.by, args.depth) {
        (Subject::Files(By::Dir { .. }), Some(depth)) => By::Dir { depth },
        (_, Some(_)) => anyhow::bail!("--depth says how deep directories are: take --by dir"),
        (Subject::Files(by), None) => by,
        (Subject::Operations(_), None) => By::default(),
    };
    let question = Question {
        step: step.map_err(QueryError::from)?,
        top: args.top,
        by,
        detail: format.detail(),
        ..args.selection.question()?
    };
    let zone = question.zone;
    match args.by {
        Subject::Files(_) => question::show(ask(&question)?, format, zone),
        Subject::Operations(connections) => {
            question::show(ask_operations(&question, connections)?, format, zone)
        }
    }
}

//! `trackiops query`: asks a store what files did.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use trackiops_query::answer::{READ, WRITE};
use trackiops_query::explain::Stage;
use trackiops_query::render::Plot;
use trackiops_query::render::look::Style;
use trackiops_query::times::Zone;
use trackiops_query::{
    AnswerRow, By, Columns, Condition, Connections, Detail, Explain, Figures, Format, Level,
    OperationAnswer, Outcome, QueryError, Question, Record, Sort, Step, Subject, ask,
    ask_operations, ask_operations_by, render,
};

use crate::output::{Output, say, write_stderr};
use crate::progress::watched;
use crate::question::{self, Form, Selection};
use crate::suffix::{PLOTS, format_of};
use crate::terminal;

/// What `trackiops query` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Length of a row's window, a multiple of a recorded granularity (1s, 10s, 1m ...), or `all`
    /// for one row per file. Chosen to suit the range without it
    #[arg(long, value_name = "G|all")]
    step: Option<String>,
    /// Only the N files (directories, mounts, operations ...) that come first by --sort over the whole range, or that have the
    /// most bytes (operations: requests), in that order
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,
    /// Sort by a column that is a number, largest first; `COLUMN:asc` for smallest first. Unknown values come last. The table
    /// shows that column. See --columns for names
    #[arg(long, value_name = "COLUMN[:asc]")]
    sort: Option<Sort>,
    /// Only rows with such values: a column, one of > >= < <= = !=, a number with or without unit (20ms, 10MiB/s, 5%);
    /// `and`, `or`, brackets. May be given several times: all must hold. What is not known meets no comparison
    #[arg(long = "where", value_name = "CONDITION")]
    conditions: Vec<Condition>,
    /// Only these operations, separated by commas. With `read` or `write` alone rows stay files and show that direction; with any
    /// other one (`getattr`, `commit` ...) each row is an operation, as with --by op. `read` includes READ_PLUS of NFS 4.2
    #[arg(long, value_name = "OP,...", value_delimiter = ',')]
    op: Vec<String>,
    /// What a row stands for: `file`, the default; `dir` for all files below a directory (see --depth); `mount`, `host` and
    /// `tenant` (user and cgroup) for all files of one; `op` for an operation of the NFS protocol; `transport` for operations over
    /// each connection. Combine them with commas: `file,tenant`, `dir,tenant`, `file,op` ...
    #[arg(long, value_name = "file|dir|mount|tenant|host|op|transport,...")]
    by: Option<Subject>,
    /// With --by dir: how many directories deep, counted from --dir, or without it from the directory that all names of
    /// the mount have in common, which usually is where it is mounted [default: 1]
    #[arg(long, value_name = "N")]
    depth: Option<usize>,
    /// These columns, in this order, in whatever format: names with commas between them, long or short (`read_p99` for
    /// `read_latency_us_p99`); `help` lists all, with their units. Percentiles are within 1.1 % of the true ones. Only what
    /// columns are made of is read
    #[arg(long, value_name = "NAME,...")]
    columns: Option<String>,
    #[command(flatten)]
    form: Form,
    /// Also draw it, into an SVG file (.svg): over time a chart for each column that is a number (--columns chooses), with a line
    /// for each file or what else rows stand for, and none where nothing was done; with --step all a bar for each
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// In tables: of what latencies consist, on average: waiting in the client, network and server, the client's
    /// completion. Other formats always tell
    #[arg(long)]
    parts: bool,
    /// Also say, on stderr, what answering took: which granularity answers when, which segments were read and why the others
    /// were not, pages, bytes and rows of them, and the time of each stage
    #[arg(long)]
    explain: bool,
}

/// Runs the command. Status 0: there are rows; 1: nothing matched.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let explain = match args.explain {
        true => Explain::on(),
        false => Explain::default(),
    };
    let answered = answer(args, &explain)?;
    if let Some(explained) = explain.explained() {
        let width = terminal::stderr_width();
        write_stderr(render::explain(&explained, Zone::Local, width));
    }
    Ok(answered)
}

fn answer(args: Args, explain: &Explain) -> anyhow::Result<ExitCode> {
    match subject(&args) {
        Subject::Files(by) => {
            let Some(columns) = chosen(&args)? else {
                return Ok(ExitCode::SUCCESS);
            };
            let plot = args.plot.clone();
            let (mut question, format, output) = question(args, by)?;
            question.explain = explain.clone();
            let left_out = left_out(&question.ops);
            let columns = of_directions(columns, left_out, format)?;
            let drawing = Drawing::new(plot, columns.as_ref(), left_out)?;
            question.detail = match &columns {
                Some(columns) => Detail::Needs(columns.needs().only_transfers(true)),
                None => format.detail(),
            };
            if let Some(drawing) = &drawing {
                question.detail = question.detail.with(drawing.columns.needs());
            }
            let outcome = watched(explain, || ask(&question))?;
            explain.time(Stage::Write, || {
                Drawing::draw(drawing.as_ref(), &outcome, question.zone)?;
                question::show(outcome, columns.as_ref(), format, &output, style(&question))
            })
        }
        Subject::Operations(connections) => ask_about(args, explain, By::MOUNT, |question| {
            ask_operations(question, connections)
        }),
        Subject::OperationsBy(by) => ask_about(args, explain, by, |question| {
            ask_operations_by(question, question.by)
        }),
    }
}

fn ask_about(
    args: Args,
    explain: &Explain,
    by: By,
    ask: impl Fn(&Question) -> Result<Outcome<OperationAnswer>, QueryError>,
) -> anyhow::Result<ExitCode> {
    let Some(columns) = chosen(&args)? else {
        return Ok(ExitCode::SUCCESS);
    };
    let drawing = Drawing::new(args.plot.clone(), columns.as_ref(), &[])?;
    let (mut question, format, output) = question(args, by)?;
    question.explain = explain.clone();
    let outcome = watched(explain, || ask(&question))?;
    explain.time(Stage::Write, || {
        Drawing::draw(drawing.as_ref(), &outcome, question.zone)?;
        question::show(outcome, columns.as_ref(), format, &output, style(&question))
    })
}

/// What `--plot` asks for.
struct Drawing<R> {
    columns: Columns<R>,
    output: Output,
}

impl<R: Plot> Drawing<R> {
    /// Of `chosen`, or of the usual columns without those of a direction that is left out.
    fn new(
        plot: Option<PathBuf>,
        chosen: Option<&Columns<R>>,
        left_out: &[&str],
    ) -> anyhow::Result<Option<Self>> {
        let Some(path) = plot else { return Ok(None) };
        if path.as_os_str() == "-" {
            bail!("--plot -: stdout is for the answer; name a file for the picture");
        }
        let columns = R::drawn(chosen).context("--plot")?;
        let output = Output::new(Some(path.clone())).context("--plot")?;
        format_of(Some(&path), PLOTS, None, ()).context("--plot")?;
        Ok(Some(Self {
            columns: columns.without(|name| is_of(name, left_out)),
            output,
        }))
    }

    fn draw(drawing: Option<&Self>, outcome: &Outcome<R>, zone: Zone) -> anyhow::Result<()> {
        let Some(Self { columns, output }) = drawing else {
            return Ok(());
        };
        match outcome {
            Outcome::Found(answer) => output.write(|out| render::plot(answer, columns, zone, out)),
            Outcome::Nothing { .. } => {
                if let Some(untouched) = output.untouched() {
                    say(untouched);
                }
                Ok(())
            }
        }
    }
}

/// Tables show what rows are sorted by.
fn style(question: &Question) -> Style {
    Style {
        sorted_by: question.sort.as_ref().map(|sort| sort.column.clone()),
        ..question.zone.into()
    }
}

/// What rows stand for: operations where one is asked for that files do not have in whole.
fn subject(args: &Args) -> Subject {
    let of_files = |op: &String| [READ, WRITE].contains(&&*op_name(op));
    match (args.by, args.op.iter().all(of_files)) {
        (None, true) => Subject::Files(By::FILE),
        (None, false) => Subject::Operations(Connections::Together),
        (Some(Subject::Files(by)), false) => Subject::OperationsBy(by),
        (Some(subject), _) => subject,
    }
}

/// An operation as the protocol calls it.
fn op_name(op: &str) -> String {
    op.trim().to_uppercase()
}

/// The columns that are asked for, if any are; `None` if they are only listed, which is done here.
fn chosen<R: Record>(args: &Args) -> anyhow::Result<Option<Option<Columns<R>>>> {
    match args.columns.as_deref() {
        None => Ok(Some(None)),
        Some("help") => {
            let look = terminal::look(&Output::Stdout);
            Output::Stdout.write(|out| render::list_columns::<R>(look, out))?;
            Ok(None)
        }
        Some(list) => Ok(Some(Some(Columns::parse(list).context("--columns")?))),
    }
}

/// With what names of columns begin that hold zeros, because `--op` leaves them out.
fn left_out(ops: &[String]) -> &'static [&'static str] {
    match ops {
        [op] if op == READ => &["write_", "ops"],
        [op] if op == WRITE => &["read_", "ops"],
        _ => &[],
    }
}

fn is_of(name: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| name.starts_with(start))
}

/// Columns without those that are left out.
fn of_directions(
    columns: Option<Columns<AnswerRow>>,
    left_out: &[&str],
    format: Format,
) -> anyhow::Result<Option<Columns<AnswerRow>>> {
    match columns {
        Some(columns) => match columns.iter().find(|c| is_of(&c.name, left_out)) {
            Some(column) => bail!("--columns: {} is of what --op leaves out", column.name),
            None => Ok(Some(columns)),
        },
        None if format.is_table() || left_out.is_empty() => Ok(None),
        None => Ok(Some(Columns::usual().without(|name| is_of(name, left_out)))),
    }
}

/// What is asked, and how and where to it is answered.
fn question(args: Args, mut by: By) -> anyhow::Result<(Question, Format, Output)> {
    let (format, output) = args.form.choose()?;
    let format = match format {
        Format::Table(_) if args.parts => Format::Table(Figures::Parts),
        format => format,
    };
    let step = args.step.as_deref().map(str::parse::<Step>).transpose();
    if let Some(depth) = args.depth {
        match by.level {
            Level::Dir { .. } => by.level = Level::Dir { depth },
            _ => bail!("--depth says how deep directories are: take --by dir"),
        }
    }
    let mut ops: Vec<_> = args.op.iter().map(|op| op_name(op)).collect();
    ops.sort();
    ops.dedup();
    let question = Question {
        step: step.map_err(QueryError::from)?,
        ops,
        conditions: args.conditions,
        sort: args.sort,
        top: args.top,
        by,
        ..args.selection.question()?
    };
    Ok((question, format, output))
}

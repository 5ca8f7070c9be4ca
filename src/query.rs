//! `trackiops query`: answers questions about files.

use std::cmp::Reverse;
use std::io::{self, Write};
use std::mem;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;
use trackiops_process::output::{Output, write_stderr};
use trackiops_process::progress::with_progress;
use trackiops_process::terminal;
use trackiops_query::explain::Stage;
use trackiops_query::question::{READ, WRITE};
use trackiops_query::times::{Zone, rfc3339};
use trackiops_query::{
    Answer, AnswerRow, Columns, Condition, Connections, Explain, Figures, GroupBy, Level,
    OperationAnswer, Outcome, QueryError, Question, Step, Subject, ask, ask_operations,
    ask_operations_by,
};
use trackiops_render::Format;
use trackiops_render::terminal_style::Style;
use trackiops_schemas::level::IoLevel;

use crate::counts::from_zero;
use crate::drawing::{Drawing, Target};
use crate::help_headings::{OUTPUT, ROWS, WHEN};
use crate::output_flags::OutputFlags;
use crate::question_flags::{ColumnsFlag, RowFlags, SelectionFlags};
use crate::{drawing, outcome};

const EXAMPLES: &str = "\
Examples:
  trackiops query                                           the 20 files that took most of the time
  trackiops query --file /mnt/nfs/orders.db --since 24h     one file's day
  trackiops query --since 1h --by dir --where 'p99 > 20ms'  slow directories";

/// Most rows of a table without --step, --file and --top.
const MOST_ROWS: usize = 20;

/// What rows stand for.
#[derive(clap::Args, Clone)]
pub struct SubjectFlags {
    /// A row is a file, dir, mount, volume, tenant, user, host, level, op ...
    ///
    /// `file` is the default; `dir` is all files below a directory (--depth), `mount`, `volume`, `host`, `tenant` (user and cgroup) and `user`
    /// (whatever its cgroups and tenants) all files of one, `level` one of the wire and of the block level each, `op` an operation of the NFS protocol, `transport` operations over each
    /// connection. Name several with commas: `file,tenant`, `dir,tenant`, `file,level`, `file,op`.
    #[arg(long, value_name = "WHAT,...", help_heading = ROWS)]
    by: Option<Subject>,
    /// With --by dir: how many directories deep [default: 1]
    ///
    /// Depth counts from --dir, or else from where the mount was mounted. Operations about a directory itself, such as READDIR, count
    /// in its parent, as a file's do; those about --dir and about where the mount was mounted count there.
    #[arg(long, value_name = "N", value_parser = from_zero, help_heading = ROWS)]
    depth: Option<usize>,
    /// Only these operations: read, write, getattr ...
    ///
    /// `read` and `write` alone keep rows of files and show that direction. With any other operation each row is an operation, as with
    /// --by op. `read` includes READ_PLUS of NFS 4.2.
    #[arg(long, value_name = "OP,...", value_delimiter = ',', help_heading = ROWS)]
    op: Vec<String>,
}

/// What `trackiops query` takes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only these files, as with --file
    #[arg(value_name = "FILE")]
    named: Vec<PathBuf>,
    #[command(flatten)]
    selection: SelectionFlags,
    /// A row per window of this length (1s, 10s, 1m ...), `auto` or `all`
    ///
    /// A multiple of a recorded length; `auto` suits the range, `all` is one row for the whole range. Without it, a question with
    /// --file has windows that suit the range, and any other has one row for the whole range.
    #[arg(long, value_name = "LENGTH", help_heading = WHEN)]
    step: Option<String>,
    #[command(flatten)]
    about: SubjectFlags,
    #[command(flatten)]
    rows: RowFlags,
    /// In tables: the parts of latencies: queue, network, completion
    ///
    /// Shows the average time in the client's queue, in network and server, and in the client's completion. Other formats always
    /// have them.
    #[arg(long, help_heading = OUTPUT)]
    parts: bool,
    #[command(flatten)]
    form: OutputFlags,
    /// Draw the answer here, not as a table (-), or also into FILE.svg or .png
    ///
    /// With windows, the file has a heat map of latencies, and a chart for each column that is a number (--columns chooses). A chart
    /// has a line for each file, or what else rows stand for, and none where nothing was done. Without windows, each has a bar.
    /// Latencies have logarithmic axes. Vertical lines are the events of `trackiops marks --all`. On a dark screen an SVG is dark. `-`
    /// draws with characters on stdout, in place of the table: with windows a heat map of latencies over time, or with --columns a chart
    /// for each; without windows bars.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    plot: Option<PathBuf>,
    /// Also report on stderr what answering took
    ///
    /// Reports which granularity answers when, which segments were read and why the others were not, their pages, bytes and rows,
    /// and the time of each stage.
    #[arg(long, help_heading = OUTPUT)]
    explain: bool,
    /// Print which time was recorded, not rows: for `serve`
    ///
    /// A JSON object for each piece of time, with how much of it was recorded. Pieces of a host may overlap; they add up.
    #[arg(long, hide = true)]
    recorded: bool,
}

impl SubjectFlags {
    /// What rows stand for: operations if `--op` names any except READ and WRITE.
    pub fn subject(&self) -> Subject {
        let of_files = |op: &String| [READ, WRITE].contains(&&*op_name(op));
        match (self.by, self.op.iter().all(of_files)) {
            (None, true) => Subject::Files(GroupBy::FILE),
            (None, false) => Subject::Operations(Connections::Together),
            (Some(Subject::Files(by)), false) => Subject::OperationsBy(by),
            (Some(subject), _) => subject,
        }
    }

    /// Adds these flags to a question; `by` is part of [`Self::subject`].
    pub fn add_to(&self, mut by: GroupBy, question: Question) -> anyhow::Result<Question> {
        if let Some(depth) = self.depth {
            match by.level {
                Level::Dir { .. } => by.level = Level::Dir { depth },
                _ => bail!("--depth needs --by dir"),
            }
        }
        Ok(Question {
            by,
            ops: op_names(&self.op)?,
            ..question
        })
    }
}

/// Runs the command. Status 0: there are rows; 1: nothing matched.
pub fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.selection.add_files(mem::take(&mut args.named));
    let explain = match args.explain {
        true => Explain::on(),
        false => Explain::default(),
    };
    let answered = answer(args, &explain)?;
    if let Some(explained) = explain.explained() {
        let width = terminal::stderr_width();
        write_stderr(trackiops_render::explain(&explained, Zone::Local, width));
    }
    Ok(answered)
}

fn answer(args: Args, explain: &Explain) -> anyhow::Result<ExitCode> {
    match args.about.subject() {
        Subject::Files(by) => {
            let ColumnsFlag::Rows(columns) = args.rows.columns()? else {
                return Ok(ExitCode::SUCCESS);
            };
            let (target, row_limit) = (target(&args)?, row_limit(&args));
            let only_recorded = args.recorded;
            let (mut question, format, output) = question(args, by)?;
            question.explain = explain.clone();
            let mut columns = columns_of_files(columns, &mut question, format)?;
            let left_out = excluded_column_prefixes(&question.ops);
            let is_left_out = |name: &str| begins_with_any(name, left_out);
            let of_calls = match (&target, &columns) {
                (Some(target), None) if question.is_of_calls() => {
                    Some(drawn_of_calls(target, &question)?)
                }
                _ => None,
            };
            let chosen = columns.as_ref().or(of_calls.as_ref());
            let mut drawing = Drawing::new(target, chosen, is_left_out)?;
            let is_table = format.is_table() && columns.is_none();
            let is_usual = is_table && drawing.is_none();
            let is_replaced = matches!(drawing, Some(Drawing::Text(_)));
            let asks_calls = is_table
                && !is_replaced
                && !only_recorded
                && question.levels.contains(&IoLevel::App);
            if asks_calls {
                (question, columns) = question_about_calls(&question, format, false)?;
            }
            if let Some(drawn) = drawing.as_ref().and_then(Drawing::columns) {
                question.projection = question.projection.with(drawn.needs());
            }
            let mut outcome = with_progress(explain, || ask(&question))?;
            let may_ask_again = is_usual && !only_recorded && !asks_calls;
            let may_be_called = outcome::is_idle(&outcome) && question.conditions.is_empty();
            if may_ask_again && may_be_called {
                let (called, of_calls) = question_about_calls(&question, format, false)?;
                let found = with_progress(explain, || ask(&called))?;
                if matches!(found, Outcome::Found(_)) {
                    outcome::say_calls_instead();
                    (question, columns, outcome) = (called, of_calls, found);
                }
            } else if may_ask_again && have_no_callers(&outcome) {
                let (called, of_calls) = question_about_calls(&question, format, true)?;
                let found = with_progress(explain, || ask(&called))?;
                if has_calls(&found) {
                    outcome::say_no_callers();
                    (question, columns, outcome) = (called, of_calls, found);
                }
            }
            if only_recorded && let Outcome::Found(answer) = &outcome {
                output.write(|out| write_recorded(answer, out))?;
                return Ok(ExitCode::SUCCESS);
            }
            if let (Some(most), Outcome::Found(answer)) = (row_limit, &mut outcome)
                && format.is_table()
            {
                answer.keep_first(most);
            }
            if let Some(drawing) = &mut drawing {
                drawing.add_events(&question, &outcome)?;
            }
            explain.time(Stage::Write, || {
                let (drawing, columns) = (drawing.as_ref(), columns.as_ref());
                let style = style_of_ranked(&question, &outcome, "latency_us_sum");
                drawing::write_answer(outcome, drawing, columns, format, &output, style)
            })
        }
        Subject::Operations(connections) => ask_about(args, explain, GroupBy::MOUNT, |question| {
            ask_operations(question, connections)
        }),
        Subject::OperationsBy(by) => ask_about(args, explain, by, |question| {
            ask_operations_by(question, question.by)
        }),
    }
}

/// Whether the rows are by tenant or user, but of requests to devices, which have no caller.
fn have_no_callers(outcome: &Outcome) -> bool {
    let Outcome::Found(answer) = outcome else {
        return false;
    };
    let is_of_device = |row: &AnswerRow| row.level == IoLevel::Block;
    answer.by.tenants && answer.rows.iter().all(is_of_device)
}

fn has_calls(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Found(answer) => answer.rows.iter().any(|row| row.sum.has_calls()),
        Outcome::Nothing { .. } => false,
    }
}

/// The same question about calls of applications. It is asked if calls made no requests, because the cache answered or only calls are
/// recorded, or if requests have no caller: `beside_requests`.
fn question_about_calls(
    question: &Question,
    format: Format,
    beside_requests: bool,
) -> anyhow::Result<(Question, Option<Columns<AnswerRow>>)> {
    let mut question = question.clone();
    let of = match question.by.level {
        Level::File | Level::Name => Some("path,mount"),
        Level::Dir { .. } => Some("path"),
        Level::Mount => Some("mount"),
        Level::Volume => Some("volume"),
        Level::Host if question.by.tenants => None,
        Level::Host => Some("host"),
    };
    let tenant = question.by.tenants.then_some(match question.by.only_users {
        true => "uid,user",
        false => "tenant",
    });
    let time = (question.step != Some(Step::All)).then_some("time");
    let left_out = excluded_column_prefixes(&question.ops);
    let is_left_out = |name: &str| begins_with_any(name.trim_start_matches("app_"), left_out);
    let has_both = [IoLevel::App, IoLevel::Block]
        .iter()
        .all(|level| question.levels.contains(level));
    let requests = if has_both || beside_requests {
        OF_REQUESTS.as_slice()
    } else {
        &[]
    };
    let figures = CALLS.iter().chain(requests).copied();
    let keys = [time, of, tenant].into_iter().flatten();
    let shown: Vec<_> = keys
        .chain(figures.filter(|name| !is_left_out(name)))
        .collect();
    let columns = Columns::parse(&shown.join(","))?;
    if question.sort.is_none() && question.step == Some(Step::All) && !beside_requests {
        question.sort = Some("app_called_bytes".parse()?);
    }
    let columns = columns_of_files(Some(columns), &mut question, format)?;
    Ok((question, columns))
}

/// The default columns of a picture of calls of applications.
fn drawn_of_calls(target: &Target, question: &Question) -> anyhow::Result<Columns<AnswerRow>> {
    let names = match (target, question.step) {
        (Target::Stdout, Some(Step::All)) => "app_called_bytes",
        (Target::Stdout, _) => "app_throughput,app_iops,app_latency_us_p99",
        (Target::File(..), _) => DRAWN_OF_CALLS,
    };
    let left_out = excluded_column_prefixes(&question.ops);
    let is_left_out = |name: &str| begins_with_any(name.trim_start_matches("app_"), left_out);
    Ok(Columns::<AnswerRow>::parse(names)?.without(is_left_out))
}

/// Columns of calls in a file.
const DRAWN_OF_CALLS: &str = "app_read_throughput,app_write_throughput,app_read_iops,app_write_iops,\
    app_read_latency_us_p99,app_write_latency_us_p99";

/// Columns in a table of calls.
const CALLS: [&str; 5] = [
    "app_read_calls",
    "app_read_called_bytes",
    "app_write_calls",
    "app_write_called_bytes",
    "app_errors",
];

/// Columns of requests in that table, if requests are asked for as well.
const OF_REQUESTS: [&str; 4] = [
    "read_requests",
    "read_bytes",
    "write_requests",
    "write_bytes",
];

/// Writes the recorded time of an answer. The rows do not show it, because idle windows have no row.
fn write_recorded(answer: &Answer, out: &mut dyn Write) -> io::Result<()> {
    let step = match answer.step {
        Step::Windows(step) => step,
        Step::All => return Ok(()),
    };
    let mut pieces: Vec<_> = answer.recorded.pieces(step).collect();
    pieces.sort_unstable();
    for (host, time, ms) in pieces {
        let (since, until) = (rfc3339(time.start), rfc3339(time.end));
        let piece = json!({"host": host, "since": since, "until": until, "recorded_ms": ms});
        writeln!(out, "{piece}")?;
    }
    Ok(())
}

fn ask_about(
    args: Args,
    explain: &Explain,
    by: GroupBy,
    ask: impl Fn(&Question) -> Result<Outcome<OperationAnswer>, QueryError>,
) -> anyhow::Result<ExitCode> {
    let ColumnsFlag::Rows(columns) = args.rows.columns()? else {
        return Ok(ExitCode::SUCCESS);
    };
    let mut drawing = Drawing::new(target(&args)?, columns.as_ref(), |_| false)?;
    let row_limit = row_limit(&args);
    let (mut question, format, output) = question(args, by)?;
    question.explain = explain.clone();
    let mut outcome = with_progress(explain, || ask(&question))?;
    if let (Some(most), Outcome::Found(answer)) = (row_limit, &mut outcome)
        && format.is_table()
        && answer.rows.len() > most
    {
        if question.sort.is_none() {
            answer
                .rows
                .sort_by_key(|row| Reverse((row.sums.execute_ns_sum, row.sums.requests)));
        }
        answer.keep_first(most);
    }
    if let Some(drawing) = &mut drawing {
        drawing.add_events(&question, &outcome)?;
    }
    explain.time(Stage::Write, || {
        let (drawing, columns) = (drawing.as_ref(), columns.as_ref());
        let style = style(&question);
        drawing::write_answer(outcome, drawing, columns, format, &output, style)
    })
}

/// The destination of `--plot`.
fn target(args: &Args) -> anyhow::Result<Option<Target>> {
    let Some(path) = args.plot.clone() else {
        return Ok(None);
    };
    let target = Target::parse(path, args.form.output.access)?;
    if let Target::Stdout = target {
        refuse_besides_picture(args)?;
    }
    Ok(Some(target))
}

/// Rejects flags for the table's format if `--plot -` draws a picture instead.
fn refuse_besides_picture(args: &Args) -> anyhow::Result<()> {
    let (format, output) = args.form.choose()?;
    if !matches!(output, Output::Stdout) {
        bail!("--plot - draws on stdout; leave out --output, or name a file: --plot FILE.svg");
    }
    if !format.is_table() {
        bail!(
            "--plot - draws in place of the table; leave out --format {}, or name a file: --plot FILE.svg",
            format.name()
        );
    }
    if args.parts {
        bail!("--plot - draws in place of the table; leave out --parts");
    }
    Ok(())
}

/// The most rows of a table, unless --step or --top is given. Named files are all shown.
fn row_limit(args: &Args) -> Option<usize> {
    let is_open = args.step.is_none() && args.rows.top.is_none() && !args.selection.names_files();
    is_open.then_some(MOST_ROWS)
}

/// Makes tables show the columns that sort their rows.
pub fn style(question: &Question) -> Style {
    Style {
        sorted_by: question.sort.as_ref().map(|sort| sort.column.clone()),
        ..question.zone.into()
    }
}

/// Like [`style`], for rows that are ranked by a column unless a question sets an order.
fn style_of_ranked<R>(question: &Question, outcome: &Outcome<R>, column: &str) -> Style {
    let is_ranked = match outcome {
        Outcome::Found(answer) => answer.step == Step::All || question.top.is_some(),
        Outcome::Nothing { .. } => false,
    };
    let mut style = style(question);
    if is_ranked && style.sorted_by.is_none() && !question.levels.contains(&IoLevel::App) {
        style.sorted_by = Some(column.to_owned());
    }
    style
}

/// The operations in `--op`, without repetitions.
pub fn op_names(named: &[String]) -> anyhow::Result<Vec<String>> {
    let mut ops: Vec<_> = named.iter().map(|op| op_name(op)).collect();
    if ops.iter().any(String::is_empty) {
        bail!(
            "--op: an operation has no name; write read, write, getattr ..., with commas between them"
        );
    }
    ops.sort();
    ops.dedup();
    Ok(ops)
}

/// An operation's name in the protocol.
fn op_name(op: &str) -> String {
    op.trim().to_uppercase()
}

/// Prefixes of columns that contain only zeros, because `--op` excludes them.
fn excluded_column_prefixes(ops: &[String]) -> &'static [&'static str] {
    match ops {
        [op] if op == READ => &["write_", "w-", "ops"],
        [op] if op == WRITE => &["read_", "r-", "ops"],
        _ => &[],
    }
}

fn begins_with_any(name: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| name.starts_with(start))
}

/// Rejects sorting or filtering by columns that `--op` excludes.
fn refuse_left_out(question: &Question, left_out: &[&str]) -> anyhow::Result<()> {
    let sort = question.sort.iter().map(|sort| ("--sort", &*sort.column));
    let conditions = question.conditions.iter().flat_map(Condition::columns);
    let mut names = sort.chain(conditions.map(|name| ("--where", name)));
    match names.find(|(_, name)| begins_with_any(name, left_out)) {
        Some((flag, name)) => bail!("{flag}: {name} belongs to what --op excludes"),
        None => Ok(()),
    }
}

/// Columns without those that `--op` excludes.
fn columns_of_directions(
    columns: Option<Columns<AnswerRow>>,
    left_out: &[&str],
    format: Format,
) -> anyhow::Result<Option<Columns<AnswerRow>>> {
    match columns {
        Some(columns) => match columns.iter().find(|c| begins_with_any(&c.name, left_out)) {
            Some(column) => bail!("--columns: {} belongs to what --op excludes", column.name),
            None => Ok(Some(columns)),
        },
        None if format.is_table() || left_out.is_empty() => Ok(None),
        None => Ok(Some(
            format
                .columns()
                .without(|name| begins_with_any(name, left_out)),
        )),
    }
}

/// The question, and the format and destination of its answer.
fn question(args: Args, by: GroupBy) -> anyhow::Result<(Question, Format, Output)> {
    let (format, output) = args.form.choose()?;
    let step = match args.step.as_deref() {
        Some("auto") => None,
        Some(step) => Some(step.parse().map_err(QueryError::from)?),
        None if args.selection.names_files() => None,
        None => Some(Step::All),
    };
    let question = args.about.add_to(by, args.selection.question()?)?;
    let question = Question {
        step,
        ..args.rows.add_to(question)
    };
    Ok((question, with_parts(format, args.parts), output))
}

/// The format, with the parts of latencies in a table.
pub fn with_parts(format: Format, parts: bool) -> Format {
    match format {
        Format::Table(_) if parts => Format::Table(Figures::Parts),
        format => format,
    }
}

/// The columns of an answer about files, which are added to the question. Rejects columns that `--op` excludes.
pub fn columns_of_files(
    columns: Option<Columns<AnswerRow>>,
    question: &mut Question,
    format: Format,
) -> anyhow::Result<Option<Columns<AnswerRow>>> {
    let left_out = excluded_column_prefixes(&question.ops);
    refuse_left_out(question, left_out)?;
    let columns = columns_of_directions(columns, left_out, format)?;
    question.projection = match &columns {
        Some(columns) => columns.needs().only_transfers(true).named(),
        None => format.projection(),
    };
    Ok(columns)
}

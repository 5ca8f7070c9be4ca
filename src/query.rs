//! `trackiops query`: asks a store what files did.

use std::io::{self, ErrorKind, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use trackiops_query::note::Note;
use trackiops_query::render::{self, Render};
use trackiops_query::times::{self, Zone};
use trackiops_query::{
    Answer, By, Figures, FileSelector, Format, Outcome, Question, Range, Step, Subject, ask,
    ask_operations,
};
use trackiops_schemas::time::UtcMs;

/// Exit status when nothing matched.
const NOTHING: u8 = 1;

/// What `trackiops query` takes.
#[derive(clap::Args)]
pub struct Args {
    /// The store that `trackiops record` wrote
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// One file: its path, or MAJOR:MINOR:FILEID. All files without it
    #[arg(long, value_name = "PATH|DEV:FILEID")]
    file: Option<PathBuf>,
    /// From when on: how long ago (90s, 24h, 7d), a local time (2026-11-21 03:10) or RFC 3339.
    /// The whole recording without it
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Until when, in the same forms
    #[arg(long, value_name = "T")]
    until: Option<String>,
    /// Length of a row's window, a multiple of a recorded granularity (1s, 10s, 1m ...), or `all`
    /// for one row per file. Chosen to suit the range without it
    #[arg(long, value_name = "G|all")]
    step: Option<String>,
    /// Only the N files with the most bytes, in that order
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,
    /// What a row stands for: `file`; `tenant` for what each user and cgroup did with a file; `op` for every
    /// operation of the NFS protocol; `transport` for operations over each connection
    #[arg(long, value_name = "file|tenant|op|transport", default_value = "file")]
    by: Subject,
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
    let (zone, now) = (Zone::Local, now());
    let moment = |option: &str, text: &Option<String>| -> anyhow::Result<Option<UtcMs>> {
        let Some(text) = text else { return Ok(None) };
        let moment = times::parse(text, now, zone).with_context(|| option.to_owned())?;
        if moment.local {
            let note = Note::LocalTimes { at: moment.at };
            eprintln!(
                "{option} {}: {}",
                times::show(moment.at, zone),
                note.show(zone)
            );
        }
        Ok(Some(moment.at))
    };
    let range = Range {
        since: moment("--since", &args.since)?,
        until: moment("--until", &args.until)?,
    };
    let format = match args.format {
        Format::Table(_) if args.parts => Format::Table(Figures::Parts),
        format => format,
    };
    let step = args.step.as_deref().map(str::parse::<Step>).transpose();
    let by = match args.by {
        Subject::Files(by) => by,
        Subject::Operations(_) => By::default(),
    };
    let question = Question {
        store: args.store,
        file: args.file.map(FileSelector::from),
        range,
        step: step.map_err(trackiops_query::QueryError::from)?,
        top: args.top,
        by,
        detail: format.detail(),
        now,
        zone,
    };
    match args.by {
        Subject::Files(_) => show(ask(&question)?, format, zone),
        Subject::Operations(connections) => {
            show(ask_operations(&question, connections)?, format, zone)
        }
    }
}

fn show<R: Render>(outcome: Outcome<R>, format: Format, zone: Zone) -> anyhow::Result<ExitCode> {
    match outcome {
        Outcome::Found(answer) => {
            tell(&answer.notes, zone);
            print(&answer, format, zone)?;
            Ok(ExitCode::SUCCESS)
        }
        Outcome::Nothing { why, notes } => {
            tell(&notes, zone);
            eprintln!("trackiops: {}", why.show(zone));
            Ok(ExitCode::from(NOTHING))
        }
    }
}

fn now() -> UtcMs {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    UtcMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

fn tell(notes: &[Note], zone: Zone) {
    for note in notes {
        eprintln!("{}", note.show(zone));
    }
}

/// A reader that has seen enough, such as `head`, is no error.
fn print<R: Render>(answer: &Answer<R>, format: Format, zone: Zone) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = render::write(answer, format, zone, &mut out).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}

//! What the commands that ask a store have in common: which files, when, and how their answers reach a terminal.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use trackiops_query::note::Note;
use trackiops_query::render::{self, Render};
use trackiops_query::times::{self, Zone};
use trackiops_query::{By, Detail, FileSelector, Format, Nothing, Outcome, Question, Range, Step};
use trackiops_schemas::time::UtcMs;

/// Exit status when nothing matched.
const NOTHING: u8 = 1;
/// Exit status when a part of what was asked for is damaged, whatever was found in the rest.
const DAMAGED: u8 = 3;

/// Which files, and when.
#[derive(clap::Args)]
pub struct Selection {
    /// The store that `trackiops record` wrote
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// These files: a path, a pattern (* ? [a-z] and ** for directories), both by the name that held at the time, or
    /// MAJOR:MINOR:FILEID. May be given several times. All files without it
    #[arg(long, value_name = "PATH|GLOB|DEV:FILEID")]
    file: Vec<PathBuf>,
    /// Files below this directory, by the name that held at the time; adds to --file. May be given several times
    #[arg(long, value_name = "PATH")]
    dir: Vec<PathBuf>,
    /// From when on: how long ago (90s, 24h, 7d), a local time (2026-11-21 03:10) or RFC 3339.
    /// The whole recording without it
    #[arg(long, value_name = "T")]
    since: Option<String>,
    /// Until when, in the same forms
    #[arg(long, value_name = "T")]
    until: Option<String>,
}

impl Selection {
    /// The question, one row per file for the whole range until told otherwise.
    pub fn question(self) -> anyhow::Result<Question> {
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
            since: moment("--since", &self.since)?,
            until: moment("--until", &self.until)?,
        };
        let files = self.file.iter().map(|path| FileSelector::parse(path));
        let dirs = self.dir.iter().map(|path| FileSelector::below(path));
        Ok(Question {
            store: self.store,
            files: files.chain(dirs).collect::<Result<_, _>>()?,
            range,
            step: Some(Step::All),
            top: None,
            by: By::File,
            detail: Detail::Totals,
            now,
            zone,
        })
    }
}

fn now() -> UtcMs {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    UtcMs(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// Says what else there is to know.
pub fn tell(notes: &[Note], zone: Zone) {
    for note in notes {
        eprintln!("{}", note.show(zone));
    }
}

/// Says why there is nothing.
pub fn nothing(why: &Nothing, notes: &[Note], zone: Zone) -> ExitCode {
    tell(notes, zone);
    eprintln!("trackiops: {}", why.show(zone));
    match is_damaged(notes) {
        true => ExitCode::from(DAMAGED),
        false => ExitCode::from(NOTHING),
    }
}

/// The exit status of an answer.
pub fn status(notes: &[Note]) -> ExitCode {
    match is_damaged(notes) {
        true => ExitCode::from(DAMAGED),
        false => ExitCode::SUCCESS,
    }
}

fn is_damaged(notes: &[Note]) -> bool {
    let mut notes = notes.iter();
    notes.any(|note| matches!(note, Note::Damaged { .. }))
}

/// Writes an answer to stdout, or says why there is none.
pub fn show<R: Render>(
    outcome: Outcome<R>,
    format: Format,
    zone: Zone,
) -> anyhow::Result<ExitCode> {
    match outcome {
        Outcome::Found(answer) => {
            tell(&answer.notes, zone);
            print(|out| render::write(&answer, format, zone, out))?;
            Ok(status(&answer.notes))
        }
        Outcome::Nothing { why, notes } => Ok(nothing(&why, &notes, zone)),
    }
}

/// Writes to stdout. A reader that has seen enough, such as `head`, is no error.
pub fn print(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}

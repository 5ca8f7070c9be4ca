//! What the commands that ask a store have in common: which files, when, and how their answers reach a terminal.

use std::mem;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use trackiops_query::note::Note;
use trackiops_query::render::look::Style;
use trackiops_query::render::{self, Render};
use trackiops_query::times::{self, Zone};
use trackiops_query::{
    By, Columns, Detail, Explain, FileSelector, Format, Nothing, Outcome, Question, Range, Step,
};
use trackiops_schemas::time::UtcMs;

use crate::output::{Output, say};
use crate::terminal;

/// Exit status when nothing matched.
const NOTHING: u8 = 1;
/// Exit status when a part of what was asked for is damaged, whatever was found in the rest.
const DAMAGED: u8 = 3;

/// Which files, and when.
#[derive(clap::Args)]
pub struct Selection {
    /// The store that `trackiops record` wrote. May be given several times, for those of several hosts: they are asked as one
    #[arg(long, value_name = "DIR", required = true)]
    store: Vec<PathBuf>,
    /// These files: a path, a pattern (* ? [a-z] and ** for directories), both by the name that held at the time, or
    /// MAJOR:MINOR:FILEID. May be given several times. All files without it
    #[arg(long, value_name = "PATH|GLOB|DEV:FILEID")]
    file: Vec<PathBuf>,
    /// Files below this directory, by the name that held at the time; adds to --file. May be given several times
    #[arg(long, value_name = "PATH")]
    dir: Vec<PathBuf>,
    /// Files of these mounts: server:/export, where it was mounted, or a pattern of either. May be given several times
    #[arg(long, value_name = "MOUNT")]
    mount: Vec<String>,
    /// From when on: how long ago (90s, 24h, 7d), `yesterday`, `today`, the last 03:10, a local time (2026-11-21 03:10,
    /// yesterday 03:10) or RFC 3339. The whole recording without it
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
                say(format_args!(
                    "{option} {}: {}",
                    times::show(moment.at, zone),
                    note.show(zone)
                ));
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
            stores: self.store,
            files: files.chain(dirs).collect::<Result<_, _>>()?,
            range,
            step: Some(Step::All),
            mounts: self.mount,
            ops: Vec::new(),
            conditions: Vec::new(),
            sort: None,
            top: None,
            by: By::FILE,
            detail: Detail::Totals,
            now,
            zone,
            explain: Explain::default(),
            most_rows: None,
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
        say(note.show(zone));
    }
}

/// Says why there is nothing.
pub fn nothing(why: &Nothing, notes: &[Note], zone: Zone) -> ExitCode {
    tell(notes, zone);
    let why = why.show(zone);
    match is_damaged(notes) {
        true => {
            say(format_args!("trackiops: as far as it can be read, {why}"));
            ExitCode::from(DAMAGED)
        }
        false => {
            say(format_args!("trackiops: {why}"));
            ExitCode::from(NOTHING)
        }
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

/// How an answer is written, and where to.
#[derive(clap::Args)]
pub struct Form {
    /// table, csv, json (one object per line), parquet, or arrow (an IPC file, also known as Feather 2)
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: Format,
    /// Into a file, which is there in whole or not at all; `-` is stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Form {
    /// Where to, if the format is something for that.
    pub fn output(&self) -> anyhow::Result<Output> {
        let output = Output::new(self.output.clone())?;
        if self.format.is_binary() && output.is_terminal() {
            bail!(
                "Parquet and Arrow are nothing for a terminal: give --output FILE, or pipe it to where it is read"
            );
        }
        Ok(output)
    }
}

/// Writes an answer, with its usual columns or with others, or says why there is none.
pub fn show<R: Render>(
    outcome: Outcome<R>,
    columns: Option<&Columns<R>>,
    format: Format,
    output: &Output,
    style: impl Into<Style>,
) -> anyhow::Result<ExitCode> {
    let style = Style {
        look: terminal::look(output),
        ..style.into()
    };
    let zone = style.zone;
    match outcome {
        Outcome::Found(answer) => {
            tell(&answer.notes, zone);
            output.write(|out| match columns {
                None => render::write(&answer, format, style.clone(), out),
                Some(columns) => {
                    render::write_columns(&answer, columns, format, style.clone(), out)
                }
            })?;
            let status = status(&answer.notes);
            // All that is left to do is to exit, which gives back many rows faster than they are dropped.
            mem::forget(answer);
            Ok(status)
        }
        Outcome::Nothing { why, notes } => {
            let status = nothing(&why, &notes, zone);
            if let Some(untouched) = output.untouched() {
                say(untouched);
            }
            Ok(status)
        }
    }
}

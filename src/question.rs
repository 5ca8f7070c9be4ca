//! What the commands that ask a store have in common: which files, when, and how their answers reach a terminal.

use std::mem;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use trackiops_query::note::Note;
use trackiops_query::render::look::Style;
use trackiops_query::render::{self, Figures, Render};
use trackiops_query::times::{self, Zone};
use trackiops_query::{
    By, Columns, Detail, Explain, FileSelector, Format, Nothing, Outcome, Question, Range, Step,
};
use trackiops_schemas::time::UtcMs;

use crate::output::{Output, say};
use crate::{suffix, terminal};

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
                // With its offset, and not as the note of the answer: each note is said once.
                say(format_args!(
                    "{option} {}{}",
                    times::show(moment.at, zone),
                    times::show_offset(moment.at, zone)
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
    lines(notes, zone).iter().for_each(say);
}

/// Notes in words, each once: several parts of an answer may lead to the same one.
fn lines(notes: &[Note], zone: Zone) -> Vec<String> {
    let mut lines = Vec::new();
    for note in notes {
        let line = note.show(zone);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
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
    /// table, csv, json (one object per line), parquet, or arrow (an IPC file, also known as Feather 2) [default: what the
    /// ending of --output says, else table]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write to FILE, which is replaced atomically. Its ending chooses the format: .parquet, .csv, .json (.jsonl, .ndjson),
    /// .arrow (.feather, .ipc), .txt for a table. `-` is stdout
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Form {
    /// How, and where to, if the format is something for that.
    pub fn choose(&self) -> anyhow::Result<(Format, Output)> {
        let output = Output::new(self.output.clone())?;
        let option = self.format.map(|f| (f, format!("--format {}", f.name())));
        let format = suffix::format_of(
            self.output.as_deref(),
            suffix::ANSWERS,
            option.as_ref().map(|(format, option)| (*format, &**option)),
            Format::Table(Figures::Rates),
        )?;
        if format.is_binary() && output.is_terminal() {
            bail!(
                "refusing to write Parquet or Arrow to a terminal; use --output FILE, or pipe it to a program that reads it"
            );
        }
        Ok((format, output))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_said_once() {
        let missing = || Note::NoSuchFile("no file /mnt/a".into());
        let other = Note::NoSuchFile("no file /mnt/b".into());
        let notes = [missing(), other, missing()];
        let said = lines(&notes, Zone::utc());
        assert_eq!(said, ["no file /mnt/a", "no file /mnt/b"]);
    }
}

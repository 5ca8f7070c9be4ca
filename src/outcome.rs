//! Writes an answer, or why there is none, to a terminal or a file, and chooses the exit status.

use std::io::{self, Write};
use std::mem;
use std::process::ExitCode;

use trackiops_process::output::{Output, say};
use trackiops_query::coverage::note::Note;
use trackiops_query::times::Zone;
use trackiops_query::{Answer, Columns, EmptyReason, Outcome};
use trackiops_render::terminal_style::Style;
use trackiops_render::{Format, Render};

use crate::exit_status::ExitStatus;
use crate::notes::{self, say_notes, say_step};

/// Writes an answer, with its default columns or with others, or says why there is none.
pub fn write_outcome<R: Render>(
    outcome: Outcome<R>,
    columns: Option<&Columns<R>>,
    format: Format,
    output: &Output,
    style: impl Into<Style>,
) -> anyhow::Result<ExitCode> {
    let style = Style {
        look: output.look(),
        ..style.into()
    };
    write_found(outcome, output, style.zone, |answer, out| match columns {
        None => trackiops_render::write(answer, format, style.clone(), out),
        Some(columns) => {
            trackiops_render::write_columns(answer, columns, format, style.clone(), out)
        }
    })
}

/// Whether the selection had no requests, although time was recorded.
pub fn is_idle<R>(outcome: &Outcome<R>) -> bool {
    use EmptyReason::{Idle, NoRow, NoneOf};
    matches!(
        outcome,
        Outcome::Nothing {
            why: Idle { .. } | NoRow { .. } | NoneOf { .. },
            ..
        }
    )
}

/// Says that the answer is about calls, because there were no requests.
pub fn say_calls_instead() {
    say("no requests in this time: these are calls of applications");
}

/// Says why a table by tenant or user shows calls in addition to requests.
pub fn say_no_callers() {
    say("requests to devices have no caller: rows rank by the bytes that were called for");
}

/// Writes an answer with `write`, or says why there is none.
pub fn write_found<R>(
    outcome: Outcome<R>,
    output: &Output,
    zone: Zone,
    write: impl Fn(&Answer<R>, &mut (dyn Write + Send)) -> io::Result<()>,
) -> anyhow::Result<ExitCode> {
    match outcome {
        Outcome::Found(answer) => {
            say_step(answer.step);
            say_notes(&answer.notes, zone);
            output.write(|out| write(&answer, out))?;
            let status = exit_status(&answer.notes);
            // The process is about to exit, which frees many rows faster than dropping them.
            mem::forget(answer);
            Ok(status)
        }
        Outcome::Nothing { why, notes } => {
            let status = say_nothing_found(&why, &notes, zone);
            if let Some(untouched) = output.unwritten_note() {
                say(untouched);
            }
            Ok(status)
        }
    }
}

/// Says why there is no answer. Returns the exit status.
pub fn say_nothing_found(why: &EmptyReason, found: &[Note], zone: Zone) -> ExitCode {
    say_notes(found, zone);
    let zone = notes::zone(zone);
    let (why, status) = match is_damaged(found) {
        true => (why.show_damaged(zone), ExitStatus::Damaged),
        false => (why.show(zone), ExitStatus::Negative),
    };
    say(format_args!("trackiops: {why}"));
    status.into()
}

/// Says that there is nothing to analyze. Returns the exit status.
pub fn say_no_rows(notes: &[Note], zone: Zone) -> ExitCode {
    say_notes(notes, zone);
    say(
        "trackiops: nothing to analyze: no row of this kind and level is in the range; a longer range or another --level may have some",
    );
    status_of_rows(0, notes)
}

/// The exit status of an answer with `count` rows and these notes.
pub fn status_of_rows(count: usize, notes: &[Note]) -> ExitCode {
    match (is_damaged(notes), count) {
        (true, _) => ExitStatus::Damaged,
        (false, 0) => ExitStatus::Negative,
        (false, _) => ExitStatus::Success,
    }
    .into()
}

/// The exit status of an answer.
pub fn exit_status(notes: &[Note]) -> ExitCode {
    status_of_rows(1, notes)
}

fn is_damaged(notes: &[Note]) -> bool {
    let mut notes = notes.iter();
    notes.any(Note::is_damage)
}

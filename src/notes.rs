//! Writes the notes on an answer: as lines for people, or as data for `trackiops serve`, which runs commands.
//!
//! On a terminal, an answer shows only its most important note; `--notes` shows all. A log or a pipe gets all.

use std::env;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use trackiops_process::output::{say, write_stderr};
use trackiops_query::Step;
use trackiops_query::coverage::note::Note;
use trackiops_query::times::{self, Moment, Zone};

/// If set to [`AS_DATA`], each note is a JSON object, with times in UTC.
pub const VARIABLE: &str = "TRACKIOPS_NOTES";
/// The value of [`VARIABLE`] for JSON notes.
pub const AS_DATA: &str = "json";

/// Whether `--notes` was given.
static SHOWS_ALL: AtomicBool = AtomicBool::new(false);

/// From now on all notes are shown.
pub fn show_all() {
    SHOWS_ALL.store(true, Ordering::Relaxed);
}

fn are_data() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == AS_DATA)
}

/// The zone of times in notes.
pub fn zone(of_people: Zone) -> Zone {
    match are_data() {
        true => Zone::utc(),
        false => of_people,
    }
}

fn write(object: &Value) {
    write_stderr(format_args!("{object}\n"));
}

/// Writes an answer's notes to stderr.
pub fn say_notes(notes: &[Note], zone: Zone) {
    match are_data() {
        true => lines(
            notes.iter().filter(|note| !note.is_about_form()),
            Zone::utc(),
        )
        .iter()
        .for_each(|note| write(&json!({"note": note}))),
        false if SHOWS_ALL.load(Ordering::Relaxed) || !io::stderr().is_terminal() => {
            lines(notes.iter(), zone).iter().for_each(say);
        }
        false => brief(notes, zone).iter().for_each(say),
    }
}

/// The most important note in one line, and the number of notes.
fn brief(notes: &[Note], zone: Zone) -> Option<String> {
    // The heads of tables already say which times are local.
    let mut said: Vec<_> = notes
        .iter()
        .filter(|note| !matches!(note, Note::LocalTimes { .. }))
        .collect();
    said.sort_by_key(|note| note.rank());
    let lines = lines(said.into_iter(), zone);
    match &lines[..] {
        [] => None,
        [one] => Some(one.clone()),
        [first, ..] => Some(format!(
            "{} notes: {first}; --notes shows them",
            lines.len()
        )),
    }
}

/// Writes the length of an answer's windows, which may have been chosen automatically. People see it in the rows.
pub fn say_step(step: Step) {
    if are_data()
        && let Step::Windows(step) = step
    {
        write(&json!({"step": step.to_string()}));
    }
}

/// Says which time an option means, if it was local.
pub fn say_moment(option: &str, moment: Moment, zone: Zone) {
    if moment.local && !are_data() {
        // Use the offset of that time: it can differ from the one in the answer's note on local times.
        let (time, offset) = (
            times::show(moment.at, zone),
            times::show_offset(moment.at, zone),
        );
        say(format_args!("{option} {time}{offset}"));
    }
}

/// Notes in words, without repetitions: several parts of an answer may cause the same note.
fn lines<'n>(notes: impl Iterator<Item = &'n Note>, zone: Zone) -> Vec<String> {
    let mut lines = Vec::new();
    for note in notes {
        let line = note.show(zone);
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_query::coverage::{Gap, Interval, Losses};
    use trackiops_schemas::time::UtcMs;

    #[test]
    fn a_note_is_said_once() {
        let missing = || Note::NoSuchFile("no file /mnt/a".into());
        let other = Note::NoSuchFile("no file /mnt/b".into());
        let notes = [missing(), other, missing()];
        let said = lines(notes.iter(), Zone::utc());
        assert_eq!(said, ["no file /mnt/a", "no file /mnt/b"]);
    }

    #[test]
    fn one_line_says_what_matters_most() {
        let range = Interval::new(UtcMs(0), UtcMs(60_000));
        let gap = Gap {
            range,
            missing_ms: 60_000,
        };
        let local = Note::LocalTimes { at: UtcMs(0) };
        let gap = Note::Gap { host: None, gap };
        let losses = Losses {
            range,
            count: 12_345,
            seen: 1_000_000,
        };
        let lost = Note::Lost { host: None, losses };
        let said = |notes: &[Note]| brief(notes, Zone::utc());
        assert_eq!(said(std::slice::from_ref(&local)), None);
        let one = said(&[local.clone(), gap.clone()]).unwrap();
        assert_eq!(one, gap.show(Zone::utc()));
        let two = said(&[local, gap, lost]).unwrap();
        assert!(
            two.starts_with("2 notes: 12,345 of 1,000,000 requests lost"),
            "{two}"
        );
        assert!(two.ends_with("; --notes shows them"), "{two}");
    }
}

//! A table for people: readable units, local time, no colours, nothing that a pipe would not like.

use std::io::{self, Write};

use crate::answer::Answer;
use crate::step::Step;
use crate::times::{Zone, show, show_offset, show_range};
use trackiops_schemas::time::UtcMs;

/// Between two columns.
const GAP: &str = "  ";
/// What is not known, and what did not happen.
pub(super) const NONE: &str = "-";

/// A table, ready to be written.
pub struct Table {
    /// What holds for every row.
    pub(super) title: Vec<String>,
    pub(super) header: Vec<Cell>,
    pub(super) lines: Vec<Vec<Cell>>,
}

/// A cell, and the side it leans to.
pub(super) struct Cell {
    text: String,
    left: bool,
}

pub(super) fn left(text: impl Into<String>) -> Cell {
    let (text, left) = (text.into(), true);
    Cell { text, left }
}

pub(super) fn right(text: impl Into<String>) -> Cell {
    let (text, left) = (text.into(), false);
    Cell { text, left }
}

impl Table {
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.title.is_empty() {
            writeln!(out, "{}", self.title.join(GAP))?;
        }
        let lines = || std::iter::once(&self.header).chain(&self.lines);
        let mut widths = vec![0; self.header.len()];
        for line in lines() {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.text.chars().count().max(*width);
            }
        }
        for line in lines() {
            let cells = line
                .iter()
                .zip(&widths)
                .map(|(cell, width)| match cell.left {
                    true => format!("{:<width$}", cell.text),
                    false => format!("{:>width$}", cell.text),
                });
            let cells: Vec<_> = cells.collect();
            writeln!(out, "{}", cells.join(GAP).trim_end())?;
        }
        Ok(())
    }
}

/// How a table shows times.
pub(super) struct Times {
    /// Each row has one.
    pub(super) shown: bool,
    /// Local time had two offsets in the range: each time is shown with its own.
    offsets: bool,
    zone: Zone,
}

impl Times {
    /// For rows whose first and last have these times.
    pub(super) fn of<R>(answer: &Answer<R>, zone: Zone, time: impl Fn(&R) -> UtcMs) -> Self {
        let rows = &answer.rows;
        let shown = answer.step != Step::All;
        let offset = |row: Option<&R>| row.map(|row| show_offset(time(row), zone));
        Self {
            shown,
            offsets: shown && offset(rows.first()) != offset(rows.last()),
            zone,
        }
    }

    /// What stands above the table, where rows have no time.
    pub(super) fn title<R>(&self, answer: &Answer<R>) -> Option<String> {
        let (start, end) = (answer.range.start, answer.range.end);
        let offset = show_offset(start, self.zone);
        (!self.shown).then(|| format!("{} ({offset})", show_range(start, end, self.zone)))
    }

    /// The column's name, if there is one; `first` is the time of the first row.
    pub(super) fn header(&self, first: UtcMs) -> Option<Cell> {
        self.shown.then(|| {
            left(match self.offsets {
                true => "time".into(),
                false => format!("time ({})", show_offset(first, self.zone)),
            })
        })
    }

    /// A row's time, if it has one.
    pub(super) fn cell(&self, time: UtcMs) -> Option<Cell> {
        self.shown.then(|| {
            let mut text = show(time, self.zone);
            if self.offsets {
                text.push_str(&show_offset(time, self.zone));
            }
            left(text)
        })
    }
}

/// Control characters in the name of a file or a cgroup must not reach a terminal.
pub(crate) fn printable(name: &str) -> String {
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.into(),
    };
    name.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(
            printable("/a b\u{1b}[2J\n\u{9b}é"),
            "/a b\\u{1b}[2J\\n\\u{9b}é"
        );
    }
}

//! A table for people: readable units, local time, no colours; drawings only on a terminal, where it has room for them.

use std::io::{self, Write};

use super::look::{BAR_WIDTH, Look};
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
    /// Adds a column of bars, one for each line, before the texts at the end. Without room for it there is none.
    pub(super) fn add_bars(&mut self, name: &str, values: &[Option<f64>], look: Look) {
        let most = values.iter().flatten().copied().fold(0.0, f64::max);
        let room = look.width.unwrap_or(usize::MAX);
        let is_figure = |cell: &Cell| !cell.left;
        let figures = self
            .header
            .iter()
            .rposition(is_figure)
            .map_or(0, |at| at + 1);
        let needed = self.widths()[..figures].iter().sum::<usize>() + GAP.len() * (figures + 1);
        if values.len() != self.lines.len() || most <= 0.0 || needed + 2 * BAR_WIDTH > room {
            return;
        }
        let name: String = name.chars().take(2 * BAR_WIDTH).collect();
        self.header.insert(figures, left(name));
        for (line, value) in self.lines.iter_mut().zip(values) {
            let bar = value.map_or_else(String::new, |value| look.bar(value / most));
            line.insert(figures, left(bar));
        }
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<Cell>> {
        std::iter::once(&self.header).chain(&self.lines)
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.header.len()];
        for line in self.lines() {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.text.chars().count().max(*width);
            }
        }
        widths
    }

    pub(super) fn write(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        if !self.title.is_empty() {
            writeln!(out, "{}", self.title.join(GAP))?;
        }
        let is_text: Vec<_> = self.header.iter().map(|cell| cell.left).collect();
        let widths = look.fit(self.widths(), &is_text, GAP.len());
        for line in self.lines() {
            let cells = line
                .iter()
                .zip(&widths)
                .map(|(cell, width)| match cell.left {
                    true => format!("{:<width$}", look.cut(&cell.text, *width)),
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

    fn shown(look: Look) -> String {
        let mut table = Table {
            title: vec!["title".into()],
            header: vec![right("bytes"), left("file")],
            lines: [("4 KiB", "/mnt/home/db/orders.db"), ("1 KiB", "/a")]
                .map(|(bytes, file)| vec![right(bytes), left(file)])
                .into(),
        };
        if look.drawings {
            table.add_bars("bytes", &[Some(4.0), Some(1.0)], look);
        }
        let mut out = Vec::new();
        table.write(look, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pipe_gets_all_of_it_and_a_terminal_what_fits() {
        assert_eq!(
            shown(Look::default()),
            "title\nbytes  file\n4 KiB  /mnt/home/db/orders.db\n1 KiB  /a\n"
        );
        let mut look = Look {
            width: Some(30),
            ascii: false,
            drawings: true,
        };
        assert_eq!(
            shown(look),
            "title\nbytes  bytes     file\n4 KiB  ████████  …ome/db/orders.db\n1 KiB  ██        /a\n"
                .replace("…ome/db/orders.db", "…db/orders.db")
        );
        look.ascii = true;
        look.width = Some(20);
        assert_eq!(
            shown(look),
            "title\nbytes  file\n4 KiB  .../orders.db\n1 KiB  /a\n"
        );
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(
            printable("/a b\u{1b}[2J\n\u{9b}é"),
            "/a b\\u{1b}[2J\\n\\u{9b}é"
        );
    }
}

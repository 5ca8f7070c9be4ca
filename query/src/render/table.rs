//! A table for people: readable units, local time, no colours, nothing that a pipe would not like.
//! The file stands last, where a long path pushes no figure out of sight.

use std::io::{self, Write};

use trackiops_schemas::rollup::Direction;

use super::Figures;
use super::record::per_second;
use super::units::{bytes, bytes_per_second, latency, rate};
use crate::answer::{Answer, AnswerRow};
use crate::merge::{By, File};
use crate::step::Step;
use crate::times::{Zone, show, show_offset, show_range};

/// Between two columns.
const GAP: &str = "  ";
/// What is not known, and what did not happen.
const NONE: &str = "-";

pub(super) fn write(
    answer: &Answer,
    figures: Figures,
    zone: Zone,
    out: &mut dyn Write,
) -> io::Result<()> {
    let shape = Shape::of(answer, figures, zone);
    if let Some(title) = shape.title(answer, zone) {
        writeln!(out, "{title}")?;
    }
    let lines: Vec<_> = std::iter::once(shape.header(answer, zone))
        .chain(answer.rows.iter().map(|row| shape.line(row, zone)))
        .collect();
    let mut widths = vec![0; lines[0].len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.text.chars().count().max(*width);
        }
    }
    for line in &lines {
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

/// Which columns a table has.
struct Shape {
    figures: Figures,
    time: bool,
    /// Local time had two offsets in the range: each time is shown with its own.
    offsets: bool,
    host: bool,
    tenant: bool,
    file: bool,
    errors: bool,
}

struct Cell {
    text: String,
    left: bool,
}

fn left(text: impl Into<String>) -> Cell {
    let (text, left) = (text.into(), true);
    Cell { text, left }
}

fn right(text: impl Into<String>) -> Cell {
    let (text, left) = (text.into(), false);
    Cell { text, left }
}

impl Shape {
    fn of(answer: &Answer, figures: Figures, zone: Zone) -> Self {
        let rows = &answer.rows;
        let differ =
            |get: fn(&AnswerRow, &AnswerRow) -> bool| rows.windows(2).any(|w| !get(&w[0], &w[1]));
        let time = answer.step != Step::All;
        let ends = [rows.first(), rows.last()].map(|row| row.map(|r| show_offset(r.time, zone)));
        Self {
            figures,
            time,
            offsets: time && ends[0] != ends[1],
            host: differ(|a, b| a.host == b.host),
            tenant: answer.by == By::Tenant,
            file: differ(|a, b| a.file.key == b.file.key && a.file.path == b.file.path),
            errors: rows
                .iter()
                .any(|r| r.row.read.errors + r.row.write.errors > 0),
        }
    }

    /// What holds for every row.
    fn title(&self, answer: &Answer, zone: Zone) -> Option<String> {
        let mut parts = Vec::new();
        if let (false, Some(row)) = (self.file, answer.rows.first()) {
            let file = &row.file;
            parts.push(name(file));
            if file.path.is_some() {
                parts.push(format!("{}:{}", file.dev, file.fileid));
            }
            parts.extend(file.mount.clone());
        }
        if !self.time {
            let (start, end) = (answer.range.start, answer.range.end);
            let offset = show_offset(start, zone);
            parts.push(format!("{} ({offset})", show_range(start, end, zone)));
        }
        (!parts.is_empty()).then(|| parts.join(GAP))
    }

    fn header(&self, answer: &Answer, zone: Zone) -> Vec<Cell> {
        let mut cells = Vec::new();
        if self.time {
            let at = answer
                .rows
                .first()
                .map_or(answer.range.start, |row| row.time);
            cells.push(left(match self.offsets {
                true => "time".into(),
                false => format!("time ({})", show_offset(at, zone)),
            }));
        }
        if self.host {
            cells.push(left("host"));
        }
        for direction in ["r", "w"] {
            if !self.time {
                cells.push(right(format!("{direction}-bytes")));
            }
            let figures = match self.figures {
                Figures::Rates => ["iops", "throughput", "mean", "p99"].as_slice(),
                Figures::Parts => ["iops", "mean", "queue", "network", "completion"].as_slice(),
            };
            for figure in figures {
                cells.push(right(format!("{direction}-{figure}")));
            }
        }
        if self.errors {
            cells.push(right("errors"));
        }
        if self.tenant {
            cells.push(left("tenant"));
        }
        if self.file {
            cells.push(left("file"));
        }
        cells
    }

    fn line(&self, row: &AnswerRow, zone: Zone) -> Vec<Cell> {
        let mut cells = Vec::new();
        if self.time {
            let mut time = show(row.time, zone);
            if self.offsets {
                time.push_str(&show_offset(row.time, zone));
            }
            cells.push(left(time));
        }
        if self.host {
            cells.push(left(&*row.host));
        }
        for direction in [&row.row.read, &row.row.write] {
            if !self.time {
                cells.push(figure(direction.requests, Some(bytes(direction.bytes))));
            }
            cells.extend(self.figures(direction, row.covered_ms));
        }
        if self.errors {
            cells.push(right(
                (row.row.read.errors + row.row.write.errors).to_string(),
            ));
        }
        if self.tenant {
            cells.push(left(row.tenant.as_deref().map_or(NONE.into(), printable)));
        }
        if self.file {
            cells.push(left(name(&row.file)));
        }
        cells
    }

    fn figures(&self, direction: &Direction, covered_ms: u64) -> Vec<Cell> {
        let d = direction;
        let time = |ns: f64| latency(ns / 1000.0);
        let mut texts = vec![per_second(d.requests, covered_ms).map(rate)];
        match self.figures {
            Figures::Rates => texts.extend([
                per_second(d.bytes, covered_ms).map(bytes_per_second),
                d.latency_ns_mean().map(time),
                d.latency.quantile_us(0.99).map(latency),
            ]),
            Figures::Parts => {
                texts.push(d.latency_ns_mean().map(time));
                let parts = d.parts_ns_mean().map(|parts| parts.map(time));
                texts.extend(match parts {
                    Some(parts) => parts.map(Some),
                    None => [None, None, None],
                });
            }
        }
        let cells = texts.into_iter().map(|text| figure(d.requests, text));
        cells.collect()
    }
}

/// A figure of a direction in which there were requests; otherwise it says nothing.
fn figure(requests: u64, text: Option<String>) -> Cell {
    let text = text.filter(|_| requests > 0);
    right(text.unwrap_or_else(|| NONE.into()))
}

/// The path, or what `--file` takes in its place.
fn name(file: &File) -> String {
    let id = || format!("{}:{}", file.dev, file.fileid);
    file.path.as_deref().map_or_else(id, printable)
}

/// Control characters in the name of a file or a cgroup must not reach a terminal.
fn printable(name: &str) -> String {
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

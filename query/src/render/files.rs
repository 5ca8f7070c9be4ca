//! What files did, for people. The file stands last, where a long path pushes no figure out of sight.

use trackiops_schemas::rollup::Direction;

use super::Figures;
use super::record::per_second;
use super::table::{Cell, NONE, Table, Times, left, printable, right};
use super::units::{bytes, bytes_per_second, latency, rate};
use crate::answer::{Answer, AnswerRow};
use crate::group::{By, Of};
use crate::times::Zone;

pub(super) fn table(answer: &Answer, figures: Figures, zone: Zone) -> Table {
    let shape = Shape::of(answer, figures, zone);
    Table {
        title: shape.title(answer),
        header: shape.header(answer),
        lines: answer.rows.iter().map(|row| shape.line(row)).collect(),
    }
}

/// Which columns a table has.
struct Shape {
    figures: Figures,
    times: Times,
    host: bool,
    tenant: bool,
    mount: bool,
    /// What rows are of, where they differ by that.
    of: Option<&'static str>,
    errors: bool,
}

impl Shape {
    fn of(answer: &Answer, figures: Figures, zone: Zone) -> Self {
        let rows = &answer.rows;
        let differ =
            |get: fn(&AnswerRow, &AnswerRow) -> bool| rows.windows(2).any(|w| !get(&w[0], &w[1]));
        Self {
            figures,
            times: Times::of(answer, zone, |row| row.time),
            host: answer.by != By::Host && differ(|a, b| a.host == b.host),
            tenant: answer.by == By::Tenant,
            mount: matches!(answer.by, By::Dir { .. }) && differ(|a, b| a.mount() == b.mount()),
            of: differ(|a, b| a.of == b.of && a.path() == b.path()).then_some(match answer.by {
                By::File | By::Tenant | By::Name => "file",
                By::Dir { .. } => "directory",
                By::Mount => "mount",
                By::Host => "host",
            }),
            errors: rows
                .iter()
                .any(|r| r.row.read.errors + r.row.write.errors > 0),
        }
    }

    /// What holds for every row.
    fn title(&self, answer: &Answer) -> Vec<String> {
        let mut parts = Vec::new();
        if let (None, Some(row)) = (self.of, answer.rows.first()) {
            parts.push(name(row));
            if let Some(file) = row.file.as_ref().filter(|file| file.path.is_some()) {
                parts.push(format!("{}:{}", file.dev, file.fileid));
            }
            if !matches!(row.of, Of::Mount(_)) {
                parts.extend(row.mount().map(printable));
            }
        }
        parts.extend(self.times.title(answer));
        parts
    }

    fn header(&self, answer: &Answer) -> Vec<Cell> {
        let first = answer.rows.first();
        let first = first.map_or(answer.range.start, |row| row.time);
        let mut cells: Vec<_> = self.times.header(first).into_iter().collect();
        if self.host {
            cells.push(left("host"));
        }
        for direction in ["r", "w"] {
            if !self.times.shown {
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
        if self.mount {
            cells.push(left("mount"));
        }
        cells.extend(self.of.map(left));
        cells
    }

    fn line(&self, row: &AnswerRow) -> Vec<Cell> {
        let mut cells: Vec<_> = self.times.cell(row.time).into_iter().collect();
        if self.host {
            cells.push(left(&*row.host));
        }
        for direction in [&row.row.read, &row.row.write] {
            if !self.times.shown {
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
        if self.mount {
            cells.push(left(row.mount().map_or(NONE.into(), printable)));
        }
        if self.of.is_some() {
            cells.push(left(name(row)));
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

/// What a row is of. A file without a name has what `--file` takes in its place.
fn name(row: &AnswerRow) -> String {
    match &row.of {
        Of::File(_) => row
            .file
            .as_ref()
            .map_or(NONE.into(), |f| printable(&f.name())),
        Of::Name(_, name) => printable(name),
        Of::Dir(_, dir) => dir.as_deref().map_or("(no name)".into(), printable),
        Of::Mount(mount) => mount.as_deref().map_or(NONE.into(), printable),
        Of::Host(_) => printable(&row.host),
    }
}

//! Table of rows about files and groups of files. The file is the last column, so a long path cannot push figures off the screen.

use std::borrow::Cow;

use trackiops_schemas::level::IoLevel;
use trackiops_schemas::row::Direction;

use crate::table::{Cell, ESSENTIAL, KEY, NAME, NONE, Table, Times, Weight, left, right};
use crate::units::{bytes, bytes_per_second, latency, rate};
use trackiops_query::Figures;
use trackiops_query::answer::{Answer, AnswerRow};
use trackiops_query::columns::per_second;
use trackiops_query::group::{Entity, Level};
use trackiops_query::times::Zone;

pub(super) fn table(answer: &Answer, figures: Figures, zone: Zone) -> Table {
    let shape = Shape::of(answer, figures, zone);
    Table {
        title: shape.title(answer),
        header: shape.header(answer),
        lines: answer.rows.iter().map(|row| shape.line(row)).collect(),
        is_chosen: false,
    }
}

/// Columns in place of the part between queue and completion where it is split, with their weights.
const SIDES: [(&str, Weight); 3] = [
    ("network", ESSENTIAL + 6),
    ("server", ESSENTIAL + 6),
    ("unknown", ESSENTIAL + 3),
];

/// A direction that has columns.
#[derive(Clone, Copy)]
struct Shown {
    prefix: &'static str,
    get: fn(&AnswerRow) -> Cow<'_, Direction>,
}

impl Shown {
    fn of(rows: &[AnswerRow]) -> Vec<Self> {
        let read = Self {
            prefix: "r",
            get: |row| row.sum.read(),
        };
        let write = Self {
            prefix: "w",
            get: |row| row.sum.write(),
        };
        let both = [read, write];
        let is_there = |shown: &Self| rows.iter().any(|row| (shown.get)(row).requests > 0);
        let there: Vec<_> = both.into_iter().filter(is_there).collect();
        match there.is_empty() {
            true => both.into(),
            false => there,
        }
    }
}

/// The columns of a table.
struct Shape {
    figures: Figures,
    times: Times,
    /// Read and write. A direction without requests has no columns.
    directions: Vec<Shown>,
    host: bool,
    /// Header of the column of tenants, if there is one.
    tenant: Option<&'static str>,
    level: bool,
    mount: bool,
    /// Header of the entity's column; `None` if all rows have the same entity.
    of: Option<&'static str>,
    errors: bool,
    /// Whether a row tells network and server apart.
    is_split: bool,
    /// Name of the part of latencies between queue and completion otherwise: that of the component that answers requests.
    answered_by: &'static str,
}

impl Shape {
    fn of(answer: &Answer, figures: Figures, zone: Zone) -> Self {
        let rows = &answer.rows;
        let differ =
            |get: fn(&AnswerRow, &AnswerRow) -> bool| rows.windows(2).any(|w| !get(&w[0], &w[1]));
        Self {
            figures,
            times: Times::of(answer, zone, |row| row.time),
            directions: Shown::of(rows),
            host: answer.by.level != Level::Host && differ(|a, b| a.host == b.host),
            tenant: answer.by.tenants.then_some(match answer.by.only_users {
                true => "user",
                false => "tenant",
            }),
            level: answer.by.levels,
            mount: matches!(answer.by.level, Level::Dir { .. })
                && differ(|a, b| a.mount() == b.mount()),
            of: differ(|a, b| a.of == b.of && a.path() == b.path()).then_some(
                match answer.by.level {
                    Level::File | Level::Name => "file",
                    Level::Dir { .. } => "directory",
                    Level::Mount => "mount",
                    Level::Volume => "volume",
                    Level::Host => "host",
                },
            ),
            errors: rows
                .iter()
                .any(|r| r.sum.read().errors + r.sum.write().errors > 0),
            is_split: rows.iter().any(is_split),
            answered_by: answered_by(rows.iter().map(|row| row.level)),
        }
    }

    /// Facts that all rows share.
    fn title(&self, answer: &Answer) -> Vec<String> {
        let mut parts = Vec::new();
        if let (None, Some(row)) = (self.of, answer.rows.first()) {
            parts.push(row.name());
            if let Some(file) = row.file.as_ref().filter(|file| file.path.is_some()) {
                parts.push(format!("{}:{}", file.dev, file.fileid));
            }
            if !matches!(row.of, Entity::Mount(_)) {
                parts.extend(row.mount().map(str::to_owned));
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
            cells.push(left("host").weighs(KEY + 1));
        }
        for Shown { prefix, .. } in &self.directions {
            let direction = prefix;
            if !self.times.shown {
                cells.push(right(format!("{direction}-bytes")).weighs(ESSENTIAL + 9));
            }
            let figures = match self.figures {
                Figures::Rates => vec![
                    ("iops", 60),
                    ("throughput", if self.times.shown { 70 } else { 40 }),
                    ("mean", 50),
                    ("p99", ESSENTIAL + 8),
                ],
                Figures::Parts => {
                    let mut figures = vec![
                        ("iops", 40),
                        ("mean", ESSENTIAL + 7),
                        ("queue", ESSENTIAL + 5),
                    ];
                    let whole = [(self.answered_by, ESSENTIAL + 6)];
                    figures.extend(match self.is_split {
                        true => SIDES.as_slice(),
                        false => &whole,
                    });
                    figures.push(("completion", ESSENTIAL + 4));
                    figures
                }
            };
            for (figure, weight) in figures {
                cells.push(right(format!("{direction}-{figure}")).weighs(weight));
            }
        }
        if self.errors {
            cells.push(right("errors").weighs(80));
        }
        cells.extend(self.tenant.map(|name| left(name).weighs(KEY + 3)));
        if self.level {
            cells.push(left("level").weighs(KEY + 2));
        }
        if self.mount {
            cells.push(left("mount").weighs(75));
        }
        cells.extend(self.of.map(|of| left(of).weighs(NAME)));
        cells
    }

    fn line(&self, row: &AnswerRow) -> Vec<Cell> {
        let mut cells: Vec<_> = self.times.cell(row.time).into_iter().collect();
        if self.host {
            cells.push(left(&*row.host));
        }
        for Shown { get, .. } in &self.directions {
            let direction = get(row);
            if !self.times.shown {
                cells.push(figure(direction.requests, Some(bytes(direction.bytes))));
            }
            cells.extend(self.figures(&direction, row.covered_ms));
        }
        if self.errors {
            cells.push(right(
                (row.sum.read().errors + row.sum.write().errors).to_string(),
            ));
        }
        if self.tenant.is_some() {
            let tenant = row.tenant.named();
            cells.push(left(tenant.as_deref().unwrap_or(NONE)));
        }
        if self.level {
            cells.push(left(row.level.as_str()));
        }
        if self.mount {
            cells.push(left(row.mount().unwrap_or(NONE)));
        }
        if self.of.is_some() {
            cells.push(left(row.name()));
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
                d.quantile_us(0.99).map(latency),
            ]),
            Figures::Parts => {
                texts.push(d.latency_ns_mean().map(time));
                let parts = d.parts_ns_mean();
                let [queue, rtt, completion] = [0, 1, 2].map(|of| parts.map(|parts| parts[of]));
                let sides = d.rtt_parts_ns_mean();
                let sides = match (self.is_split, sides) {
                    (true, Some(sides)) => sides.map(Some).to_vec(),
                    (true, None) => vec![None, None, rtt],
                    (false, _) => vec![rtt],
                };
                let means = [vec![queue], sides, vec![completion]].concat();
                texts.extend(means.into_iter().map(|ns| ns.map(time)));
            }
        }
        let cells = texts.into_iter().map(|text| figure(d.requests, text));
        cells.collect()
    }
}

/// Whether a row has separate times of network and server.
fn is_split(row: &AnswerRow) -> bool {
    let directions = [row.sum.read(), row.sum.write()];
    directions
        .iter()
        .any(|direction| direction.rtt_parts_ns_mean().is_some())
}

/// A figure of a direction, or a dash without requests.
fn figure(requests: u64, text: Option<String>) -> Cell {
    let text = text.filter(|_| requests > 0);
    right(text.unwrap_or_else(|| NONE.into()))
}

/// The component that answers requests of these levels. Tables name the part of the latency between queue and completion after it.
pub(crate) fn answered_by(mut levels: impl Iterator<Item = IoLevel>) -> &'static str {
    match levels.any(|level| level == IoLevel::Wire) {
        true => "network",
        false => "device",
    }
}

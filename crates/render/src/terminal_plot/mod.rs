//! Draws an answer in a terminal: with windows as heat maps of latencies or charts of columns, otherwise as bars.

mod charts;
mod heat_map;
mod time_axis;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use trackiops_query::answer::{Answer, AnswerRow};
use trackiops_query::columns::{Columns, per_second};
use trackiops_query::group::{GroupBy, Level};
use trackiops_query::operations::OperationAnswer;
use trackiops_query::step::Step;
use trackiops_query::times::{show_length, show_offset, show_range};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::time::Granularity;

use self::charts::Course;
use self::heat_map::{HeatMap, Shades};
use self::time_axis::{Signs, TimeAxis};
use crate::plot::Plot;
use crate::terminal_style::{Look, Style};
use crate::units;
use crate::visible::{visible, wrap};

/// Cells of a line if the width is unknown.
const USUAL_WIDTH: usize = 80;
/// Least width of a picture: with less, its labels have no room.
const LEAST_WIDTH: usize = 40;
/// Cells of the labels beside a chart.
const LABEL_CELLS: usize = 11;
/// Most heat maps of an answer: for the operations with the most requests.
const MAX_MAPS: usize = 4;

/// The requests of one kind in a row.
pub struct Requests<'r> {
    /// Their kind: reads, writes, an operation.
    pub kind: &'r str,
    /// Their number.
    pub count: u64,
    /// Their bytes, as far as known.
    pub bytes: u64,
    /// Latencies of the requests that have one.
    pub latency: &'r Histogram,
}

/// A kind of row that can be drawn in a terminal.
pub trait TerminalPlot: Plot {
    /// Calls `each` with the requests of each kind in the row.
    fn requests(&self, each: &mut dyn FnMut(Requests<'_>));

    /// The host that recorded the row.
    fn host(&self) -> &str;

    /// The subject of the row, without its operation.
    fn subject(&self) -> String;

    /// The subjects of several such rows in words: `files`.
    fn subjects(by: GroupBy) -> &'static str;
}

impl TerminalPlot for AnswerRow {
    fn requests(&self, each: &mut dyn FnMut(Requests<'_>)) {
        for (kind, direction) in [("reads", self.sum.read()), ("writes", self.sum.write())] {
            each(Requests {
                kind,
                count: direction.requests,
                bytes: direction.bytes,
                latency: &direction.latency,
            });
        }
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn subject(&self) -> String {
        self.name()
    }

    fn subjects(by: GroupBy) -> &'static str {
        match by.level {
            Level::File => "files",
            Level::Name => "names",
            Level::Dir { .. } => "directories",
            Level::Mount => "mounts",
            Level::Volume => "volumes",
            Level::Host => "hosts",
        }
    }
}

impl TerminalPlot for OperationAnswer {
    fn requests(&self, each: &mut dyn FnMut(Requests<'_>)) {
        let unknown = Histogram::default();
        each(Requests {
            kind: &self.op,
            count: self.sums.requests,
            bytes: self.all_bytes().unwrap_or(0),
            latency: self.histogram().unwrap_or(&unknown),
        });
    }

    fn host(&self) -> &str {
        &self.host
    }

    fn subject(&self) -> String {
        let about = self.about.as_ref().map(|about| &about.shown);
        let subject = about.or(self.mount.as_ref()).unwrap_or(&self.host);
        subject.to_string()
    }

    fn subjects(by: GroupBy) -> &'static str {
        AnswerRow::subjects(by)
    }
}

/// Draws an answer as text. Without windows, each subject has a bar. With windows and without `columns`, each kind of requests has a heat
/// map of latencies; with `columns`, which must be numbers, each column has a chart.
///
/// No line is wider than `style` says, or than 80 cells by default; the least width of a picture is 40 cells. Fails if `out` does.
pub fn plot_in_terminal<R: TerminalPlot>(
    answer: &Answer<R>,
    columns: Option<&Columns<R>>,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let canvas = Canvas::new(style.look);
    let range = show_range(answer.range.start, answer.range.end, style.zone);
    let offset = show_offset(answer.range.start, style.zone);
    canvas.line(
        &format!("{}  {range} ({offset})", subject(answer, &canvas)),
        out,
    )?;
    let Step::Windows(step) = answer.step else {
        return bars(answer, columns, style, &canvas, out);
    };
    let axis = TimeAxis::new(answer, step, canvas.width - LABEL_CELLS - 2);
    match columns {
        Some(columns) => {
            charts::lines(answer, columns, &axis, &canvas, style.zone, out)?;
            canvas.line("", out)?;
            let largest = match axis.windows() {
                1 => String::new(),
                windows => {
                    let step = show_length(step.ms().cast_unsigned());
                    format!(", the largest of {windows} windows of {step}")
                }
            };
            let column = format!("a column is {}{largest}", axis.column_length());
            canvas.line(&format!("{column}; {}", time_legend(&canvas)), out)
        }
        None => heat_maps(answer, step, &axis, &canvas, style, out),
    }
}

fn bars<R: TerminalPlot>(
    answer: &Answer<R>,
    columns: Option<&Columns<R>>,
    style: &Style,
    canvas: &Canvas,
    out: &mut dyn Write,
) -> io::Result<()> {
    let sorted = style.sorted_by.as_deref();
    let usual = || Columns::parse(sorted.or(R::BARS)?).ok();
    let usual = columns.is_none().then(usual).flatten();
    match columns.or(usual.as_ref()) {
        Some(columns) => charts::bars(answer, columns, canvas, out),
        None => Ok(()),
    }
}

/// The rates and latencies of all requests.
fn heat_maps<R: TerminalPlot>(
    answer: &Answer<R>,
    step: Granularity,
    axis: &TimeAxis,
    canvas: &Canvas,
    style: &Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut maps: BTreeMap<String, HeatMap> = BTreeMap::new();
    let mut totals: BTreeMap<&str, Vec<[u64; 2]>> = BTreeMap::new();
    for row in &answer.rows {
        let Some(column) = R::time(row).and_then(|time| axis.column(time)) else {
            continue;
        };
        let totals = totals.entry(row.host());
        let [requests, bytes] = &mut totals.or_insert_with(|| vec![[0; 2]; axis.columns()])[column];
        row.requests(&mut |of| {
            *requests = requests.saturating_add(of.count);
            *bytes = bytes.saturating_add(of.bytes);
            if of.count == 0 {
                return;
            }
            if !maps.contains_key(of.kind) {
                maps.insert(of.kind.to_owned(), HeatMap::default());
            }
            if let Some(map) = maps.get_mut(of.kind) {
                map.requests = map.requests.saturating_add(of.count);
                map.add(axis, column, of.latency);
            }
        });
    }
    type Show = fn(f64) -> String;
    let kinds: [(&str, usize, Show); 2] = [
        ("requests per second", 0, units::rate),
        ("throughput", 1, units::bytes_per_second),
    ];
    for (name, which, show) in kinds {
        let course = rates(axis, &totals, which);
        let most = course.most();
        if most <= 0.0 {
            continue;
        }
        canvas.line(&format!("{name}, at most {}", show(most)), out)?;
        let drawn = course.draw(axis, canvas.look, 1, most);
        canvas.line(&format!("{}{}", gutter(2), drawn.concat()), out)?;
    }
    let left_out = keep_largest(&mut maps);
    let most = maps.values().map(HeatMap::most).max().unwrap_or(0);
    let shades = Shades::up_to(most, canvas.look);
    for (kind, map) in &maps {
        canvas.line("", out)?;
        canvas.line(&title(kind, map), out)?;
        if map.latency.buckets().is_empty() {
            continue;
        }
        for line in map.draw(axis, &shades, canvas.look, LABEL_CELLS) {
            canvas.line(&line, out)?;
        }
        charts::below(axis, canvas, style.zone, out)?;
    }
    canvas.line("", out)?;
    if !left_out.is_empty() {
        let left_out = left_out.join(", ");
        canvas.line(&format!("not drawn: {left_out}; --op chooses"), out)?;
    }
    if most > 0 {
        let legend = shades.legend();
        canvas.line(&format!("requests in a cell: {legend}"), out)?;
        canvas.line(
            "each line: latencies up to its label, and above the label below it",
            out,
        )?;
    }
    let column = match axis.windows() {
        1 => format!("a column is {}", axis.column_length()),
        windows => {
            let step = show_length(step.ms().cast_unsigned());
            let length = axis.column_length();
            format!("a column is {length}, {windows} windows of {step}")
        }
    };
    canvas.line(&format!("{column}; {}", time_legend(canvas)), out)
}

/// Rates per second of recorded time, summed over hosts, from the sums with index `which` of each host.
fn rates(axis: &TimeAxis, totals: &BTreeMap<&str, Vec<[u64; 2]>>, which: usize) -> Course {
    let rate = |column: usize| {
        let hosts = totals.iter().filter_map(|(host, sums)| {
            per_second(sums[column][which], axis.covered_ms(host, column))
        });
        let rate: f64 = hosts.sum();
        (rate > 0.0).then_some(rate)
    };
    Course((0..axis.columns()).map(rate).collect())
}

/// Keeps the kinds with the most requests. Returns the names of the others.
fn keep_largest(maps: &mut BTreeMap<String, HeatMap>) -> Vec<String> {
    let mut kinds: Vec<_> = maps
        .iter()
        .map(|(kind, map)| (map.requests, kind.clone()))
        .collect();
    kinds.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let left_out = kinds.into_iter().skip(MAX_MAPS).map(|(_, kind)| kind);
    let left_out: Vec<_> = left_out.collect();
    maps.retain(|kind, _| !left_out.contains(kind));
    left_out
        .iter()
        .map(|kind| visible(kind).into_owned())
        .collect()
}

fn title(kind: &str, map: &HeatMap) -> String {
    let mut title = format!("{}: {}", visible(kind), map.requests);
    let unknown = map.requests.saturating_sub(map.latency.total());
    if unknown > 0 {
        title += &format!(", {unknown} without a latency of their own");
    }
    for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
        if let Some(us) = map.latency.quantile_us(q) {
            title += &format!(", {name} {}", units::time(us));
        }
    }
    title
}

/// The subject of the picture: a name, or the number of subjects.
fn subject<R: TerminalPlot>(answer: &Answer<R>, canvas: &Canvas) -> String {
    let subjects: BTreeSet<_> = answer.rows.iter().map(R::subject).collect();
    match subjects.first().filter(|_| subjects.len() == 1) {
        Some(one) => canvas.look.cut(&visible(one), canvas.width).into_owned(),
        None => format!("{} {}", subjects.len(), R::subjects(answer.by)),
    }
}

/// How the picture shows time that was not recorded.
fn time_legend(canvas: &Canvas) -> String {
    let signs = Signs::of(canvas.look);
    format!(
        "blank: no request; {} not recorded; {} on the axis: partly recorded",
        signs.nothing, signs.partly
    )
}

/// Blanks below the labels of a chart, and `cells` more.
fn gutter(cells: usize) -> String {
    " ".repeat(LABEL_CELLS + cells)
}

/// The target of a picture.
struct Canvas {
    width: usize,
    look: Look,
}

impl Canvas {
    fn new(look: Look) -> Self {
        let width = look.width.unwrap_or(USUAL_WIDTH).max(LEAST_WIDTH);
        Self { width, look }
    }

    /// Writes a line without trailing spaces. Wraps text that is too long.
    fn line(&self, line: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", wrap(line.trim_end(), Some(self.width), 2))
    }
}

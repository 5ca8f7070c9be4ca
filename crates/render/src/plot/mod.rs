//! Draws an answer as SVG or PNG. With windows, each column has a chart with one line per subject; without, each row has a bar.

pub(crate) mod axes;
pub(crate) mod distributions;
mod frame;
mod heat_map;
mod picture;
mod raster;
pub(crate) mod subjects;
mod timeline;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::ops::Range;

use plotters::prelude::*;

use self::axes::{Axis, latency_marks, value_marks};
use self::frame::{AXIS_WIDTH, Area, Drawn, FONT, LINE_HEIGHT, MARGIN, Paper, TEXT_SIZE, WIDTH};
use self::heat_map::HeatMap;
pub use self::picture::PictureFormat;
use self::picture::{Picture, write_picture};
use self::subjects::Subjects;
use self::timeline::Timeline;
use crate::terminal_style::Look;
use crate::{Render, units};
use trackiops_query::Event;
use trackiops_query::answer::{Answer, AnswerRow};
use trackiops_query::columns::{Column, Columns, Unit};
use trackiops_query::operations::OperationAnswer;
use trackiops_query::step::Step;
use trackiops_query::times::{Zone, show_length, show_offset, show_range};
use trackiops_schemas::histogram::Histogram;

/// Pixels.
const CHART_HEIGHT: u32 = 220;
/// Room beside the bars, for their names and for their numbers.
const NAME_WIDTH: u32 = 520;
const NUMBER_WIDTH: u32 = 100;

/// Most cells of a name that fit.
const NAME_CELLS: usize = 72;

/// Readers could not distinguish more lines in one chart.
const COLOURS: [RGBColor; 10] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
    RGBColor(188, 189, 34),
    RGBColor(23, 190, 207),
];
/// Most bars of a readable plot.
const MAX_BARS: usize = 50;

/// None of the columns can be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "none of these columns is a number, so there is nothing to draw; name one that is: `--columns help` lists all"
)]
pub struct PlotError;

/// A kind of row that can be drawn.
pub trait Plot: Render {
    /// The default columns.
    const DRAWN: &'static [&'static str];

    /// The name of the row's subject, followed by texts that distinguish it from others of that name. `apart` is as in
    /// [`Plot::are_apart`].
    fn names(&self, apart: bool) -> Vec<Cow<'_, str>>;

    /// Calls `each` with the latencies of the row's requests, if the query read them.
    fn latencies(&self, each: &mut dyn FnMut(&Histogram));

    /// Whether rows of one window differ only in their tenant or connection.
    /// Rows may share these by chance in one window and not in the next, so names have them only if needed.
    fn are_apart(answer: &Answer<Self>) -> bool;

    /// The columns to draw: the numbers among `chosen`, or the default columns. Fails if there are none.
    fn drawn(chosen: Option<&Columns<Self>>) -> Result<Columns<Self>, PlotError> {
        let is_drawn = |name: &str| Self::DRAWN.contains(&name);
        let drawn = match chosen {
            Some(columns) => columns.numbers(),
            None => Columns::usual().without(|name| !is_drawn(name)),
        };
        match drawn.iter().next() {
            Some(_) => Ok(drawn),
            None => Err(PlotError),
        }
    }
}

impl Plot for AnswerRow {
    const DRAWN: &'static [&'static str] = &[
        "read_throughput",
        "write_throughput",
        "read_iops",
        "write_iops",
        "read_latency_us_p99",
        "write_latency_us_p99",
    ];

    fn are_apart(answer: &Answer) -> bool {
        answer.by.tenants || answer.by.levels
    }

    fn latencies(&self, each: &mut dyn FnMut(&Histogram)) {
        each(&self.sum.read().latency);
        each(&self.sum.write().latency);
    }

    fn names(&self, apart: bool) -> Vec<Cow<'_, str>> {
        let tenant = self.tenant.named().filter(|_| apart);
        vec![
            self.name().into(),
            tenant.unwrap_or_default().into(),
            self.mount().unwrap_or_default().into(),
            (&*self.host).into(),
        ]
    }
}

impl Plot for OperationAnswer {
    const DRAWN: &'static [&'static str] = &["iops", "throughput", "execute_us_p99"];

    fn are_apart(answer: &Answer<Self>) -> bool {
        let mut seen = HashSet::new();
        let mut names = answer.rows.iter().map(|row| (row.time, row.names(false)));
        !names.all(|names| seen.insert(names))
    }

    fn latencies(&self, each: &mut dyn FnMut(&Histogram)) {
        if let Some(latency) = self.histogram() {
            each(latency);
        }
    }

    fn names(&self, apart: bool) -> Vec<Cow<'_, str>> {
        let or_nothing =
            |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
        let about = self.about.as_ref();
        let transport = self.transport.clone().filter(|_| apart);
        vec![
            (&*self.op).into(),
            about.map_or(Cow::Borrowed(""), |about| (&*about.shown).into()),
            self.tenant.named().unwrap_or_default().into(),
            or_nothing(&transport).into(),
            or_nothing(&self.mount).into(),
            (&*self.host).into(),
        ]
    }
}

/// Draws an answer. All `columns` must be numbers. Charts over time have a line for each of the `events`. Fails if `out` or the drawing
/// does.
pub fn plot<R: Plot>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    events: &[Event],
    format: PictureFormat,
    zone: Zone,
    out: &mut dyn Write,
) -> io::Result<()> {
    let charts = Charts {
        answer,
        columns,
        events,
        zone,
    };
    write_picture(&charts, format, out)
}

/// The picture of an answer.
struct Charts<'a, R> {
    answer: &'a Answer<R>,
    columns: &'a Columns<R>,
    events: &'a [Event],
    zone: Zone,
}

impl<R: Plot> Picture for Charts<'_, R> {
    fn draw<P: Paper>(&self, paper: P) -> Drawn<P::Backend> {
        let (answer, columns) = (self.answer, self.columns);
        let subjects = Subjects::of(answer, columns, NAME_CELLS, Look::default());
        match answer.step {
            Step::Windows(step) => {
                let timeline = Timeline::new(answer, self.events, self.zone);
                courses(answer, step.ms(), columns, &subjects, &timeline, paper)
            }
            Step::All => bars(answer, columns, &subjects, self.zone, paper),
        }
    }
}

/// The meaning of a column in words: `read_latency_us_p99` is the p99 latency of reads.
fn in_words(name: &str) -> String {
    let (of_calls, rest) = match name.strip_prefix("app_") {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let (side, rest) = match (rest.strip_prefix("read_"), rest.strip_prefix("write_")) {
        (Some(rest), _) => ("reads", rest),
        (_, Some(rest)) => ("writes", rest),
        _ => ("", rest),
    };
    let whose = match (side, of_calls) {
        ("", false) => "",
        ("", true) => " of calls",
        ("reads", false) => " of reads",
        ("reads", true) => " of calls that read",
        (_, false) => " of writes",
        (_, true) => " of calls that write",
    };
    let latency = rest
        .strip_prefix("latency_us_")
        .or_else(|| rest.strip_prefix("execute_us_"));
    let what = match (rest, latency) {
        ("iops", _) => "Number per second".to_owned(),
        ("throughput", _) => "Throughput".to_owned(),
        ("requests" | "calls", _) => "Number".to_owned(),
        ("bytes", _) => "Bytes".to_owned(),
        ("called_bytes", _) => "All bytes".to_owned(),
        ("errors", _) => "Errors".to_owned(),
        (_, Some("mean")) => "Mean latency".to_owned(),
        (_, Some("max")) => "Largest latency".to_owned(),
        (_, Some("sum")) => "Sum of latencies".to_owned(),
        (_, Some("p999")) => "p99.9 of the latency".to_owned(),
        (_, Some(quantile)) => format!("{quantile} of the latency"),
        _ => return name.to_owned(),
    };
    format!("{what}{whose}")
}

/// Draws a chart for each column.
fn courses<R: Plot, P: Paper>(
    answer: &Answer<R>,
    step_ms: i64,
    columns: &Columns<R>,
    subjects: &Subjects<'_, R>,
    timeline: &Timeline<'_>,
    paper: P,
) -> Drawn<P::Backend> {
    let (drawn, beyond) = subjects.first(COLOURS.len());
    let below: Vec<_> = beyond.into_iter().chain(timeline.legend()).collect();
    let legend = (drawn.len() + below.len()) as u32;
    // The query read latencies if a column is a percentile.
    let has_percentiles = columns.iter().any(|column| column.estimate.is_some());
    let heat = has_percentiles.then(|| heat_map(answer, step_ms)).flatten();
    let charts = columns.iter().count() as u32 + u32::from(heat.is_some());
    let height = MARGIN + LINE_HEIGHT * (1 + legend) + charts * CHART_HEIGHT + MARGIN;
    let root = paper.cut((WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let step = show_length(step_ms.unsigned_abs());
    let more = format!(", one point each {step}");
    title(&root, answer, timeline.zone, more)?;
    let mut y = MARGIN + LINE_HEIGHT;
    for ((name, _), colour) in drawn.iter().zip(COLOURS) {
        let (x, top) = (MARGIN as i32, y as i32);
        let line = [(x, top + 7), (x + 24, top + 7)];
        root.draw(&PathElement::new(line, colour.stroke_width(3)))?;
        text(&root, name, (x + 32, top))?;
        y += LINE_HEIGHT;
    }
    for line in &below {
        text(&root, line, (MARGIN as i32, y as i32))?;
        y += LINE_HEIGHT;
    }
    if let Some(heat) = heat {
        let area = root.clone().shrink((0, y), (WIDTH, CHART_HEIGHT));
        heat.draw(&area, timeline)?;
        y += CHART_HEIGHT;
    }
    for column in columns.iter() {
        let area = root.clone().shrink((0, y), (WIDTH, CHART_HEIGHT));
        chart(&area, step_ms, column, drawn, timeline)?;
        y += CHART_HEIGHT;
    }
    root.present()
}

/// The latencies of all rows over time; `None` if they are unknown.
fn heat_map<R: Plot>(answer: &Answer<R>, step_ms: i64) -> Option<HeatMap> {
    let mut map = HeatMap::new(answer.range, step_ms);
    for row in &answer.rows {
        if let Some(time) = R::time(row) {
            row.latencies(&mut |latency| map.add(time, latency));
        }
    }
    map.is_any().then_some(map)
}

fn chart<R: Plot, DB: DrawingBackend>(
    area: &Area<DB>,
    step_ms: i64,
    column: &Column<R>,
    subjects: &[(String, Vec<&R>)],
    timeline: &Timeline<'_>,
) -> Drawn<DB> {
    let lines: Vec<Vec<(f64, f64)>> = subjects
        .iter()
        .map(|(_, rows)| {
            let point = |row: &&R| {
                let time = R::time(row)?.0 as f64 + step_ms as f64 / 2.0;
                Some((time, value(*row, column)?))
            };
            let mut points: Vec<_> = rows.iter().filter_map(point).collect();
            // The answer may be sorted by any column.
            points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            points
        })
        .collect();
    let values = || lines.iter().flatten().map(|(_, value)| *value);
    let most = values().fold(0.0, f64::max);
    // Latencies differ by orders of magnitude.
    let least = values().filter(|value| *value > 0.0).fold(most, f64::min);
    let is_log = column.unit == Unit::Microseconds && least > 0.0;
    let y = match is_log {
        true => {
            let (low, high) = ((least * 0.9).log10(), (most * 1.1).log10());
            Axis {
                range: low..high,
                marks: latency_marks(low, high),
            }
        }
        false => {
            let (marks, end) = value_marks(most, column.unit);
            Axis {
                range: 0.0..end,
                marks,
            }
        }
    };
    let place = |value: f64| match is_log {
        true => value.max(least * 0.9).log10(),
        false => value,
    };
    let shown = |place: f64| match is_log {
        true => 10_f64.powf(place),
        false => place,
    };
    let mut chart = ChartBuilder::on(area)
        .caption(in_words(&column.name), (FONT, TEXT_SIZE + 2))
        .margin(MARGIN)
        .margin_right(3 * MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, AXIS_WIDTH)
        .set_label_area_size(LabelAreaPosition::Bottom, LINE_HEIGHT)
        .build_cartesian_2d(timeline.axis(), y)?;
    timeline.draw_gaps(&mut chart)?;
    let clock = timeline.clock();
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_label_formatter(&|at| clock(*at))
        .y_label_formatter(&|place| units::show(column.unit, shown(*place)))
        .label_style((FONT, TEXT_SIZE - 1))
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS) {
        for run in runs(line, step_ms as f64) {
            let mut run = thinned(run, timeline.range.clone());
            run.iter_mut().for_each(|(_, value)| *value = place(*value));
            if let [point] = run[..] {
                let dot = Circle::new(point, 2, colour.filled());
                chart.draw_series([dot])?;
            } else {
                chart.draw_series(LineSeries::new(run, colour.stroke_width(1)))?;
            }
        }
    }
    timeline.draw_events(&mut chart)
}

/// The value to draw, if the row has such requests.
fn value<R: Plot>(row: &R, column: &Column<R>) -> Option<f64> {
    let value = crate::answer::done(row, column);
    value.filter(|value| value.is_finite())
}

/// Splits points at windows without a value: a line across them would show values that do not exist.
fn runs(points: &[(f64, f64)], step_ms: f64) -> impl Iterator<Item = &[(f64, f64)]> {
    points.chunk_by(move |a, b| b.0 - a.0 <= step_ms * 1.5)
}

/// Keeps at most four points per pixel: the first, the lowest, the highest and the last. They draw the same line.
fn thinned(points: &[(f64, f64)], range: Range<f64>) -> Vec<(f64, f64)> {
    let pixel = (range.end - range.start) / f64::from(WIDTH);
    let place = |point: &(f64, f64)| ((point.0 - range.start) / pixel) as i64;
    let mut kept = Vec::new();
    for of_pixel in points.chunk_by(|a, b| place(a) == place(b)) {
        if of_pixel.len() <= 4 {
            kept.extend_from_slice(of_pixel);
            continue;
        }
        let by_value = |a: &usize, b: &usize| of_pixel[*a].1.total_cmp(&of_pixel[*b].1);
        let last = of_pixel.len() - 1;
        let lowest = (0..=last).min_by(by_value).unwrap_or(0);
        let highest = (0..=last).max_by(by_value).unwrap_or(0);
        let mut places = [0, lowest, highest, last];
        places.sort_unstable();
        kept.extend(places.map(|place| of_pixel[place]));
    }
    kept
}

/// Draws a list of bars for each column.
fn bars<R: Plot, P: Paper>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    subjects: &Subjects<'_, R>,
    zone: Zone,
    paper: P,
) -> Drawn<P::Backend> {
    let (drawn, beyond) = subjects.first(MAX_BARS);
    let list = LINE_HEIGHT * (drawn.len() as u32 + 1) + MARGIN;
    let charts = columns.iter().count() as u32;
    let height = 2 * MARGIN + LINE_HEIGHT * (1 + u32::from(beyond.is_some())) + charts * list;
    let root = paper.cut((WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    title(&root, answer, zone, "")?;
    let mut y = (MARGIN + LINE_HEIGHT) as i32;
    if let Some(beyond) = beyond {
        text(&root, &beyond, (MARGIN as i32, y))?;
        y += LINE_HEIGHT as i32;
    }
    let left = (MARGIN + NAME_WIDTH) as i32;
    let room = f64::from(WIDTH - 2 * MARGIN - NAME_WIDTH - NUMBER_WIDTH);
    for (column, colour) in columns.iter().zip(COLOURS.iter().cycle()) {
        let heading = TextStyle::from((FONT, TEXT_SIZE + 2)).color(&BLACK);
        root.draw_text(&in_words(&column.name), &heading, (left, y))?;
        y += LINE_HEIGHT as i32;
        let first = |rows: &[&R]| rows.first().and_then(|row| value(*row, column));
        let values = drawn.iter().map(|(_, rows)| first(rows));
        let values: Vec<Option<f64>> = values.collect();
        let most = values.iter().flatten().copied().fold(0.0, f64::max);
        for ((name, _), value) in drawn.iter().zip(&values) {
            text(&root, name, (MARGIN as i32, y))?;
            let length = match value {
                Some(value) if most > 0.0 => (value.max(0.0) / most * room).ceil() as i32,
                _ => 0,
            };
            let corners = [(left, y), (left + length, y + LINE_HEIGHT as i32 - 6)];
            root.draw(&Rectangle::new(corners, colour.filled()))?;
            let number = value.map_or("-".into(), |value| units::show(column.unit, value));
            text(&root, &number, (left + length + 6, y))?;
            y += LINE_HEIGHT as i32;
        }
        y += MARGIN as i32;
    }
    root.present()
}

fn title<DB: DrawingBackend, R>(
    root: &Area<DB>,
    answer: &Answer<R>,
    zone: Zone,
    more: impl Display,
) -> Drawn<DB> {
    let range = &answer.range;
    let shown = show_range(range.start, range.end, zone);
    let offset = show_offset(range.start, zone);
    text(
        root,
        &format!("{shown} ({offset}){more}"),
        (MARGIN as i32, 6),
    )
}

fn text<DB: DrawingBackend>(root: &Area<DB>, text: &str, at: (i32, i32)) -> Drawn<DB> {
    let style = TextStyle::from((FONT, TEXT_SIZE)).color(&BLACK);
    root.draw_text(text, &style, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_titles_for_people() {
        for (name, title) in [
            ("read_latency_us_p99", "p99 of the latency of reads"),
            ("app_write_throughput", "Throughput of calls that write"),
            ("app_read_called_bytes", "All bytes of calls that read"),
            ("iops", "Number per second"),
            ("execute_us_mean", "Mean latency"),
            ("read_rtt_share", "read_rtt_share"),
        ] {
            assert_eq!(in_words(name), title);
        }
    }

    #[test]
    fn what_is_not_there_breaks_a_line_and_peaks_stay() {
        let points = [(0.0, 1.0), (10.0, 1.0), (30.0, 1.0)];
        let runs: Vec<_> = runs(&points, 10.0).collect();
        assert_eq!(runs, [&points[..2], &points[2..]]);
        let mut many: Vec<_> = (0..100_000).map(|n| (f64::from(n), 1.0)).collect();
        many[50_001].1 = 9.0;
        let kept = thinned(&many, 0.0..100_000.0);
        assert!(kept.len() <= 4 * WIDTH as usize + 4 && kept.contains(&(50_001.0, 9.0)));
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
    }
}

//! Charts of columns of numbers: lines over time, and bars without times.

use std::io::{self, Write};

use trackiops_query::answer::Answer;
use trackiops_query::columns::{Column, Columns};
use trackiops_query::times::Zone;

use super::time_axis::{Recorded, Signs, TimeAxis};
use super::{Canvas, LABEL_CELLS, TerminalPlot, gutter};
use crate::plot::subjects::Subjects;
use crate::terminal_style::Look;
use crate::units;
use crate::visible::width;

/// Most subjects of a column that have a chart.
const MAX_CHARTS: usize = 4;
/// Lines of a chart: if it is the only one of its column, and otherwise.
const LINES: [usize; 2] = [5, 3];
/// Most bars of a column.
const MAX_BARS: usize = 50;
/// Cells of a bar's number.
const NUMBER_CELLS: usize = 12;

/// A line over time: a value for each column of the picture; `None` if there is none.
pub(super) struct Course(pub(super) Vec<Option<f64>>);

impl Course {
    pub(super) fn most(&self) -> f64 {
        self.0.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// Draws the course in `lines` lines, filled from below; the value `most` fills all of them. A value above 0 is visible.
    pub(super) fn draw(&self, axis: &TimeAxis, look: Look, lines: usize, most: f64) -> Vec<String> {
        let nothing = Signs::of(look).nothing;
        let eighths = |value: f64| match value > 0.0 && most > 0.0 {
            true => ((value / most * (8 * lines) as f64).ceil() as usize).max(1),
            false => 0,
        };
        let line = |below: usize| {
            axis.line(|column| match (self.0[column], axis.recorded(column)) {
                (Some(value), _) => look.filled(eighths(value).saturating_sub(8 * below)),
                (None, Recorded::Nothing) => nothing,
                (None, _) => ' ',
            })
        };
        (0..lines).rev().map(line).collect()
    }
}

/// Draws a chart for each column and subject.
pub(super) fn lines<R: TerminalPlot>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    axis: &TimeAxis,
    canvas: &Canvas,
    zone: Zone,
    out: &mut dyn Write,
) -> io::Result<()> {
    let subjects = Subjects::of(answer, columns, canvas.width - 2, canvas.look);
    let (drawn, beyond) = subjects.first(MAX_CHARTS);
    let [alone, several] = LINES;
    let height = if drawn.len() > 1 { several } else { alone };
    for column in columns.iter() {
        let course = |rows: &Vec<&R>| course(rows, column, axis);
        let courses: Vec<_> = drawn.iter().map(|(_, rows)| course(rows)).collect();
        let most = courses.iter().map(Course::most).fold(0.0, f64::max);
        canvas.line("", out)?;
        canvas.line(&column.name, out)?;
        for ((name, _), course) in drawn.iter().zip(&courses) {
            canvas.line(&format!("  {name}"), out)?;
            let side = Signs::of(canvas.look).side[0];
            for (i, line) in course
                .draw(axis, canvas.look, height, most)
                .iter()
                .enumerate()
            {
                let label = match i {
                    0 => units::show(column.unit, most),
                    _ => String::new(),
                };
                canvas.line(&format!("{label:>LABEL_CELLS$} {side}{line}"), out)?;
            }
        }
        below(axis, canvas, zone, out)?;
    }
    if let Some(beyond) = beyond {
        canvas.line("", out)?;
        canvas.line(&beyond, out)?;
    }
    Ok(())
}

/// The axis below a chart, with its labels.
pub(super) fn below(
    axis: &TimeAxis,
    canvas: &Canvas,
    zone: Zone,
    out: &mut dyn Write,
) -> io::Result<()> {
    let [line, labels] = axis.draw(canvas.look, zone);
    let corner = Signs::of(canvas.look).side[1];
    canvas.line(&format!("{}{corner}{line}", gutter(1)), out)?;
    canvas.line(&format!("{}{labels}", gutter(2)), out)
}

/// The largest value in each column of the picture.
fn course<R: TerminalPlot>(rows: &[&R], column: &Column<R>, axis: &TimeAxis) -> Course {
    let mut values = vec![None; axis.columns()];
    for row in rows {
        let place = R::time(row).and_then(|time| axis.column(time));
        let value = crate::answer::done(*row, column).filter(|value| value.is_finite());
        if let (Some(place), Some(value)) = (place, value) {
            values[place] = Some(values[place].map_or(value, |most: f64| most.max(value)));
        }
    }
    Course(values)
}

/// Draws a bar for each subject, for each column.
pub(super) fn bars<R: TerminalPlot>(
    answer: &Answer<R>,
    columns: &Columns<R>,
    canvas: &Canvas,
    out: &mut dyn Write,
) -> io::Result<()> {
    let subjects = Subjects::of(answer, columns, canvas.width / 2, canvas.look);
    let (drawn, beyond) = subjects.first(MAX_BARS);
    let name_cells = drawn.iter().map(|(name, _)| width(name)).max().unwrap_or(0);
    let room = canvas
        .width
        .saturating_sub(name_cells + NUMBER_CELLS + 2)
        .max(1);
    for column in columns.iter() {
        canvas.line("", out)?;
        canvas.line(&column.name, out)?;
        let first = |rows: &Vec<&R>| crate::answer::done(*rows.first()?, column);
        let values: Vec<_> = drawn.iter().map(|(_, rows)| first(rows)).collect();
        let most = values.iter().flatten().copied().fold(0.0, f64::max);
        for ((name, _), value) in drawn.iter().zip(&values) {
            let number = value.map_or("-".into(), |value| units::show(column.unit, value));
            let bar = canvas.look.bar_within(value.unwrap_or(0.0) / most, room);
            let fill = " ".repeat(name_cells - width(name));
            canvas.line(&format!("{name}{fill} {number:>NUMBER_CELLS$} {bar}"), out)?;
        }
    }
    if let Some(beyond) = beyond {
        canvas.line("", out)?;
        canvas.line(&beyond, out)?;
    }
    Ok(())
}

//! What all charts over time of a picture share: the time axis, unrecorded time, and events as vertical lines.

use std::ops::Range;

use plotters::prelude::*;
use trackiops_query::Event;
use trackiops_query::answer::Answer;
use trackiops_query::coverage::Interval;
use trackiops_query::coverage::note::Note;
use trackiops_query::times::{Zone, show};

use super::axes::{Axis, clock, time_marks};
use super::frame::{Drawn, FONT, TEXT_SIZE, WIDTH};
use crate::visible::visible;

/// Most time marks of a chart.
const TIME_MARKS: i64 = 10;
/// Most events that the legend describes.
const DESCRIBED: usize = 12;
/// Most characters of a line of the legend.
const LINE_CHARS: usize = 180;
/// Distance of an event's number from its line, and least distance of two numbers, pixels.
const BESIDE: f64 = 3.0;
const APART: f64 = 16.0;
/// Unrecorded time.
const UNRECORDED: RGBColor = RGBColor(232, 234, 237);

/// A chart over time.
pub(super) type TimeChart<'c, DB> = ChartContext<'c, DB, Cartesian2d<Axis, Axis>>;

/// The time of a picture.
pub(super) struct Timeline<'e> {
    pub(super) zone: Zone,
    pub(super) range: Range<f64>,
    /// Distance of time marks, ms, and their positions.
    step: i64,
    marks: Vec<f64>,
    /// Times in which nothing was recorded.
    gaps: Vec<Interval>,
    events: Vec<&'e Event>,
}

impl<'e> Timeline<'e> {
    /// The time of an answer.
    pub(super) fn new<R>(answer: &Answer<R>, events: &'e [Event], zone: Zone) -> Self {
        let Interval { start, end } = answer.range;
        let (step, marks) = time_marks(start, end, TIME_MARKS, zone);
        // With several hosts, a gap of one is no gap of the picture.
        let gaps = answer.notes.iter().filter_map(|note| match note {
            Note::Gap { host: None, gap } if gap.is_whole() => {
                Some(gap.range.intersect(answer.range))
            }
            _ => None,
        });
        let events = events.iter();
        let events = events.filter(|event| start <= event.time && event.time < end);
        Self {
            zone,
            range: start.0 as f64..end.0 as f64,
            step,
            marks,
            gaps: gaps.filter(|gap| !gap.is_empty()).collect(),
            events: events.collect(),
        }
    }

    /// The time axis of a chart.
    pub(super) fn axis(&self) -> Axis {
        Axis {
            range: self.range.clone(),
            marks: self.marks.clone(),
        }
    }

    /// Formats the labels of the axis.
    pub(super) fn clock(&self) -> impl Fn(f64) -> String + use<> {
        clock(self.step, &self.range, self.zone)
    }

    /// Describes lines and unrecorded time.
    pub(super) fn legend(&self) -> Vec<String> {
        let hosts = || self.events.iter().map(|event| &event.host);
        let has_several = hosts().any(|host| Some(host) != hosts().next());
        let line = |(number, event): (usize, &&Event)| -> String {
            let on = match has_several {
                true => format!(" on {}", event.host),
                false => String::new(),
            };
            let time = show(event.time, self.zone);
            let line = format!("{}  {time}  {}{on}", number + 1, event.text);
            visible(&line).chars().take(LINE_CHARS).collect()
        };
        let described = self.events.iter().enumerate().take(DESCRIBED);
        let mut lines: Vec<String> = described.map(line).collect();
        match self.events.len().saturating_sub(DESCRIBED) {
            0 => {}
            more => lines.push(format!(
                "{more} more lines: `trackiops marks --all` lists these events"
            )),
        }
        if !self.gaps.is_empty() {
            lines.push("grey: not recorded".to_owned());
        }
        lines
    }

    /// Draws unrecorded time, which data covers.
    pub(super) fn draw_gaps<DB: DrawingBackend>(&self, chart: &mut TimeChart<'_, DB>) -> Drawn<DB> {
        let height = chart.plotting_area().get_y_range();
        let gaps = self.gaps.iter().map(|gap| {
            let (start, end) = (gap.start.0 as f64, gap.end.0 as f64);
            let corners = [(start, height.start), (end, height.end)];
            Rectangle::new(corners, UNRECORDED.filled())
        });
        chart.draw_series(gaps)?;
        Ok(())
    }

    /// Draws events on top of data.
    pub(super) fn draw_events<DB: DrawingBackend>(
        &self,
        chart: &mut TimeChart<'_, DB>,
    ) -> Drawn<DB> {
        let height = chart.plotting_area().get_y_range();
        let lines = self.events.iter().map(|event| {
            let at = event.time.0 as f64;
            let ends = [(at, height.start), (at, height.end)];
            PathElement::new(ends, BLACK.mix(0.5).stroke_width(1))
        });
        chart.draw_series(lines)?;
        let pixel = (self.range.end - self.range.start) / f64::from(WIDTH);
        let mut before = f64::NEG_INFINITY;
        for (number, event) in self.events.iter().enumerate().take(DESCRIBED) {
            let at = event.time.0 as f64;
            if at - before < APART * pixel {
                continue;
            }
            before = at;
            let style = TextStyle::from((FONT, TEXT_SIZE - 2)).color(&BLACK);
            let place = (at + BESIDE * pixel, height.end);
            let number = Text::new((number + 1).to_string(), place, style);
            chart.plotting_area().draw(&number)?;
        }
        Ok(())
    }
}

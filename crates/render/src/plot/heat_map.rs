//! Latencies over time: one cell for each quarter of an octave; more requests make it darker.

use std::collections::BTreeMap;

use plotters::prelude::*;
use trackiops_query::coverage::Interval;
use trackiops_schemas::histogram::{Histogram, middle_us};
use trackiops_schemas::time::UtcMs;

use super::axes::{Axis, latency_marks};
use super::frame::{AXIS_WIDTH, Area, Drawn, FONT, LINE_HEIGHT, MARGIN, TEXT_SIZE, WIDTH};
use super::timeline::Timeline;
use crate::units;

/// Least pixels of a cell.
const CELL: u32 = 4;
/// Rows of an octave.
const ROWS: f64 = 4.0;
/// Blues (ColorBrewer, Harrower and Brewer, 2003), from few requests to many.
const SHADES: [RGBColor; 8] = [
    RGBColor(222, 235, 247),
    RGBColor(198, 219, 239),
    RGBColor(158, 202, 225),
    RGBColor(107, 174, 214),
    RGBColor(66, 146, 198),
    RGBColor(33, 113, 181),
    RGBColor(8, 81, 156),
    RGBColor(8, 48, 107),
];

/// Requests by time and latency: column and row of the map.
pub(super) struct HeatMap {
    cells: BTreeMap<(i64, i64), u64>,
    range: Interval,
    /// Length of a column, ms.
    column_ms: i64,
}

impl HeatMap {
    /// An empty map of windows of this length.
    pub(super) fn new(range: Interval, step_ms: i64) -> Self {
        let room = i64::from((WIDTH - AXIS_WIDTH - 4 * MARGIN) / CELL);
        let step_ms = step_ms.max(1);
        let windows = (range.end.0 - range.start.0) / step_ms;
        Self {
            cells: BTreeMap::new(),
            range,
            column_ms: step_ms * (1 + windows / room),
        }
    }

    /// Adds the latencies of a window that begins at `time`.
    pub(super) fn add(&mut self, time: UtcMs, latency: &Histogram) {
        let column = (time.0 - self.range.start.0).div_euclid(self.column_ms);
        for (bucket, count) in latency.buckets() {
            let row = (middle_us(*bucket).log2() * ROWS).floor() as i64;
            let cell = self.cells.entry((column, row)).or_default();
            *cell = cell.saturating_add(*count);
        }
    }

    pub(super) fn is_any(&self) -> bool {
        !self.cells.is_empty()
    }

    pub(super) fn draw<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        timeline: &Timeline<'_>,
    ) -> Drawn<DB> {
        let rows = || self.cells.keys().map(|(_, row)| *row);
        let bound = |row: i64| row as f64 / ROWS * 2_f64.log10();
        let low = bound(rows().min().unwrap_or(0));
        let high = bound(rows().max().unwrap_or(0) + 1);
        let most = self.cells.values().copied().max().unwrap_or(1);
        let y = Axis {
            range: low..high,
            marks: latency_marks(low, high),
        };
        let caption = format!("Latency of requests: a cell has 1 (light) to {most} (dark)");
        let mut chart = ChartBuilder::on(area)
            .caption(caption, (FONT, TEXT_SIZE + 2))
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
            .y_label_formatter(&|place| units::latency(10_f64.powf(*place)))
            .label_style((FONT, TEXT_SIZE - 1))
            .draw()?;
        let end = self.range.end.0 as f64;
        let cells = self.cells.iter().map(|((column, row), count)| {
            let start = (self.range.start.0 + column * self.column_ms) as f64;
            let corners = [
                (start, bound(*row)),
                ((start + self.column_ms as f64).min(end), bound(row + 1)),
            ];
            let share = match most {
                0..=1 => 1.0,
                most => (*count as f64).ln() / (most as f64).ln(),
            };
            let shade = SHADES[((share * 7.0).round() as usize).min(7)];
            Rectangle::new(corners, shade.filled())
        });
        chart.draw_series(cells)?;
        timeline.draw_events(&mut chart)
    }
}

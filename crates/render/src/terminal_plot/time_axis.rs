//! The columns of a picture over time: the windows of each, their recorded time, and the labels.

use std::collections::BTreeMap;

use trackiops_query::answer::Answer;
use trackiops_query::times::{Zone, show_length};
use trackiops_schemas::time::{Granularity, UtcMs};

use crate::plot::axes::{clock, time_marks};
use crate::terminal_style::Look;
use crate::visible::width;

/// Most cells of a column: few windows need not fill a line.
const MAX_CELLS: usize = 8;
/// Cells of a time mark and the space behind it.
const MARK_CELLS: usize = 14;
/// Share of a column's time that may be missing without a mark: the rounding of windows.
const TOLERANCE: f64 = 0.01;

/// How much of a column's time was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// All of it, on every host.
    Whole,
    /// Some of it.
    Partly,
    /// Nothing, on any host.
    Nothing,
}

/// The columns of a picture.
pub(super) struct TimeAxis {
    start: i64,
    end: i64,
    column_ms: i64,
    /// Windows in a column.
    windows: usize,
    /// Cells of a column.
    cells: usize,
    columns: usize,
    covered: BTreeMap<String, Vec<u64>>,
}

impl TimeAxis {
    /// Columns in `room` cells for the windows of an answer.
    pub(super) fn new<R>(answer: &Answer<R>, step: Granularity, room: usize) -> Self {
        let start = answer.range.start.align(step).0;
        let end = answer.range.end.0.max(start.saturating_add(1));
        let length = end.saturating_sub(start).cast_unsigned();
        let windows = length.div_ceil(step.ms().cast_unsigned());
        let windows = usize::try_from(windows).unwrap_or(usize::MAX);
        let per_column = windows.div_ceil(room).max(1);
        let columns = windows.div_ceil(per_column).max(1);
        let mut axis = Self {
            start,
            end,
            column_ms: step
                .ms()
                .saturating_mul(i64::try_from(per_column).unwrap_or(i64::MAX)),
            windows: per_column,
            cells: (room / columns).clamp(1, MAX_CELLS),
            columns,
            covered: BTreeMap::new(),
        };
        for (host, piece, ms) in answer.recorded.pieces(step) {
            axis.cover(host, piece.start.0, piece.end.0, ms);
        }
        axis
    }

    /// Adds recorded time. A piece that several columns share was recorded completely.
    fn cover(&mut self, host: &str, start: i64, end: i64, ms: u64) {
        let (from, before) = (start.max(self.start), end.min(self.end));
        if from >= before || ms == 0 {
            return;
        }
        let (first, last) = (self.place(from), self.place(before - 1));
        let columns: Vec<_> = (first..=last).map(|place| self.bounds(place)).collect();
        if !self.covered.contains_key(host) {
            self.covered.insert(host.to_owned(), vec![0; self.columns]);
        }
        let Some(covered) = self.covered.get_mut(host) else {
            return;
        };
        for ((from, before), covered) in columns.into_iter().zip(&mut covered[first..=last]) {
            let overlap = end.min(before).saturating_sub(start.max(from));
            *covered = covered.saturating_add(match first == last {
                true => ms,
                false => overlap.max(0).cast_unsigned(),
            });
        }
    }

    /// Start and end of a column.
    fn bounds(&self, column: usize) -> (i64, i64) {
        let start = self
            .column_ms
            .saturating_mul(column as i64)
            .saturating_add(self.start);
        (start, start.saturating_add(self.column_ms))
    }

    fn place(&self, time: i64) -> usize {
        let since = time.saturating_sub(self.start);
        let place = usize::try_from(since / self.column_ms).unwrap_or(0);
        place.min(self.columns - 1)
    }

    /// The column of a row's window. `None` outside of the range.
    pub(super) fn column(&self, window: UtcMs) -> Option<usize> {
        (self.start <= window.0 && window.0 < self.end).then(|| self.place(window.0))
    }

    /// Number of columns.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Recorded time of a column on a host, ms.
    pub(super) fn covered_ms(&self, host: &str, column: usize) -> u64 {
        self.covered.get(host).map_or(0, |covered| covered[column])
    }

    /// Whether a column's time was recorded.
    pub(super) fn recorded(&self, column: usize) -> Recorded {
        let (start, end) = self.bounds(column);
        let length = end.min(self.end).saturating_sub(start) as f64;
        // A recording begins and ends within a window.
        let at_edge = column == 0 || column + 1 == self.columns;
        let edge = match at_edge {
            true => self.column_ms as f64 / self.windows as f64,
            false => 0.0,
        };
        let is_whole = |ms: u64| ms as f64 + edge >= length * (1.0 - TOLERANCE);
        let mut times = self.covered.values().map(|covered| covered[column]);
        match times.clone().all(|ms| ms == 0) {
            true => Recorded::Nothing,
            false if times.all(is_whole) => Recorded::Whole,
            false => Recorded::Partly,
        }
    }

    /// A line of cells: the cell of each column, repeated for its width.
    pub(super) fn line(&self, cell: impl Fn(usize) -> char) -> String {
        let columns = (0..self.columns).map(cell);
        let cells = columns.flat_map(|cell| std::iter::repeat_n(cell, self.cells));
        cells.collect()
    }

    /// The length of a column, in words.
    pub(super) fn column_length(&self) -> String {
        show_length(self.column_ms.cast_unsigned())
    }

    /// Number of windows in a column.
    pub(super) fn windows(&self) -> usize {
        self.windows
    }

    /// The axis below a chart, and its labels at round times.
    pub(super) fn draw(&self, look: Look, zone: Zone) -> [String; 2] {
        let signs = Signs::of(look);
        let mut axis: Vec<char> = self
            .line(|column| match self.recorded(column) {
                Recorded::Whole => signs.whole,
                Recorded::Partly => signs.partly,
                Recorded::Nothing => signs.nothing,
            })
            .chars()
            .collect();
        let room = axis.len();
        let most = (room / MARK_CELLS).max(1) as i64;
        let (distance, marks) = time_marks(UtcMs(self.start), UtcMs(self.end), most, zone);
        let shown = clock(distance, &(self.start as f64..self.end as f64), zone);
        let mut labels = String::new();
        for mark in marks {
            let label = shown(mark);
            let part = (mark - self.start as f64) / self.column_ms as f64;
            let place = (part * self.cells as f64) as usize;
            let begin = place.min(room.saturating_sub(width(&label)));
            let taken = width(&labels);
            let is_free = taken == 0 || begin > taken;
            if !is_free || place >= room {
                continue;
            }
            labels.extend(std::iter::repeat_n(' ', begin - taken));
            labels += &label;
            if axis[place] == signs.whole {
                axis[place] = signs.mark;
            }
        }
        [axis.into_iter().collect(), labels]
    }
}

/// Characters of axes. They differ from all shades and from the heights of [`Look::filled`].
pub(super) struct Signs {
    /// Time that was recorded.
    pub(super) whole: char,
    /// Time that was recorded in part.
    pub(super) partly: char,
    /// Time that was not recorded.
    pub(super) nothing: char,
    /// A time mark.
    pub(super) mark: char,
    /// Beside a line of a chart, and where the axes meet.
    pub(super) side: [char; 2],
}

impl Signs {
    pub(super) fn of(look: Look) -> Self {
        match look.ascii {
            true => Self {
                whole: '-',
                partly: '~',
                nothing: ':',
                mark: '+',
                side: ['|', '+'],
            },
            false => Self {
                whole: '─',
                partly: '┄',
                nothing: '·',
                mark: '┬',
                side: ['┤', '└'],
            },
        }
    }
}

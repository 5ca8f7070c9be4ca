//! Heat maps: latency over time; more requests make a cell darker.

use std::collections::BTreeMap;

use trackiops_schemas::histogram::{Histogram, octave_bound_us, octave_of};

use super::time_axis::{Recorded, Signs, TimeAxis};
use crate::terminal_style::Look;
use crate::units;

/// Most lines of a heat map. With a wider range of latencies, a line covers several powers of two.
const MAX_LINES: usize = 12;
const SHADES: [char; 4] = ['░', '▒', '▓', '█'];
const ASCII_SHADES: [char; 4] = ['-', '+', '*', '#'];

/// Requests of one kind, over time and latency.
#[derive(Default)]
pub(super) struct HeatMap {
    /// Number of requests, including requests without a latency in the histogram.
    pub(super) requests: u64,
    /// Latencies of the whole time.
    pub(super) latency: Histogram,
    /// Requests of each column, by the octave of their latency.
    octaves: BTreeMap<i32, Vec<u64>>,
}

impl HeatMap {
    /// Adds requests to a column.
    pub(super) fn add(&mut self, axis: &TimeAxis, column: usize, latency: &Histogram) {
        self.latency.merge(latency);
        for (bucket, count) in latency.buckets() {
            let line = self.octaves.entry(octave_of(*bucket));
            let cell = &mut line.or_insert_with(|| vec![0; axis.columns()])[column];
            *cell = cell.saturating_add(*count);
        }
    }

    /// Lines from the highest latencies to the lowest: the upper bound, us, and the requests of each column.
    fn lines(&self) -> Vec<(f64, Vec<u64>)> {
        let (Some((lowest, any)), Some((highest, _))) = (
            self.octaves.first_key_value(),
            self.octaves.last_key_value(),
        ) else {
            return Vec::new();
        };
        let octaves = (highest - lowest + 1).cast_unsigned() as usize;
        let per_line = octaves.div_ceil(MAX_LINES);
        let count = octaves.div_ceil(per_line);
        let mut lines: Vec<_> = (1..=count)
            .map(|line| {
                let top = lowest + (line * per_line) as i32 - 1;
                (octave_bound_us(top), vec![0_u64; any.len()])
            })
            .collect();
        for (octave, cells) in &self.octaves {
            let line = (octave - lowest).cast_unsigned() as usize / per_line;
            for (sum, count) in lines[line].1.iter_mut().zip(cells) {
                *sum = sum.saturating_add(*count);
            }
        }
        lines.reverse();
        lines
    }

    /// The largest number of requests in a cell.
    pub(super) fn most(&self) -> u64 {
        let lines = self.lines();
        let cells = lines.iter().flat_map(|(_, cells)| cells.iter().copied());
        cells.max().unwrap_or(0)
    }

    /// Draws the lines, without the axis below them. Each begins with its latency in `label_cells`.
    pub(super) fn draw(
        &self,
        axis: &TimeAxis,
        shades: &Shades,
        look: Look,
        label_cells: usize,
    ) -> Vec<String> {
        let signs = Signs::of(look);
        let line = |(bound, cells): (f64, Vec<u64>)| {
            let cells = axis.line(|column| match (cells[column], axis.recorded(column)) {
                (0, Recorded::Nothing) => signs.nothing,
                (count, _) => shades.of(count),
            });
            let label = units::time(bound);
            format!("{label:>label_cells$} {}{cells}", signs.side[0])
        };
        self.lines().into_iter().map(line).collect()
    }
}

/// Shades of cells: the least number of requests of each, ascending.
pub(super) struct Shades {
    shades: Vec<(u64, char)>,
    most: u64,
}

impl Shades {
    /// Shades in steps of equal ratio up to `most` requests.
    pub(super) fn up_to(most: u64, look: Look) -> Self {
        let all = match look.ascii {
            true => ASCII_SHADES,
            false => SHADES,
        };
        let mut shades: Vec<(u64, char)> = Vec::new();
        for (i, shade) in all.into_iter().enumerate() {
            let least = (most as f64).powf(i as f64 / all.len() as f64).ceil() as u64;
            let least = least.max(shades.last().map_or(1, |(least, _)| least + 1));
            if least <= most {
                shades.push((least, shade));
            }
        }
        Self { shades, most }
    }

    fn of(&self, count: u64) -> char {
        let begun = self.shades.partition_point(|(least, _)| *least <= count);
        begun
            .checked_sub(1)
            .map_or(' ', |place| self.shades[place].1)
    }

    /// The numbers of requests that each shade covers.
    pub(super) fn legend(&self) -> String {
        let nexts = self.shades.iter().skip(1).map(|(least, _)| least - 1);
        let lasts = nexts.chain([self.most]);
        let shown = self.shades.iter().zip(lasts);
        let shown = shown.map(|((least, shade), last)| match *least == last {
            true => format!("{shade} {least}"),
            false => format!("{shade} {least}-{last}"),
        });
        shown.collect::<Vec<_>>().join("  ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_are_in_steps_of_equal_ratio() {
        let legend = |most| Shades::up_to(most, Look::default()).legend();
        assert_eq!(legend(10_000), "░ 1-9  ▒ 10-99  ▓ 100-999  █ 1000-10000");
        assert_eq!(legend(4), "░ 1  ▒ 2  ▓ 3  █ 4");
        assert_eq!(legend(2), "░ 1  ▒ 2");
        assert_eq!([legend(1), legend(0)], ["░ 1", ""]);
        let shades = Shades::up_to(10_000, Look::default());
        let of = [0, 1, 9, 10, 999, 1000, 10_000].map(|count| shades.of(count));
        assert_eq!(of, [' ', '░', '░', '▒', '▓', '█', '█']);
        assert_eq!(Shades::up_to(u64::MAX, Look::default()).of(u64::MAX), '█');
    }
}

//! Rates in windows that roll by a twentieth of their length (Figure 2 of the paper). They show bursts.

use std::collections::VecDeque;
use std::time::Duration;

use trackiops_schemas::unit::Unit;

use crate::distribution::{self, Distribution};
use crate::sheet::{Datum, Heading, Sheet};

/// Lengths of the paper's windows.
pub const WINDOWS_MS: [u64; 10] = [
    1, 10, 100, 1000, 5000, 15_000, 60_000, 300_000, 900_000, 3_600_000,
];
/// A window moves on by this part of its length.
const STEPS: i64 = 20;
const MIB: f64 = 1_048_576.0;
const BITS: f64 = 8.0;
const MEGA: f64 = 1e6;
const KILO: f64 = 1e3;
const NS_PER_S: u128 = 1_000_000_000;

/// A rolling window. It sums up steps rather than events, so memory grows with its steps.
struct Window {
    length: Duration,
    length_ticks: i64,
    step_ticks: i64,
    /// Begin of the window.
    start: i64,
    /// Its content: time, events and bytes, in order.
    held: VecDeque<(i64, u64, u64)>,
    count: u64,
    bytes: u64,
    counts: Distribution,
    byte_sums: Distribution,
}

impl Window {
    fn new(length: Duration, start: i64, ticks_per_s: u64, exact_values: usize) -> Self {
        let ticks = length.as_nanos() * u128::from(ticks_per_s) / NS_PER_S;
        let length_ticks = i64::try_from(ticks).unwrap_or(i64::MAX);
        Self {
            length,
            length_ticks,
            step_ticks: (length_ticks / STEPS).max(1),
            start,
            held: VecDeque::new(),
            count: 0,
            bytes: 0,
            counts: Distribution::new(exact_values),
            byte_sums: Distribution::new(exact_values),
        }
    }

    fn add(&mut self, time: i64, bytes: u64) {
        while time.saturating_sub(self.start) > self.length_ticks {
            if self.held.is_empty() {
                self.skip(time);
                continue;
            }
            self.counts.add(self.count as f64);
            self.byte_sums.add(self.bytes as f64);
            self.move_on();
        }
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        // Events of one step leave the window together.
        let step = self.step_of(time);
        let last = self.held.back().map(|(time, ..)| self.step_of(*time));
        match self.held.back_mut() {
            Some((_, count, sum)) if last == Some(step) => {
                *count += 1;
                *sum = sum.saturating_add(bytes);
            }
            _ => self.held.push_back((time, 1, bytes)),
        }
    }

    /// The number of the step that holds a time. A window may begin where a step begins.
    fn step_of(&self, time: i64) -> i64 {
        time.saturating_sub(self.start).div_euclid(self.step_ticks)
    }

    fn move_on(&mut self) {
        self.start = self.start.saturating_add(self.step_ticks);
        while let Some((time, count, bytes)) = self.held.front().copied() {
            if time >= self.start {
                break;
            }
            self.held.pop_front();
            self.count -= count;
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// Adds all empty windows before an event at once.
    fn skip(&mut self, time: i64) {
        let beyond = time
            .saturating_sub(self.start)
            .saturating_sub(self.length_ticks);
        let steps = beyond.saturating_add(self.step_ticks - 1) / self.step_ticks;
        let steps = steps.max(1);
        self.counts.add_times(0.0, steps.unsigned_abs());
        self.byte_sums.add_times(0.0, steps.unsigned_abs());
        self.start = self
            .start
            .saturating_add(steps.saturating_mul(self.step_ticks));
    }
}

/// The analysis.
pub struct Burst {
    lengths: Vec<Duration>,
    exact_values: usize,
    windows: Vec<Window>,
}

impl Burst {
    /// Names of its tables.
    pub const TABLES: [&'static str; 1] = ["bursts"];

    /// Expects events in order of time.
    pub fn new(lengths: Vec<Duration>, exact_values: usize) -> Self {
        Self {
            lengths,
            exact_values,
            windows: Vec::new(),
        }
    }

    /// Adds an event of `bytes` bytes. All events must use the same clock.
    pub fn add(&mut self, time: i64, ticks_per_s: u64, bytes: u64) {
        if self.windows.is_empty() {
            let lengths = self.lengths.iter();
            let window =
                |length: &Duration| Window::new(*length, time, ticks_per_s, self.exact_values);
            self.windows = lengths.map(window).collect();
        }
        for window in &mut self.windows {
            window.add(time, bytes);
        }
    }

    /// Table: distributions with quantiles of 1/parts and so on. `events` names the counted events, such as packets.
    pub fn sheet(&self, events: &str, parts: u64) -> Sheet {
        let mut headings = vec![
            Heading::figure("window_s", Unit::None),
            Heading::figure("step_s", Unit::None).hidden(),
            Heading::text("rate"),
            Heading::figure("peak_to_mean", Unit::None),
        ];
        headings.extend(distribution::headings());
        let caption = "each row is the distribution of a rate over all windows of a length";
        let mut sheet = Sheet::new(Self::TABLES[0], caption, headings);
        for window in self
            .windows
            .iter()
            .filter(|window| window.counts.count() > 0)
        {
            let s = window.length.as_secs_f64();
            let rates = [
                ("MiB/s".to_owned(), &window.byte_sums, 1.0 / (MIB * s)),
                ("Mbps".to_owned(), &window.byte_sums, BITS / (MEGA * s)),
                (
                    format!("thousand {events}/s"),
                    &window.counts,
                    1.0 / (KILO * s),
                ),
            ];
            for (rate, of, factor) in rates {
                let peak_to_mean = of.max().zip(of.mean()).map(|(max, mean)| max / mean);
                let mut row = vec![
                    Datum::Figure(s),
                    Datum::Figure(s / STEPS as f64),
                    Datum::text(rate),
                    Datum::some_figure(peak_to_mean),
                ];
                row.extend(distribution::scaled_cells(of, parts, factor));
                sheet.rows.push(row);
            }
        }
        sheet
    }
}

//! Rates: distributions over intervals, including empty ones.

use ahash::AHashMap;
use trackiops_schemas::unit::Unit;

use super::axes::interval_of;
use super::{Axis, Cell, Events, Key, Pruning, axis_values, partial};
use crate::distribution::{self, Distribution};
use crate::sheet::{Datum, Heading, Sheet};

/// Settings of rates.
#[derive(Clone, Debug)]
pub struct RatesSettings {
    /// Length of an interval, s.
    pub interval_s: u32,
    /// Axes by which rates are grouped.
    pub axes: Vec<Axis>,
    /// Selects the partial sums that have rates.
    pub pruning: Pruning,
    /// Values that each distribution keeps before it becomes a histogram.
    pub exact_values: usize,
}

/// Sums in complete intervals that are not empty.
#[derive(Clone, Debug)]
struct Series {
    counts: Distribution,
    bytes: Distribution,
}

/// Rates over intervals of one length.
pub struct Rates {
    settings: RatesSettings,
    interval: Option<u32>,
    first: u32,
    /// Sums of the current interval.
    cells: AHashMap<Key, Cell>,
    series: AHashMap<Key, Series>,
    /// Complete intervals that are not empty.
    occupied: u64,
    late: u64,
}

impl Rates {
    /// Names of its tables.
    pub const TABLES: [&'static str; 2] = ["rates", "counts"];

    /// Expects events in order of time.
    pub fn new(settings: RatesSettings) -> Self {
        Self {
            settings,
            interval: None,
            first: 0,
            cells: AHashMap::new(),
            series: AHashMap::new(),
            occupied: 0,
            late: 0,
        }
    }

    /// Adds an event.
    pub fn add(&mut self, time_ns: i64, key: Key, cell: Cell) {
        let interval = interval_of(time_ns, self.settings.interval_s.into());
        match self.interval {
            None => {
                (self.interval, self.first) = (Some(interval), interval);
            }
            Some(now) if interval > now => {
                self.close(now);
                self.interval = Some(interval);
            }
            Some(now) if interval < now => {
                self.late += 1;
                return;
            }
            Some(_) => {}
        }
        self.cells.entry(key).or_default().add(cell);
    }

    /// Ends an interval once a later one begins. The first one is incomplete, and does not count.
    fn close(&mut self, interval: u32) {
        let cells = std::mem::take(&mut self.cells);
        if interval == self.first {
            return;
        }
        self.occupied += 1;
        let axes = &self.settings.axes;
        let width = axes.len();
        for mask in 0..1_usize << width {
            let is_named = |place: usize| mask >> (width - 1 - place) & 1 == 0;
            if !self.settings.pruning.has_partial(axes, is_named) {
                continue;
            }
            for (key, cell) in partial(width, &cells, is_named) {
                let series = self.series.entry(key).or_insert_with(|| {
                    let empty = || Distribution::new(self.settings.exact_values);
                    Series {
                        counts: empty(),
                        bytes: empty(),
                    }
                });
                let per_s = f64::from(self.settings.interval_s);
                series.counts.add(cell.count as f64 / per_s);
                series.bytes.add(cell.bytes as f64 / per_s);
            }
        }
    }

    /// Complete intervals.
    fn complete(&self) -> u64 {
        let last = self.interval.unwrap_or(self.first);
        u64::from(last.saturating_sub(self.first)).saturating_sub(1)
    }

    /// Tables of rates over several lengths by the same axes: rates with quantiles of 1/parts and so on, and counts of intervals.
    pub fn sheets(all: &[Self], events: &Events, parts: u64) -> [Sheet; 2] {
        let axes = all.first().map_or(&[][..], |rates| &rates.settings.axes);
        let mut headings = vec![Heading::count("interval_s", Unit::Count)];
        headings.extend(axes.iter().map(|axis| axis.heading()));
        headings.extend([
            Heading::text("rate"),
            Heading::figure("peak_to_mean", Unit::None),
        ]);
        headings.extend(distribution::headings());
        let [name, counts_name] = Self::TABLES;
        let caption = "each row is the distribution of a rate over all complete intervals, those without anything included";
        let mut sheet = Sheet::new(name, caption, headings);
        let mut counts = Sheet::new(
            counts_name,
            "each row is a number of intervals of a length, or a time in s since the epoch",
            vec![
                Heading::count("interval_s", Unit::Count),
                Heading::text("what"),
                Heading::figure("value", Unit::None),
            ],
        );
        for rates in all {
            rates.add_rows(events, parts, &mut sheet);
            rates.add_counts(&mut counts);
        }
        [sheet, counts]
    }

    fn add_rows(&self, events: &Events, parts: u64, sheet: &mut Sheet) {
        let mut series: Vec<_> = self.series.iter().collect();
        series.sort_unstable_by_key(|(key, _)| named_first(key));
        let complete = self.complete();
        for (key, series) in series {
            for (rate, of) in [
                ("count_per_s", &series.counts),
                ("bytes_per_s", &series.bytes),
            ] {
                let mut of = of.clone();
                of.add_times(0.0, complete.saturating_sub(of.count()));
                let peak_to_mean = of.max().zip(of.mean()).map(|(max, mean)| max / mean);
                let mut row = vec![Datum::Count(self.settings.interval_s.into())];
                row.extend(axis_values(events, &self.settings.axes, key));
                row.extend([Datum::text(rate), Datum::some_figure(peak_to_mean)]);
                row.extend(distribution::cells(&of, parts));
                sheet.rows.push(row);
            }
        }
    }

    fn add_counts(&self, sheet: &mut Sheet) {
        let s = f64::from(self.settings.interval_s);
        let complete = self.complete();
        let counts = [
            ("first_interval", f64::from(self.first) * s),
            (
                "last_interval",
                f64::from(self.interval.unwrap_or(self.first)) * s,
            ),
            ("complete_intervals", complete as f64),
            (
                "empty_intervals",
                complete.saturating_sub(self.occupied) as f64,
            ),
            ("late_left_out", self.late as f64),
        ];
        sheet.rows.extend(counts.map(|(what, value)| {
            let interval = Datum::Count(self.settings.interval_s.into());
            vec![interval, Datum::text(what), Datum::Figure(value)]
        }));
    }
}

/// Orders keys by the number of named axes, largest first.
fn named_first(key: &Key) -> (usize, Key) {
    (
        key.iter().filter(|value| **value == super::ANY).count(),
        *key,
    )
}

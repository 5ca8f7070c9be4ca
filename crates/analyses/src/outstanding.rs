//! Requests in flight over time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ahash::AHashMap;
use trackiops_schemas::unit::Unit;

use crate::latency::By;
use crate::sheet::{Datum, Heading, Sheet, few_digits};
use crate::source::{Name, Request, Requests};

/// Most requests in flight that are counted separately; more count as this many.
const MOST_LEVELS: usize = 1 << 16;
const NS_PER_S: f64 = 1e9;

/// Settings of the analysis.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Groups with separate numbers; `None` for all requests together.
    pub by: Option<By>,
    /// Length of the intervals of the table of times, ns.
    pub interval_ns: i64,
    /// Requests come in order of completion, so a start becomes known late. The sweep waits this long, ns. A longer request counts only for
    /// its last part of this length.
    pub horizon_ns: i64,
}

/// An interval.
#[derive(Clone, Copy, Debug, Default)]
struct Interval {
    number: i64,
    /// Requests in flight times time, ns.
    area: u128,
    most: u64,
}

/// Requests in flight of one group.
#[derive(Default)]
struct Sweep {
    /// Starts and ends that are not swept yet. Of events at the same time, ends come first.
    events: BinaryHeap<Reverse<(i64, i8)>>,
    swept_ns: Option<i64>,
    level: u64,
    /// Time with this many in flight, ns.
    ns_at: Vec<u64>,
    now: Interval,
    intervals: Vec<Interval>,
    /// Requests that took longer than the horizon.
    clipped: u64,
}

impl Sweep {
    fn add(&mut self, start_ns: i64, end_ns: i64, settings: &Settings) {
        let swept = self.swept_ns.unwrap_or(i64::MIN);
        self.clipped += u64::from(start_ns < swept);
        self.events.push(Reverse((start_ns.max(swept), 1)));
        self.events.push(Reverse((end_ns.max(swept), -1)));
        self.sweep(end_ns.saturating_sub(settings.horizon_ns), settings);
    }

    /// Counts up to a time, exclusive.
    fn sweep(&mut self, until_ns: i64, settings: &Settings) {
        while let Some(Reverse((time_ns, change))) = self.events.peek().copied() {
            if time_ns >= until_ns {
                break;
            }
            self.events.pop();
            self.pass(time_ns, settings);
            self.level = match change {
                1 => self.level + 1,
                _ => self.level.saturating_sub(1),
            };
        }
    }

    /// Advances the time, with the same number in flight.
    fn pass(&mut self, to_ns: i64, settings: &Settings) {
        let from_ns = *self.swept_ns.get_or_insert(to_ns);
        self.swept_ns = Some(to_ns);
        let level = usize::try_from(self.level)
            .unwrap_or(MOST_LEVELS)
            .min(MOST_LEVELS - 1);
        if level >= self.ns_at.len() {
            self.ns_at.resize(level + 1, 0);
        }
        let passed = to_ns.saturating_sub(from_ns).unsigned_abs();
        self.ns_at[level] = self.ns_at[level].saturating_add(passed);
        let number = to_ns.div_euclid(settings.interval_ns);
        let mut at_ns = from_ns;
        while self.now.number < number {
            if self.level == 0 {
                self.next(number);
                return;
            }
            let end_ns = (self.now.number + 1).saturating_mul(settings.interval_ns);
            // Nothing was swept before.
            if end_ns > at_ns {
                self.count(at_ns, end_ns);
                at_ns = end_ns;
            }
            self.next(self.now.number + 1);
        }
        self.count(at_ns, to_ns);
    }

    /// Counts the requests in flight in a part of an interval. A request that takes no time does not count.
    fn count(&mut self, from_ns: i64, to_ns: i64) {
        if to_ns > from_ns {
            self.now.area += u128::from(to_ns.abs_diff(from_ns)) * u128::from(self.level);
            self.now.most = self.now.most.max(self.level);
        }
    }

    /// Begins an interval. Idle intervals are not kept.
    fn next(&mut self, number: i64) {
        if self.now.most > 0 {
            self.intervals.push(self.now);
        }
        self.now = Interval {
            number,
            ..Interval::default()
        };
    }

    fn finish(&mut self, settings: &Settings) {
        self.sweep(i64::MAX, settings);
        self.next(self.now.number);
    }

    /// The number in flight that was not exceeded for a share of the time.
    fn quantile(&self, share: f64) -> f64 {
        let all: u64 = self.ns_at.iter().sum();
        let mut seen = 0_u64;
        for (level, ns) in self.ns_at.iter().enumerate() {
            seen = seen.saturating_add(*ns);
            if seen as f64 >= share * all as f64 {
                return level as f64;
            }
        }
        self.ns_at.len() as f64
    }
}

/// The analysis.
pub struct Outstanding {
    settings: Settings,
    sweeps: AHashMap<Name, Sweep>,
    untimed: u64,
    reads: u64,
}

impl Outstanding {
    /// Names of its tables.
    pub const TABLES: [&'static str; 3] = ["in_flight", "times", "counts"];

    /// Expects requests in order of completion.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings: Settings {
                interval_ns: settings.interval_ns.max(1),
                ..settings
            },
            sweeps: AHashMap::new(),
            untimed: 0,
            reads: 0,
        }
    }

    /// Adds a request.
    pub fn add(&mut self, request: &Request) {
        let Some(start_ns) = request.start_ns() else {
            self.untimed += 1;
            return;
        };
        self.reads += u64::from(request.is_read);
        let key = match self.settings.by {
            None => 0,
            Some(By::Server) => request.server,
            Some(By::Client) => request.client,
            Some(By::Mount) => request.mount,
            Some(By::Tenant) => request.tenant,
            Some(By::Op) => request.is_read.into(),
        };
        let interval_ns = self.settings.interval_ns;
        let sweep = self.sweeps.entry(key).or_insert_with(|| Sweep {
            now: Interval {
                number: start_ns.div_euclid(interval_ns),
                ..Interval::default()
            },
            ..Sweep::default()
        });
        sweep.add(start_ns, request.end_ns, &self.settings);
    }

    /// Tables: numbers in flight, over time, and counts.
    pub fn sheets(mut self, names: &Requests) -> [Sheet; 3] {
        let [name, times_name, counts_name] = Self::TABLES;
        let by = self.settings.by;
        let mut headings: Vec<_> = by.map(|by| Heading::text(by.name())).into_iter().collect();
        let key_headings = headings.clone();
        headings.push(Heading::figure("seconds", Unit::None));
        let figures = ["mean", "p50", "p90", "p99", "max"];
        headings.extend(figures.map(|name| Heading::figure(name, Unit::None)));
        let caption = "each row is the number of requests in flight, weighted by time";
        let mut sheet = Sheet::new(name, caption, headings);
        let mut headings = key_headings;
        headings.extend([
            Heading::time("time"),
            Heading::figure("mean", Unit::None),
            Heading::count("max", Unit::Count),
        ]);
        let caption = "each row is an interval in which requests were in flight";
        let mut times = Sheet::new(times_name, caption, headings);
        let mut clipped = 0;
        let mut keys: Vec<_> = self.sweeps.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let Some(mut sweep) = self.sweeps.remove(&key) else {
                continue;
            };
            sweep.finish(&self.settings);
            clipped += sweep.clipped;
            let key: Vec<_> = by
                .map(|by| Datum::Text(name_of(by, key, names)))
                .into_iter()
                .collect();
            sheet.rows.push([key.clone(), summary(&sweep)].concat());
            let rows = sweep.intervals.iter().map(|interval| {
                let start = interval.number.saturating_mul(self.settings.interval_ns);
                let mean = interval.area as f64 / self.settings.interval_ns as f64;
                let row = vec![
                    Datum::time_ns(start),
                    Datum::Figure(mean),
                    Datum::Count(interval.most),
                ];
                [key.clone(), row].concat()
            });
            times.rows.extend(rows);
        }
        let most = |column| {
            let figures = sheet.rows.iter();
            let figures = figures.filter_map(|row| sheet.figure(row, column));
            few_digits(figures.fold(0.0, f64::max))
        };
        sheet.verdict = Some(match by {
            None => format!(
                "at most {} requests were in flight at once, for 99 % of the time at most {}",
                most("max"),
                most("p99")
            ),
            Some(by) => format!(
                "of one {}, at most {} requests were in flight at once, for 99 % of the time at most {}",
                by.name(),
                most("max"),
                most("p99")
            ),
        });
        let counts = [
            ("untimed_left_out", self.untimed as f64),
            ("longer_than_horizon", clipped as f64),
        ];
        let caption = "requests of unknown latency, and those that count from the horizon on";
        [sheet, times, Sheet::of_counts(counts_name, caption, counts)]
    }
}

fn name_of(by: By, key: Name, names: &Requests) -> std::sync::Arc<str> {
    match by {
        By::Server => names.servers.get(key),
        By::Client => names.clients.get(key),
        By::Mount => names.mounts.get(key),
        By::Tenant => names.tenants.get(key),
        By::Op => if key == 1 { "read" } else { "write" }.into(),
    }
}

fn summary(sweep: &Sweep) -> Vec<Datum> {
    let ns: u64 = sweep.ns_at.iter().sum();
    let levels = sweep.ns_at.iter().enumerate();
    let area: f64 = levels.map(|(level, ns)| level as f64 * *ns as f64).sum();
    let most = sweep.intervals.iter().map(|interval| interval.most).max();
    let mut row = vec![
        Datum::Figure(ns as f64 / NS_PER_S),
        Datum::some_figure((ns > 0).then(|| area / ns as f64)),
    ];
    row.extend([0.5, 0.9, 0.99].map(|share| Datum::Figure(sweep.quantile(share))));
    row.push(Datum::Figure(most.unwrap_or(0) as f64));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(requests: &[(i64, i64)], interval_ns: i64) -> Sweep {
        let settings = Settings {
            by: None,
            interval_ns,
            horizon_ns: 100,
        };
        let mut sweep = Sweep::default();
        for (start, end) in requests {
            sweep.add(*start, *end, &settings);
        }
        sweep.finish(&settings);
        sweep
    }

    #[test]
    fn requests_are_in_flight_from_start_to_end() {
        let found = sweep(&[(5, 10), (0, 20), (30, 40)], 10);
        // None from 20 to 30; one from 0 to 5, 10 to 20 and 30 to 40; two from 5 to 10.
        assert_eq!(found.ns_at, [10, 25, 5]);
        let rows: Vec<_> = found
            .intervals
            .iter()
            .map(|of| (of.number, of.area, of.most))
            .collect();
        assert_eq!(rows, [(0, 15, 2), (1, 10, 1), (3, 10, 1)]);
    }

    #[test]
    fn one_that_begins_when_another_ends_is_not_in_flight_with_it() {
        let found = sweep(&[(0, 10), (10, 20)], 100);
        assert_eq!((found.intervals[0].most, &*found.ns_at), (1, &[0, 20][..]));
    }

    #[test]
    fn one_longer_than_the_horizon_counts_from_there_on() {
        let found = sweep(&[(0, 10), (990, 1000), (5, 1010)], 10_000);
        assert_eq!(found.clipped, 1);
        assert_eq!(found.intervals[0].most, 2);
    }
}

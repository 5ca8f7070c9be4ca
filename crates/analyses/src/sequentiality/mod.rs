//! How sequentially files are read and written: runs, reordering, and sequential runs in random ones. Section 6.4 and Figures 6
//! and 7 of the paper.
//!
//! Requests of a client for a file form one group until the file is idle for longer than a gap. A group is one run, or several if requests
//! reach the end of the file. Two generations close groups, like in the paper. All files that were not used for a whole generation close
//! together, so no queue of times is needed.

mod group;
mod io;
mod metrics;
mod order;
mod run;

use std::mem;
use std::str::FromStr;
use std::time::Duration;

use ahash::AHashMap;

pub use metrics::{METRICS, Metric};
pub use order::Order;

use self::group::Group;
use self::io::Io;
use self::metrics::Stats;
use self::order::Scratch;
use crate::distribution;
use crate::sheet::{Datum, Heading, Sheet};
use crate::source::{Name, Names, Request};

/// Most requests in all groups before long groups are processed early: about 40 MiB.
const MOST_HELD: usize = 1 << 20;
/// Most spare vectors kept for new groups.
const MOST_SPARE: usize = 1 << 12;

/// How requests form runs.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The order in which the requests of a group are taken.
    pub order: Order,
    /// A request that starts up to this long after another one's end still counts as concurrent.
    pub slop: Duration,
    /// Idle time of a file that ends its group.
    pub gap: Duration,
    /// Whether to use the sizes of files if they are known.
    pub with_sizes: bool,
    /// Entities with separate distributions.
    pub by: By,
    /// Values that each distribution keeps before it becomes a histogram.
    pub exact_values: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            order: Order::Overlap,
            slop: Duration::ZERO,
            gap: Duration::from_secs(2),
            with_sizes: true,
            by: By::All,
            exact_values: distribution::EXACT_VALUES,
        }
    }
}

/// Entities with separate distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// None: all requests together.
    #[default]
    All,
    /// Each file.
    File,
    /// Each mount.
    Mount,
    /// Each tenant.
    Tenant,
    /// Each client.
    Host,
}

impl By {
    const ALL: [(&'static str, Self); 5] = [
        ("all", Self::All),
        ("file", Self::File),
        ("mount", Self::Mount),
        ("tenant", Self::Tenant),
        ("host", Self::Host),
    ];

    /// The value of `--by`.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(_, by)| *by == self);
        found.map_or("all", |(name, _)| name)
    }
}

impl FromStr for By {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == text);
        found
            .map(|(_, by)| by)
            .ok_or_else(|| format!("`{text}` is none of all, file, mount, tenant, host"))
    }
}

/// Key of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    file: i64,
    server: Name,
    client: Name,
}

/// The analysis.
pub struct Sequentiality {
    settings: Settings,
    gap_ns: i64,
    /// Files used since the last rotation.
    young: AHashMap<Key, Group>,
    /// Files used between the last two rotations.
    old: AHashMap<Key, Group>,
    /// Time of the last rotation.
    rotated_ns: Option<i64>,
    held: usize,
    /// [`MOST_HELD`], or less in tests.
    most_held: usize,
    /// Whether long groups are processed early. It stays true until half of the limit is held, so that every active group gets its turn.
    works_off: bool,
    spare: Vec<Vec<Io>>,
    scratch: Scratch,
    stats: Stats,
    skipped: Skipped,
}

/// Requests that the analysis skips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// They failed.
    pub failed: u64,
    /// Their start is unknown.
    pub untimed: u64,
}

impl Sequentiality {
    /// Expects requests in order of completion.
    pub fn new(settings: Settings) -> Self {
        Self {
            gap_ns: i64::try_from(settings.gap.as_nanos()).unwrap_or(i64::MAX),
            young: AHashMap::new(),
            old: AHashMap::new(),
            rotated_ns: None,
            held: 0,
            most_held: MOST_HELD,
            works_off: false,
            spare: Vec::new(),
            scratch: Scratch::default(),
            stats: Stats::new(settings.exact_values),
            skipped: Skipped::default(),
            settings,
        }
    }

    /// Adds a request; `group` is its entity by the setting `by`.
    #[inline]
    pub fn add(&mut self, request: &Request, group: Name) {
        if request.has_failed {
            self.skipped.failed += 1;
            return;
        }
        let Some(start_ns) = request.start_ns() else {
            self.skipped.untimed += 1;
            return;
        };
        let io = Io::new(request, start_ns);
        self.rotate(io.end_ns);
        let key = Key {
            file: request.file,
            server: request.server,
            client: request.client,
        };
        let (young, old, spare) = (&mut self.young, &mut self.old, &mut self.spare);
        let of_key = young.entry(key).or_insert_with(|| {
            let known = if old.is_empty() {
                None
            } else {
                old.remove(&key)
            };
            known.unwrap_or_else(|| Group::new(group, spare.pop().unwrap_or_default()))
        });
        let size = request.file_size.filter(|_| self.settings.with_sizes);
        if of_key.is_over(&io, self.gap_ns) {
            self.held -= of_key.len();
            of_key.close(&self.settings, &mut self.scratch, &mut self.stats);
        }
        of_key.add(io, size);
        self.held += 1;
        match self.held {
            many if many > self.most_held => self.works_off = true,
            few if few < self.most_held / 2 => self.works_off = false,
            _ => {}
        }
        if self.works_off && of_key.is_long() {
            let before = of_key.len();
            let open_from = io.end_ns.saturating_sub(self.gap_ns);
            of_key.work_off(
                Some(open_from),
                &self.settings,
                &mut self.scratch,
                &mut self.stats,
            );
            self.held -= before - of_key.len();
        }
    }

    /// Closes files that were idle for a whole generation. A later request that takes no longer than the gap cannot belong to their groups:
    /// it started more than a gap after their last request.
    fn rotate(&mut self, now_ns: i64) {
        let last = *self.rotated_ns.get_or_insert(now_ns);
        let generation_ns = self.gap_ns.saturating_mul(2);
        if now_ns <= last.saturating_add(generation_ns) {
            return;
        }
        self.rotated_ns = Some(now_ns);
        let closed = mem::replace(&mut self.old, mem::take(&mut self.young));
        self.close(closed);
    }

    fn close(&mut self, mut groups: AHashMap<Key, Group>) {
        // Sort: floating-point sums depend on the order.
        let mut closed: Vec<_> = groups.drain().collect();
        closed.sort_unstable_by_key(|(key, _)| *key);
        for (_, mut group) in closed {
            self.held -= group.len();
            group.close(&self.settings, &mut self.scratch, &mut self.stats);
            if self.spare.len() < MOST_SPARE {
                self.spare.push(group.into_spare());
            }
        }
        // Keep the allocated table for the next generation.
        if self.young.capacity() == 0 {
            self.young = groups;
        }
    }

    /// Closes all files.
    pub fn finish(mut self) -> Found {
        for groups in [mem::take(&mut self.old), mem::take(&mut self.young)] {
            self.close(groups);
        }
        Found {
            stats: self.stats,
            skipped: self.skipped,
            by: self.settings.by,
        }
    }
}

/// The result.
pub struct Found {
    stats: Stats,
    /// Skipped requests.
    pub skipped: Skipped,
    by: By,
}

impl Found {
    /// Names of its tables.
    pub const TABLES: [&'static str; 2] = ["distributions", "counts"];

    /// Tables: distributions with quantiles of 1/parts and so on, and counts.
    pub fn sheets(&self, names: &Names, parts: u64) -> [Sheet; 2] {
        let [name, counts_name] = Self::TABLES;
        let mut headings = vec![Heading::text("metric")];
        if self.by != By::All {
            headings.insert(0, Heading::text(self.by.name()));
        }
        headings.extend(distribution::headings());
        let mut sheet = Sheet::new(
            name,
            "each row is the distribution of one value of runs, or of requests in them",
            headings,
        );
        for (group, metric, of) in self.stats.known() {
            let mut row = vec![Datum::text(metric.name())];
            if self.by != By::All {
                row.insert(0, Datum::Text(names.get(group)));
            }
            row.extend(distribution::cells(of, parts));
            sheet.rows.push(row);
        }
        let counts = [
            ("requests", self.stats.requests),
            ("reordered", self.stats.reordered),
            ("unknown_file_size", self.stats.unknown_file_size),
            ("failed_left_out", self.skipped.failed),
            ("untimed_left_out", self.skipped.untimed),
        ];
        let counts = counts.map(|(what, count)| (what, count as f64));
        let counts = Sheet::of_counts(counts_name, "requests and runs that were counted", counts);
        [sheet, counts]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    fn request(end_ns: i64, latency_ms: i64, file: i64, place: u64, is_read: bool) -> Request {
        Request {
            end_ns,
            latency_ns: u64::try_from(latency_ms * MS).ok(),
            file,
            is_read,
            offset: place * 4096,
            bytes: 4096,
            ..Request::default()
        }
    }

    /// All numbers in the tables.
    fn found(requests: &[Request], settings: Settings, most_held: usize) -> String {
        let mut analysis = Sequentiality::new(settings);
        analysis.most_held = most_held;
        requests.iter().for_each(|request| analysis.add(request, 0));
        let rows = |sheet: &Sheet| format!("{:?}", sheet.rows);
        let mut sheets = analysis.finish().sheets(&Names::default(), 50);
        // The order of summation of means differs.
        for row in &mut sheets[0].rows {
            row.retain(|datum| !matches!(datum, Datum::Figure(_)));
        }
        sheets.each_ref().map(rows).concat()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Holds as long as no request takes longer than the gap.
        #[test]
        fn working_groups_off_early_gives_the_same_runs(
            steps in prop::collection::vec((0..60_i64, 0..1900_i64, 0..3_i64, 0..6_u64, any::<bool>()), 300..900),
            slop_ms in 0..20_u64,
        ) {
            let mut end_ns = 0;
            let requests: Vec<_> = steps.into_iter().map(|(after, latency, file, place, is_read)| {
                end_ns += after * MS;
                request(end_ns, latency, file, place, is_read)
            }).collect();
            for order in [Order::Request, Order::Reply, Order::Overlap] {
                let settings = Settings {
                    order,
                    slop: Duration::from_millis(slop_ms),
                    ..Settings::default()
                };
                let whole = found(&requests, settings, MOST_HELD);
                prop_assert_eq!(&whole, &found(&requests, settings, 10), "{:?}", order);
            }
        }
    }
}

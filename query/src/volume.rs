//! Size of a store on disk, its size by the paper's formula, and the expected size of a planned recording.

use std::path::Path;

use trackiops_schemas::time::{DAY_MS, Granularity};
use trackiops_store::{Dataset, GranularitySet, Retention, Snapshot};

use crate::answer::{Answer, EmptyReason, Outcome};
use crate::error::QueryError;
use crate::group::GroupBy;
use crate::interval::Interval;
use crate::times::show_length;

/// Bytes per entry by the paper's formula, `(86400 / g) x files x 40` bytes a day. It covers six metrics, without
/// percentiles, parts and names.
const PAPER_ENTRY_BYTES: u64 = 40;
/// Least recorded time for a plan from a store, ms. On the synthetic day, files alternate between ten minutes of use
/// and ten idle minutes, and the longest default window is an hour.
const LEAST_SPAN_MS: u64 = 3_600_000;
/// Least entries of a granularity to derive the size of an entry. A segment takes some 17 KiB before its first entry: a
/// footer of 12 KiB, page indexes, and headers of 60 columns. This adds 2 bytes to each of 10,000 entries, but 170
/// bytes to each of 100.
const LEAST_ENTRIES: u64 = 10_000;
/// Granularity (ms) and bytes per entry on the synthetic day (`make bench-store`), for plans without a recording.
const DAY_ENTRY_BYTES: [(i64, f64); 4] = [
    (1000, 51.0),
    (10_000, 144.0),
    (60_000, 251.0),
    (3_600_000, 481.0),
];

/// Name of the row of unsealed journals. They hold windows of all datasets.
const JOURNAL: &str = "journal";

/// Size of one dataset in one granularity, or of the unsealed journals of one granularity.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// `rollup`, `ops` or `health`; `journal` for unsealed journals.
    pub dataset: &'static str,
    /// Length of its windows.
    pub granularity: Granularity,
    /// Number of Parquet files, or of journals; 0 in a plan.
    pub segments: u64,
    /// Rows in these files, in journals only rows of files; in a plan, rows of a day.
    pub entries: u64,
    /// Size of these files; in a plan, of a day. Bytes.
    pub bytes: u64,
    /// Size of the same entries by the paper's formula, bytes. `None` except for rows of files.
    pub paper_bytes: Option<u64>,
    /// Bytes per day of recording. `None` for journals: sealing turns them into segments.
    pub bytes_per_day: Option<f64>,
    /// Size when the oldest data begin to expire, bytes. `None` if they never expire, and for journals.
    pub bytes_at_most: Option<f64>,
    /// From the first to the last window, ms; 0 in a plan.
    pub span_ms: u64,
}

impl Volume {
    /// A row without entries yet.
    fn new(dataset: &'static str, granularity: Granularity) -> Self {
        Self {
            dataset,
            granularity,
            segments: 0,
            entries: 0,
            bytes: 0,
            paper_bytes: None,
            bytes_per_day: None,
            bytes_at_most: None,
            span_ms: 0,
        }
    }

    /// Whether it is in Parquet files, not in journals that wait to be sealed.
    pub fn is_sealed(&self) -> bool {
        self.dataset != JOURNAL
    }

    /// Bytes per entry; `None` without entries.
    pub fn bytes_per_entry(&self) -> Option<f64> {
        (self.entries > 0).then(|| self.bytes as f64 / self.entries as f64)
    }
}

/// Size of a store by dataset and granularity, and of its unsealed journals, without the catalog and single requests.
pub fn ask_volume(store: &Path, retention: &Retention) -> Result<Outcome<Volume>, QueryError> {
    let snapshot = Snapshot::open(store)?;
    let mut rows: Vec<Volume> = Vec::new();
    let mut range: Option<Interval> = None;
    for dataset in [Dataset::Rollup, Dataset::Ops, Dataset::Health] {
        let mut spans: Vec<Interval> = Vec::new();
        let first = rows.len();
        for segment in snapshot.segments(dataset, None)? {
            let span = Interval::new(segment.start, segment.end);
            range = Some(range.map_or(span, |range| range.hull(span)));
            let known = rows[first..]
                .iter()
                .position(|row| row.granularity == segment.granularity);
            let at = known.unwrap_or_else(|| {
                spans.push(span);
                rows.push(Volume::new(dataset.name(), segment.granularity));
                spans.len() - 1
            });
            let row = &mut rows[first + at];
            row.segments += 1;
            row.entries += segment.rows;
            row.bytes += segment.bytes;
            spans[at] = spans[at].hull(span);
        }
        for (row, span) in rows[first..].iter_mut().zip(spans) {
            if dataset == Dataset::Rollup {
                row.paper_bytes = Some(row.entries.saturating_mul(PAPER_ENTRY_BYTES));
            }
            row.span_ms = span.ms();
            let bytes_per_day = row.bytes as f64 * DAY_MS as f64 / span.ms().max(1) as f64;
            row.bytes_per_day = Some(bytes_per_day);
            row.bytes_at_most = at_most(row, retention);
        }
    }
    let (journals, of_journals) = unsealed(&snapshot);
    rows.extend(journals);
    let Some(range) = range.into_iter().chain(of_journals).reduce(Interval::hull) else {
        return Ok(Outcome::Nothing {
            why: EmptyReason::EmptyStore(vec![store.to_owned()]),
            notes: Vec::new(),
        });
    };
    Ok(answer(rows, range))
}

/// Size of the unsealed journals with windows, by granularity, and the time range of these windows.
fn unsealed(snapshot: &Snapshot) -> (Vec<Volume>, Option<Interval>) {
    let mut rows: Vec<Volume> = Vec::new();
    let mut range: Option<Interval> = None;
    for tail in snapshot.tails() {
        let (Some((bytes, entries)), Some((start, end))) = (tail.size(), tail.span()) else {
            continue;
        };
        let span = Interval::new(start, end);
        range = Some(range.map_or(span, |range| range.hull(span)));
        let granularity = tail.granularity();
        let known = rows.iter().position(|row| row.granularity == granularity);
        let at = known.unwrap_or_else(|| {
            rows.push(Volume::new(JOURNAL, granularity));
            rows.len() - 1
        });
        let row = &mut rows[at];
        row.segments += 1;
        row.entries = row.entries.saturating_add(entries);
        row.bytes = row.bytes.saturating_add(bytes);
    }
    (rows, range)
}

/// Selects volumes from which a plan can derive the size of an entry.
///
/// Fails with [`QueryError::TooLittleToPlan`] if there is little data, which would show the size of empty segments.
pub fn sizes(recorded: Outcome<Volume>) -> Result<Vec<Volume>, QueryError> {
    let mut rows = match recorded {
        Outcome::Found(answer) => answer.rows,
        Outcome::Nothing { .. } => Vec::new(),
    };
    rows.retain(|row| row.dataset == Dataset::Rollup.name());
    let finest = rows.iter().min_by_key(|row| row.granularity);
    let (span_ms, entries) = finest.map_or((0, 0), |row| (row.span_ms, row.entries));
    if span_ms < LEAST_SPAN_MS || entries < LEAST_ENTRIES {
        return Err(QueryError::TooLittleToPlan {
            has: show_length(span_ms),
            entries,
            needed: show_length(LEAST_SPAN_MS),
            least_entries: LEAST_ENTRIES,
        });
    }
    rows.retain(|row| row.entries >= LEAST_ENTRIES);
    Ok(rows)
}

/// Plans a day of `files` files in constant use. The size of an entry comes from `like` ([`sizes`]) for the same
/// granularity, or else from the synthetic day.
pub fn plan_volume(
    files: u64,
    granularities: &GranularitySet,
    retention: &Retention,
    like: &[Volume],
) -> Outcome<Volume> {
    let plan = |granularity: &Granularity| {
        let entries = files.saturating_mul((DAY_MS / granularity.ms()).unsigned_abs());
        let of_like = like
            .iter()
            .find(|row| row.dataset == Dataset::Rollup.name() && row.granularity == *granularity);
        let known = of_like.and_then(Volume::bytes_per_entry);
        let bytes_per_entry = known.unwrap_or_else(|| day_entry_bytes(*granularity));
        let bytes = entries as f64 * bytes_per_entry;
        let mut row = Volume {
            entries,
            bytes: bytes as u64,
            paper_bytes: Some(entries.saturating_mul(PAPER_ENTRY_BYTES)),
            bytes_per_day: Some(bytes),
            ..Volume::new(Dataset::Rollup.name(), *granularity)
        };
        row.bytes_at_most = at_most(&row, retention);
        row
    };
    let rows = granularities.as_slice().iter().map(plan).collect();
    let zero = trackiops_schemas::time::UtcMs(0);
    answer(rows, Interval::new(zero, zero))
}

fn answer(rows: Vec<Volume>, range: Interval) -> Outcome<Volume> {
    Outcome::Found(Answer::of_range(rows, GroupBy::MOUNT, range, Vec::new()))
}

fn at_most(row: &Volume, retention: &Retention) -> Option<f64> {
    let age_ms = retention.of(row.granularity)?;
    Some(row.bytes_per_day? * age_ms as f64 / DAY_MS as f64)
}

/// Uses the same granularity or the next coarser one.
fn day_entry_bytes(granularity: Granularity) -> f64 {
    let known = DAY_ENTRY_BYTES
        .iter()
        .find(|(ms, _)| *ms >= granularity.ms());
    known
        .or(DAY_ENTRY_BYTES.last())
        .map_or(0.0, |(_, bytes)| *bytes)
}

/// Days until the room is used up, if fewer than 100 years. Each granularity grows until it expires; a plan begins empty.
pub fn days_until(rows: &[Volume], is_plan: bool, room: u64) -> Option<f64> {
    let at = |days: f64| -> f64 {
        let of_row = |row: &Volume| {
            let begun = if is_plan { 0.0 } else { row.bytes as f64 };
            let grown = begun + row.bytes_per_day.unwrap_or_default() * days;
            row.bytes_at_most
                .map_or(grown, |most| grown.min(most.max(begun)))
        };
        rows.iter().map(of_row).sum()
    };
    let (mut low, mut high) = (0.0, 36_500.0);
    if at(high) < room as f64 {
        return None;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if at(middle) < room as f64 {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_table_is_met_by_its_own_formula() {
        let set: GranularitySet = "1s,10s,1m,1h".parse().unwrap();
        let retention: Retention = "1s=2d,1h=forever".parse().unwrap();
        let Outcome::Found(answer) = plan_volume(4000, &set, &retention, &[]) else {
            panic!("nothing was planned");
        };
        let paper: Vec<_> = answer
            .rows
            .iter()
            .filter_map(|row| row.paper_bytes)
            .collect();
        assert_eq!(
            paper,
            [13_824_000_000, 1_382_400_000, 230_400_000, 3_840_000]
        );
        let [second, .., hour] = &answer.rows[..] else {
            panic!("{:?}", answer.rows);
        };
        let two_days = second.bytes_per_day.map(|a_day| 2.0 * a_day);
        assert!(two_days.is_some());
        assert_eq!(second.bytes_at_most, two_days);
        assert_eq!(hour.bytes_at_most, None);
    }

    /// Entries of 30 bytes.
    fn recorded(granularity: &str, entries: u64, span_ms: u64) -> Volume {
        Volume {
            dataset: "rollup",
            granularity: granularity.parse().unwrap(),
            segments: 1,
            entries,
            bytes: 30 * entries,
            paper_bytes: None,
            bytes_per_day: None,
            bytes_at_most: None,
            span_ms,
        }
    }

    #[test]
    fn too_little_is_not_extrapolated() {
        let zero = trackiops_schemas::time::UtcMs(0);
        let sizes = |rows: &[Volume]| sizes(answer(rows.to_vec(), Interval::new(zero, zero)));
        let (hour, many) = (LEAST_SPAN_MS, LEAST_ENTRIES);
        for few in [
            &[][..],
            &[recorded("1s", many - 1, hour)],
            &[recorded("1s", many, hour - 1)],
            // A window of an hour counts as an hour, even if only a part was recorded.
            &[recorded("1h", many, hour), recorded("1s", 9, 9000)],
        ] {
            assert!(sizes(few).is_err(), "{few:?}");
        }
        let said = sizes(&[recorded("1s", 128, 56_000)]).unwrap_err();
        let said = said.to_string();
        assert!(said.contains("56 s") && said.contains("128"), "{said}");
        let rows = [recorded("1s", many, hour), recorded("1h", 9, hour)];
        assert_eq!(sizes(&rows).unwrap(), rows[..1]);
    }

    #[test]
    fn a_plan_goes_by_what_was_recorded() {
        let set: GranularitySet = "5s".parse().unwrap();
        let retention = Retention::default();
        let like = recorded("5s", LEAST_ENTRIES, LEAST_SPAN_MS);
        let bytes = |like: &[Volume]| match plan_volume(1, &set, &retention, like) {
            Outcome::Found(answer) => answer.rows[0].bytes,
            Outcome::Nothing { .. } => 0,
        };
        assert_eq!(bytes(&[like]), 17_280 * 30);
        assert_eq!(bytes(&[]), 17_280 * DAY_ENTRY_BYTES[1].1 as u64);
    }
}

//! What a store takes on disk, what it would have taken by the extractor's entries, and what a recording will take.

use std::path::Path;

use trackiops_schemas::time::{DAY_MS, Granularity};
use trackiops_store::{Dataset, GranularitySet, Retention, Snapshot};

use crate::answer::{Answer, Nothing, Outcome};
use crate::coverage::Interval;
use crate::error::QueryError;
use crate::group::By;
use crate::step::Step;

/// What an entry takes by the paper's formula, `(86400 / g) x files x 40` bytes a day: six metrics, without percentiles, parts and names.
const PAPER_ENTRY_BYTES: u64 = 40;
/// What an entry takes where nothing was recorded yet to tell: on the synthetic day (`make bench-store`).
const DAY_ENTRY_BYTES: [(i64, f64); 4] = [
    (1000, 51.0),
    (10_000, 144.0),
    (60_000, 251.0),
    (3_600_000, 481.0),
];

/// What is on disk of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// `rollup`, `ops`, `health`.
    pub dataset: &'static str,
    /// Length of its windows.
    pub granularity: Granularity,
    /// Parquet files; 0 where it is planned.
    pub segments: u64,
    /// Rows in them, or a day's.
    pub entries: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// What as many of the extractor's entries would take; only rows of files have such.
    pub paper_bytes: Option<u64>,
    /// Bytes per day of recording.
    pub bytes_per_day: f64,
    /// What it will take when the oldest begin to expire, if they do.
    pub bytes_at_most: Option<f64>,
}

impl Volume {
    /// Bytes per entry.
    pub fn bytes_per_entry(&self) -> Option<f64> {
        (self.entries > 0).then(|| self.bytes as f64 / self.entries as f64)
    }
}

/// What a store takes. Journals not sealed yet, the catalog and single requests are not in it.
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
                rows.push(Volume {
                    dataset: dataset.name(),
                    granularity: segment.granularity,
                    segments: 0,
                    entries: 0,
                    bytes: 0,
                    paper_bytes: None,
                    bytes_per_day: 0.0,
                    bytes_at_most: None,
                });
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
            row.bytes_per_day = row.bytes as f64 * DAY_MS as f64 / span.ms().max(1) as f64;
            row.bytes_at_most = at_most(row, retention);
        }
    }
    let Some(range) = range else {
        return Ok(Outcome::Nothing {
            why: Nothing::EmptyStore(vec![store.to_owned()]),
            notes: Vec::new(),
        });
    };
    Ok(answer(rows, range))
}

/// What a day of so many files takes that are all in use all the time. Entries are as large as those of `like`, as far as it has them, or as those of
/// the synthetic day.
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
            dataset: Dataset::Rollup.name(),
            granularity: *granularity,
            segments: 0,
            entries,
            bytes: bytes as u64,
            paper_bytes: Some(entries.saturating_mul(PAPER_ENTRY_BYTES)),
            bytes_per_day: bytes,
            bytes_at_most: None,
        };
        row.bytes_at_most = at_most(&row, retention);
        row
    };
    let rows = granularities.as_slice().iter().map(plan).collect();
    let zero = trackiops_schemas::time::UtcMs(0);
    answer(rows, Interval::new(zero, zero))
}

fn answer(rows: Vec<Volume>, range: Interval) -> Outcome<Volume> {
    Outcome::Found(Answer {
        rows,
        step: Step::All,
        by: By::MOUNT,
        range,
        notes: Vec::new(),
    })
}

fn at_most(row: &Volume, retention: &Retention) -> Option<f64> {
    let age_ms = retention.of(row.granularity)?;
    Some(row.bytes_per_day * age_ms as f64 / DAY_MS as f64)
}

/// That of the same granularity or the next coarser one.
fn day_entry_bytes(granularity: Granularity) -> f64 {
    let known = DAY_ENTRY_BYTES
        .iter()
        .find(|(ms, _)| *ms >= granularity.ms());
    known
        .or(DAY_ENTRY_BYTES.last())
        .map_or(0.0, |(_, bytes)| *bytes)
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
        assert_eq!(second.bytes_at_most, Some(2.0 * second.bytes_per_day));
        assert_eq!(hour.bytes_at_most, None);
    }

    #[test]
    fn a_plan_goes_by_what_was_recorded() {
        let set: GranularitySet = "5s".parse().unwrap();
        let retention = Retention::default();
        let like = Volume {
            dataset: "rollup",
            granularity: "5s".parse().unwrap(),
            segments: 1,
            entries: 10,
            bytes: 300,
            paper_bytes: None,
            bytes_per_day: 0.0,
            bytes_at_most: None,
        };
        let bytes = |like: &[Volume]| match plan_volume(1, &set, &retention, like) {
            Outcome::Found(answer) => answer.rows[0].bytes,
            Outcome::Nothing { .. } => 0,
        };
        assert_eq!(bytes(&[like]), 17_280 * 30);
        assert_eq!(bytes(&[]), 17_280 * DAY_ENTRY_BYTES[1].1 as u64);
    }
}

//! Chooses the segments that expire: by age, for each granularity, and by total size. For size, the oldest segments of
//! the finest granularity go first, so that coarse windows survive longest.
//!
//! Rows, operations and health of one granularity and one journal (or merged journals) expire together. So a
//! granularity has either everything of a journal or nothing.
//!
//! `Retention` (`options`) holds the age limits; `trackiops record` sets the default (`src/record/args.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trackiops_schemas::time::{Granularity, UtcMs};

use crate::beneath;
use crate::catalog::KeptSegment;
use crate::error::StoreError;
use crate::layout;
use crate::options::RetentionPolicy;

/// Segments of one granularity that expire together.
struct Unit {
    granularity: Granularity,
    start: UtcMs,
    end: UtcMs,
    bytes: u64,
    paths: Vec<String>,
}

/// A longer time without windows is a gap: the recorder did not run, or the clock was set.
const GAP_MS: i64 = 60 * 60 * 1000;

/// Segments that expire.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expired {
    /// Paths relative to the store.
    pub(crate) paths: Vec<String>,
    /// Number of segments that would expire if gaps counted as age.
    pub(crate) spared: usize,
}

/// Chooses the segments that expire. `other_bytes` is the size of the store's other files.
///
/// The age of a segment is the time recorded since its end. The clock is not trusted: after a jump of a year,
/// everything would be deleted at once.
pub(crate) fn expired(kept: &[KeptSegment], keep: &RetentionPolicy, other_bytes: u64) -> Expired {
    let now = (keep.now)();
    let recorded = Recorded::new(kept);
    let is_old = |unit: &Unit, now: i64| {
        let age = keep.retention.of(unit.granularity);
        age.is_some_and(|age| unit.end.0.saturating_add(age) <= now)
    };
    let mut expired = Expired::default();
    let mut left = Vec::new();
    for unit in units(kept) {
        if !is_old(&unit, now.0) {
            left.push(unit);
        } else if keep.gaps_age || is_old(&unit, recorded.until(unit.end, now)) {
            expired.paths.extend(unit.paths);
        } else {
            expired.spared += unit.paths.len();
            left.push(unit);
        }
    }
    if let Some(most_bytes) = keep.most_bytes {
        left.sort_by_key(|unit| (unit.granularity, unit.start));
        let mut bytes: u64 = other_bytes + left.iter().map(|unit| unit.bytes).sum::<u64>();
        for unit in left {
            if bytes <= most_bytes {
                break;
            }
            bytes -= unit.bytes;
            expired.paths.extend(unit.paths);
        }
    }
    expired
}

/// Recorded time ranges, ascending, with a gap between any two.
struct Recorded(Vec<(i64, i64)>);

impl Recorded {
    fn new(kept: &[KeptSegment]) -> Self {
        let mut spans: Vec<_> = kept.iter().map(|of| (of.start.0, of.end.0)).collect();
        spans.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::new();
        for (start, end) in spans {
            match joined.last_mut() {
                Some(last) if start.saturating_sub(last.1) <= GAP_MS => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        Self(joined)
    }

    /// `end` plus the recorded time between `end` and `now`.
    fn until(&self, end: UtcMs, now: UtcMs) -> i64 {
        let since = self
            .0
            .iter()
            .map(|(from, to)| (from.max(&end.0), to.min(&now.0)));
        let recorded: i64 = since.map(|(from, to)| (to - from).max(0)).sum();
        end.0.saturating_add(recorded)
    }
}

fn units(kept: &[KeptSegment]) -> Vec<Unit> {
    let mut units: BTreeMap<_, Unit> = BTreeMap::new();
    for segment in kept {
        let date = layout::date_of(Path::new(&segment.path));
        let key = (segment.granularity, &segment.host, date, segment.journals);
        let unit = units.entry(key).or_insert_with(|| Unit {
            granularity: segment.granularity,
            start: segment.start,
            end: segment.end,
            bytes: 0,
            paths: Vec::new(),
        });
        unit.start = unit.start.min(segment.start);
        unit.end = unit.end.max(segment.end);
        unit.bytes += segment.bytes;
        unit.paths.push(segment.path.clone());
    }
    units.into_values().collect()
}

/// Size of a store's files other than segments: journals of windows, and the catalog. Single requests have a separate
/// budget.
pub(crate) fn other_bytes(store: &Path) -> Result<u64, StoreError> {
    let mut files = vec![
        layout::catalog(store),
        layout::new_catalog(store),
        layout::catalog_scratch(store),
    ];
    let journals = layout::journals(store)?.into_iter();
    files.extend(journals.map(|number| layout::journal(store, number)));
    let bytes = |path: &PathBuf| {
        let file = beneath::read(store, path).and_then(|file| file.metadata());
        file.map_or(0, |metadata| metadata.len())
    };
    Ok(files.iter().map(bytes).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Dataset;

    fn kept(granularity: &str, journal: u64, hour: i64) -> KeptSegment {
        KeptSegment {
            dataset: Dataset::Rollup,
            granularity: granularity.parse().unwrap(),
            host: "h".into(),
            journals: (journal, journal),
            start: UtcMs(hour * 3_600_000),
            end: UtcMs((hour + 1) * 3_600_000),
            bytes: 100,
            crc32c: 0,
            path: format!("rollup/granularity={granularity}/date=1970-01-01/h-{journal}.parquet"),
        }
    }

    fn keep(retention: &str, most_bytes: Option<u64>) -> RetentionPolicy {
        RetentionPolicy {
            retention: retention.parse().unwrap(),
            most_bytes,
            gaps_age: true,
            now: || UtcMs(10 * 3_600_000),
        }
    }

    fn gone(kept: &[KeptSegment], keep: &RetentionPolicy, other_bytes: u64) -> Vec<String> {
        let paths = expired(kept, keep, other_bytes).paths.into_iter();
        let short = |path: String| {
            let granularity = path.split('/').nth(1).unwrap().to_owned();
            let name = path.rsplit('/').next().unwrap().to_owned();
            format!(
                "{} {}",
                &granularity[12..],
                name.trim_end_matches(".parquet")
            )
        };
        paths.map(short).collect()
    }

    fn two_hours_of_two() -> Vec<KeptSegment> {
        let mut all = Vec::new();
        for granularity in ["1s", "1m"] {
            for (journal, hour) in [(1, 6), (2, 8)] {
                all.push(kept(granularity, journal, hour));
            }
        }
        all
    }

    #[test]
    fn each_granularity_has_an_age() {
        let all = two_hours_of_two();
        assert_eq!(gone(&all, &keep("1s=3h,1m=4h", None), 0), ["1s h-1"]);
        assert_eq!(
            gone(&all, &keep("1s=2h,1m=3h", None), 0),
            ["1s h-1", "1m h-1"]
        );
        assert!(gone(&all, &keep("1s=forever", None), 0).is_empty());
    }

    #[test]
    fn where_room_is_short_the_finest_and_oldest_go_first() {
        let all = two_hours_of_two();
        let forever = |bytes| keep("1s=forever", Some(bytes));
        assert!(gone(&all, &forever(400), 0).is_empty());
        assert_eq!(gone(&all, &forever(400), 1), ["1s h-1"]);
        assert_eq!(gone(&all, &forever(299), 0), ["1s h-1", "1s h-2"]);
        assert_eq!(gone(&all, &forever(199), 0), ["1s h-1", "1s h-2", "1m h-1"]);
    }
    #[test]
    fn age_is_time_that_was_recorded() {
        let all: Vec<_> = [(1, 1), (2, 2), (3, 3), (4, 9000), (5, 9001)]
            .map(|(journal, hour)| kept("1s", journal, hour))
            .into();
        let later = |gaps_age| RetentionPolicy {
            gaps_age,
            now: || UtcMs(1_000_000 * 3_600_000),
            ..keep("1s=3h", None)
        };
        // Three hours were recorded after the first. Before the fourth, the recorder did not run,
        // or the clock was set.
        let expired = expired(&all, &later(false), 0);
        let of = |journal| kept("1s", journal, 0).path;
        assert_eq!(expired.paths, [of(1), of(2)]);
        assert_eq!(expired.spared, 3);
        assert_eq!(super::expired(&all, &later(true), 0).paths.len(), 5);
    }
}

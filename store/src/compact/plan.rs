//! Chooses segments to merge.
//!
//! Four neighbours that cover about the same number of journals are merged. So each row is rewritten only when the size
//! of its segment quadruples. When a time span is over, the rest of it is merged. Segments that are no longer small, or
//! that have their whole span, are not merged further. A span is 7200 windows (two hours of 1 s), but at most a day.
//!
//! A segment has rows of all journals from its first to its last one, as far as the store has them. So a merge must not
//! cross a journal that is not sealed yet, or that no longer has a segment of this granularity.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use trackiops_schemas::time::{DAY_MS, Granularity, UtcMs};

use crate::catalog::KeptSegment;
use crate::layout::{self, Dataset};

/// Segments merged at once. Reading each takes some MiB.
const AT_ONCE: usize = 4;
/// Larger segments are not merged further. Opening fewer files would save little, and merging four
/// segments of twice this size took more memory than anything else beside recording.
const SMALL_BYTES: u64 = 16 << 20;
/// About the most windows of a file in a segment.
const SPAN_WINDOWS: i64 = 7200;

/// Segments that are merged into one per dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) granularity: Granularity,
    pub(super) host: String,
    /// Numbers of the first and the last journal.
    pub(super) journals: (u64, u64),
    pub(super) inputs: Vec<KeptSegment>,
}

/// Segments of one granularity and of one journal or several merged journals.
struct Unit<'k> {
    journals: (u64, u64),
    end: UtcMs,
    bytes: u64,
    segments: Vec<&'k KeptSegment>,
}

/// The next segments to merge, if any. Excluded segments stay unchanged. `has_journal` returns whether the store has a
/// journal of a host with one of these numbers.
pub(super) fn next(
    kept: &[KeptSegment],
    is_excluded: impl Fn(&KeptSegment) -> bool,
    has_journal: impl Fn(&str, RangeInclusive<u64>) -> bool,
) -> Option<Group> {
    let settled = settled(kept);
    let mut series: BTreeMap<_, BTreeMap<(u64, u64), Unit<'_>>> = BTreeMap::new();
    for segment in kept {
        let date = layout::date_of(Path::new(&segment.path));
        let of = (segment.granularity, &segment.host, date);
        let unit = series.entry(of).or_default().entry(segment.journals);
        let unit = unit.or_insert_with(|| Unit {
            journals: segment.journals,
            end: segment.end,
            bytes: 0,
            segments: Vec::new(),
        });
        unit.end = unit.end.max(segment.end);
        unit.bytes += segment.bytes;
        unit.segments.push(segment);
    }
    for ((granularity, host, _), units) in series {
        let span = span_ms(granularity);
        // The end counts, because a late window starts before all others of its journal.
        let span_of = |unit: &Unit<'_>| (unit.end.0 - 1).div_euclid(span);
        let units: Vec<_> = units.into_values().collect();
        let mergeable = |unit: &Unit<'_>| {
            unit.bytes < SMALL_BYTES && !unit.segments.iter().any(|segment| is_excluded(segment))
        };
        let are_neighbours = |a: &Unit<'_>, b: &Unit<'_>| {
            let (before, after) = (a.journals.1, b.journals.0);
            before < after && (before + 1 == after || !has_journal(host, before + 1..=after - 1))
        };
        let alike = |a: &Unit<'_>, b: &Unit<'_>| {
            span_of(a) == span_of(b) && mergeable(a) && mergeable(b) && are_neighbours(a, b)
        };
        for run in units.chunk_by(alike) {
            let is_over = settled.get(host).is_some_and(|settled| {
                run.first()
                    .is_some_and(|unit| (span_of(unit) + 1).saturating_mul(span) <= settled.0)
            });
            if let Some(chosen) = choose(run, is_over) {
                let inputs = chosen.iter().flat_map(|unit| &unit.segments);
                return Some(Group {
                    granularity,
                    host: host.clone(),
                    journals: (chosen.first()?.journals.0, chosen.last()?.journals.1),
                    inputs: inputs.map(|segment| (*segment).clone()).collect(),
                });
            }
        }
    }
    None
}

/// The neighbours to merge first.
fn choose<'r, 'k>(run: &'r [Unit<'k>], is_over: bool) -> Option<&'r [Unit<'k>]> {
    let tier = |unit: &Unit<'_>| (unit.journals.1 - unit.journals.0 + 1).ilog(AT_ONCE as u64);
    let full = run
        .windows(AT_ONCE)
        .find(|four| four.iter().all(|unit| tier(unit) == tier(&four[0])));
    full.or_else(|| (is_over && run.len() > 1).then(|| &run[..run.len().min(AT_ONCE)]))
}

/// By host, the time before which no more rows will be sealed. A journal may have late windows of its predecessor, but
/// of no earlier journal.
fn settled(kept: &[KeptSegment]) -> BTreeMap<&String, UtcMs> {
    let mut newest: BTreeMap<&String, (u64, UtcMs)> = BTreeMap::new();
    let finest = kept.iter().map(|segment| segment.granularity).min();
    let health = kept.iter().filter(|segment| {
        segment.dataset == Dataset::Health && Some(segment.granularity) == finest
    });
    for segment in health {
        let own = (segment.journals.1, segment.start);
        let known = newest.entry(&segment.host).or_insert(own);
        *known = (*known).max(own);
    }
    newest
        .into_iter()
        .map(|(host, (_, start))| (host, start))
        .collect()
}

fn span_ms(granularity: Granularity) -> i64 {
    let span = granularity.ms().saturating_mul(SPAN_WINDOWS);
    if span > DAY_MS / 2 { DAY_MS } else { span }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUARTER_MS: i64 = 900_000;

    /// The first quarter hours of a day, each from a separate journal.
    fn sealed(granularity: &str, count: i64) -> Vec<KeptSegment> {
        let granularity: Granularity = granularity.parse().unwrap();
        let one = |i: i64| KeptSegment {
            dataset: Dataset::Health,
            granularity,
            host: "h".into(),
            journals: (i as u64 + 1, i as u64 + 1),
            start: UtcMs(i * QUARTER_MS).align(granularity),
            end: UtcMs((i + 1) * QUARTER_MS - 1)
                .align(granularity)
                .plus(granularity),
            bytes: 1000,
            crc32c: 0,
            path: format!("health/granularity={granularity}/date=1970-01-01/h-{i}.parquet"),
        };
        (0..count).map(one).collect()
    }

    /// Merges until nothing is left to merge. Returns the number of journals of each remaining segment, and the number
    /// of segments read.
    fn merged(mut kept: Vec<KeptSegment>) -> (Vec<u64>, usize) {
        let mut read = 0;
        while let Some(group) = next(&kept, |_| false, |_, _| false) {
            assert!(group.inputs.len() <= AT_ONCE);
            read += group.inputs.len();
            let first = kept.iter().position(|k| *k == group.inputs[0]).unwrap();
            let last = group.inputs.last().unwrap().clone();
            kept.retain(|segment| !group.inputs[1..].contains(segment));
            kept[first].journals = group.journals;
            kept[first].end = last.end;
            kept[first].bytes = group.inputs.iter().map(|input| input.bytes).sum();
        }
        let journals = kept.iter().map(|k| k.journals.1 - k.journals.0 + 1);
        (journals.collect(), read)
    }

    #[test]
    fn two_hours_of_seconds_and_a_day_of_minutes_become_one() {
        let (left, _) = merged(sealed("1s", 17));
        assert_eq!(left, [8, 8, 1]);
        let (left, read) = merged(sealed("1m", 95));
        assert_eq!(left[0], 64, "{left:?}");
        assert!(left.len() <= 9 && read <= 4 * 95, "{left:?} {read}");
        let mut two_days = sealed("1m", 97);
        for segment in &mut two_days[96..] {
            segment.path = segment.path.replace("01-01", "01-02");
        }
        // The finest granularity shows which spans are over.
        assert_eq!(merged(two_days).0, [96, 1]);
    }

    #[test]
    fn what_is_large_or_excluded_stays_as_it_is() {
        let mut kept = sealed("1s", 6);
        assert!(next(&kept, |_| false, |_, _| false).is_some());
        kept[2].bytes = SMALL_BYTES;
        assert_eq!(next(&kept, |_| false, |_, _| false), None);
        kept[2].bytes = 1000;
        assert_eq!(
            next(&kept, |segment| segment.journals.0 == 3, |_, _| false),
            None
        );
    }

    #[test]
    fn segments_are_not_merged_across_a_journal_that_is_not_among_them() {
        let mut kept = sealed("1s", 5);
        kept.remove(2);
        let group = next(&kept, |_| false, |_, _| false).unwrap();
        assert_eq!((group.journals, group.inputs.len()), ((1, 5), 4));
        let has_third = |host: &str, numbers: RangeInclusive<u64>| {
            assert_eq!((host, &numbers), ("h", &(3..=3)));
            true
        };
        assert_eq!(next(&kept, |_| false, has_third), None);
    }
}

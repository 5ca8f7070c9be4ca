//! Splits a range among the stored granularities.
//!
//! A row of a coarse granularity is the sum of the finer rows in its window. So a range can be split anywhere under two
//! conditions:
//!
//! * each part consists of whole windows of its granularity;
//! * that granularity has all data of the part.

use trackiops_schemas::time::{Granularity, UtcMs};

use crate::interval::Interval;

/// A granularity, and the times for which it lacks data.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) granularity: Granularity,
    pub(crate) missing: Vec<Interval>,
}

impl Level {
    /// Whether it has all data of a time.
    pub(crate) fn has(&self, time: Interval) -> bool {
        let mut missing = self.missing.iter();
        missing.all(|missing| missing.intersect(time).is_empty())
    }

    /// The whole windows that overlap a time.
    fn around(&self, time: Interval) -> Interval {
        let g = self.granularity;
        Interval::new(time.start.align(g), align_up(time.end, g))
    }

    /// The whole windows within a time.
    fn within(&self, time: Interval) -> Interval {
        let g = self.granularity;
        Interval::new(align_up(time.start, g), time.end.align(g))
    }
}

pub(crate) fn align_up(at: UtcMs, granularity: Granularity) -> UtcMs {
    match at.align(granularity) {
        aligned if aligned == at => at,
        aligned => aligned.plus(granularity),
    }
}

/// Splits `asked` among `levels`, ordered from fine to coarse. Each part gets the index of the coarsest level that can
/// answer it. Parts are disjoint and in order, and together contain `asked`. If an end of `asked` cuts a window of the
/// finest available level, they extend beyond that end. A part without any level gets index 0.
pub(crate) fn cover(asked: Interval, levels: &[Level]) -> Vec<(Interval, usize)> {
    // By level: the times without a finer level, in whole windows.
    let mut needed: Vec<Vec<Interval>> = Vec::new();
    for level in levels {
        let finer = needed.last();
        let own: Vec<_> = match finer {
            None => vec![asked],
            Some(finer) => {
                let missing = &levels[needed.len() - 1].missing;
                let both =
                    |a: &Interval| missing.iter().map(|b| a.intersect(*b)).collect::<Vec<_>>();
                let both = finer.iter().flat_map(both);
                both.filter(|both| !both.is_empty()).collect()
            }
        };
        needed.push(union(own.into_iter().map(|time| level.around(time))));
    }
    let mut left = union(needed.into_iter().flatten());
    let mut parts = Vec::new();
    for (place, level) in levels.iter().enumerate().rev() {
        let taken = if place == 0 {
            left.clone()
        } else {
            let missing = level.missing.iter().map(|time| level.around(*time));
            let there = without(&left, &union(missing));
            let whole = there.into_iter().map(|time| level.within(time));
            whole.filter(|time| !time.is_empty()).collect()
        };
        left = without(&left, &taken);
        parts.extend(taken.into_iter().map(|time| (time, place)));
    }
    parts.sort_unstable();
    parts
}

/// Merges overlapping and adjacent intervals; the result is in order.
fn union(times: impl IntoIterator<Item = Interval>) -> Vec<Interval> {
    let mut times: Vec<_> = times.into_iter().filter(|time| !time.is_empty()).collect();
    times.sort_unstable();
    let mut union: Vec<Interval> = Vec::new();
    for time in times {
        match union.last_mut() {
            Some(last) if last.end >= time.start => *last = last.hull(time),
            _ => union.push(time),
        }
    }
    union
}

/// Subtracts `others` from `times`. Both are in order and disjoint.
fn without(times: &[Interval], others: &[Interval]) -> Vec<Interval> {
    let mut left = Vec::new();
    for time in times {
        let mut from = time.start;
        for other in others {
            if other.end <= from || other.start >= time.end {
                continue;
            }
            left.push(Interval::new(from, other.start));
            from = other.end;
        }
        left.push(Interval::new(from, time.end));
    }
    left.retain(|time| !time.is_empty());
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(start: i64, end: i64) -> Interval {
        Interval::new(UtcMs(start * 1000), UtcMs(end * 1000))
    }

    fn levels(missing: [&[(i64, i64)]; 3]) -> Vec<Level> {
        let lengths = ["1s", "10s", "1m"].into_iter();
        let level = |(length, missing): (&str, &[(i64, i64)])| Level {
            granularity: length.parse().unwrap(),
            missing: missing.iter().map(|(a, b)| seconds(*a, *b)).collect(),
        };
        lengths.zip(missing).map(level).collect()
    }

    fn covered(asked: Interval, missing: [&[(i64, i64)]; 3]) -> Vec<(i64, i64, usize)> {
        let parts = cover(asked, &levels(missing)).into_iter();
        parts
            .map(|(time, place)| (time.start.0 / 1000, time.end.0 / 1000, place))
            .collect()
    }

    #[test]
    fn ragged_edges_are_fine_and_the_rest_is_coarse() {
        let parts = covered(seconds(57, 245), [&[], &[], &[]]);
        let expected = [(57, 60, 0), (60, 240, 2), (240, 245, 0)];
        assert_eq!(parts, expected);
        let parts = covered(seconds(35, 255), [&[], &[], &[]]);
        let expected = [
            (35, 40, 0),
            (40, 60, 1),
            (60, 240, 2),
            (240, 250, 1),
            (250, 255, 0),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn what_has_expired_is_answered_by_coarser_windows() {
        let parts = covered(seconds(57, 95), [&[(0, 70)], &[], &[]]);
        assert_eq!(parts, [(50, 90, 1), (90, 95, 0)]);
        let parts = covered(seconds(57, 95), [&[(0, 58)], &[(0, 55)], &[]]);
        assert_eq!(parts, [(0, 60, 2), (60, 90, 1), (90, 95, 0)]);
    }

    #[test]
    fn a_damaged_coarse_window_is_answered_by_finer_ones() {
        let parts = covered(seconds(0, 180), [&[], &[], &[(70, 80)]]);
        assert_eq!(parts, [(0, 60, 2), (60, 120, 1), (120, 180, 2)]);
    }

    fn times() -> impl Strategy<Value = Vec<(i64, i64)>> {
        let time = (0_i64..300, 1_i64..80).prop_map(|(start, length)| (start, start + length));
        prop::collection::vec(time, 0..3)
    }

    proptest! {
        #[test]
        fn parts_are_whole_windows_that_are_there(
            start in 0_i64..250,
            length in 1_i64..200,
            missing in prop::array::uniform2(times()),
        ) {
            let asked = seconds(start, start + length);
            let levels = levels([&missing[0], &missing[1], &[]]);
            let parts = cover(asked, &levels);
            let mut at = parts[0].0.start;
            prop_assert!(at <= asked.start);
            for (time, place) in &parts {
                prop_assert_eq!(time.start, at, "no gap and no overlap");
                at = time.end;
                let level = &levels[*place];
                let g = level.granularity;
                prop_assert_eq!((time.start.align(g), time.end.align(g)), (time.start, time.end));
                prop_assert!(level.has(*time), "{:?} {}", time, place);
            }
            prop_assert!(at >= asked.end);
        }
    }
}

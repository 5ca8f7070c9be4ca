//! Axes of plots: positions and labels of marks.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use trackiops_query::columns::Unit;
use trackiops_query::times::Zone;
use trackiops_schemas::time::UtcMs;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Possible distances of two time marks, ms.
const TIME_STEPS: [i64; 22] = [
    100,
    SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    30 * DAY,
    365 * DAY,
];
const VALUE_MARKS: f64 = 5.0;

/// The distance of at most `most` + 1 time marks (ms), and their positions at round local times.
pub(crate) fn time_marks(start: UtcMs, end: UtcMs, most: i64, zone: Zone) -> (i64, Vec<f64>) {
    let length = end.0 - start.0;
    let fits = |step: &&i64| length / **step <= most;
    let step = TIME_STEPS.iter().find(fits).copied();
    let step = step.unwrap_or(length / most + 1);
    let offset = i64::from(zone.at(start).offset().local_minus_utc()) * SECOND;
    let first = (start.0 + offset).div_euclid(step) * step - offset;
    let marks = (0..)
        .map(|n| first + n * step)
        .take_while(|mark| *mark <= end.0);
    let marks = marks.filter(|mark| *mark >= start.0);
    (step, marks.map(|mark| mark as f64).collect())
}

/// Formats the labels of time marks.
pub(crate) fn clock(step: i64, range: &Range<f64>, zone: Zone) -> impl Fn(f64) -> String + use<> {
    let format = match range.end - range.start > DAY as f64 {
        _ if step >= DAY => "%Y-%m-%d",
        true => "%m-%d %H:%M",
        false if step >= MINUTE => "%H:%M",
        false if step >= SECOND => "%H:%M:%S",
        false => "%H:%M:%S%.1f",
    };
    move |at| zone.at(UtcMs(at as i64)).format(format).to_string()
}

/// Marks of an axis from 0 to the largest value, and the end of the axis.
pub(super) fn value_marks(most: f64, unit: Unit) -> (Vec<f64>, f64) {
    let most = match most {
        most if most.is_finite() && most > 0.0 => most,
        _ => 1.0,
    };
    let least = most / VALUE_MARKS;
    let step = match unit {
        Unit::Bytes | Unit::BytesPerSecond => 2_f64.powf(least.log2().ceil()),
        _ => {
            let scale = 10_f64.powf(least.log10().floor());
            let fits = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * scale);
            fits.into_iter()
                .find(|step| *step >= least)
                .unwrap_or(least)
        }
    };
    let count = (most / step).ceil();
    let marks = (0..=count as u32).map(|n| f64::from(n) * step);
    (marks.collect(), count * step)
}

/// Marks of an axis of latencies between two powers of ten, us: at 1, 2 and 5 of each decade, or only at 1 if there are many decades.
pub(super) fn latency_marks(low: f64, high: f64) -> Vec<f64> {
    let digits: &[f64] = match high - low {
        decades if decades < 2.5 => &[1.0, 2.0, 5.0],
        _ => &[1.0],
    };
    let powers = low.floor() as i32..=high.ceil() as i32;
    let marks = powers.flat_map(|power| {
        digits
            .iter()
            .map(move |digit| digit.log10() + f64::from(power))
    });
    marks.filter(|mark| (low..=high).contains(mark)).collect()
}

/// An axis with marks at given positions.
pub(super) struct Axis {
    pub(super) range: Range<f64>,
    pub(super) marks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (f64::from(limit.1 - limit.0) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::FixedOffset;

    #[test]
    fn marks_of_values_are_round_and_reach_the_largest() {
        let (marks, end) = value_marks(9.3, Unit::PerSecond);
        assert_eq!(marks, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(end, 10.0);
        let (marks, end) = value_marks(70.0 * 1024.0, Unit::BytesPerSecond);
        assert_eq!(marks[1], 16.0 * 1024.0);
        assert_eq!(end, 80.0 * 1024.0);
        for odd in [0.0, f64::NAN, f64::INFINITY] {
            assert_eq!(value_marks(odd, Unit::Count).1, 1.0);
        }
    }

    #[test]
    fn marks_of_time_are_round_where_people_are() {
        let zone = Zone::Fixed(FixedOffset::east_opt(5 * 3600 + 1800).unwrap());
        // 2026-11-21T12:00:00Z.
        let noon = UtcMs(1_795_262_400_000);
        let (step, marks) = time_marks(noon, UtcMs(noon.0 + 6 * HOUR), 10, zone);
        assert_eq!(step, HOUR);
        let clock = clock(step, &(0.0..1.0), zone);
        assert_eq!(clock(marks[0]), "18:00");
        assert_eq!(marks.len(), 6);
    }
}

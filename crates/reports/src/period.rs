//! Periods of a report: the time that one row sums up.

use std::str::FromStr;

use trackiops_query::columns::{Column, Value};
use trackiops_query::coverage::Interval;
use trackiops_schemas::time::{DAY_MS, Granularity, UtcMs, parse_duration_ms};

use crate::report::ReportError;

/// Most periods of a report.
const MOST_PERIODS: u64 = 100_000;

/// How long a period is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// All of the range.
    All,
    /// This long, ms.
    Length(i64),
}

/// The text is not a period.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a period: write all, or a length that divides a day or is whole days, such as 1h, 1d or 30d"
)]
pub struct PeriodError(String);

impl FromStr for Period {
    type Err = PeriodError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" {
            return Ok(Self::All);
        }
        let suits = |ms: &i64| *ms > 0 && (DAY_MS % ms == 0 || ms % DAY_MS == 0);
        let length = parse_duration_ms(text).filter(suits);
        length
            .map(Self::Length)
            .ok_or_else(|| PeriodError(text.into()))
    }
}

impl Period {
    /// The periods of a range, in order, cut to it. They start at the UTC midnight before the range, so periods of a day or less match the
    /// clock.
    ///
    /// Fails if a period is not a multiple of `length`, or if there are too many periods.
    pub fn of(self, range: Interval, length: Granularity) -> Result<Vec<Interval>, ReportError> {
        let Self::Length(ms) = self else {
            return Ok(vec![range]);
        };
        if ms % length.ms() != 0 {
            return Err(ReportError::Unsuitable(format!(
                "--period is no whole number of intervals of {length}; change --period or --interval"
            )));
        }
        let midnight = range
            .start
            .0
            .saturating_sub(range.start.0.rem_euclid(DAY_MS));
        let first = midnight + (range.start.0 - midnight) / ms * ms;
        let count = Interval::new(UtcMs(first), range.end).ms() / ms.unsigned_abs();
        if count > MOST_PERIODS {
            return Err(ReportError::Unsuitable(format!(
                "the range has {count} periods, and a report at most {MOST_PERIODS}; take a longer --period or a shorter range"
            )));
        }
        let starts = (0..).map(|n| first.saturating_add(ms.saturating_mul(n)));
        let starts = starts.take_while(|start| *start < range.end.0);
        let period = |start: i64| Interval::new(UtcMs(start), UtcMs(start.saturating_add(ms)));
        Ok(starts.map(|start| period(start).intersect(range)).collect())
    }
}

/// Columns of a row's period.
pub fn columns<R: 'static>(of: fn(&R) -> &Interval) -> Vec<Column<R>> {
    vec![
        Column::time("since", move |row: &R| Value::Time(of(row).start)),
        Column::time("until", move |row: &R| Value::Time(of(row).end)),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn starts(period: &str, from: i64, to: i64) -> Vec<(i64, i64)> {
        let period: Period = period.parse().unwrap();
        let range = Interval::new(UtcMs(from), UtcMs(to));
        let periods = period.of(range, "5m".parse().unwrap()).unwrap();
        periods
            .iter()
            .map(|p| (p.start.0 / HOUR, p.end.0 / HOUR))
            .collect()
    }

    #[test]
    fn periods_begin_at_midnight_and_are_cut_to_the_range() {
        assert_eq!(starts("1h", 30 * HOUR, 32 * HOUR), [(30, 31), (31, 32)]);
        assert_eq!(starts("12h", 30 * HOUR, 40 * HOUR), [(30, 36), (36, 40)]);
        assert_eq!(starts("1d", 30 * HOUR, 50 * HOUR), [(30, 48), (48, 50)]);
        assert_eq!(starts("2d", 30 * HOUR, 80 * HOUR), [(30, 72), (72, 80)]);
        assert_eq!(starts("30d", 30 * HOUR, 31 * HOUR), [(30, 31)]);
        assert_eq!(starts("all", 30 * HOUR, 50 * HOUR), [(30, 50)]);
    }

    #[test]
    fn a_period_must_fit_days_and_intervals() {
        for text in ["7h", "36h", "0s", "month", ""] {
            assert!(text.parse::<Period>().is_err(), "{text}");
        }
        let range = Interval::new(UtcMs(0), UtcMs(HOUR));
        let minute: Period = "1m".parse().unwrap();
        let error = minute.of(range, "5m".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("--interval"), "{error}");
        let year = Interval::new(UtcMs(0), UtcMs(365 * DAY_MS));
        assert!(minute.of(year, "1m".parse().unwrap()).is_err());
    }
}

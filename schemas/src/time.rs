//! Points in time and granularities, in milliseconds, the finest unit of windows.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A point in time: milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcMs(pub i64);

impl UtcMs {
    /// The wall-clock time.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = since.unwrap_or_default().as_millis();
        Self(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// The start of the window of `granularity` that holds this point.
    pub fn align(self, granularity: Granularity) -> Self {
        Self(self.0.saturating_sub(self.0.rem_euclid(granularity.ms())))
    }

    /// Whether calendars can represent the point. No clock shows other times, but damaged or forged files may hold them:
    /// check before you compute with such a time.
    pub fn is_in_calendar(self) -> bool {
        (-END_MS..=END_MS).contains(&self.0)
    }

    /// The point `granularity` later.
    pub fn plus(self, granularity: Granularity) -> Self {
        Self(self.0.saturating_add(granularity.ms()))
    }
}

/// The length of a window: from 1 ms to [`Granularity::MAX_MS`]. It divides a day or is a whole number of days, so
/// windows aligned to the epoch are aligned to UTC midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Granularity(NonZeroU32);

/// The end of the year 9999, the last year that calendars support.
const END_MS: i64 = 253_402_300_800_000;

/// One day in milliseconds.
pub const DAY_MS: i64 = 86_400_000;

impl Granularity {
    /// Seven days: longer windows would outlive the segments that hold them.
    pub const MAX_MS: i64 = 7 * DAY_MS;

    /// The granularity of `ms` milliseconds.
    pub fn from_ms(ms: i64) -> Result<Self, GranularityError> {
        let divides = ms > 0 && (DAY_MS % ms == 0 || ms % DAY_MS == 0);
        let valid = u32::try_from(ms).ok().and_then(NonZeroU32::new);
        match valid {
            Some(valid) if divides && ms <= Self::MAX_MS => Ok(Self(valid)),
            _ => Err(GranularityError::OutOfRange(ms)),
        }
    }

    /// Its length in milliseconds.
    pub fn ms(self) -> i64 {
        i64::from(self.0.get())
    }

    /// Its length in ns.
    pub fn ns(self) -> u64 {
        u64::from(self.0.get()) * 1_000_000
    }

    /// Whether windows of `self` are whole numbers of windows of `finer`.
    pub fn is_multiple_of(self, finer: Self) -> bool {
        self.ms() % finer.ms() == 0
    }
}

/// Why a text or a number is not a granularity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GranularityError {
    /// Not a length of time.
    #[error("`{0}` is not a granularity: write a number and a unit, such as 1s, 10s, 1m, 1h")]
    Syntax(String),
    /// A length that windows cannot have.
    #[error("{} is not a granularity: it must divide a day or be 1 to 7 whole days", Length(*.0))]
    OutOfRange(i64),
}

/// Units from the longest to the shortest, with their length in ms.
const UNITS: [(&str, i64); 5] = [
    ("d", DAY_MS),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Parses a length of time (`90s`, `24h`, `7d`, `1w`, `250ms`, `2d12h`, `1 hour`) into milliseconds. `None` if it is
/// not a whole number of milliseconds.
pub fn parse_duration_ms(text: &str) -> Option<i64> {
    let duration = humantime::parse_duration(text).ok()?;
    let is_whole = text != "0" && duration.subsec_nanos() % 1_000_000 == 0;
    i64::try_from(duration.as_millis())
        .ok()
        .filter(|_| is_whole)
}

impl FromStr for Granularity {
    type Err = GranularityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let ms = parse_duration_ms(text).ok_or_else(|| GranularityError::Syntax(text.into()))?;
        Self::from_ms(ms)
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Length(self.ms()).fmt(f)
    }
}

/// A length of time, ms. It displays in the longest unit that divides it.
struct Length(i64);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0;
        // Zero is a multiple of each of them.
        if ms == 0 {
            return f.write_str("0s");
        }
        for (name, scale) in UNITS {
            if ms % scale == 0 {
                return write!(f, "{}{name}", ms / scale);
            }
        }
        unreachable!("every whole number of milliseconds is a multiple of 1 ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn granularities_read_back_as_they_are_written() {
        for text in ["100ms", "1s", "10s", "90s", "1m", "1h", "1d", "7d"] {
            assert_eq!(text.parse::<Granularity>().unwrap().to_string(), text);
        }
        for (text, shown) in [
            ("60s", "1m"),
            ("1w", "7d"),
            ("1 hour", "1h"),
            ("30 seconds", "30s"),
            ("1h30m", "90m"),
            ("0.5s", "500ms"),
        ] {
            assert_eq!(text.parse::<Granularity>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn the_first_point_in_time_has_a_window() {
        let hour: Granularity = "1h".parse().unwrap();
        assert_eq!(UtcMs(i64::MIN).align(hour), UtcMs(i64::MIN));
        assert_eq!(UtcMs(-1).align(hour), UtcMs(-3_600_000));
        assert!(UtcMs(0).is_in_calendar() && !UtcMs(i64::MIN).is_in_calendar());
    }

    #[test]
    fn what_is_no_granularity_is_refused_with_its_name() {
        for text in [
            "",
            "s",
            "1",
            "0",
            "1.7s",
            "0s",
            "500us",
            "-1s",
            "7s",
            "8d",
            "2w",
            "1 parsec",
            "99999999999999999999s",
        ] {
            let error = text.parse::<Granularity>().unwrap_err().to_string();
            assert!(error.contains("granularity"), "{text}: {error}");
        }
        let error = "0s".parse::<Granularity>().unwrap_err().to_string();
        assert!(error.starts_with("0s is not"), "{error}");
    }

    #[test]
    fn windows_are_aligned_before_the_epoch_too() {
        let minute = "1m".parse().unwrap();
        assert_eq!(UtcMs(61_234).align(minute), UtcMs(60_000));
        assert_eq!(UtcMs(-1).align(minute), UtcMs(-60_000));
    }
}

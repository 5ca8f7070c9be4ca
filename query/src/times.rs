//! Parses and formats points in time.

use chrono::{
    DateTime, Datelike, FixedOffset, Local, LocalResult, NaiveDate, NaiveDateTime, NaiveTime,
    Offset, SecondsFormat, TimeDelta, TimeZone, Timelike, Utc,
};
use trackiops_schemas::time::{DAY_MS, UtcMs, parse_duration_ms};

/// Time zone for times without an offset, and for output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// The zone of this machine.
    Local,
    /// A fixed offset from UTC.
    Fixed(FixedOffset),
}

impl Zone {
    /// UTC.
    pub fn utc() -> Self {
        Self::Fixed(Utc.fix())
    }

    /// Date and time of day at `at`. A time outside of the calendar becomes the nearest end of the calendar.
    pub fn at(self, at: UtcMs) -> DateTime<FixedOffset> {
        // A day before the ends of the calendar, because chrono panics if an offset leads out of it.
        let [first, last] = [
            DateTime::<Utc>::MIN_UTC + TimeDelta::days(1),
            DateTime::<Utc>::MAX_UTC - TimeDelta::days(1),
        ];
        let utc = match DateTime::<Utc>::from_timestamp_millis(at.0) {
            Some(utc) => utc.clamp(first, last),
            None if at.0 < 0 => first,
            None => last,
        };
        match self {
            Self::Local => utc.with_timezone(&Local).fixed_offset(),
            Self::Fixed(offset) => utc.with_timezone(&offset),
        }
    }

    fn resolve(self, naive: NaiveDateTime) -> LocalResult<UtcMs> {
        match self {
            Self::Local => Local
                .from_local_datetime(&naive)
                .map(|t| t.timestamp_millis()),
            Self::Fixed(o) => o.from_local_datetime(&naive).map(|t| t.timestamp_millis()),
        }
        .map(UtcMs)
    }
}

/// Why a text is not a point in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Unknown syntax.
    #[error(
        "`{0}` is not a time: write how long ago (90s, 24h, 1w, 2d12h, 1 hour ago), now, today, yesterday, a local time \
         (2026-11-21 03:10, 2026-11-21, yesterday 03:10, 03:10), one with its offset (2026-11-21T03:10:00Z) or seconds since 1970 \
         (@1795233120)"
    )]
    Syntax(String),
    /// A duration with a minus. Durations count back without one.
    #[error("`-{0}` is not a time: how long ago is written without a minus; write {0}")]
    Minus(String),
    /// The text after the plus is not a duration.
    #[error(
        "`{0}` is not a length of time: write + and how long after --since, such as +10s, +1h30m or +2d"
    )]
    After(String),
    /// The time is relative to a start that is missing.
    #[error("`{0}` counts from --since, which is missing; add --since, or write a point in time")]
    NoStart(String),
    /// The local clocks skipped this time.
    #[error(
        "`{0}` did not exist: the local clocks were put forward over it; write it with its offset, such as 2026-11-21T03:10:00Z"
    )]
    Skipped(String),
    /// The time lies before 1970.
    #[error("`{0}` lies too far back: nothing can have been recorded then")]
    TooFar(String),
}

/// A parsed point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The point in time.
    pub at: UtcMs,
    /// Whether the text had no offset, so the zone decided.
    pub local: bool,
}

/// Parses a point in time since 1970.
///
/// * A duration counts back from `now`.
/// * A number is seconds since 1970.
/// * A time has its offset (RFC 3339), or is in `zone`.
/// * A day alone (`today`, `yesterday`, a date) is its first moment.
/// * A time of day alone is the latest one that is not after `now`.
/// * If a local time occurs twice at the end of summer time, the earlier one counts.
///
/// Errors: [`TimeError::Syntax`], [`TimeError::Minus`], [`TimeError::Skipped`] and [`TimeError::TooFar`].
pub fn parse(text: &str, now: UtcMs, zone: Zone) -> Result<Moment, TimeError> {
    let text = text.trim();
    if let Some(length) = text.strip_prefix('-')
        && parse_duration_ms(length).is_some()
    {
        return Err(TimeError::Minus(length.into()));
    }
    match parse_any(text, now, zone)? {
        moment if moment.at.0 < 0 => Err(TimeError::TooFar(text.into())),
        moment => Ok(moment),
    }
}

/// As [`parse`], or a duration after `start`: `+10s`.
///
/// Further errors: [`TimeError::After`] and [`TimeError::NoStart`].
pub fn parse_end(
    text: &str,
    start: Option<UtcMs>,
    now: UtcMs,
    zone: Zone,
) -> Result<Moment, TimeError> {
    let Some(length) = text.trim().strip_prefix('+') else {
        return parse(text, now, zone);
    };
    let length_ms = parse_duration_ms(length).ok_or_else(|| TimeError::After(text.into()))?;
    let start = start.ok_or_else(|| TimeError::NoStart(text.into()))?;
    Ok(Moment {
        at: UtcMs(start.0.saturating_add(length_ms)),
        local: false,
    })
}

fn parse_any(text: &str, now: UtcMs, zone: Zone) -> Result<Moment, TimeError> {
    let fixed = |at| Moment { at, local: false };
    if text == "now" {
        return Ok(fixed(now));
    }
    if let Some(seconds) = parse_epoch(text) {
        return Ok(fixed(UtcMs(seconds.saturating_mul(1000))));
    }
    if let Some(back_ms) = parse_duration_ms(text.strip_suffix("ago").unwrap_or(text)) {
        return Ok(fixed(UtcMs(now.0.saturating_sub(back_ms))));
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(fixed(UtcMs(time.timestamp_millis())));
    }
    let today = zone.at(now).date_naive();
    if let Some((day, time)) = parse_day(text, today) {
        let first = || (0..24).filter_map(|hour| day.and_hms_opt(hour, 0, 0));
        let at = match time {
            Some(time) => zone.resolve(day.and_time(time)).earliest(),
            // In some zones, clocks go forward at midnight.
            None => first().find_map(|time| zone.resolve(time).earliest()),
        };
        return match at {
            Some(at) => Ok(Moment { at, local: true }),
            None => Err(TimeError::Skipped(text.into())),
        };
    }
    let naive = match (parse_naive(text), parse_time_of_day(text)) {
        (Some(naive), _) => naive,
        (None, Some(time)) => {
            let today = today.and_time(time);
            match zone.resolve(today).earliest() {
                Some(at) if at > now => today - chrono::Duration::milliseconds(DAY_MS),
                _ => today,
            }
        }
        (None, None) => return Err(TimeError::Syntax(text.into())),
    };
    match zone.resolve(naive).earliest() {
        Some(at) => Ok(Moment { at, local: true }),
        None => Err(TimeError::Skipped(text.into())),
    }
}

/// `@1795233120`. Without the `@`, only ten digits, which `date +%s` prints from 2001 to 2286.
fn parse_epoch(text: &str) -> Option<i64> {
    let digits = text
        .strip_prefix('@')
        .or((text.len() == 10).then_some(text))?;
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

fn parse_naive(text: &str) -> Option<NaiveDateTime> {
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"];
    let spaced = text.replacen('T', " ", 1);
    let time = |format| NaiveDateTime::parse_from_str(&spaced, format).ok();
    formats.into_iter().find_map(time)
}

/// `today`, `yesterday 03:10`, `2026-11-21`: a day, with or without a time of day.
fn parse_day(text: &str, today: NaiveDate) -> Option<(NaiveDate, Option<NaiveTime>)> {
    let (word, time) = match text.split_once(' ') {
        Some((word, time)) => (word, Some(parse_time_of_day(time.trim())?)),
        None => (text, None),
    };
    let day = match word {
        "today" => today,
        "yesterday" => today.pred_opt()?,
        date => NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?,
    };
    Some((day, time))
}

fn parse_time_of_day(text: &str) -> Option<NaiveTime> {
    let formats = ["%H:%M:%S%.f", "%H:%M"];
    let time = |format| NaiveTime::parse_from_str(text, format).ok();
    formats.into_iter().find_map(time)
}

/// RFC 3339 in UTC with milliseconds, for JSON and CSV.
pub fn rfc3339(at: UtcMs) -> String {
    let mut text = String::new();
    put_rfc3339(at, &mut text);
    text
}

/// Appends [`rfc3339`] to a text.
pub fn put_rfc3339(at: UtcMs, to: &mut String) {
    let time = Zone::utc().at(at);
    let Ok(year @ 0..=9999) = u32::try_from(time.year()) else {
        return to.push_str(&time.to_rfc3339_opts(SecondsFormat::Millis, true));
    };
    // No formatter, which takes several times as long: an answer may have a hundred thousand times.
    let time = time.naive_utc();
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |place: usize, width: usize, mut number: u32| {
        for digit in text[place..place + width].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    };
    put(0, 4, year);
    put(5, 2, time.month());
    put(8, 2, time.day());
    put(11, 2, time.hour());
    put(14, 2, time.minute());
    put(17, 2, time.second());
    put(20, 3, time.nanosecond() / 1_000_000 % 1000);
    to.push_str(std::str::from_utf8(&text).unwrap_or_default());
}

/// UTC without characters that are special in a shell or file system: `20261121T030000Z`.
pub fn file_name(at: UtcMs) -> String {
    let time = Zone::utc().at(at);
    time.format("%Y%m%dT%H%M%SZ").to_string()
}

/// Local date and time of day, with milliseconds unless they are zero.
pub fn show(at: UtcMs, zone: Zone) -> String {
    zone.at(at)
        .format(pattern(at, "%Y-%m-%d %H:%M:%S"))
        .to_string()
}

/// `FROM to TO`. A date that both share appears once.
pub fn show_range(from: UtcMs, to: UtcMs, zone: Zone) -> String {
    let (start, end) = (zone.at(from), zone.at(to));
    let end = if start.date_naive() == end.date_naive() {
        end.format(pattern(to, "%H:%M:%S")).to_string()
    } else {
        show(to, zone)
    };
    format!("{} to {end}", show(from, zone))
}

fn pattern(at: UtcMs, whole_seconds: &'static str) -> &'static str {
    match (at.0.rem_euclid(1000), whole_seconds) {
        (0, _) => whole_seconds,
        (_, "%H:%M:%S") => "%H:%M:%S%.3f",
        _ => "%Y-%m-%d %H:%M:%S%.3f",
    }
}

/// Offset from UTC at `at`, such as `+02:00`.
pub fn show_offset(at: UtcMs, zone: Zone) -> String {
    zone.at(at).format("%:z").to_string()
}

/// A duration in a suitable unit: `0.4 s`, `14 min`, `2.5 h`.
pub fn show_length(ms: u64) -> String {
    let units = [(86_400_000_u64, "days"), (3_600_000, "h"), (60_000, "min")];
    let (scale, unit) = units
        .into_iter()
        .find(|(scale, _)| ms >= 2 * scale)
        .unwrap_or((1000, "s"));
    let hundredths = (ms as f64 / scale as f64 * 100.0).round() / 100.0;
    match hundredths {
        h if h < 0.01 => format!("{ms} ms"),
        h => format!("{h} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T12:00:00Z.
    const NOON: UtcMs = UtcMs(1_795_262_400_000);

    fn east() -> Zone {
        Zone::Fixed(FixedOffset::east_opt(2 * 3600).unwrap())
    }

    fn read(text: &str) -> Result<(String, bool), TimeError> {
        parse(text, NOON, east()).map(|m| (rfc3339(m.at), m.local))
    }

    #[test]
    fn times_for_programs_are_those_of_chrono() {
        let chronos = "%Y-%m-%dT%H:%M:%S%.3fZ";
        let mut ms = 1_i64;
        while ms < 400_000_000_000_000 {
            for at in [UtcMs(ms), UtcMs(-ms)] {
                let expected = Zone::utc().at(at).format(chronos).to_string();
                assert_eq!(rfc3339(at), expected);
            }
            ms = ms * 3 / 2 + 7;
        }
    }

    #[test]
    fn every_way_to_write_a_time_is_read() {
        for (text, expected, local) in [
            ("now", "2026-11-21T12:00:00.000Z", false),
            ("90s", "2026-11-21T11:58:30.000Z", false),
            ("1h30m", "2026-11-21T10:30:00.000Z", false),
            ("7d", "2026-11-14T12:00:00.000Z", false),
            ("1w", "2026-11-14T12:00:00.000Z", false),
            ("2d12h", "2026-11-19T00:00:00.000Z", false),
            ("1.5h", "2026-11-21T10:30:00.000Z", false),
            ("1 hour ago", "2026-11-21T11:00:00.000Z", false),
            ("90 seconds", "2026-11-21T11:58:30.000Z", false),
            ("1h 30m ago", "2026-11-21T10:30:00.000Z", false),
            ("@1795233120", "2026-11-21T03:52:00.000Z", false),
            ("1795233120", "2026-11-21T03:52:00.000Z", false),
            ("@0", "1970-01-01T00:00:00.000Z", false),
            ("250ms", "2026-11-21T11:59:59.750Z", false),
            ("2026-11-21T03:10:00Z", "2026-11-21T03:10:00.000Z", false),
            (
                "2026-11-21T03:10:00.5+01:00",
                "2026-11-21T02:10:00.500Z",
                false,
            ),
            ("2026-11-21 03:10", "2026-11-21T01:10:00.000Z", true),
            ("2026-11-21T03:10:07", "2026-11-21T01:10:07.000Z", true),
            ("2026-11-21 03:10:07.25", "2026-11-21T01:10:07.250Z", true),
            ("2026-11-21", "2026-11-20T22:00:00.000Z", true),
            ("today", "2026-11-20T22:00:00.000Z", true),
            ("yesterday", "2026-11-19T22:00:00.000Z", true),
            ("yesterday 03:10", "2026-11-20T01:10:00.000Z", true),
            ("today 13:00:30", "2026-11-21T11:00:30.000Z", true),
            ("03:10", "2026-11-21T01:10:00.000Z", true),
            (" 13:59:59 ", "2026-11-21T11:59:59.000Z", true),
            // 15:00 at +02:00 is later than now, so it means yesterday.
            ("15:00", "2026-11-20T13:00:00.000Z", true),
        ] {
            assert_eq!(read(text), Ok((expected.into(), local)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_its_name_and_what_to_write() {
        for text in [
            "",
            "someday",
            "yesterday 25:00",
            "1.7ms",
            "90",
            "0",
            "h",
            "ago",
            "hour ago",
            "@",
            "@x",
            "@-5",
            "17952331200",
            "+10s",
            "2026-13-01",
            "25:00",
            "2026-11-21 3pm",
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{text}`")) && error.contains("24h"),
                "{error}"
            );
        }
        for text in ["9000000000000000s1d", "1969-12-31", "30000d"] {
            assert_eq!(read(text), Err(TimeError::TooFar(text.into())));
        }
        assert_eq!(read("-5s"), Err(TimeError::Minus("5s".into())));
        assert!(matches!(
            read("99999999999999999999s"),
            Err(TimeError::Syntax(_))
        ));
    }

    #[test]
    fn an_end_may_count_from_the_start() {
        let start = UtcMs(NOON.0 - 60_000);
        let end = |text: &str, start| parse_end(text, start, NOON, east()).map(|m| m.at);
        assert_eq!(end("+10s", Some(start)), Ok(UtcMs(start.0 + 10_000)));
        assert_eq!(end("10s", Some(start)), Ok(UtcMs(NOON.0 - 10_000)));
        assert_eq!(end("+10s", None), Err(TimeError::NoStart("+10s".into())));
        for text in ["+", "+5", "+03:10", "+-1s"] {
            let error = end(text, Some(start)).unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("+10s"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_strange(text in proptest::prelude::any::<String>()) {
            let _ = parse_end(&text, Some(NOON), NOON, east());
        }

        #[test]
        fn no_text_of_its_own_words_is_too_strange(
            words in proptest::collection::vec(
                proptest::sample::select(vec!["+", "@", "9", "1795233120", "s", "w", "d", " ", "ago", "today", ":", "-", "T", "Z"]), 0..8)
        ) {
            let _ = parse_end(&words.concat(), Some(NOON), NOON, east());
        }
    }

    #[test]
    fn times_are_shown_as_short_as_they_can_be() {
        let show_both = |ms| show_range(NOON, UtcMs(NOON.0 + ms), east());
        assert_eq!(show_both(240_000), "2026-11-21 14:00:00 to 14:04:00");
        assert_eq!(show_both(400), "2026-11-21 14:00:00 to 14:00:00.400");
        assert_eq!(
            show_both(DAY_MS),
            "2026-11-21 14:00:00 to 2026-11-22 14:00:00"
        );
        assert_eq!(show_offset(NOON, east()), "+02:00");
        for zone in [-24, 0, 24].map(|hours| FixedOffset::east_opt(hours * 3599).map(Zone::Fixed)) {
            let zone = zone.unwrap();
            assert!(show(UtcMs(i64::MAX), zone).starts_with("+262142"));
            assert!(show(UtcMs(i64::MIN), zone).starts_with("-26214"));
            assert!(show(UtcMs(8_210_266_876_799_999), zone).starts_with("+262142"));
        }
        for (ms, text) in [
            (400, "0.4 s"),
            (4, "4 ms"),
            (90_000, "90 s"),
            (240_000, "4 min"),
            (9_000_000, "2.5 h"),
        ] {
            assert_eq!(show_length(ms), text);
        }
    }
}

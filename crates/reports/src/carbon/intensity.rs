//! Grid intensity over time: a step function from a file.

use std::path::Path;

use trackiops_query::coverage::Interval;
use trackiops_query::times::{self, Zone, rfc3339};
use trackiops_schemas::time::UtcMs;

use crate::report::ReportError;

/// The first line of a file.
const HEADER: &str = "time,g_per_kwh";

/// Grams of CO2 equivalents per kWh. A value holds until the next one; the last value holds as long as the one before it.
#[derive(Clone, Debug)]
pub struct Intensity {
    name: String,
    /// Steps in order, and the end of the last one. `None` is unknown.
    steps: Vec<(UtcMs, Option<f64>)>,
    /// The value for times that the file does not cover.
    default: Option<f64>,
}

impl Intensity {
    /// Parses a CSV file with the columns `time` and `g_per_kwh`; `path` is for messages. An empty value is unknown.
    pub fn parse(path: &Path, text: &str, default: Option<f64>) -> Result<Self, ReportError> {
        let name = path.display().to_string();
        let refuse = |line: usize, what: &str| {
            Err(ReportError::Unsuitable(format!("{name}:{line}: {what}")))
        };
        let mut lines = text.lines().enumerate();
        let header = lines
            .next()
            .map(|(_, line)| line.trim_start_matches('\u{feff}').trim());
        if header != Some(HEADER) {
            return refuse(1, &format!("the first line is not `{HEADER}`"));
        }
        let mut steps: Vec<(UtcMs, Option<f64>)> = Vec::new();
        for (at, line) in lines {
            let line_number = at + 1;
            if line.trim().is_empty() {
                continue;
            }
            let Some((time, value)) = line.split_once(',') else {
                return refuse(line_number, "there is no comma; write a time and g/kWh");
            };
            let (time, value) = (time.trim(), value.trim());
            let Some(time) = point_in_time(time) else {
                let what = format!("`{time}` is not a time; write it as 2026-11-21T03:00:00Z");
                return refuse(line_number, &what);
            };
            if steps.last().is_some_and(|(last, _)| *last >= time) {
                return refuse(
                    line_number,
                    "the time is not after that of the line before; sort the file",
                );
            }
            let value = match value {
                "" => None,
                text => match text.parse::<f64>() {
                    Ok(value) if value >= 0.0 && value.is_finite() => Some(value),
                    _ => {
                        let what = format!("`{text}` is not a number of at least 0");
                        return refuse(line_number, &what);
                    }
                },
            };
            steps.push((time, value));
        }
        if let [.., (before, _), (last, Some(_))] = steps[..] {
            steps.push((UtcMs(last.0.saturating_add(last.0 - before.0)), None));
        }
        Ok(Self {
            name,
            steps,
            default,
        })
    }

    /// One value at all times. Without a value, every mean fails.
    pub fn constant(value: Option<f64>) -> Self {
        Self {
            name: "--intensity".to_owned(),
            steps: Vec::new(),
            default: value,
        }
    }

    /// The mean over an interval, which must not be empty. Fails if a part of it has no value.
    pub fn mean(&self, interval: Interval) -> Result<f64, ReportError> {
        let mut weighted = 0.0;
        let mut at = interval.start;
        let mut next = self.steps.partition_point(|(start, _)| *start <= at);
        while at < interval.end {
            let end = self
                .steps
                .get(next)
                .map_or(interval.end, |(start, _)| *start);
            let end = end.min(interval.end);
            let known = next.checked_sub(1).and_then(|place| self.steps[place].1);
            let Some(value) = known.or(self.default) else {
                return Err(ReportError::Unsuitable(format!(
                    "{} has no intensity from {}; add rows for all of the range, or give --intensity-default",
                    self.name,
                    rfc3339(at)
                )));
            };
            weighted += value * Interval::new(at, end).ms() as f64;
            (at, next) = (end, next + 1);
        }
        Ok(weighted / interval.ms() as f64)
    }
}

/// A time of a calendar, or seconds since 1970; without an offset it is UTC.
fn point_in_time(text: &str) -> Option<UtcMs> {
    let is_one =
        text.starts_with('@') || (text.len() >= 10 && text.as_bytes().get(4) == Some(&b'-'));
    let parsed = is_one.then(|| times::parse(text, UtcMs(0), Zone::utc()));
    parsed?.ok().map(|moment| moment.at)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str, default: Option<f64>) -> Result<Intensity, String> {
        Intensity::parse(Path::new("grid.csv"), text, default).map_err(|error| error.to_string())
    }

    fn mean(intensity: &Intensity, start_s: i64, end_s: i64) -> Result<f64, String> {
        let interval = Interval::new(UtcMs(start_s * 1000), UtcMs(end_s * 1000));
        intensity.mean(interval).map_err(|error| error.to_string())
    }

    #[test]
    fn a_mean_is_weighted_by_time() {
        let text =
            "time,g_per_kwh\n1970-01-01T00:00:00Z,100\n@100,200\n1970-01-01 00:05:00,\n@400,10\n";
        let grid = parse(text, None).unwrap();
        assert_eq!(mean(&grid, 0, 100), Ok(100.0));
        assert_eq!(mean(&grid, 50, 150), Ok(150.0));
        assert_eq!(mean(&grid, 90, 110), Ok(150.0));
        assert_eq!(mean(&grid, 400, 500), Ok(10.0));
    }

    #[test]
    fn gaps_are_errors_unless_there_is_a_default() {
        let text = "time,g_per_kwh\n@0,100\n@100,200\n@300,\n@400,10\n";
        let grid = parse(text, None).unwrap();
        for (start, end, at) in [
            (-10, 10, "1969-12-31T23:59:50"),
            (250, 310, "1970-01-01T00:05:00"),
            (400, 501, "1970-01-01T00:08:20"),
        ] {
            let error = mean(&grid, start, end).unwrap_err();
            assert!(
                error.contains(at) && error.contains("--intensity-default"),
                "{error}"
            );
        }
        let grid = parse(text, Some(50.0)).unwrap();
        assert_eq!(mean(&grid, 250, 350), Ok(125.0));
        assert_eq!(mean(&grid, 500, 600), Ok(50.0));
        // A single row holds from its time on.
        assert_eq!(
            mean(&parse("time,g_per_kwh\n@0,7", None).unwrap(), 0, 1 << 30),
            Ok(7.0)
        );
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        for (text, line) in [
            ("", "grid.csv:1: "),
            ("time;g\n", "grid.csv:1: "),
            ("time,g_per_kwh\n24h,5\n", "grid.csv:2: "),
            ("time,g_per_kwh\n@5,-1\n", "grid.csv:2: "),
            ("time,g_per_kwh\n@5,1\n@5,1\n", "grid.csv:3: "),
            ("time,g_per_kwh\n@5\n", "grid.csv:2: "),
        ] {
            let error = parse(text, None).unwrap_err();
            assert!(error.starts_with(line), "{error}");
        }
    }
}

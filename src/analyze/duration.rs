//! Durations in flags of analyses.

use std::time::Duration;

use anyhow::bail;
use trackiops_schemas::time::parse_duration_ms;

/// Parses a duration, which may be zero: `2s`, `10ms`, `0`.
pub fn parse(text: &str) -> anyhow::Result<Duration> {
    let ms = match text {
        "0" => Some(0),
        text => parse_duration_ms(text),
    };
    match ms.and_then(|ms| u64::try_from(ms).ok()) {
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => {
            bail!("`{text}` is not a length of time in whole milliseconds; write 2s, 10ms or 0")
        }
    }
}

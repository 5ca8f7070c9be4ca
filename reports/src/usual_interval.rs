//! Lengths of intervals that suit a short recording.

use trackiops_query::times::show_length;
use trackiops_schemas::time::Granularity;

/// Lengths that a report proposes, ms, the longest first.
const LENGTHS_MS: [i64; 10] = [
    3_600_000, 1_800_000, 600_000, 300_000, 60_000, 30_000, 10_000, 5_000, 2_000, 1_000,
];

/// The longest usual interval up to `length` that fits into a recorded time at least `count` times. `None` if not even intervals of a second
/// do.
pub(crate) fn interval_with(
    count: usize,
    recorded_ms: u64,
    length: Granularity,
) -> Option<Granularity> {
    let fits = |ms: &i64| {
        let needed = ms.unsigned_abs().saturating_mul(count as u64);
        *ms <= length.ms() && needed <= recorded_ms
    };
    let ms = LENGTHS_MS.into_iter().find(fits)?;
    Granularity::from_ms(ms).ok()
}

/// How long `count` intervals are: `140 s, or 14 s with --interval 1s`.
pub(crate) fn time_of(count: usize, length: Granularity) -> String {
    let of = |ms: u64| show_length((count as u64).saturating_mul(ms));
    let time = of(length.ms().unsigned_abs());
    match length.ms() > 1000 {
        true => format!("{time}, or {} with --interval 1s", of(1000)),
        false => time,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_interval_that_fits_is_proposed() {
        let of = |count, ms, length: &str| {
            let found = interval_with(count, ms, length.parse().unwrap());
            found.map(|found| found.to_string())
        };
        assert_eq!(of(14, 140_000, "10s").as_deref(), Some("10s"));
        assert_eq!(of(14, 139_999, "10s").as_deref(), Some("5s"));
        assert_eq!(of(14, 14_000, "1m").as_deref(), Some("1s"));
        assert_eq!(of(14, 13_999, "1m"), None);
        assert_eq!(of(1, 1_000_000, "20s").as_deref(), Some("10s"));
        assert_eq!(of(1, 1_000_000, "100ms"), None);
        let time = |length: &str| time_of(14, length.parse().unwrap());
        assert_eq!(time("10s"), "2.33 min, or 14 s with --interval 1s");
        assert_eq!(time("1s"), "14 s");
    }
}

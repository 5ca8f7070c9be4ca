//! Converts counts and times to values of signed columns, and back.

use trackiops_schemas::counter_macro::Counter;
use trackiops_schemas::time::UtcMs;

/// A count as a signed column holds it.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count from a signed column. Negative values become 0.
pub(crate) fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// A time as a column value, us.
pub(crate) fn us_of(time: UtcMs) -> i64 {
    time.0.saturating_mul(1000)
}

/// A time from a column value.
pub(crate) fn time_of(us: i64) -> UtcMs {
    UtcMs(us.div_euclid(1000))
}

/// A counter as a column value.
pub(crate) fn stored<R>(counter: &Counter<R>, row: &R) -> i64 {
    signed(counter.stored((counter.get)(row)))
}

/// Counters from their column values.
pub(crate) fn of_stored<R, const COUNT: usize>(
    table: &[Counter<R>; COUNT],
    stored: [i64; COUNT],
) -> [u64; COUNT] {
    let mut counters = stored.map(unsigned);
    for (value, counter) in counters.iter_mut().zip(table) {
        *value = counter.of_stored(*value);
    }
    counters
}

//! Latencies are nanoseconds in memory and rounded microseconds on disk.

const NS_PER_US: u64 = 1000;

/// Nearest whole number of microseconds. It always fits a signed column.
pub(crate) fn us_from_ns(ns: u64) -> i64 {
    let us = ns / NS_PER_US + u64::from(ns % NS_PER_US >= NS_PER_US / 2);
    us.cast_signed()
}

pub(crate) fn ns_from_us(us: u64) -> u64 {
    us.saturating_mul(NS_PER_US)
}

/// A count as a signed column holds it.
pub(crate) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count out of a signed column; what is negative there is no count.
pub(crate) fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_rounded_to_the_nearest_microsecond() {
        for (ns, us) in [(0, 0), (499, 0), (500, 1), (1499, 1), (1500, 2)] {
            assert_eq!(us_from_ns(ns), us);
        }
        assert!(us_from_ns(u64::MAX) > 0);
    }
}

//! Splits a range into consecutive pieces, each small enough for memory.

use trackiops_schemas::time::{Granularity, UtcMs};

use trackiops_query::coverage::Interval;

/// Approximate limit of rows in memory.
pub(crate) const MOST_ROWS: usize = if cfg!(test) { 1 << 10 } else { 1 << 16 };

/// Result of a piece.
pub(crate) enum Took {
    /// Number of rows.
    Rows(usize),
    /// The piece has too many rows.
    TooMany,
}

/// Splits a range into pieces of whole windows of `step`. The number of rows of a piece is unknown beforehand.
/// So a piece with too many rows is repeated at half its length, and after a piece with few rows the next one is longer.
/// The second argument of `each` allows [`Took::TooMany`]; it is false for a single window, which cannot be split.
pub(crate) fn take<E>(
    range: Interval,
    step: Granularity,
    mut each: impl FnMut(Interval, bool) -> Result<Took, E>,
) -> Result<(), E> {
    let whole = i64::try_from(range.ms()).unwrap_or(i64::MAX);
    let mut length = whole.max(step.ms());
    let mut start = range.start;
    while start < range.end {
        let next = start.align(step).plus(step);
        let stop = UtcMs(start.0.saturating_add(length)).align(step);
        let piece = Interval::new(start, stop.max(next).min(range.end));
        let is_one = piece.end <= next;
        match each(piece, !is_one)? {
            Took::TooMany => {
                let held = i64::try_from(piece.ms()).unwrap_or(i64::MAX);
                length = (held / 2).max(step.ms());
            }
            Took::Rows(rows) => {
                start = piece.end;
                if rows < MOST_ROWS / 2 {
                    length = length.saturating_mul(2).min(whole.max(step.ms()));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn the_pieces_are_the_range_in_whole_windows() {
        // 3 rows a second, with one burst.
        let rows = |piece: Interval| -> usize {
            let seconds = piece.start.0.div_euclid(1000)..(piece.end.0 + 999).div_euclid(1000);
            seconds
                .map(|s| if s == 70_000 { 3 * MOST_ROWS } else { 3 })
                .sum()
        };
        let step = Granularity::from_ms(10_000).unwrap();
        let range = Interval::new(UtcMs(2_500), UtcMs(100_000_500));
        let mut taken = Vec::new();
        take(range, step, |piece, may_refuse| {
            let rows = rows(piece);
            if may_refuse && rows > MOST_ROWS {
                return Ok::<_, Infallible>(Took::TooMany);
            }
            taken.push((piece, rows));
            Ok(Took::Rows(rows))
        })
        .unwrap();
        assert_eq!(taken.first().unwrap().0.start, range.start);
        assert_eq!(taken.last().unwrap().0.end, range.end);
        for pair in taken.windows(2) {
            assert_eq!(pair[0].0.end, pair[1].0.start);
            assert_eq!(pair[1].0.start.align(step), pair[1].0.start);
        }
        let crowds: Vec<_> = taken.iter().filter(|(_, rows)| *rows > MOST_ROWS).collect();
        assert_eq!(crowds.len(), 1);
        assert_eq!(crowds[0].0.ms(), 10_000);
        // 300,000 rows.
        assert!(taken.len() < 4 * 300_000 / MOST_ROWS, "{}", taken.len());
    }
}

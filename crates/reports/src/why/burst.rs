//! Finds when counts were above usual: a cumulative sum of log-likelihood ratios.
//!
//! The counted events, such as errors, are rare. Let `m` be the usual number in an interval and `k` the number in this one. Then `S =
//! max(0, S + k ln 10 - 9 m)` compares ten times the usual rate with the usual one (Poisson). A rise beyond `h` is a burst.

use std::ops::Range;

/// A burst has at least this many times the usual rate.
const FACTOR: f64 = 10.0;
/// `h`: about six events close together, if there are hardly any otherwise.
const HEIGHT: f64 = 12.0;
/// Cap on the count of an interval, so that a single interval with many events is not a burst.
const MOST: u64 = 2;
/// Least usual number in an interval. If all intervals are empty, the true rate is still not 0.
const LEAST_USUAL: f64 = 0.02;

/// The bursts of counts by interval. Unknown counts do not change the sum.
pub fn bursts(counts: &[Option<u64>], baseline: Range<usize>) -> Vec<Range<usize>> {
    let capped = |of: &Option<u64>| of.map(|count| count.min(MOST) as f64);
    let known: Vec<_> = counts[baseline].iter().filter_map(capped).collect();
    let usual = known.iter().sum::<f64>() / known.len().max(1) as f64;
    let usual = usual.max(LEAST_USUAL);
    let mut found = Vec::new();
    let (mut sum, mut most) = (0.0_f64, 0.0_f64);
    let mut run: Option<Range<usize>> = None;
    for (at, count) in counts.iter().enumerate() {
        let Some(count) = capped(count) else { continue };
        sum = (sum + count * FACTOR.ln() - (FACTOR - 1.0) * usual).max(0.0);
        if count > 0.0 && sum > 0.0 {
            let run = run.get_or_insert(at..at);
            if sum >= most {
                (most, run.end) = (sum, at + 1);
            }
        }
        // The burst is over once the sum has fallen by `h`.
        if sum == 0.0 || sum < most - HEIGHT {
            found.extend(run.take().filter(|_| most > HEIGHT));
            (sum, most) = (0.0, 0.0);
        }
    }
    found.extend(run.filter(|_| most > HEIGHT));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[u64]) -> Vec<Range<usize>> {
        let counts: Vec<_> = counts.iter().copied().map(Some).collect();
        bursts(&counts, 0..counts.len())
    }

    #[test]
    fn a_burst_is_where_things_are_counted_again_and_again() {
        let mut counts = [0; 600];
        counts[300..330].fill(1);
        counts[310] = 0;
        assert_eq!(of(&counts), vec![300..330]);
    }

    #[test]
    fn one_hiccup_and_what_is_usual_are_none() {
        let mut counts = [0; 600];
        counts[300] = 500;
        counts[301] = 3;
        assert!(of(&counts).is_empty());
        let usual: Vec<_> = (0..600).map(|at| u64::from(at % 3 == 0)).collect();
        assert!(of(&usual).is_empty());
        assert!(bursts(&[None; 50], 0..50).is_empty());
    }
}

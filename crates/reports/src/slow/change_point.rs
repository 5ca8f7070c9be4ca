//! Finds when a series was above its baseline: Page's cumulative sum.
//!
//! `z` is the logarithm of a value relative to the baseline's median. The sum `S = max(0, S + z - k)` stays near 0 while values are usual,
//! and rises once they are above. A rise beyond `h` is an excursion. It begins after the last interval in which `S` was 0, and ends where
//! `S` is largest. Of all runs of intervals, this run has the largest sum of `z - k`.

use std::ops::Range;

use crate::median::{deviation, median};

/// Latency is slow from this ratio upwards.
pub const MIN_RATIO: f64 = 1.5;
/// `h`, in units of the logarithm of [`MIN_RATIO`]: three intervals at 2.25 times the usual value, or one at 5 times.
const HEIGHT: f64 = 3.0;
/// Least `h`, in standard deviations of the baseline.
const HEIGHT_DEVIATIONS: f64 = 8.0;
/// Least number of values of the baseline.
pub const MIN_BASELINE: usize = 12;

/// Intervals above the baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Excursion {
    /// Its intervals.
    pub intervals: Range<usize>,
    /// Geometric mean of its values, relative to the baseline's median.
    pub ratio: f64,
}

/// The excursions of a series; `None` if the baseline has too few values. Unknown values do not change the sum.
pub fn excursions(baseline: &[Option<f64>], series: &[Option<f64>]) -> Option<Vec<Excursion>> {
    let logarithm = |of: &Option<f64>| of.filter(|value| *value > 0.0).map(f64::ln);
    let mut usual: Vec<f64> = baseline.iter().filter_map(logarithm).collect();
    if usual.len() < MIN_BASELINE {
        return None;
    }
    let middle = median(&mut usual);
    let deviation = deviation(&usual, middle);
    let reference = (0.5 * MIN_RATIO.ln()).max(deviation);
    let height = (HEIGHT * MIN_RATIO.ln()).max(HEIGHT_DEVIATIONS * deviation);
    let above: Vec<_> = series
        .iter()
        .map(|of| Some(logarithm(of)? - middle))
        .collect();
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(run) = first_run(&above[next..], reference, height) {
        let intervals = next + run.start..next + run.end;
        next = intervals.end;
        let known: Vec<_> = above[intervals.clone()].iter().flatten().copied().collect();
        let ratio = f64::exp(known.iter().sum::<f64>() / known.len().max(1) as f64);
        if ratio >= MIN_RATIO {
            found.push(Excursion { intervals, ratio });
        }
    }
    Some(found)
}

/// The first run of intervals whose sum rises beyond `height`.
fn first_run(above: &[Option<f64>], reference: f64, height: f64) -> Option<Range<usize>> {
    let (mut sum, mut most) = (0.0, 0.0);
    let mut run: Option<Range<usize>> = None;
    for (place, above) in above.iter().enumerate() {
        let Some(above) = above else { continue };
        sum += above - reference;
        if sum <= 0.0 || (most > height && sum < most - height) {
            if most > height {
                return run;
            }
            (sum, most, run) = (0.0, 0.0, None);
            continue;
        }
        let run = run.get_or_insert(place..place);
        if sum > most {
            (most, run.end) = (sum, place + 1);
        }
    }
    run.filter(|_| most > height)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(series: &[f64]) -> Vec<Excursion> {
        let known: Vec<_> = series.iter().map(|of| Some(*of)).collect();
        excursions(&[Some(100.0); 20], &known).unwrap()
    }

    #[test]
    fn an_excursion_is_where_values_are_higher() {
        let mut series = [100.0; 20];
        series[2..4].fill(400.0);
        series[15] = 1000.0;
        let found = of(&series);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].intervals, 2..4);
        assert!((found[0].ratio - 4.0).abs() < 1e-9);
        assert_eq!(found[1].intervals, 15..16);
        // A short relief does not end the excursion.
        series[4..15].fill(400.0);
        series[8] = 100.0;
        assert_eq!(of(&series)[0].intervals, 2..16);
    }

    #[test]
    fn a_little_more_is_none() {
        assert_eq!(of(&[120.0; 500]), []);
        // A single high interval is not enough.
        assert_eq!(of(&[100.0, 300.0, 100.0]), []);
    }

    #[test]
    fn a_baseline_has_values() {
        assert_eq!(excursions(&[Some(1.0); 11], &[Some(9.0); 20]), None);
        assert_eq!(excursions(&[None; 30], &[]), None);
    }
}

//! The quiet part of a short series with one slow time.
//!
//! If a slow time has nearly half of a series, median and deviation of the whole describe a mixture, and nothing stands out. Of all
//! runs of intervals, the slow time is the one whose mean logarithm is clearest above the others: the largest sum of squares between the
//! two groups. Noise has such a run as well, so its values must be apart from all others, and must not be the first of the series.

use std::ops::Range;

use crate::median::{deviation, median};
use crate::slow::change_point::{MIN_BASELINE, MIN_RATIO};

/// Most values of a short series. In a longer one, other work may have begun, and hours differ from each other.
pub const SHORT: usize = 180;
/// Least values before a slow time. Work that is slow from its start shows nothing that was usual.
pub const LEAST_BEFORE: usize = 8;
/// Least values of a slow time.
const LEAST_SLOW: usize = 5;
/// This part of the quiet values is faster by [`MIN_RATIO`] than all but that part of the slow ones.
const MOST_QUIET: f64 = 0.9;
const FEW_SLOW: f64 = 0.2;
/// Least distance between both medians, in units of the logarithm of [`MIN_RATIO`], and in standard deviations of the quiet values.
const APART: f64 = 2.0;
const APART_DEVIATIONS: f64 = 4.0;

/// The longer quiet part before or after the slow time. `None` if the series is long, or has no time that is clearly slow.
pub fn quiet_part(series: &[Option<f64>]) -> Option<Range<usize>> {
    let logarithm = |of: &Option<f64>| of.filter(|value| *value > 0.0).map(f64::ln);
    let known = series.iter().enumerate();
    let (places, values): (Vec<usize>, Vec<f64>) = known
        .filter_map(|(place, of)| Some((place, logarithm(of)?)))
        .unzip();
    if values.len() > SHORT {
        return None;
    }
    let slow = clearest_run(&values)?;
    let (before, after) = (slow.start, values.len() - slow.end);
    if before.max(after) < MIN_BASELINE || !is_apart(&values, &slow) {
        return None;
    }
    Some(match before >= after {
        true => 0..places[slow.start],
        false => places[slow.end]..series.len(),
    })
}

/// The run of values that is clearest above all others.
fn clearest_run(values: &[f64]) -> Option<Range<usize>> {
    let all = values.len();
    let mut sums = vec![0.0_f64];
    sums.extend(values.iter().scan(0.0_f64, |sum, value| {
        *sum += value;
        Some(*sum)
    }));
    let between = |run: &Range<usize>| {
        let (inside, outside) = (run.len() as f64, (all - run.len()) as f64);
        let sum = sums[run.end] - sums[run.start];
        let above = sum / inside - (sums[all] - sum) / outside;
        above.max(0.0).powi(2) * inside * outside
    };
    let runs = (LEAST_BEFORE..all)
        .flat_map(|start| (start + LEAST_SLOW..=all).map(move |end| start..end))
        .filter(|run| all - run.len() >= MIN_BASELINE);
    let best = runs
        .map(|run| (between(&run), run))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    best.map(|(_, run)| run)
}

/// Whether nearly all values of a run are clearly above nearly all others, and above nearly all before it.
fn is_apart(values: &[f64], slow: &Range<usize>) -> bool {
    let mut inside = values[slow.clone()].to_vec();
    let mut before = values[..slow.start].to_vec();
    let mut quiet = [&before[..], &values[slow.end..]].concat();
    let usual = median(&mut quiet);
    let above = median(&mut inside) - usual;
    let least = (APART * MIN_RATIO.ln()).max(APART_DEVIATIONS * deviation(&quiet, usual));
    before.sort_unstable_by(f64::total_cmp);
    let most = at_part(&quiet, MOST_QUIET).max(at_part(&before, MOST_QUIET));
    above >= least && at_part(&inside, FEW_SLOW) - most >= MIN_RATIO.ln()
}

/// The value at a part of sorted values, 0 to 1.
fn at_part(sorted: &[f64], part: f64) -> f64 {
    let place = (part * sorted.len() as f64) as usize;
    sorted[place.min(sorted.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use trackiops_testkit::generated::Numbers;

    /// Values within a third of 100, each `times` as large.
    fn series(seed: u64, count: usize, times: impl Fn(usize) -> f64) -> Vec<Option<f64>> {
        let mut numbers = Numbers(seed);
        let value = |place| Some((67.0 + numbers.below(66) as f64) * times(place));
        (0..count).map(value).collect()
    }

    #[test]
    fn a_slow_time_of_nearly_half_is_not_usual() {
        for seed in 0..20 {
            let to_the_end = series(seed, 30, |t| if t >= 15 { 6.0 } else { 1.0 });
            assert_eq!(quiet_part(&to_the_end), Some(0..15), "{seed}");
            let early = series(seed, 40, |t| if (8..24).contains(&t) { 6.0 } else { 1.0 });
            assert_eq!(quiet_part(&early), Some(24..40), "{seed}");
        }
        // Unknown values are neither.
        let mut gaps = series(1, 40, |t| if t >= 20 { 6.0 } else { 1.0 });
        gaps[3] = None;
        gaps[18..22].fill(None);
        assert_eq!(quiet_part(&gaps), Some(0..22));
    }

    #[test]
    fn noise_has_no_quiet_part() {
        let shapes: [fn(usize) -> f64; 6] = [
            |_| 1.0,
            // Slow at the start, for more than half of the time, again and again, and more and more.
            |t| if t < 6 { 6.0 } else { 1.0 },
            |t| if t < 22 { 6.0 } else { 1.0 },
            |t| if (t / 5) % 2 == 0 { 1.0 } else { 4.0 },
            |t| 1.0 + t as f64 / 10.0,
            |t| if t >= 20 { 1.6 } else { 1.0 },
        ];
        for seed in 0..20 {
            for (number, shape) in shapes.iter().enumerate() {
                for count in [20, 40, 60, 120] {
                    let found = quiet_part(&series(seed, count, shape));
                    assert_eq!(found, None, "{number} {count} {seed}");
                }
            }
        }
    }

    #[test]
    fn too_little_shows_nothing() {
        let step = |count, at| series(1, count, move |t| if t >= at { 6.0 } else { 1.0 });
        assert_eq!(quiet_part(&step(30, 7)), None);
        assert_eq!(quiet_part(&step(16, 12)), None);
        assert_eq!(quiet_part(&step(SHORT + 1, 90)), None);
        assert_eq!(quiet_part(&[]), None);
        assert_eq!(quiet_part(&[None; 60]), None);
    }
}

//! The median, and the deviation from it.

/// Factor from the median absolute deviation to the standard deviation of a normal distribution.
const MAD: f64 = 1.4826;

/// The middle value; for an even number of values the mean of the two middle ones; 0 for none. Sorts `values`.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values {
        [] => 0.0,
        _ => {
            let last = values.len() - 1;
            0.5 * (values[last / 2] + values[last.div_ceil(2)])
        }
    }
}

/// The standard deviation of values around their median, from the median of absolute deviations.
pub fn deviation(values: &[f64], middle: f64) -> f64 {
    let mut deviations: Vec<_> = values.iter().map(|of| (of - middle).abs()).collect();
    MAD * median(&mut deviations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&mut [5.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [5.0, 1.0, 2.0, 4.0]), 3.0);
        assert_eq!(median(&mut []), 0.0);
    }

    #[test]
    fn a_deviation_ignores_a_few_far_values() {
        assert_eq!(deviation(&[4.0, 5.0, 6.0, 5.0, 900.0], 5.0), MAD);
        assert_eq!(deviation(&[], 5.0), 0.0);
    }
}

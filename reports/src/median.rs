//! The median.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&mut [5.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [5.0, 1.0, 2.0, 4.0]), 3.0);
        assert_eq!(median(&mut []), 0.0);
    }
}

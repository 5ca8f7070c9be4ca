//! Pearson's correlation of series.

/// A series with mean 0 and length 1; `None` if it is constant.
pub fn standardised(series: &[f64]) -> Option<Vec<f64>> {
    let mean = series.iter().sum::<f64>() / series.len() as f64;
    let centred: Vec<_> = series.iter().map(|value| value - mean).collect();
    let length = centred
        .iter()
        .map(|value| value * value)
        .sum::<f64>()
        .sqrt();
    // A constant series differs from its mean only by rounding.
    let largest = series
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    let is_constant = length <= largest * 1e-12 * (series.len() as f64).sqrt();
    (!is_constant).then(|| centred.iter().map(|value| value / length).collect())
}

/// The correlation of two standardised series, from -1 to 1; see [`standardised`].
pub fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let sum: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
    sum.clamp(-1.0, 1.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn of(a: &[f64], b: &[f64]) -> Option<f64> {
        Some(correlation(&standardised(a)?, &standardised(b)?))
    }

    #[test]
    fn series_that_rise_together_correlate() {
        let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 1e-12;
        assert!(near(of(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), 1.0));
        assert!(near(of(&[1.0, 2.0, 3.0], &[5.0, 3.0, 1.0]), -1.0));
        assert!(near(of(&[0.0, 1.0, 0.0, 1.0], &[0.0, 0.0, 1.0, 1.0]), 0.0));
        assert!(near(
            of(&[1.0, 2.0, 4.0], &[1.0, 3.0, 2.0]),
            0.327_326_835_353_988_6
        ));
        assert_eq!(of(&[0.1, 0.1, 0.1], &[1.0, 2.0, 3.0]), None);
        assert_eq!(of(&[0.0, 0.0], &[1.0, 2.0]), None);
    }
}

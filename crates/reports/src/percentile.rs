//! Percentiles of observed values, by nearest rank.

use std::fmt;
use std::str::FromStr;

/// A percentile above 0 and at most 100, in thousandths of a percent, so that ranks are computed exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percentile(u32);

/// The number of thousandths of a percent in 100 %.
const WHOLE: u32 = 100_000;

impl Percentile {
    /// The 50th.
    pub const MEDIAN: Self = Self(50_000);
    /// The 95th.
    pub const P95: Self = Self(95_000);

    /// By nearest rank: the smallest of the values that is at least as large as this percentage of them. `None` without values. Sorts
    /// `values`.
    pub fn of(self, values: &mut [f64]) -> Option<f64> {
        values.sort_unstable_by(f64::total_cmp);
        values.get(self.rank(values.len())?).copied()
    }

    /// Index of the percentile in `count` sorted values; `None` without values.
    pub fn rank(self, count: usize) -> Option<usize> {
        let rank = (count as u128 * u128::from(self.0)).div_ceil(u128::from(WHOLE));
        usize::try_from(rank).ok()?.checked_sub(1)
    }

    /// The form in column names: `p95`, `p99_9`.
    pub fn name(self) -> String {
        format!("p{}", self.to_string().replace('.', "_"))
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        match part {
            0 => write!(f, "{whole}"),
            part => write!(f, "{whole}.{}", format!("{part:03}").trim_end_matches('0')),
        }
    }
}

/// The text is not a percentile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a percentile: write a number above 0 and up to 100 with at most three decimals, such as 95 or 99.9"
)]
pub struct PercentileError(String);

impl FromStr for Percentile {
    type Err = PercentileError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let thousandths = (is_number(whole) && is_number(part) && part.len() <= 3).then(|| {
            let whole: u32 = whole.parse().ok()?;
            let part: u32 = format!("{part:0<3}").parse().ok()?;
            whole.checked_mul(1000)?.checked_add(part)
        });
        match thousandths.flatten() {
            Some(thousandths) if (1..=WHOLE).contains(&thousandths) => Ok(Self(thousandths)),
            _ => Err(PercentileError(text.into())),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn p(text: &str) -> Percentile {
        text.parse().unwrap()
    }

    #[test]
    fn percentiles_are_numbers_up_to_100() {
        for (text, name) in [
            ("95", "p95"),
            ("99.9", "p99_9"),
            ("0.001", "p0_001"),
            ("100", "p100"),
        ] {
            assert_eq!(
                (p(text).to_string(), p(text).name()),
                (text.into(), name.into())
            );
        }
        for text in [
            "0",
            "100.1",
            "-1",
            "95%",
            "",
            "1.",
            ".5",
            "9.9999",
            "1e2",
            "99999999999",
        ] {
            assert!(text.parse::<Percentile>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_nearest_rank_is_one_of_the_values() {
        let mut values = [15.0, 20.0, 35.0, 40.0, 50.0];
        for (percentile, value) in [
            ("5", 15.0),
            ("30", 20.0),
            ("40", 20.0),
            ("50", 35.0),
            ("100", 50.0),
        ] {
            assert_eq!(p(percentile).of(&mut values), Some(value), "{percentile}");
        }
        assert_eq!(p("95").of(&mut []), None);
        // 95 % of 20 is exactly the 19th. In floating point, 0.95 * 20 may be more than 19.
        assert_eq!(p("95").rank(20), Some(18));
        assert_eq!(p("95").rank(21), Some(19));
    }

    proptest! {
        #[test]
        fn as_many_values_are_at_most_the_percentile_as_it_says(
            mut values in prop::collection::vec(0.0_f64..9.0, 1..60),
            thousandths in 1_u32..=WHOLE,
        ) {
            let value = Percentile(thousandths).of(&mut values).unwrap();
            let share = |is: &dyn Fn(f64) -> bool| values.iter().filter(|v| is(**v)).count() as u64 * u64::from(WHOLE);
            let asked = u64::from(thousandths) * values.len() as u64;
            prop_assert!(share(&|v| v <= value) >= asked);
            prop_assert!(share(&|v| v < value) < asked);
        }
    }
}

//! Distributions of values: exact up to a number of values, then a histogram, so that memory is bounded.

use arrow::datatypes::DataType;
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::unit::Unit;

use crate::sheet::{Datum, Heading};

/// Values that a distribution keeps before it becomes a histogram: 1 MiB.
pub const EXACT_VALUES: usize = 1 << 17;
/// Highest bits of a value's mantissa that name its bucket: 128 buckets for each power of two.
const BUCKET_BITS: u32 = 7;
/// Bits of a mantissa, IEEE 754 binary64.
const MANTISSA_BITS: u32 = 52;
/// Largest relative error of a histogram's quantile: it is at most 1/128 nearer to zero than the value at its rank. Ranks are exact, and so
/// are zero, whole numbers up to 256 and powers of two.
pub const HISTOGRAM_ERROR: f64 = 1.0 / 128.0;
/// Tails are reported while at least this many values lie beyond the first of each pair.
const TAIL_VALUES: f64 = 10.0;

/// Number, mean, standard deviation, extremes and quantiles of values.
#[derive(Clone, Debug)]
pub struct Distribution {
    count: u64,
    mean: f64,
    /// Sum of squared differences from the mean (Welford).
    squares: f64,
    min: f64,
    max: f64,
    most_exact: usize,
    /// All values, until there are buckets.
    values: Vec<f64>,
    buckets: Option<Box<Buckets>>,
}

/// Counts of values by bucket. The exponent and the highest bits of the mantissa form the number of a bucket.
#[derive(Clone, Debug, Default)]
struct Buckets {
    below_zero: Histogram,
    zeros: u64,
    above_zero: Histogram,
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new(EXACT_VALUES)
    }
}

impl Distribution {
    /// An empty distribution that keeps up to `most_exact` values.
    pub fn new(most_exact: usize) -> Self {
        Self {
            count: 0,
            mean: 0.0,
            squares: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            most_exact,
            values: Vec::new(),
            buckets: None,
        }
    }

    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        let from_mean = value - self.mean;
        self.mean += from_mean / self.count as f64;
        self.squares += from_mean * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        match &mut self.buckets {
            Some(buckets) => buckets.add(value, 1),
            None if self.values.len() < self.most_exact => self.values.push(value),
            None => self.fold().add(value, 1),
        }
    }

    /// Adds a value `times` times.
    pub fn add_times(&mut self, value: f64, times: u64) {
        if times <= self.most_exact as u64 {
            return (0..times).for_each(|_| self.add(value));
        }
        let other = Self {
            count: times,
            mean: value,
            squares: 0.0,
            min: value,
            max: value,
            most_exact: 0,
            values: Vec::new(),
            buckets: Some(Box::default()),
        };
        self.merge(&other);
        self.fold().add(value, times);
    }

    /// Adds the values of another one.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let apart = other.mean - self.mean;
        self.count = self.count.saturating_add(other.count);
        self.mean += apart * others / (own + others);
        self.squares += other.squares + apart * apart * own * others / (own + others);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        let fits = self.values.len() + other.values.len() <= self.most_exact;
        match &other.buckets {
            Some(buckets) => self.fold().merge(buckets),
            None if fits && self.is_exact() => self.values.extend_from_slice(&other.values),
            None => {
                let buckets = self.fold();
                other.values.iter().for_each(|value| buckets.add(*value, 1));
            }
        }
    }

    /// The buckets, after moving the values into them.
    fn fold(&mut self) -> &mut Buckets {
        let values = &mut self.values;
        self.buckets.get_or_insert_with(|| {
            let mut buckets = Box::<Buckets>::default();
            let values = std::mem::take(values);
            values.iter().for_each(|value| buckets.add(*value, 1));
            buckets
        })
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; `None` without values.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The largest; `None` without values.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }

    /// Their sum.
    pub fn sum(&self) -> f64 {
        self.mean * self.count as f64
    }

    /// Population standard deviation; `None` without values.
    pub fn stddev(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).max(0.0).sqrt())
    }

    /// Whether quantiles are exact.
    pub fn is_exact(&self) -> bool {
        self.buckets.is_none()
    }

    /// Sorts the values, for quantiles.
    pub fn sorted(&self) -> Sorted<'_> {
        let mut values = self.values.clone();
        values.sort_unstable_by(f64::total_cmp);
        Sorted { of: self, values }
    }
}

/// A distribution with sorted values.
pub struct Sorted<'d> {
    of: &'d Distribution,
    values: Vec<f64>,
}

impl Sorted<'_> {
    /// The `part / whole` quantile: the element at position ceil(q n), at least 1, of the sorted values. `None` without values.
    pub fn quantile(&self, part: u64, whole: u64) -> Option<f64> {
        let of = self.of;
        if of.count == 0 {
            return None;
        }
        let rank = (u128::from(of.count) * u128::from(part)).div_ceil(u128::from(whole.max(1)));
        let rank = u64::try_from(rank).unwrap_or(u64::MAX).clamp(1, of.count);
        match &of.buckets {
            None => self.values.get(rank as usize - 1).copied(),
            Some(buckets) => Some(buckets.at(rank).clamp(of.min, of.max)),
        }
    }

    /// Quantiles 90 %, 95 %, 99 %, 99.5 % and so on, while enough values lie beyond the first of each pair.
    pub fn tails(&self) -> Vec<(f64, f64)> {
        let mut tails = Vec::new();
        let mut whole = 10_u64;
        while self.of.count as f64 / whole as f64 >= TAIL_VALUES && whole < 1 << 40 {
            let halves = [(whole - 1, whole), (2 * whole - 1, 2 * whole)];
            for (part, whole) in halves {
                let percent = 100.0 * part as f64 / whole as f64;
                tails.extend(self.quantile(part, whole).map(|value| (percent, value)));
            }
            whole *= 10;
        }
        tails
    }
}

impl Buckets {
    fn add(&mut self, value: f64, times: u64) {
        if value > 0.0 {
            self.above_zero.add(bucket_of(value), times);
        } else if value < 0.0 {
            self.below_zero.add(bucket_of(-value), times);
        } else {
            self.zeros = self.zeros.saturating_add(times);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.below_zero.merge(&other.below_zero);
        self.above_zero.merge(&other.above_zero);
        self.zeros = self.zeros.saturating_add(other.zeros);
    }

    /// The value at a rank, counted from 1.
    fn at(&self, rank: u64) -> f64 {
        let below = self.below_zero.buckets().iter().rev();
        let below = below.map(|(bucket, times)| (-value_of(*bucket), *times));
        let above = self.above_zero.buckets().iter();
        let above = above.map(|(bucket, times)| (value_of(*bucket), *times));
        let mut seen = 0_u64;
        let mut last = 0.0;
        for (value, times) in below.chain([(0.0, self.zeros)]).chain(above) {
            seen = seen.saturating_add(times);
            last = value;
            if seen >= rank {
                break;
            }
        }
        last
    }
}

/// The bucket of a positive number.
fn bucket_of(value: f64) -> i32 {
    // Exponent and mantissa of positive numbers sort like the numbers. Without the sign, 11 + 7 bits remain.
    i32::try_from(value.to_bits() >> (MANTISSA_BITS - BUCKET_BITS)).unwrap_or(i32::MAX)
}

/// The smallest number of a bucket.
fn value_of(bucket: i32) -> f64 {
    f64::from_bits(u64::from(bucket.unsigned_abs()) << (MANTISSA_BITS - BUCKET_BITS))
}

/// Columns of a distribution. [`cells`] has the values in the same order.
pub fn headings() -> Vec<Heading> {
    let figure = |name| Heading::figure(name, Unit::None);
    vec![
        Heading::count("n", Unit::Count),
        figure("mean"),
        figure("stddev").hidden(),
        figure("min"),
        figure("p50"),
        figure("p90"),
        figure("p99"),
        figure("max"),
        Heading::figure("relative_error", Unit::None).hidden(),
        Heading::list("quantiles", DataType::Float64),
        Heading::list("tail_percents", DataType::Float64),
        Heading::list("tails", DataType::Float64),
    ]
}

/// Values for [`headings`]; quantiles from 1/parts to (parts - 1)/parts.
pub fn cells(of: &Distribution, parts: u64) -> Vec<Datum> {
    scaled_cells(of, parts, 1.0)
}

/// Like [`cells`], with all values times a positive factor.
pub fn scaled_cells(of: &Distribution, parts: u64, factor: f64) -> Vec<Datum> {
    let sorted = of.sorted();
    let figure = |value: Option<f64>| Datum::some_figure(value.map(|value| value * factor));
    let at = |part, whole| figure(sorted.quantile(part, whole));
    let quantiles = (1..parts).filter_map(|part| sorted.quantile(part, parts));
    let (percents, tails): (_, Vec<f64>) = sorted.tails().into_iter().unzip();
    let known = |value| figure((of.count > 0).then_some(value));
    vec![
        Datum::Count(of.count),
        figure(of.mean()),
        figure(of.stddev()),
        known(of.min),
        at(1, 2),
        at(9, 10),
        at(99, 100),
        known(of.max),
        Datum::Figure(if of.is_exact() { 0.0 } else { HISTOGRAM_ERROR }),
        Datum::Figures(quantiles.map(|value| value * factor).collect()),
        Datum::Figures(percents),
        Datum::Figures(tails.into_iter().map(|value| value * factor).collect()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64], most_exact: usize) -> Distribution {
        let mut distribution = Distribution::new(most_exact);
        values.iter().for_each(|value| distribution.add(*value));
        distribution
    }

    #[test]
    fn a_quantile_is_an_element_and_never_before_the_first() {
        let few = of(&[3.0, 1.0, 2.0], 10);
        let sorted = few.sorted();
        for (part, whole, expected) in [(0, 1, 1.0), (1, 3, 1.0), (34, 100, 2.0), (9, 10, 3.0)] {
            assert_eq!(
                sorted.quantile(part, whole),
                Some(expected),
                "{part}/{whole}"
            );
        }
        assert_eq!(of(&[], 10).sorted().quantile(1, 2), None);
    }

    #[test]
    fn tails_end_where_too_few_values_are_beyond() {
        let values: Vec<_> = (1..=1000).map(f64::from).collect();
        let many = of(&values, 10_000);
        let tails = many.sorted().tails();
        assert_eq!(
            tails,
            [(90.0, 900.0), (95.0, 950.0), (99.0, 990.0), (99.5, 995.0)]
        );
        assert!(of(&values[..99], 10_000).sorted().tails().is_empty());
    }

    #[test]
    fn typical_sizes_stay_exact_in_a_histogram() {
        for value in [0.0, 1.0, 255.0, 4096.0, 1_048_576.0, -8192.0] {
            assert_eq!(of(&[value; 3], 1).sorted().quantile(1, 2), Some(value));
        }
    }

    proptest! {
        #[test]
        fn a_histogram_is_within_its_error(values in prop::collection::vec(-1e12..1e12_f64, 1..200), part in 0..100_u64) {
            let (exact, folded) = (of(&values, 1000), of(&values, 3));
            let truth = exact.sorted().quantile(part, 100).unwrap();
            let found = folded.sorted().quantile(part, 100).unwrap();
            prop_assert!((truth - found).abs() <= truth.abs() * HISTOGRAM_ERROR, "{truth} {found}");
            prop_assert_eq!(folded.mean(), exact.mean());
        }

        #[test]
        fn merging_is_as_adding_all(a in prop::collection::vec(-1e6..1e6_f64, 0..50), b in prop::collection::vec(-1e6..1e6_f64, 1..50), most in 0..80_usize) {
            let all = of(&[a.clone(), b.clone()].concat(), most);
            let mut merged = of(&a, most);
            merged.merge(&of(&b, most));
            prop_assert_eq!(all.count(), merged.count());
            prop_assert!((all.stddev().unwrap() - merged.stddev().unwrap()).abs() < 1e-3);
            for part in 0..=10 {
                prop_assert_eq!(all.sorted().quantile(part, 10), merged.sorted().quantile(part, 10));
            }
        }

        #[test]
        fn adding_times_is_adding_that_often(value in -10.0..10.0_f64, times in 0..40_u64, most in 0..80_usize) {
            let once = of(&vec![value; times as usize], most);
            let mut at_once = Distribution::new(most);
            at_once.add_times(value, times);
            prop_assert_eq!(once.count(), at_once.count());
            prop_assert_eq!(once.is_exact(), at_once.is_exact());
        }
    }
}

//! Packing by first fit decreasing, by the joint percentile of summed series.

use crate::percentile::Percentile;

/// Steps of the binary search for the smallest capacity.
const HALVINGS: usize = 40;

/// Demand of one subject: requests per second and bytes per second of each interval.
pub type Demand = [Vec<f64>; 2];

/// Capacity of a target: requests per second and bytes per second; `None` is without limit.
pub type Capacity = [Option<f64>; 2];

/// The targets that a packing may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Targets {
    /// As many targets of this capacity as needed.
    Of(Capacity),
    /// This many targets, each of the smallest capacity that suffices.
    Count(usize),
}

/// A packing.
#[derive(Clone, Debug, PartialEq)]
pub struct Packing {
    /// Indices of the subjects on each target.
    pub targets: Vec<Vec<usize>>,
    /// The capacity of a target.
    pub capacity: Capacity,
}

/// Packs subjects by their demand in the first `fitted` intervals. A subject that alone exceeds the capacity gets a separate target.
pub fn pack(
    demands: &[Demand],
    fitted: usize,
    percentile: Percentile,
    targets: Targets,
) -> Packing {
    let packer = Packer {
        demands,
        fitted,
        percentile,
    };
    match targets {
        Targets::Of(capacity) => packer.first_fit(capacity),
        Targets::Count(count) => packer.for_count(count.max(1)),
    }
}

struct Packer<'d> {
    demands: &'d [Demand],
    fitted: usize,
    percentile: Percentile,
}

impl Packer<'_> {
    fn percentiles(&self, demand: &Demand) -> [f64; 2] {
        [0, 1].map(|which| {
            let mut values = demand[which][..self.fitted].to_vec();
            match self.percentile.rank(values.len()) {
                None => 0.0,
                Some(rank) => *values.select_nth_unstable_by(rank, f64::total_cmp).1,
            }
        })
    }

    /// First fit decreasing: subjects are sorted by the larger of their two shares of the capacity.
    fn first_fit(&self, capacity: Capacity) -> Packing {
        let share = |demand: &Demand| {
            let percentiles = self.percentiles(demand).into_iter().zip(capacity);
            let shares =
                percentiles.map(|(demand, capacity)| capacity.map_or(0.0, |of| demand / of));
            shares.fold(0.0, f64::max)
        };
        let mut order: Vec<_> = self.demands.iter().map(share).zip(0..).collect();
        order.sort_by(|(a, a_place), (b, b_place)| b.total_cmp(a).then(a_place.cmp(b_place)));
        let mut targets: Vec<(Demand, Vec<usize>)> = Vec::new();
        for (_, place) in order {
            let fitting = targets.iter_mut().find_map(|(sum, subjects)| {
                let joint = self.sum(sum, place);
                fits(self.percentiles(&joint), capacity).then_some((joint, sum, subjects))
            });
            match fitting {
                Some((joint, sum, subjects)) => {
                    *sum = joint;
                    subjects.push(place);
                }
                None => {
                    let empty = [0, 1].map(|_| vec![0.0; self.fitted]);
                    targets.push((self.sum(&empty, place), vec![place]));
                }
            }
        }
        let targets = targets.into_iter().map(|(_, subjects)| subjects);
        Packing {
            targets: targets.collect(),
            capacity,
        }
    }

    fn sum(&self, sum: &Demand, place: usize) -> Demand {
        [0, 1].map(|which| {
            let added = sum[which].iter().zip(&self.demands[place][which]);
            added.map(|(a, b)| a + b).collect()
        })
    }

    /// The smallest sufficient share of the joint percentile of all subjects. With fewer subjects than targets, the largest single demand
    /// decides.
    fn for_count(&self, count: usize) -> Packing {
        let empty = [0, 1].map(|_| vec![0.0; self.fitted]);
        let all = (0..self.demands.len()).fold(empty, |sum, place| self.sum(&sum, place));
        let all = self.percentiles(&all);
        // The joint percentile may be 0 while single subjects have larger percentiles.
        let largest = self.demands.iter().map(|demand| self.percentiles(demand));
        let most = largest.fold(all, |most, one| [most[0].max(one[0]), most[1].max(one[1])]);
        let capacity = |share: f64| most.map(|of| Some(of * share));
        let suffices = |packing: &Packing| {
            packing.targets.len() <= count
                && packing.targets.iter().all(|subjects| {
                    subjects.len() > 1
                        || fits(
                            self.percentiles(&self.demands[subjects[0]]),
                            packing.capacity,
                        )
                })
        };
        // With this share all subjects fit on one target, unless percentiles of partial sums exceed that of the whole sum. Then double it.
        let mut high = 1.0;
        let mut best = self.first_fit(capacity(high));
        while !suffices(&best) && high < 1e6 {
            high *= 2.0;
            best = self.first_fit(capacity(high));
        }
        let mut low = 0.0;
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            let packing = self.first_fit(capacity(middle));
            match suffices(&packing) {
                true => (high, best) = (middle, packing),
                false => low = middle,
            }
        }
        best
    }
}

fn fits(demand: [f64; 2], capacity: Capacity) -> bool {
    let mut both = demand.into_iter().zip(capacity);
    both.all(|(demand, capacity)| capacity.is_none_or(|capacity| demand <= capacity))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const P100: &str = "100";

    fn demands(series: &[&[f64]]) -> Vec<Demand> {
        series
            .iter()
            .map(|values| [values.to_vec(), vec![0.0; values.len()]])
            .collect()
    }

    fn packed(series: &[&[f64]], percentile: &str, targets: Targets) -> Packing {
        pack(
            &demands(series),
            series[0].len(),
            percentile.parse().unwrap(),
            targets,
        )
    }

    #[test]
    fn demands_that_take_turns_share_a_target() {
        let capacity = Targets::Of([Some(10.0), None]);
        let turns: [&[f64]; 2] = [&[10.0, 0.0], &[0.0, 10.0]];
        assert_eq!(packed(&turns, P100, capacity).targets, [[0, 1]]);
        let together: [&[f64]; 2] = [&[10.0, 0.0], &[10.0, 0.0]];
        assert_eq!(packed(&together, P100, capacity).targets, [[0], [1]]);
        // At the median, half of the intervals may exceed the capacity.
        assert_eq!(packed(&together, "50", capacity).targets, [[0, 1]]);
    }

    #[test]
    fn the_largest_is_placed_first_and_one_that_exceeds_is_alone() {
        let series: [&[f64]; 5] = [&[2.0], &[25.0], &[7.0], &[3.0], &[8.0]];
        let packing = packed(&series, P100, Targets::Of([Some(10.0), None]));
        assert_eq!(packing.targets, [vec![1], vec![4, 0], vec![2, 3]]);
    }

    #[test]
    fn a_count_of_targets_gets_the_smallest_capacity() {
        let series: [&[f64]; 4] = [&[6.0], &[4.0], &[5.0], &[5.0]];
        let packing = packed(&series, P100, Targets::Count(2));
        assert_eq!(packing.targets.len(), 2);
        assert!((packing.capacity[0].unwrap() - 10.0).abs() < 1e-6);
        assert_eq!(packed(&series, P100, Targets::Count(1)).targets.len(), 1);
        let spread = packed(&series, P100, Targets::Count(9));
        assert!((spread.capacity[0].unwrap() - 6.0).abs() < 1e-6);
        let idle: [&[f64]; 2] = [&[0.0], &[0.0]];
        assert_eq!(packed(&idle, P100, Targets::Count(2)).targets, [[0, 1]]);
    }

    proptest! {
        #[test]
        fn each_is_packed_once_and_a_shared_target_keeps_its_capacity(
            series in prop::collection::vec(prop::collection::vec(0.0_f64..9.0, 6), 1..9),
            capacity in 1.0_f64..20.0,
            count in 1_usize..5,
        ) {
            let series: Vec<&[f64]> = series.iter().map(Vec::as_slice).collect();
            for targets in [Targets::Of([Some(capacity), None]), Targets::Count(count)] {
                let packing = packed(&series, "80", targets);
                let mut all = packing.targets.concat();
                all.sort_unstable();
                prop_assert_eq!(all, (0..series.len()).collect::<Vec<_>>());
                if let Targets::Count(count) = targets {
                    prop_assert!(packing.targets.len() <= count);
                }
                let limit = packing.capacity[0].unwrap();
                for subjects in packing.targets.iter().filter(|subjects| subjects.len() > 1) {
                    let mut sums: Vec<_> = (0..6).map(|at| subjects.iter().map(|s| series[*s][at]).sum::<f64>()).collect();
                    prop_assert!("80".parse::<Percentile>().unwrap().of(&mut sums).unwrap() <= limit * (1.0 + 1e-12));
                }
            }
        }
    }
}

//! Covering arrays of strength two: few tests that cover every possible pair of levels.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// A level of one factor together with a level of another: `(factor, level)` twice, factors ascending.
type Pair = ((usize, usize), (usize, usize));

fn pairs(test: &[usize]) -> impl Iterator<Item = Pair> {
    let level = |factor: usize| (factor, test[factor]);
    (0..test.len()).flat_map(move |a| (a + 1..test.len()).map(move |b| (level(a), level(b))))
}

/// Chooses among feasible tests, each a level per factor, until the chosen ones cover every pair of levels that a feasible test has.
/// Returns their indices, ascending. Deterministic.
///
/// Greedy: takes a test with the most uncovered pairs. Ties go to the test whose levels were taken least, then to the first. It chooses
/// only among feasible tests, so constraints between factors need no special treatment.
pub fn covering(feasible: &[Vec<usize>]) -> Vec<usize> {
    let mut uncovered: BTreeSet<Pair> = feasible.iter().flat_map(|test| pairs(test)).collect();
    let mut taken: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut chosen = Vec::new();
    while !uncovered.is_empty() {
        let worth = |&i: &usize| {
            let test = &feasible[i];
            let gain = pairs(test).filter(|p| uncovered.contains(p)).count();
            let levels = test.iter().enumerate();
            let uses: usize = levels
                .filter_map(|(f, &level)| taken.get(&(f, level)))
                .sum();
            (gain, Reverse(uses), Reverse(i))
        };
        let best = (0..feasible.len()).max_by_key(worth);
        let best = best.expect("an uncovered pair occurs in a test");
        for pair in pairs(&feasible[best]) {
            uncovered.remove(&pair);
        }
        for (factor, &level) in feasible[best].iter().enumerate() {
            *taken.entry((factor, level)).or_default() += 1;
        }
        chosen.push(best);
    }
    chosen.sort_unstable();
    chosen
}

/// A lower bound: two factors need a test for each pair of their levels.
#[cfg(test)]
pub fn lower_bound(feasible: &[Vec<usize>]) -> usize {
    let all: BTreeSet<Pair> = feasible.iter().flat_map(|test| pairs(test)).collect();
    let mut of_factors = BTreeMap::new();
    for (a, b) in all {
        *of_factors.entry((a.0, b.0)).or_insert(0) += 1;
    }
    of_factors.into_values().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 x 3 x 2, except the third level of the first factor with the second level of the last.
    fn feasible() -> Vec<Vec<usize>> {
        let mut tests = Vec::new();
        for a in 0..3 {
            for b in 0..3 {
                for c in 0..2 {
                    if (a, c) != (2, 1) {
                        tests.push(vec![a, b, c]);
                    }
                }
            }
        }
        tests
    }

    #[test]
    fn every_feasible_pair_is_covered() {
        let feasible = feasible();
        let chosen: Vec<Vec<usize>> = covering(&feasible)
            .into_iter()
            .map(|i| feasible[i].clone())
            .collect();
        for (a, b) in feasible.iter().flat_map(|test| pairs(test)) {
            let met = |test: &Vec<usize>| test[a.0] == a.1 && test[b.0] == b.1;
            assert!(chosen.iter().any(met), "{a:?} never meets {b:?}");
        }
        assert!(chosen.len() <= lower_bound(&feasible) + 1, "{chosen:?}");
    }

    #[test]
    fn one_factor_and_nothing_have_no_pairs() {
        assert!(covering(&[vec![0], vec![1]]).is_empty());
        assert!(covering(&[]).is_empty());
    }
}

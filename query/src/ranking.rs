//! Ranks: which rows come first, of files and of operations.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroUsize;

/// The place of each of those that come first, from 0 on.
pub(crate) type Ranks<K> = HashMap<K, usize>;

/// Ranks the first ones by their places, the smallest first; equal places by what they are.
pub(crate) fn rank<K: Ord + Hash>(
    places: impl Iterator<Item = (f64, K)>,
    top: NonZeroUsize,
) -> Ranks<K> {
    let mut ranked: Vec<_> = places.collect();
    ranked.sort_unstable_by(|(x, a), (y, b)| x.total_cmp(y).then_with(|| a.cmp(b)));
    let first = ranked.into_iter().take(top.get()).enumerate();
    first.map(|(rank, (_, of))| (of, rank)).collect()
}

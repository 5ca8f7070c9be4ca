//! Ranks rows of files and of operations.

use std::collections::HashMap;
use std::hash::Hash;
use std::num::NonZeroUsize;

/// The rank of each of the first rows, from 0.
pub(crate) type Ranks<K> = HashMap<K, usize>;

/// Ranks the first `top` keys by value, smallest first. Keys with equal values rank in their own order.
pub(crate) fn rank<K: Ord + Hash>(
    places: impl Iterator<Item = (f64, K)>,
    top: NonZeroUsize,
) -> Ranks<K> {
    let mut ranked: Vec<_> = places.collect();
    ranked.sort_unstable_by(|(x, a), (y, b)| x.total_cmp(y).then_with(|| a.cmp(b)));
    let first = ranked.into_iter().take(top.get()).enumerate();
    first.map(|(rank, (_, of))| (of, rank)).collect()
}

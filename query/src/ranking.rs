//! Ranks rows of any kind: `--top`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::num::NonZeroUsize;

/// The rank of each of the first keys, from 0.
pub(crate) type Ranks<K> = HashMap<K, usize>;

/// A row that is ranked by the sum of all rows with its key.
pub(crate) trait Ranked: Clone {
    /// Adds another row with the same key.
    fn add(&mut self, other: &Self);
}

/// Ranks the first `top` keys by the place of their sums, smallest first. Keys in the same place rank in their own order.
/// Only keys with a row that `meets` the conditions get a rank.
pub(crate) fn rank<'r, R: Ranked + 'r, K: Ord + Hash>(
    rows: impl Iterator<Item = Cow<'r, R>>,
    key: impl Fn(&R) -> K,
    meets: impl Fn(&R) -> bool,
    place: impl Fn(&R) -> f64,
    top: NonZeroUsize,
) -> Ranks<K> {
    let mut sums: HashMap<K, (R, bool)> = HashMap::new();
    for row in rows {
        let meets = meets(&row);
        match sums.entry(key(&row)) {
            Entry::Vacant(entry) => {
                entry.insert((row.into_owned(), meets));
            }
            Entry::Occupied(mut entry) => {
                let (sum, any) = entry.get_mut();
                sum.add(&row);
                *any |= meets;
            }
        }
    }
    let met = sums.into_iter().filter(|(_, (_, meets))| *meets);
    let mut ranked: Vec<_> = met.map(|(key, (sum, _))| (place(&sum), key)).collect();
    ranked.sort_unstable_by(|(x, a), (y, b)| x.total_cmp(y).then_with(|| a.cmp(b)));
    let first = ranked.into_iter().take(top.get()).enumerate();
    first.map(|(rank, (_, key))| (key, rank)).collect()
}

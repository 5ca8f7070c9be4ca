//! Adds up rows that belong together.

use std::hash::Hash;

use indexmap::IndexMap;
use indexmap::map::Entry;

use crate::error::QueryError;

/// A sum of rows. The order of the rows does not change it.
pub(crate) trait Sum {
    /// A row, as it is added.
    type Row<'r>;

    /// The sum of one row.
    fn of(row: Self::Row<'_>) -> Self;

    /// Adds a row.
    fn add(&mut self, row: Self::Row<'_>);

    /// Adds another sum.
    fn absorb(&mut self, other: Self);
}

/// Sums, in the order of their first rows. This order is close to that of an answer, so sorting takes little time.
pub(crate) type Sums<K, S> = IndexMap<K, S, foldhash::fast::RandomState>;

/// Adds up the rows of each key.
#[derive(Debug)]
pub(crate) struct Aggregator<K, S> {
    sums: Sums<K, S>,
    limit: usize,
}

impl<K: Eq + Hash, S: Sum> Aggregator<K, S> {
    /// Without rows. `limit` is the largest number of sums.
    pub(crate) fn new(limit: Option<usize>) -> Self {
        Self {
            sums: Sums::default(),
            limit: limit.unwrap_or(usize::MAX),
        }
    }

    /// Adds a row. Ignores it if there are too many sums: [`Self::check`] fails then.
    pub(crate) fn add(&mut self, key: K, row: S::Row<'_>) {
        if self.sums.len() > self.limit {
            return;
        }
        match self.sums.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(S::of(row));
            }
            Entry::Occupied(mut entry) => entry.get_mut().add(row),
        }
    }

    /// Adds the sums of another aggregator.
    pub(crate) fn absorb(&mut self, other: Self) {
        if self.sums.is_empty() {
            self.sums = other.sums;
            return;
        }
        self.sums.reserve(other.sums.len());
        for (key, sum) in other.sums {
            match self.sums.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(sum);
                }
                Entry::Occupied(mut entry) => entry.get_mut().absorb(sum),
            }
        }
    }

    /// Fails if there are too many sums.
    pub(crate) fn check(&self) -> Result<(), QueryError> {
        match self.sums.len() > self.limit {
            true => Err(QueryError::TooManyRows),
            false => Ok(()),
        }
    }

    /// Returns the sums.
    pub(crate) fn finish(self) -> Sums<K, S> {
        self.sums
    }
}

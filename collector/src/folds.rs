//! Requests that found their ring full, added up in the kernel.

use aya::maps::{ArrayOfMaps, HashMap, MapData, MapError};
use trackiops_schemas::ring::{FOLD_ENTRIES, FOLD_KEY_WORDS, FOLD_VALUE_WORDS, FoldKey, FoldValue};

type Sums = HashMap<MapData, [u64; FOLD_KEY_WORDS], [u64; FOLD_VALUE_WORDS]>;

/// The two generations of a map: the programs add to one, and the other one is empty or being read.
pub struct Folds {
    programs: ArrayOfMaps<MapData, Sums>,
    current: Sums,
    other: Sums,
}

impl Folds {
    /// Makes both, and lets the programs use one.
    pub fn create(mut programs: ArrayOfMaps<MapData, Sums>) -> Result<Self, MapError> {
        let (current, other) = (
            Sums::create(FOLD_ENTRIES, 0)?,
            Sums::create(FOLD_ENTRIES, 0)?,
        );
        programs.set(0, &current, 0)?;
        Ok(Self {
            programs,
            current,
            other,
        })
    }

    /// Takes everything that was added up so far.
    ///
    /// The kernel changes the programs over and waits for those that are in the middle of adding, before
    /// anything is read: a sum is taken whole, and once.
    pub fn take(&mut self) -> Result<Vec<(FoldKey, FoldValue)>, MapError> {
        self.programs.set(0, &self.other, 0)?;
        std::mem::swap(&mut self.current, &mut self.other);
        let mut taken = Vec::new();
        // All keys first: deleting while iterating begins anew.
        for key in self.other.keys().collect::<Result<Vec<_>, _>>()? {
            let value = self.other.get(&key, 0)?;
            self.other.remove(&key)?;
            taken.push((FoldKey::from_words(key), FoldValue::from_words(value)));
        }
        Ok(taken)
    }
}

//! Requests that found their ring full, added up in the kernel.

use std::mem;

use aya::maps::{ArrayOfMaps, HashMap, MapData, MapError};
use trackiops_schemas::ring::{
    FOLD_ENTRIES, FOLD_KEY_WORDS, FOLD_MOUNT_ENTRIES, FOLD_VALUE_WORDS, FOLDS_BY_FILE,
    FOLDS_BY_MOUNT, FoldKey, FoldValue,
};

type Sums = HashMap<MapData, [u64; FOLD_KEY_WORDS], [u64; FOLD_VALUE_WORDS]>;

/// The maps that the programs add to.
pub struct Folds {
    programs: ArrayOfMaps<MapData, Sums>,
    by_file: Generations,
    by_mount: Generations,
}

/// Two generations of a map: the programs add to one, and the other one is empty or being read.
struct Generations {
    index: u32,
    current: Sums,
    other: Sums,
}

impl Folds {
    /// Makes them, and lets the programs use them.
    pub fn create(mut programs: ArrayOfMaps<MapData, Sums>) -> Result<Self, MapError> {
        Ok(Self {
            by_file: Generations::create(&mut programs, FOLDS_BY_FILE, FOLD_ENTRIES)?,
            by_mount: Generations::create(&mut programs, FOLDS_BY_MOUNT, FOLD_MOUNT_ENTRIES)?,
            programs,
        })
    }

    /// Takes everything that was added up so far.
    pub fn take(&mut self) -> Result<Vec<(FoldKey, FoldValue)>, MapError> {
        let mut taken = Vec::new();
        self.by_file.take(&mut self.programs, &mut taken)?;
        self.by_mount.take(&mut self.programs, &mut taken)?;
        Ok(taken)
    }
}

impl Generations {
    fn create(
        programs: &mut ArrayOfMaps<MapData, Sums>,
        index: u32,
        entries: u32,
    ) -> Result<Self, MapError> {
        let (current, other) = (Sums::create(entries, 0)?, Sums::create(entries, 0)?);
        programs.set(index, &current, 0)?;
        Ok(Self {
            index,
            current,
            other,
        })
    }

    /// The kernel changes the programs over and waits for those that are in the middle of adding, before
    /// anything is read: a sum is taken whole, and once.
    fn take(
        &mut self,
        programs: &mut ArrayOfMaps<MapData, Sums>,
        taken: &mut Vec<(FoldKey, FoldValue)>,
    ) -> Result<(), MapError> {
        programs.set(self.index, &self.other, 0)?;
        mem::swap(&mut self.current, &mut self.other);
        // All keys first: iterating over what is being deleted begins anew.
        for key in self.other.keys().collect::<Result<Vec<_>, _>>()? {
            let value = self.other.get(&key, 0)?;
            self.other.remove(&key)?;
            taken.push((FoldKey::from_words(key), FoldValue::from_words(value)));
        }
        Ok(())
    }
}

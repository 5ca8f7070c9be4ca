//! Maps in which the programs add up. A map is read only after the programs have switched to another one.

pub(crate) mod by_call;
pub(crate) mod by_file;
pub(crate) mod by_operation;
pub(crate) mod folded;

use std::sync::atomic::{AtomicU64, Ordering};
use std::{array, mem};

use aya::maps::{ArrayOfMaps, HashMap, MapData, MapError};

use crate::shared_memory::SharedWords;

/// A map whose keys and values are words.
pub type SumMap<const KEY: usize, const VALUE: usize> = HashMap<MapData, [u64; KEY], [u64; VALUE]>;

/// The arrays in which the programs find their current maps.
pub type MapsInUse<const KEY: usize, const VALUE: usize> = ArrayOfMaps<MapData, SumMap<KEY, VALUE>>;

/// Two maps that take turns: the programs add to one, and the other one is empty or being read.
pub struct DoubleBufferedMap<const KEY: usize, const VALUE: usize> {
    index: u32,
    current: SumMap<KEY, VALUE>,
    other: SumMap<KEY, VALUE>,
}

impl<const KEY: usize, const VALUE: usize> DoubleBufferedMap<KEY, VALUE> {
    /// Makes both maps, and passes one to the programs as the element `index`.
    pub fn create(
        programs: &mut MapsInUse<KEY, VALUE>,
        index: u32,
        entries: u32,
    ) -> Result<Self, MapError> {
        let (current, other) = (SumMap::create(entries, 0)?, SumMap::create(entries, 0)?);
        programs.set(index, &current, 0)?;
        Ok(Self {
            index,
            current,
            other,
        })
    }

    /// Takes all sums so far.
    ///
    /// First the kernel switches the programs to the other map and waits for
    /// those that still add to this one. So each sum is taken whole, and once.
    pub fn take(
        &mut self,
        programs: &mut MapsInUse<KEY, VALUE>,
        mut each: impl FnMut([u64; KEY], [u64; VALUE]),
    ) -> Result<(), MapError> {
        programs.set(self.index, &self.other, 0)?;
        mem::swap(&mut self.current, &mut self.other);
        // All keys first: deleting while iterating would start the iteration over.
        for key in self.other.keys().collect::<Result<Vec<_>, _>>()? {
            let value = self.other.get(&key, 0)?;
            self.other.remove(&key)?;
            each(key, value);
        }
        Ok(())
    }
}

/// Detects maps with new sums by the programs' counts. Without it the kernel would scan
/// empty maps from end to end.
pub struct BegunCounts<const MAPS: usize> {
    counts: SharedWords,
    seen: [u64; MAPS],
}

impl<const MAPS: usize> BegunCounts<MAPS> {
    /// `counts` has the number of sums begun in each map, by index.
    pub fn new(counts: SharedWords) -> Self {
        Self {
            counts,
            seen: [0; MAPS],
        }
    }

    /// Whether a sum was begun in a map since the last call. Call it before the map is taken: sums
    /// that are begun in between are reported by the next call.
    pub fn is_new(&mut self, index: u32) -> bool {
        let index = index as usize;
        match (self.counts.words().get(index), self.seen.get_mut(index)) {
            (Some(count), Some(seen)) => {
                let count = count.load(Ordering::Acquire);
                mem::replace(seen, count) != count
            }
            _ => false,
        }
    }
}

/// Words that programs may write, each read with one load.
fn load_words<const WORDS: usize>(words: &[AtomicU64]) -> [u64; WORDS] {
    let mut words = words.iter().map(|word| word.load(Ordering::Relaxed));
    array::from_fn(|_| words.next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    #[test]
    fn what_was_begun_is_told_once_and_for_its_map_alone() {
        let array = memfd_create("begun", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&array, 16).unwrap();
        let programs = SharedWords::map(&array, 2).unwrap();
        let mut begun = BegunCounts::<2>::new(SharedWords::map(&array, 2).unwrap());
        assert!(!begun.is_new(0) && !begun.is_new(1));
        programs.words()[1].fetch_add(2, Ordering::Relaxed);
        assert!(!begun.is_new(0) && begun.is_new(1));
        assert!(!begun.is_new(1));
    }
}

//! Maps that the programs add up in, and that are taken away from them to be read.

use std::mem;

use aya::maps::{ArrayOfMaps, HashMap, MapData, MapError};

/// A map, its keys and values in words.
pub type Sums<const KEY: usize, const VALUE: usize> = HashMap<MapData, [u64; KEY], [u64; VALUE]>;

/// Where the programs find their maps.
pub type InUse<const KEY: usize, const VALUE: usize> = ArrayOfMaps<MapData, Sums<KEY, VALUE>>;

/// Two generations of a map: the programs add to one, and the other one is empty or being read.
pub struct Exchanged<const KEY: usize, const VALUE: usize> {
    index: u32,
    current: Sums<KEY, VALUE>,
    other: Sums<KEY, VALUE>,
}

impl<const KEY: usize, const VALUE: usize> Exchanged<KEY, VALUE> {
    /// Makes them, and lets the programs use one as the element `index`.
    pub fn create(
        programs: &mut InUse<KEY, VALUE>,
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

    /// Whether nothing was added up since the last look. One system call, unlike taking it.
    pub fn is_empty(&self) -> bool {
        self.current.keys().next().is_none()
    }

    /// Takes what was added up so far.
    ///
    /// The kernel changes the programs over and waits for those that are in the middle of adding, before
    /// anything is read: a sum is taken whole, and once.
    pub fn take(
        &mut self,
        programs: &mut InUse<KEY, VALUE>,
        mut each: impl FnMut([u64; KEY], [u64; VALUE]),
    ) -> Result<(), MapError> {
        programs.set(self.index, &self.other, 0)?;
        mem::swap(&mut self.current, &mut self.other);
        // All keys first: iterating over what is being deleted begins anew.
        for key in self.other.keys().collect::<Result<Vec<_>, _>>()? {
            let value = self.other.get(&key, 0)?;
            self.other.remove(&key)?;
            each(key, value);
        }
        Ok(())
    }
}

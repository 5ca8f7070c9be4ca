//! RPCs of every procedure, added up in the kernel.

use std::array;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::{Array, MapData, MapError};
use trackiops_schemas::histogram;
use trackiops_schemas::op_sums::{
    OP_BUCKET_SHIFT, OP_CELL_BITS, OP_CELLS, OP_END_OCTAVE, OP_ENTRIES, OP_FIRST_OCTAVE,
    OP_KEY_WORDS, OP_PLACES, OP_TAKEN, OP_VALUE_WORDS, OP_WINDOW_ENTRIES, OPS_BY_PROCEDURE,
    OPS_BY_WINDOW, OpKey, OpTable, OpValue,
};

use crate::shared::SharedWords;
use crate::sums::{Exchanged, InUse};

/// Where the programs add up.
pub struct OpSums {
    programs: InUse<OP_KEY_WORDS, OP_VALUE_WORDS>,
    table: Table,
    by_procedure: Exchanged<OP_KEY_WORDS, OP_VALUE_WORDS>,
    by_window: Exchanged<OP_KEY_WORDS, OP_VALUE_WORDS>,
    lost: Array<MapData, u64>,
}

impl OpSums {
    /// Makes the maps, and lets the programs use them. `table` is an [`OpTable`].
    pub fn create(
        mut programs: InUse<OP_KEY_WORDS, OP_VALUE_WORDS>,
        table: SharedWords,
        lost: Array<MapData, u64>,
    ) -> Result<Self, MapError> {
        let sums = |programs: &mut _, index, entries| Exchanged::create(programs, index, entries);
        Ok(Self {
            by_procedure: sums(&mut programs, OPS_BY_PROCEDURE, OP_ENTRIES)?,
            by_window: sums(&mut programs, OPS_BY_WINDOW, OP_WINDOW_ENTRIES)?,
            table: Table(table),
            programs,
            lost,
        })
    }

    /// Takes everything that was added up so far. Nothing is taken away where there is nothing.
    pub fn take(&mut self, mut each: impl FnMut(OpKey, OpValue)) -> Result<(), MapError> {
        let half = self.table.exchange();
        // Taking a map waits for the programs that still add to what was taken away from them, be it that half.
        if half.is_some() || !self.by_procedure.is_empty() {
            let programs = &mut self.programs;
            self.by_procedure.take(programs, |key, value| {
                each(OpKey::from_words(key), OpValue::from_words(&value));
            })?;
        }
        if let Some(half) = half {
            self.table.drain(half, &mut each);
        }
        if !self.by_window.is_empty() {
            let programs = &mut self.programs;
            self.by_window.take(programs, |key, value| {
                each(OpKey::from_words(key), OpValue::from_words(&value));
            })?;
        }
        Ok(())
    }

    /// RPCs for which there was no room, since the programs were loaded.
    pub fn lost(&self) -> Result<u64, MapError> {
        self.lost.get(&0, 0)
    }
}

/// An [`OpTable`] that the programs add to.
struct Table(SharedWords);

impl Table {
    /// Lets the programs add to the other half, if anything is in theirs. Programs that are in the middle of adding
    /// go on in the one that is returned.
    fn exchange(&self) -> Option<usize> {
        let current = self.0.words().get(offset_of!(OpTable, half) / 8)?;
        let half = current.load(Ordering::Relaxed) as usize & 1;
        let is_used = self
            .owners(half)
            .any(|owner| OpKey::from_words(taken(owner)).procedure != 0);
        is_used.then(|| {
            current.store(1 - half as u64, Ordering::SeqCst);
            half
        })
    }

    /// Takes what is in a half that no program adds to any more.
    fn drain(&self, half: usize, each: &mut impl FnMut(OpKey, OpValue)) {
        let sums = self.part(offset_of!(OpTable, sums), half, OP_VALUE_WORDS);
        for (owner, sum) in self.owners(half).zip(sums) {
            let key = OpKey::from_words(taken(owner));
            if key.procedure == 0 {
                continue;
            }
            if key.procedure != OP_TAKEN {
                each(key, OpValue::from_words(&taken(sum)));
            }
            let words = owner.iter().chain(sum);
            words.for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }

    fn owners(&self, half: usize) -> impl Iterator<Item = &[AtomicU64]> {
        self.part(offset_of!(OpTable, owners), half, OP_KEY_WORDS)
    }

    /// Members of a half, of `words` each, whose first one is at the offset in bytes.
    fn part(&self, offset: usize, half: usize, words: usize) -> impl Iterator<Item = &[AtomicU64]> {
        let members = self.0.words().get(offset / 8..).unwrap_or_default();
        members
            .chunks_exact(words)
            .skip(half * OP_PLACES)
            .take(OP_PLACES)
    }
}

fn taken<const WORDS: usize>(words: &[AtomicU64]) -> [u64; WORDS] {
    let mut words = words.iter().map(|word| word.load(Ordering::Relaxed));
    array::from_fn(|_| words.next().unwrap_or_default())
}

/// What the programs find buckets by, these counted from [`first_bucket`].
pub fn cells() -> [u64; OP_CELLS] {
    let mut cells = [0; OP_CELLS];
    let known = histogram::cells(OP_FIRST_OCTAVE, OP_END_OCTAVE);
    let places = cells.iter_mut().skip(1 << OP_CELL_BITS);
    for (cell, (bucket, last_ns)) in places.zip(known) {
        let index = u64::from((bucket - first_bucket()).unsigned_abs());
        // A time beyond the last one carries over into the bucket.
        let to_carry = (1 << OP_BUCKET_SHIFT) - 1 - last_ns.min((1 << OP_BUCKET_SHIFT) - 1);
        *cell = (index << OP_BUCKET_SHIFT) + to_carry;
    }
    cells
}

/// The bucket that the programs know as the first.
pub fn first_bucket() -> i16 {
    histogram::bucket_of(1 << OP_FIRST_OCTAVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trackiops_schemas::op_sums::OP_BUCKETS;

    /// As the programs find it.
    fn bucket_of(cells: &[u64; OP_CELLS], ns: u64) -> usize {
        let ns = ns.clamp(1 << OP_FIRST_OCTAVE, (1 << OP_END_OCTAVE) - 1);
        let octave = ns.ilog2();
        let above = octave - OP_FIRST_OCTAVE;
        let place = u64::from(above << OP_CELL_BITS) + (ns >> (octave - OP_CELL_BITS));
        ((cells[place as usize] + ns) >> OP_BUCKET_SHIFT) as usize
    }

    proptest! {
        #[test]
        fn the_buckets_of_the_programs_are_those_of_histograms(ns: u64, octaves in 0..64_u32) {
            let ns = ns >> octaves;
            let known = ns.clamp(1 << OP_FIRST_OCTAVE, (1 << OP_END_OCTAVE) - 1);
            let bucket = bucket_of(&cells(), ns);
            prop_assert!(bucket < OP_BUCKETS);
            prop_assert_eq!(bucket as i16 + first_bucket(), histogram::bucket_of(known));
        }
    }

    #[test]
    fn all_buckets_have_room() {
        assert_eq!(bucket_of(&cells(), 0), 0);
        assert_eq!(bucket_of(&cells(), u64::MAX), OP_BUCKETS - 2);
    }
}

//! RPCs of every procedure, added up in the kernel.

use aya::maps::{Array, MapData, MapError};
use trackiops_schemas::histogram;
use trackiops_schemas::op_sums::{
    OP_BUCKET_BITS, OP_CELLS, OP_END_OCTAVE, OP_ENTRIES, OP_FIRST_OCTAVE, OP_KEY_WORDS,
    OP_VALUE_WORDS, OP_WINDOW_ENTRIES, OPS_BY_PROCEDURE, OPS_BY_WINDOW, OpKey, OpValue,
};

use crate::sums::{Exchanged, InUse};

/// The maps that the programs add to.
pub struct OpSums {
    programs: InUse<OP_KEY_WORDS, OP_VALUE_WORDS>,
    by_procedure: Exchanged<OP_KEY_WORDS, OP_VALUE_WORDS>,
    by_window: Exchanged<OP_KEY_WORDS, OP_VALUE_WORDS>,
    lost: Array<MapData, u64>,
}

impl OpSums {
    /// Makes them, and lets the programs use them.
    pub fn create(
        mut programs: InUse<OP_KEY_WORDS, OP_VALUE_WORDS>,
        lost: Array<MapData, u64>,
    ) -> Result<Self, MapError> {
        let sums = |programs: &mut _, index, entries| Exchanged::create(programs, index, entries);
        Ok(Self {
            by_procedure: sums(&mut programs, OPS_BY_PROCEDURE, OP_ENTRIES)?,
            by_window: sums(&mut programs, OPS_BY_WINDOW, OP_WINDOW_ENTRIES)?,
            programs,
            lost,
        })
    }

    /// Takes everything that was added up so far. Nothing is taken away where there is nothing.
    pub fn take(&mut self, mut each: impl FnMut(OpKey, OpValue)) -> Result<(), MapError> {
        for sums in [&mut self.by_procedure, &mut self.by_window] {
            if !sums.is_empty() {
                sums.take(&mut self.programs, |key, value| {
                    each(OpKey::from_words(key), OpValue::from_words(&value));
                })?;
            }
        }
        Ok(())
    }

    /// RPCs for which there was no room, since the programs were loaded.
    pub fn lost(&self) -> Result<u64, MapError> {
        self.lost.get(&0, 0)
    }
}

/// What the programs find buckets by, these counted from [`first_bucket`].
pub fn cells() -> [u64; OP_CELLS] {
    let mut cells = [0; OP_CELLS];
    let known = histogram::cells(OP_FIRST_OCTAVE, OP_END_OCTAVE);
    for (cell, (bucket, last_ns)) in cells.iter_mut().zip(known) {
        let index = u64::from((bucket - first_bucket()).unsigned_abs());
        *cell = last_ns << OP_BUCKET_BITS | index;
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
    use trackiops_schemas::op_sums::{OP_BUCKETS, OP_CELL_BITS};

    /// As the programs find it.
    fn bucket_of(cells: &[u64; OP_CELLS], ns: u64) -> usize {
        let ns = ns.clamp(1 << OP_FIRST_OCTAVE, (1 << OP_END_OCTAVE) - 1);
        let octave = ns.ilog2();
        let below = (ns >> (octave - OP_CELL_BITS)) & ((1 << OP_CELL_BITS) - 1);
        let cell = cells[((octave - OP_FIRST_OCTAVE) << OP_CELL_BITS) as usize + below as usize];
        let bucket = cell & ((1 << OP_BUCKET_BITS) - 1);
        bucket as usize + usize::from(ns > cell >> OP_BUCKET_BITS)
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

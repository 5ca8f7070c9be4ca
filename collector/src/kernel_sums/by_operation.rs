//! RPCs of every procedure, added up in the kernel.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use aya::maps::{Array, MapData, MapError};
use trackiops_schemas::ebpf::op_sums::{
    OP_BUCKET_SHIFT, OP_CELL_BITS, OP_CELLS, OP_END_OCTAVE, OP_ENTRIES, OP_FIRST_OCTAVE,
    OP_HALF_WORDS, OP_KEY_WORDS, OP_PLACES, OP_TAKEN, OP_VALUE_WORDS, OP_WINDOW_ENTRIES,
    OPS_BY_PROCEDURE, OPS_BY_WINDOW, OPS_MAPS, OpHalf, OpKey, OpTable, OpValue,
};
use trackiops_schemas::histogram;
use trackiops_schemas::time::Granularity;
use zerocopy::transmute;

use crate::clock::ClockSample;
use crate::kernel_sums::{BegunCounts, DoubleBufferedMap, MapsInUse, load_words};
use crate::shared_memory::SharedWords;

/// The table and the maps that the programs add to.
pub struct OpSums {
    programs: MapsInUse<OP_KEY_WORDS, OP_VALUE_WORDS>,
    table: DoubleBufferedTable,
    by_procedure: DoubleBufferedMap<OP_KEY_WORDS, OP_VALUE_WORDS>,
    by_window: DoubleBufferedMap<OP_KEY_WORDS, OP_VALUE_WORDS>,
    begun: BegunCounts<OPS_MAPS>,
    lost: Array<MapData, u64>,
}

impl OpSums {
    /// Makes the maps, and passes them to the programs. `table` is an [`OpTable`]; `begun` counts
    /// the sums begun in each map.
    pub fn create(
        mut programs: MapsInUse<OP_KEY_WORDS, OP_VALUE_WORDS>,
        table: SharedWords,
        begun: SharedWords,
        lost: Array<MapData, u64>,
        granularity: Granularity,
        clock: ClockSample,
    ) -> Result<Self, MapError> {
        let sums =
            |programs: &mut _, index, entries| DoubleBufferedMap::create(programs, index, entries);
        Ok(Self {
            by_procedure: sums(&mut programs, OPS_BY_PROCEDURE, OP_ENTRIES)?,
            by_window: sums(&mut programs, OPS_BY_WINDOW, OP_WINDOW_ENTRIES)?,
            table: DoubleBufferedTable {
                words: table,
                granularity,
                clock,
            },
            programs,
            begun: BegunCounts::new(begun),
            lost,
        })
    }

    /// Sets the programs' clock.
    pub fn set_clock(&mut self, sample: ClockSample) {
        self.table.set_clock(sample);
    }

    /// Takes all sums so far. Maps without new sums are skipped, unless the
    /// table has some.
    pub fn take(&mut self, mut each: impl FnMut(OpKey, OpValue)) -> Result<(), MapError> {
        let half = self.table.exchange();
        let programs = &mut self.programs;
        let mut sum = |key, value: [u64; OP_VALUE_WORDS]| {
            each(transmute!(key), transmute!(value));
        };
        // Taking a map waits for the programs that still add to exchanged memory. That includes
        // the half of the table.
        let is_new = self.begun.is_new(OPS_BY_PROCEDURE);
        if half.is_some() || is_new {
            self.by_procedure.take(programs, &mut sum)?;
        }
        if let Some(half) = half {
            self.table.drain(half, &mut sum);
        }
        if self.begun.is_new(OPS_BY_WINDOW) {
            self.by_window.take(programs, &mut sum)?;
        }
        Ok(())
    }

    /// RPCs for which there was no room, since the programs were loaded.
    pub fn lost(&self) -> Result<u64, MapError> {
        self.lost.get(&0, 0)
    }
}

/// An [`OpTable`] that the programs add to.
struct DoubleBufferedTable {
    words: SharedWords,
    granularity: Granularity,
    clock: ClockSample,
}

impl DoubleBufferedTable {
    /// Sets the begin of the half's window by this clock.
    fn set_clock(&mut self, sample: ClockSample) {
        self.clock = sample;
        let half = self.half_in_use();
        if let Some(window) = self.word(half, offset_of!(OpHalf, window)) {
            self.set_begin(half, window.load(Ordering::Relaxed));
        }
    }

    /// Assigns the half to this window.
    fn set_window(&self, half: usize, window: u64) {
        self.set_begin(half, window);
        if let Some(word) = self.word(half, offset_of!(OpHalf, window)) {
            word.store(window, Ordering::Relaxed);
        }
    }

    fn set_begin(&self, half: usize, window: u64) {
        if let Some(word) = self.word(half, offset_of!(OpHalf, begin_ns)) {
            let begin_ns = begin_ns(window, self.clock.offset_ns, self.granularity);
            word.store(begin_ns, Ordering::Relaxed);
        }
    }

    fn half_in_use(&self) -> usize {
        let word = self.words.words().get(offset_of!(OpTable, half) / 8);
        word.map_or(0, |half| half.load(Ordering::Relaxed) as usize & 1)
    }

    /// Switches the programs to the other half. Returns the previous one if it has any sums.
    /// Programs that are adding finish in it.
    fn exchange(&self) -> Option<usize> {
        let (half, other) = match self.half_in_use() {
            0 => (0, 1),
            _ => (1, 0),
        };
        self.set_window(other, window_of(self.clock, self.granularity));
        let current = self.words.words().get(offset_of!(OpTable, half) / 8)?;
        current.store(other as u64, Ordering::SeqCst);
        self.owners(half)
            .any(|owner| key_of(owner).procedure != 0)
            .then_some(half)
    }

    /// Takes the sums of a half to which no program adds any more.
    fn drain(
        &self,
        half: usize,
        each: &mut impl FnMut([u64; OP_KEY_WORDS], [u64; OP_VALUE_WORDS]),
    ) {
        let sums = self.part(half, offset_of!(OpHalf, sums), OP_VALUE_WORDS);
        for (owner, sum) in self.owners(half).zip(sums) {
            let key = load_words(owner);
            let OpKey { procedure, .. } = transmute!(key);
            if procedure == 0 {
                continue;
            }
            if procedure != OP_TAKEN {
                each(key, load_words(sum));
            }
            let words = owner.iter().chain(sum);
            words.for_each(|word| word.store(0, Ordering::Relaxed));
        }
    }

    fn owners(&self, half: usize) -> impl Iterator<Item = &[AtomicU64]> {
        self.part(half, offset_of!(OpHalf, owners), OP_KEY_WORDS)
    }

    /// The entries of a half, of `words` words each, from this byte offset on.
    fn part(&self, half: usize, offset: usize, words: usize) -> impl Iterator<Item = &[AtomicU64]> {
        let members = self.half(half).get(offset / 8..).unwrap_or_default();
        members.chunks_exact(words).take(OP_PLACES)
    }

    fn word(&self, half: usize, offset: usize) -> Option<&AtomicU64> {
        self.half(half).get(offset / 8)
    }

    fn half(&self, half: usize) -> &[AtomicU64] {
        let halves = self.words.words().get(offset_of!(OpTable, halves) / 8..);
        let mut halves = halves.unwrap_or_default().chunks_exact(OP_HALF_WORDS);
        halves.nth(half).unwrap_or_default()
    }
}

/// The current window, as in [`OpKey::window`].
fn window_of(clock: ClockSample, granularity: Granularity) -> u64 {
    let utc_ns = clock.now.0.wrapping_add_signed(clock.offset_ns);
    utc_ns / granularity.ns()
}

/// When the window begins by `CLOCK_MONOTONIC`, ns.
fn begin_ns(window: u64, offset_ns: i64, granularity: Granularity) -> u64 {
    let utc_ns = window.wrapping_mul(granularity.ns());
    utc_ns.wrapping_sub(offset_ns.cast_unsigned())
}

fn key_of(owner: &[AtomicU64]) -> OpKey {
    transmute!(load_words::<OP_KEY_WORDS>(owner))
}

/// The table by which the programs find buckets, counted from [`first_bucket`].
pub fn bucket_cells() -> [u64; OP_CELLS] {
    let mut cells = [0; OP_CELLS];
    let known = histogram::cells(OP_FIRST_OCTAVE, OP_END_OCTAVE);
    let places = cells.iter_mut().skip(1 << OP_CELL_BITS);
    let first = first_bucket();
    for (cell, (bucket, last_ns)) in places.zip(known) {
        let index = u64::from((bucket - first).unsigned_abs());
        // Adding a time beyond `last_ns` carries over into the number of the bucket.
        let to_carry = (1 << OP_BUCKET_SHIFT) - 1 - last_ns.min((1 << OP_BUCKET_SHIFT) - 1);
        *cell = (index << OP_BUCKET_SHIFT) + to_carry;
    }
    cells
}

/// The histogram's bucket that has number 0 in the programs.
pub fn first_bucket() -> i32 {
    histogram::bucket_of(1 << OP_FIRST_OCTAVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MonotonicNs;
    use proptest::prelude::*;
    use trackiops_schemas::ebpf::op_sums::OP_BUCKETS;

    /// Finds the bucket as the programs do.
    fn bucket_of(cells: &[u64; OP_CELLS], ns: u64) -> usize {
        let ns = ns.min((1 << OP_END_OCTAVE) - 1);
        let above = (ns >> OP_FIRST_OCTAVE).checked_ilog2().unwrap_or(0);
        let shift = above + OP_FIRST_OCTAVE - OP_CELL_BITS;
        let place = u64::from(above << OP_CELL_BITS) + (ns >> shift);
        ((cells[place as usize] + ns) >> OP_BUCKET_SHIFT) as usize
    }

    proptest! {
        #[test]
        fn the_buckets_of_the_programs_are_those_of_histograms(ns: u64, octaves in 0..64_u32) {
            let ns = ns >> octaves;
            let known = ns.clamp(1 << OP_FIRST_OCTAVE, (1 << OP_END_OCTAVE) - 1);
            let bucket = bucket_of(&bucket_cells(), ns);
            prop_assert!(bucket < OP_BUCKETS);
            prop_assert_eq!(bucket as i32 + first_bucket(), histogram::bucket_of(known));
        }
    }

    #[test]
    fn a_window_begins_where_the_clock_of_userspace_has_it_begin() {
        let second = Granularity::from_ms(1000).unwrap();
        let window = |now, offset_ns| {
            let now = MonotonicNs(now);
            let window = window_of(ClockSample { now, offset_ns }, second);
            (window, begin_ns(window, offset_ns, second))
        };
        assert_eq!(window(5_000_000_000, 0), (5, 5_000_000_000));
        assert_eq!(window(5_000_000_000, -1), (4, 4_000_000_001));
        assert_eq!(window(5_200_000_000, 900_000_000), (6, 5_100_000_000));
    }

    #[test]
    fn all_buckets_have_room() {
        assert_eq!(bucket_of(&bucket_cells(), 0), 0);
        assert_eq!(bucket_of(&bucket_cells(), u64::MAX), OP_BUCKETS - 2);
    }
}

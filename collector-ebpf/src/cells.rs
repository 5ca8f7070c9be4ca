//! Histogram cells: each power of two has the same number of cells.

use crate::kernel_memory::{global, opaque};

/// The cell of a time, and the time itself, clamped below `1 << END` ns. Each octave from `1 << FIRST` ns on has `1 << BITS` cells. The first
/// `1 << BITS` cells are for times below the first octave, and have the width of its cells.
#[inline(always)]
pub fn place_of<const FIRST: u32, const END: u32, const BITS: u32>(
    ns: u64,
) -> Option<(usize, u64)> {
    // `opaque`, because the compiler would compare before it shifts, which the verifier does not follow.
    let shifted = |ns: u64, bits: u32| opaque(ns >> bits);
    // The position of the highest set bit, for which BPF has no instruction.
    let (mut ns, mut octave) = (ns, 0);
    let mut high = shifted(ns, FIRST);
    if high > HIGH_MAX {
        ns = ns.min((1 << END) - 1);
        high = shifted(ns, FIRST);
        while high > HIGH_MAX {
            high = shifted(high, HIGH_BITS);
            octave += u64::from(HIGH_BITS);
        }
    }
    octave += u64::from(global(HIGHEST_BITS.get(high as usize)?));
    let place = (octave << BITS) + (ns >> (octave + u64::from(FIRST - BITS)));
    Some((place as usize, ns))
}

/// Width of the numbers whose highest set bit [`HIGHEST_BITS`] knows; it covers most times.
const HIGH_BITS: u32 = 12;

const HIGH_MAX: u64 = (1 << HIGH_BITS) - 1;

/// The position of the highest set bit of a number; 0 for 0, because the first cells are for times below the first octave.
static HIGHEST_BITS: [u8; 1 << HIGH_BITS] = {
    let mut bits = [0; 1 << HIGH_BITS];
    let mut number = 1;
    while number < bits.len() {
        bits[number] = number.ilog2() as u8;
        number += 1;
    }
    bits
};

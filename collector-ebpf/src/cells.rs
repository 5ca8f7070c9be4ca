//! Cells of times, as many to each power of two.

use crate::kernel_memory::{global, opaque};

/// The cell of a time, of `1 << BITS` to an octave from `1 << FIRST` ns on, and the time, which is shortened to what is below `1 << END` ns. The first
/// `1 << BITS` cells are for times below the first octave, as wide as the first cells of that.
#[inline(always)]
pub fn place_of<const FIRST: u32, const END: u32, const BITS: u32>(
    ns: u64,
) -> Option<(usize, u64)> {
    // The compiler would compare before it shifts, which the verifier does not follow.
    let shifted = |ns: u64, bits: u32| opaque(ns >> bits);
    // The place of the highest bit that is set, for which there is no instruction.
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

/// Bits of a number of which [`HIGHEST_BITS`] knows the highest one that is set: those of most times.
const HIGH_BITS: u32 = 12;

const HIGH_MAX: u64 = (1 << HIGH_BITS) - 1;

/// The place of the highest bit that is set in a number; 0 for 0, because the first cells are those of times below the first octave.
static HIGHEST_BITS: [u8; 1 << HIGH_BITS] = {
    let mut bits = [0; 1 << HIGH_BITS];
    let mut number = 1;
    while number < bits.len() {
        bits[number] = number.ilog2() as u8;
        number += 1;
    }
    bits
};

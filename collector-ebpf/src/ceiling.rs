//! Details that userspace has shed. Each program checks this before it does work for a detail.

use crate::{kernel_memory::Memory, maps};

/// Whether a detail, of [`trackiops_schemas::ebpf::ceiling::shed`], is shed.
#[inline(always)]
pub fn is_shed<M: Memory>(detail: u64) -> bool {
    maps::ceiling::<M>().is_some_and(|ceiling| {
        // SAFETY: a word of the map, which userspace writes in one piece.
        let shed = unsafe { (&raw const (*ceiling).shed).read_volatile() };
        shed & detail != 0
    })
}

/// The begin of a call, ns; 0 if it was noted before the detail was last resumed: it may be another call's.
#[inline(always)]
pub fn valid_begin<M: Memory>(begin_ns: u64) -> u64 {
    let since_ns = maps::ceiling::<M>().map_or(0, |ceiling| {
        // SAFETY: an aligned word of the map, which userspace writes with one store.
        unsafe { (&raw const (*ceiling).since_ns).read_volatile() }
    });
    if begin_ns < since_ns { 0 } else { begin_ns }
}

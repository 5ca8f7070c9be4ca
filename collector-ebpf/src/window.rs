//! The windows in which requests are added up.

use crate::{
    globals::WINDOW_NS,
    kernel_memory::{Memory, global},
    maps,
};

/// The window that holds a point of `CLOCK_MONOTONIC`: UTC in ns, divided by the length of a window.
#[inline(always)]
pub fn holding<M: Memory>(monotonic_ns: u64) -> Option<u64> {
    // SAFETY: a word of the map, which userspace writes in one piece.
    let offset_ns = unsafe { maps::clock::<M>()?.read_volatile() };
    let utc_ns = monotonic_ns.wrapping_add_signed(offset_ns);
    utc_ns.checked_div(global(&WINDOW_NS))
}

/// The window of [`holding`], and its begin by `CLOCK_MONOTONIC`, ns.
#[inline(always)]
pub fn begin_of_holding<M: Memory>(monotonic_ns: u64) -> Option<(u64, u64)> {
    let window = holding::<M>(monotonic_ns)?;
    // SAFETY: an aligned word of the map, which userspace writes with one store.
    let offset_ns = unsafe { maps::clock::<M>()?.read_volatile() };
    let begin_ns = window.wrapping_mul(global(&WINDOW_NS));
    Some((window, begin_ns.wrapping_sub(offset_ns.cast_unsigned())))
}

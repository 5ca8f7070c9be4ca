//! The windows in which requests are added up.

use crate::{
    kernel::global,
    maps::{CLOCK, WINDOW_NS},
};

/// The window that holds a point of `CLOCK_MONOTONIC`: UTC in ns, divided by the length of a window.
#[inline(always)]
pub fn holding(monotonic_ns: u64) -> Option<u64> {
    let utc_ns = monotonic_ns.wrapping_add_signed(clock_offset_ns()?);
    utc_ns.checked_div(global(&WINDOW_NS))
}

#[inline(always)]
fn clock_offset_ns() -> Option<i64> {
    // SAFETY: a word of the map, which userspace writes in one piece.
    CLOCK
        .get_ptr(0)
        .map(|offset| unsafe { offset.read_volatile() })
}

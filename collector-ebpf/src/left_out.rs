//! Sums by device of requests that the filter leaves out, so that rows can still be compared with the kernel's counters.

use aya_ebpf::{bindings::BPF_F_MMAPABLE, macros::map, maps::Array};
use trackiops_schemas::ebpf::{
    left_out::{LEFT_OUT_PLACES, LeftOut, LeftOutSum},
    ring::flags,
};

use crate::kernel_memory::{add, cpu, opaque};

/// Places that are tried for a device.
const PROBED: u64 = 4;

/// The sums of each CPU. Userspace makes it larger where there is a filter.
#[map]
static LEFT_OUT_SUMS: Array<LeftOut> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The number of a program's table for a direction.
#[inline(always)]
pub fn table(of: usize, direction: u32) -> u64 {
    2 * of as u64 + u64::from(direction & flags::WRITE != 0)
}

/// Adds a request to the sum of its device. `#[inline(never)]`: cold path.
#[inline(never)]
pub fn count(table: u64, dev: u32, requests: u64, bytes: u64) {
    let Some(tables) = LEFT_OUT_SUMS.get_ptr_mut(cpu()) else {
        return;
    };
    let first = table * LEFT_OUT_PLACES as u64;
    let device = u64::from(dev) + 1;
    let mut place = LEFT_OUT_PLACES as u64 - 1;
    for step in 0..PROBED {
        let tried = (device + step) % (LEFT_OUT_PLACES as u64 - 1);
        let Some(sum) = place_of(tables, first + tried) else {
            return;
        };
        // SAFETY: `place_of` checks the bounds. Only this program takes places in this CPU's table, and it never interrupts itself.
        let taken = unsafe { (&raw const (*sum).device).read_volatile() };
        if taken == 0 {
            // SAFETY: an aligned word of that place, which no other program takes.
            unsafe { (&raw mut (*sum).device).write_volatile(device) };
        }
        if taken == 0 || taken == device {
            place = tried;
            break;
        }
    }
    if let Some(sum) = place_of(tables, first + place) {
        // SAFETY: `place_of` checks the bounds, and the additions are atomic.
        unsafe {
            add!(LeftOutSum, sum.requests, requests);
            add!(LeftOutSum, sum.bytes, bytes);
        }
    }
}

#[inline(always)]
fn place_of(tables: *mut LeftOut, number: u64) -> Option<*mut LeftOutSum> {
    let number = opaque(number);
    let has = (size_of::<LeftOut>() / size_of::<LeftOutSum>()) as u64;
    // SAFETY: `number` is below the number of sums in the element.
    (number < has).then(|| unsafe { tables.cast::<LeftOutSum>().add(number as usize) })
}

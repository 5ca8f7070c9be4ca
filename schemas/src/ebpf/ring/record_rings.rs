//! Rings of records in memory shared by the programs and userspace.
//!
//! A BPF ring buffer takes some 150 instructions for a record, mostly for its lock and for records of variable length.
//! Here a record is a slot, and a counter of taken slots reserves it.

use super::{MAX_RINGS, flags};

/// Read and write positions of a ring.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct RingPositions {
    /// Number of slots taken since the ring was made. The next slot is this number modulo the number of slots.
    pub taken: u64,
    /// Number of slots read. It has a separate cache line, because only userspace writes it.
    pub read: ReadPosition,
}

/// See [`RingPositions::read`].
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadPosition(pub u64);

const _: () = assert!(size_of::<RingPositions>() == 128);

/// Name of the array, of one element, that holds the [`RingPositions`] of [`MAX_RINGS`] rings and then the slots of all
/// rings. Userspace creates it and maps it into memory.
///
/// A slot with an `end_ns` of 0 is free or being written.
pub const RECORD_RINGS_MAP: &str = "RECORD_RINGS";
/// Where the slots begin.
pub const RECORD_SLOTS_AT: usize = MAX_RINGS as usize * size_of::<RingPositions>();
/// Name of the global (`u32`): number of slots of a ring, a power of two, minus 1.
pub const SLOT_MASK_GLOBAL: &str = "SLOT_MASK";
/// Flags of a slot whose record could not be made. No record has these flags.
pub const NO_RECORD: u32 = u32::MAX;

const _: () = assert!(
    RECORD_SLOTS_AT.is_multiple_of(4096),
    "slots begin at a page"
);
const _: () = assert!(NO_RECORD & !flags::ALL != 0);

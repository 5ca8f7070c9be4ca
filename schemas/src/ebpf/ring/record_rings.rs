//! Rings of records in memory that the programs and userspace share.
//!
//! A BPF ring buffer takes some 150 instructions for a record, most of them for its lock and for records of any length. Here a record has
//! a slot, and a word says how many slots were taken.

use super::{MAX_RINGS, flags};

/// How far a ring is written and read.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct RingPositions {
    /// Slots that were taken, since the ring was made. The next one is this number, modulo the number of slots.
    pub taken: u64,
    /// Slots that were read. In a cache line of its own, because only userspace writes it.
    pub read: ReadPosition,
}

/// See [`RingPositions::read`].
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadPosition(pub u64);

const _: () = assert!(size_of::<RingPositions>() == 128);

/// Name of the array, of one element, that holds the rings: the [`RingPositions`] of [`MAX_RINGS`] rings, and then the slots of all
/// rings. Userspace makes it, and maps it into its memory.
///
/// A slot whose `end_ns` is 0 is free, or is being written.
pub const RECORD_RINGS_MAP: &str = "RECORD_RINGS";
/// Where the slots begin.
pub const RECORD_SLOTS_AT: usize = MAX_RINGS as usize * size_of::<RingPositions>();
/// Name of the global (`u32`): how many slots a ring has, a power of two, less 1.
pub const SLOT_MASK_GLOBAL: &str = "SLOT_MASK";
/// In the flags of a slot: its record could not be made. No record has such flags.
pub const NO_RECORD: u32 = u32::MAX;

const _: () = assert!(
    RECORD_SLOTS_AT.is_multiple_of(4096),
    "slots begin at a page"
);
const _: () = assert!(NO_RECORD & !flags::ALL != 0);

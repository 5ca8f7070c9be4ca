//! What a filter has left out of the requests to read and write: userspace compares the kernel's counters with these and rows together.

/// Name of the array, with an element [`LeftOut`] for each CPU where there is a filter; userspace may `mmap` it.
pub const LEFT_OUT_MAP: &str = "LEFT_OUT_SUMS";

/// Requests of one direction to one device that were left out, and their bytes, since the programs were loaded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOutSum {
    /// The device plus 1, 0 while the place is free. Block devices are one: device 0.
    pub device: u64,
    /// Requests, as the kernel counts them: of NFS without those that failed.
    pub requests: u64,
    /// Their bytes, as the kernel counts them: to block devices with those that failed.
    pub bytes: u64,
}

/// Words of a [`LeftOutSum`].
pub const LEFT_OUT_WORDS: usize = size_of::<LeftOutSum>() / 8;

/// Places of a table, a power of two. The last one is for all devices that have no place.
pub const LEFT_OUT_PLACES: usize = 32;

/// A table for each program that counts, so that only one program takes places in it: see [`table`]. Number `2 * n` is for reads, and the next
/// for writes.
pub type LeftOut = [[LeftOutSum; LEFT_OUT_PLACES]; 2 * table::COUNT];

/// Numbers of tables.
pub mod table {
    /// Requests of NFS, by the programs at their completion.
    pub const COMPLETION: usize = 0;
    /// Requests of NFS, by the program at the release of their RPCs.
    pub const RELEASE: usize = 1;
    /// Requests to block devices.
    pub const BLOCK: usize = 2;
    /// How many there are.
    pub const COUNT: usize = 3;
}

//! Requests that a filter excludes. Userspace adds them to the rows before it compares those with the kernel's
//! counters.

/// Name of the array, with an element [`LeftOut`] for each CPU where there is a filter; userspace may `mmap` it.
pub const LEFT_OUT_MAP: &str = "LEFT_OUT_SUMS";

/// Excluded requests of one direction to one device, and their bytes, since the programs were loaded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOutSum {
    /// The device plus 1; 0 if the place is free. All block devices together are device 0.
    pub device: u64,
    /// Requests as the kernel counts them: for NFS, without failed ones.
    pub requests: u64,
    /// Their bytes as the kernel counts them: for block devices, including failed requests.
    pub bytes: u64,
}

/// Words of a [`LeftOutSum`].
pub const LEFT_OUT_WORDS: usize = size_of::<LeftOutSum>() / 8;

/// Places of a table, a power of two. The last one is for all devices without a place.
pub const LEFT_OUT_PLACES: usize = 32;

/// A table for each program that counts, so that only one program takes places in it: see [`table`]. Table `2 * n`
/// counts reads, and `2 * n + 1` writes.
pub type LeftOut = [[LeftOutSum; LEFT_OUT_PLACES]; 2 * table::COUNT];

/// Numbers of tables.
pub mod table {
    /// Requests of NFS, by the programs at their completion.
    pub const COMPLETION: usize = 0;
    /// Requests of NFS, by the program at the release of their RPCs.
    pub const RELEASE: usize = 1;
    /// Requests to block devices.
    pub const BLOCK: usize = 2;
    /// Number of these programs.
    pub const COUNT: usize = 3;
}

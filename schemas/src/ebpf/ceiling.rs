//! Details that the programs shed, because tracing has reached its ceiling.

/// Name of the array, of one element, that holds a [`Ceiling`]; userspace may `mmap` it.
pub const CEILING_MAP: &str = "CEILING";

/// Userspace writes it through `mmap`; programs check it before any other work.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Bits of [`shed`].
    pub shed: u64,
    /// When a detail was last resumed, `CLOCK_MONOTONIC`, ns. Earlier begins of calls are void, because the next begin
    /// of the same thread may have been shed.
    pub since_ns: u64,
}

/// Words of a [`Ceiling`].
pub const CEILING_WORDS: usize = size_of::<Ceiling>() / 8;

/// Bits of [`Ceiling::shed`].
pub mod shed {
    /// Single calls of applications and of traced functions of programs.
    pub const SINGLE_CALLS: u64 = 1 << 0;
    /// How long calls take.
    pub const CALL_TIMES: u64 = 1 << 1;
    /// Calls of applications.
    pub const CALLS: u64 = 1 << 2;
    /// Pages of the cache.
    pub const PAGE_CACHE: u64 = 1 << 3;
    /// Parts of latencies.
    pub const LATENCY_PARTS: u64 = 1 << 4;
    /// Operations by file.
    pub const FILE_OPERATIONS: u64 = 1 << 5;
}

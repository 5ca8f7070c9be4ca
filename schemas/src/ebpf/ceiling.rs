//! Which details the programs leave out, because tracing had reached its ceiling.

/// Name of the array, of one element, that holds a [`Ceiling`]; userspace may `mmap` it.
pub const CEILING_MAP: &str = "CEILING";

/// Userspace writes it through `mmap`, and programs look at it before they do anything else.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// Bits of [`shed`].
    pub shed: u64,
    /// `CLOCK_MONOTONIC` when the details that are recorded now were last taken up, ns. Begins of calls that were noted earlier are
    /// void: the next begin of their thread may have been left out.
    pub since_ns: u64,
}

/// Words of a [`Ceiling`].
pub const CEILING_WORDS: usize = size_of::<Ceiling>() / 8;

/// Details that are left out.
pub mod shed {
    /// Single calls of applications, and of functions of programs.
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

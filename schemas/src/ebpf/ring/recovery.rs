//! Completions for which the kernel skipped a program, recorded when the RPC is released.

use core::mem::offset_of;

/// State shared by userspace and the program at the release of an RPC.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// RPCs that started before this time, `CLOCK_MONOTONIC` in ns, are not recovered. They may have completed before
    /// all programs were attached. Userspace writes it.
    pub since_ns: u64,
    /// Completed requests left to the release, because there was no room for a mark.
    pub requests_left: u64,
    /// The same for operations.
    pub operations_left: u64,
    /// Requests that the program at the release found without a mark and recorded.
    pub requests: u64,
    /// The same for operations.
    pub operations: u64,
}

/// [`Recovery`] in words.
pub const RECOVERY_WORDS: usize = 5;

const _: () = {
    assert!(size_of::<Recovery>() == 8 * RECOVERY_WORDS);
    assert!(offset_of!(Recovery, since_ns) == 0);
    assert!(offset_of!(Recovery, operations) == 32);
};

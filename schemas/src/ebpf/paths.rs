//! Paths as the kernel side reports them.

use core::mem::{offset_of, size_of};

/// Bytes of a [`PathHead`].
pub const HEAD_BYTES: usize = 32;
/// Most bytes that follow a head.
pub const MOST_BYTES: usize = 12 << 10;
/// Most names of a path, including the file's own. That many names fit into [`MOST_BYTES`] at any length.
pub const MOST_NAMES: usize = 40;
/// Bytes of the longest name (`NAME_MAX` of Linux) and its terminator.
pub const NAME_BYTES: usize = 256;

const _: () = assert!((MOST_NAMES + 1) * NAME_BYTES <= MOST_BYTES);
const _: () = assert!(MOST_BYTES <= u16::MAX as usize);

/// The head of a path in the ring.
///
/// The bytes that follow are the names from the file up to the root of the mount, then the root's name,
/// `server:/export`. Each ends with a zero byte, which no name contains.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathHead {
    /// `CLOCK_MONOTONIC`, ns, from which the file has this path.
    pub at_ns: u64,
    /// As in `RequestRecord`; 0 for a rename.
    pub fileid: u64,
    /// As in `RequestRecord`.
    pub dev: u32,
    /// As in `RequestRecord`; 0 for a rename.
    pub handle_hash: u32,
    /// Bytes of the path.
    pub path_bytes: u32,
    /// Bytes of the path before a rename, which follow the path; 0 if this is not a rename.
    pub before_bytes: u16,
    /// 1 if an operation reported the path of a directory; 0 if a request or a rename reported it.
    pub is_directory: u16,
}

const _: () = {
    assert!(size_of::<PathHead>() == HEAD_BYTES);
    assert!(offset_of!(PathHead, at_ns) == 0);
    assert!(offset_of!(PathHead, fileid) == 8);
    assert!(offset_of!(PathHead, dev) == 16);
    assert!(offset_of!(PathHead, handle_hash) == 20);
    assert!(offset_of!(PathHead, path_bytes) == 24);
    assert!(offset_of!(PathHead, before_bytes) == 28);
    assert!(offset_of!(PathHead, is_directory) == 30);
};

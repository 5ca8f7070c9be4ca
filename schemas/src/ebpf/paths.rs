//! Paths as the kernel side tells them.

use core::mem::{offset_of, size_of};

/// Bytes of a [`PathHead`].
pub const HEAD_BYTES: usize = 32;
/// Most bytes that follow a head.
pub const MOST_BYTES: usize = 12 << 10;
/// Most names of a path, the file's own included. As many as can be fit into [`MOST_BYTES`], however long they are.
pub const MOST_NAMES: usize = 40;
/// Bytes of the longest name (`NAME_MAX` of Linux), and of what ends it.
pub const NAME_BYTES: usize = 256;

const _: () = assert!((MOST_NAMES + 1) * NAME_BYTES <= MOST_BYTES);
const _: () = assert!(MOST_BYTES <= u16::MAX as usize);

/// What stands before the bytes of a path in the ring.
///
/// The bytes are the names from the file up to the top of what is mounted, then the top's own name, `server:/export`. Each
/// ends with a zero byte, which is in no name.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathHead {
    /// `CLOCK_MONOTONIC`, ns: the file has this path from then on.
    pub at_ns: u64,
    /// As in `RequestRecord`; 0 in a renaming.
    pub fileid: u64,
    /// As in `RequestRecord`.
    pub dev: u32,
    /// As in `RequestRecord`; 0 in a renaming.
    pub handle_hash: u32,
    /// Bytes of the path.
    pub path_bytes: u32,
    /// Bytes of the path that a file or directory had before it was renamed, which stand behind the others; 0 if this is no renaming.
    pub before_bytes: u16,
    /// 1 if an operation told it, of a directory; 0 if a request or a renaming did.
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

//! Names and sizes of the globals and maps shared by userspace and the programs.

/// Name of the global that holds [`TracepointOffsets`](super::TracepointOffsets).
pub const OFFSETS_GLOBAL: &str = "OFFSETS";
/// Name of the global that holds [`DirectOffsets`](super::DirectOffsets).
pub const DIRECT_GLOBAL: &str = "DIRECT";
/// Name of the global (`u32`) that holds bits of [`parts`](super::parts); 0 if latencies are recorded without parts.
pub const PARTS_GLOBAL: &str = "PARTS";
/// Name of the global (`u32`): 1 if paths are read, else 0.
pub const PATHS_GLOBAL: &str = "PATHS";
/// Name of the ring buffer of paths (`crate::ebpf::paths`).
pub const PATH_RING_MAP: &str = "PATH_RING";
/// Bytes of that ring: some 8,000 paths of usual length between two reads.
pub const PATH_RING_BYTES: u32 = 1 << 20;
/// Name of the map of reported paths.
pub const NAMED_MAP: &str = "NAMED";
/// Entries of that map: 56 bytes each plus 48 bytes of overhead, 3.3 MiB.
pub const NAMED_ENTRIES: u32 = 32_768;
/// Name of the array, of one element (`u64`), that holds the epoch of paths; userspace may `mmap` it. Each epoch
/// reports all paths again.
pub const EPOCH_MAP: &str = "EPOCH";
/// Name of the global (`u32`) that holds bits of [`filters`](super::filters).
pub const FILTER_GLOBAL: &str = "FILTER";
/// Name of the hash map whose keys are the [`FilterKey`](super::FilterKey)s that the filter accepts.
pub const FILTER_MAP: &str = "FILTER_SET";
/// Entries of that map with a filter: 32 bytes each and 16 for its bucket, 3 MiB.
pub const FILTER_ENTRIES: u32 = 65_536;
/// Name of the map that remembers which files are in wanted directories.
pub const INSIDE_MAP: &str = "INSIDE";
/// Entries of that map if the filter has directories: 3 MiB.
pub const INSIDE_ENTRIES: u32 = 32_768;
/// Name of the global (`u64`): bytes of unread data in a ring at which the reader wakes up.
pub const WAKEUP_BYTES_GLOBAL: &str = "WAKEUP_BYTES";
/// Name of the global (`u32`): number of rings, a power of two, minus 1.
pub const RING_MASK_GLOBAL: &str = "RING_MASK";
/// Name of the global (`u64`): length in ns of the windows in which requests are folded.
pub const WINDOW_NS_GLOBAL: &str = "WINDOW_NS";
/// Name of the array of ring buffers. CPU `n` writes into the element `n & RING_MASK`.
pub const RINGS_MAP: &str = "RINGS";
/// Most rings.
pub const MAX_RINGS: u32 = 32;
/// Name of the array of the hash maps, from [`FoldKey`](super::FoldKey) to [`FoldValue`](super::FoldValue), that requests are folded into.
pub const FOLDS_MAP: &str = "FOLDS";
/// Element of that array: sums by file.
pub const FOLDS_BY_FILE: u32 = 0;
/// Element of that array: sums by mount, for files without room, with 0 for their fileid and handle hash.
pub const FOLDS_BY_MOUNT: u32 = 1;
/// Entries of the map by file: 152 bytes each and 16 for its bucket, 2.5 MiB.
pub const FOLD_ENTRIES: u32 = 16_384;
/// Entries of the map by mount.
pub const FOLD_MOUNT_ENTRIES: u32 = 4096;
/// Name of the array, of one element, that holds UTC minus `CLOCK_MONOTONIC` in ns; userspace may `mmap` it.
pub const CLOCK_MAP: &str = "CLOCK";
/// Name of the array, of one element, that holds [`BOOKS_SLOTS`](super::BOOKS_SLOTS) [`Books`](super::Books); userspace may `mmap` it.
pub const BOOKS_MAP: &str = "BOOKS";
/// Name of the array, of one element, that holds the [`Recovery`](super::Recovery); userspace may `mmap` it.
pub const RECOVERY_MAP: &str = "RECOVERY";

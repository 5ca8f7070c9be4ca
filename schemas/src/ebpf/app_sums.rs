//! Sums that the kernel side keeps of read and write calls of applications, and of pages of the page cache. Part of the
//! kernel boundary, like [`crate::ebpf::ring`] and [`crate::ebpf::op_sums`].

use core::mem::{offset_of, size_of, zeroed};

use crate::ebpf::offsets::offsets;

/// The key of a sum of calls or pages.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppKey {
    /// NFS fileid (inode number); 0 in sums by mount.
    pub fileid: u64,
    /// Id of the caller's cgroup; 0 when not known.
    pub cgroup: u64,
    /// The window in which they returned: UTC in ns, divided by the length of a window.
    pub window: u64,
    /// Device of the superblock in the kernel's encoding: `major << 20 | minor`.
    pub dev: u32,
    /// The kernel's CRC32 of the file handle (`nfs_fhandle_hash`); 0 in sums by mount.
    pub handle_hash: u32,
    /// The user (`fsuid`) who opened the file. For pages, the user who added or dirtied them.
    pub uid: u32,
    /// One of [`READS`], [`WRITES`], [`PAGES_ADDED`], [`PAGES_EVICTED`], [`PAGES_DIRTIED`], [`SYNCS`] and [`OPENS`],
    /// with the bits [`LOCAL`] and [`FILE_SYSTEM`].
    pub direction: u32,
}

/// Value of [`AppKey::direction`]: calls that read.
pub const READS: u32 = 0;
/// Value of [`AppKey::direction`]: calls that write.
pub const WRITES: u32 = 1;

/// Value of [`AppKey::direction`]: pages that enter the page cache.
pub const PAGES_ADDED: u32 = 2;
/// Value of [`AppKey::direction`]: pages that leave the page cache.
pub const PAGES_EVICTED: u32 = 3;
/// Value of [`AppKey::direction`]: pages that become dirty.
pub const PAGES_DIRTIED: u32 = 4;
/// Value of [`AppKey::direction`]: calls that wait until a file is on its disk.
pub const SYNCS: u32 = 5;
/// Value of [`AppKey::direction`]: calls that open a file.
pub const OPENS: u32 = 6;
/// Bit of [`AppKey::direction`]: the file is not on NFS. The inode's number and generation identify it.
pub const LOCAL: u32 = 1 << 8;
/// Bit of [`AppKey::direction`]: I/O of the file system itself, or of programs that use its device directly. The inode
/// only keeps several such sums apart.
pub const FILE_SYSTEM: u32 = 1 << 9;
/// Bit of [`AppKey::direction`]: calls that are counted elsewhere or not at all. Nothing is added to their place, which
/// only holds the key for single calls.
pub const UNCOUNTED: u32 = 1 << 10;

/// A sum of calls or pages. Pages use [`AppValue::calls`], [`AppValue::bytes`] and [`AppValue::pid`].
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppValue {
    /// Calls that returned, failed ones included.
    pub calls: u64,
    /// Calls that returned an error.
    pub errors: u64,
    /// Bytes that calls without `O_DIRECT` returned.
    pub bytes: u64,
    /// Calls with `O_DIRECT`; `calls` includes them.
    pub direct_calls: u64,
    /// Bytes that the direct calls asked for.
    pub direct_bytes: u64,
    /// Process (tgid) that made the first call.
    pub pid: u64,
    /// Calls whose begin was also seen.
    pub timed: u64,
    /// Sum of their times from begin to end, ns.
    pub latency_ns_sum: u64,
    /// The longest time, ns.
    pub latency_ns_max: u64,
    /// Index into the array of [`AppLatencies`] that counts these times, plus 1; 0 if none does.
    pub latencies: u64,
}

/// Calls by time: see [`APP_LATENCY_FIRST_OCTAVE`].
pub type AppLatencies = [u32; APP_LATENCY_BUCKETS];

/// Buckets of call times begin at `1 << APP_LATENCY_FIRST_OCTAVE` ns, `1 << APP_LATENCY_BITS` to a power of two. Below
/// that, buckets are as wide as the first of these.
pub const APP_LATENCY_FIRST_OCTAVE: u32 = 9;
/// Buckets end before `1 << APP_LATENCY_END_OCTAVE` ns, 17 s. The last bucket also counts longer times.
pub const APP_LATENCY_END_OCTAVE: u32 = 34;
/// Number of bits below the leading one that select the bucket of a time.
pub const APP_LATENCY_BITS: u32 = 3;
/// Number of buckets.
pub const APP_LATENCY_BUCKETS: usize =
    ((APP_LATENCY_END_OCTAVE - APP_LATENCY_FIRST_OCTAVE + 1) << APP_LATENCY_BITS) as usize;
/// [`AppLatencies`] in words.
pub const APP_LATENCY_WORDS: usize = size_of::<AppLatencies>() / 8;

/// The first and the last time in a bucket, ns.
pub const fn app_latency_bounds(bucket: usize) -> (u64, u64) {
    let in_octave = 1 << APP_LATENCY_BITS;
    let (octave, part) = match bucket / in_octave {
        0 => (0, bucket),
        octave => (octave - 1, in_octave + bucket % in_octave),
    };
    let shift = octave as u32 + APP_LATENCY_FIRST_OCTAVE - APP_LATENCY_BITS;
    let first = (part as u64) << shift;
    (first, first + (1 << shift) - 1)
}

/// When a thread began a timed call. Threads whose ids share their lowest bits share an element; the last one
/// overwrites it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AppBegin {
    /// The thread as `bpf_get_current_pid_tgid` returns it; 0 if no call is in progress.
    pub thread: u64,
    /// `CLOCK_MONOTONIC`, ns.
    pub begin_ns: u64,
}

/// Number of elements, a power of two.
pub const APP_BEGINS: u32 = 4096;

/// A sum of calls that is found without a search. It belongs to one CPU and one program, which never interrupts itself,
/// so it needs no lock. Calls whose place is taken go into the hash maps.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppPlace {
    /// When the window began, `CLOCK_MONOTONIC`, ns; 0 if the place is free. Written last.
    pub begin_ns: u64,
    /// Address of the file's inode.
    pub inode: u64,
    /// The inode's generation. Another file may get the same address and inode number in the same window.
    pub generation: u64,
    /// The key of the sum.
    pub key: AppKey,
    /// The sum.
    pub value: AppValue,
}

/// Programs that count calls or pages. Each has separate places.
pub const APP_PROGRAMS: usize = 15;
/// Places of one program on one CPU, a power of two.
pub const APP_PLACES: usize = 32;
/// The first programs see calls return. If calls are timed, each of their places has an element in the array of
/// [`AppLatencies`].
pub const APP_TIMED_PROGRAMS: usize = 7;
/// Elements of [`AppLatencies`] for one CPU: its first half, then its second half.
pub const APP_LATENCIES_OF_CPU: usize = 2 * APP_TIMED_PROGRAMS * APP_PLACES;

/// The places of a CPU, in two halves. Programs add to one half, while the other one is empty or being read.
#[repr(C)]
pub struct AppPlaces {
    /// The half that the programs add to: 0 or 1.
    pub half: u64,
    /// Number of times that a program took a place.
    pub taken: u64,
    /// The halves.
    pub halves: [[[AppPlace; APP_PLACES]; APP_PROGRAMS]; 2],
}

/// [`AppKey`] in words, as maps hold it.
pub const APP_KEY_WORDS: usize = 5;
/// [`AppValue`] in words, as maps hold it.
pub const APP_VALUE_WORDS: usize = 10;
/// [`AppPlace`] in words.
pub const APP_PLACE_WORDS: usize = size_of::<AppPlace>() / 8;
/// [`AppPlaces`] in words: 135 KiB for each CPU.
pub const APP_PLACES_WORDS: usize = size_of::<AppPlaces>() / 8;
/// A half in words.
pub const APP_HALF_WORDS: usize = APP_PLACE_WORDS * APP_PLACES * APP_PROGRAMS;

const _: () = {
    assert!(size_of::<AppKey>() == 8 * APP_KEY_WORDS);
    assert!(offset_of!(AppKey, dev) == 24);
    assert!(size_of::<AppValue>() == 8 * APP_VALUE_WORDS);
    assert!(size_of::<AppPlace>() == 8 * (3 + APP_KEY_WORDS + APP_VALUE_WORDS));
    assert!(APP_PLACES_WORDS == 2 + 2 * APP_HALF_WORDS);
    assert!(size_of::<AppLatencies>() == 8 * APP_LATENCY_WORDS);
};

impl AppValue {
    /// An empty sum.
    // SAFETY: all fields are integers, for which zero bytes are valid.
    pub const ZERO: Self = unsafe { zeroed() };
}

offsets! {
    /// Byte offsets to the file and arguments of a call. Part of [`crate::ebpf::ring::DirectOffsets`].
    pub struct AppOffsets {
        /// 1 if the offsets are known.
        pub is_known: u32,
        /// `struct file *ki_filp` of `struct kiocb`.
        pub call_file: u32,
        /// `int ki_flags` of `struct kiocb`.
        pub call_flags: u32,
        /// `size_t count` of `struct iov_iter`.
        pub iterator_count: u32,
        /// `struct inode *f_inode` of `struct file`.
        pub file_inode: u32,
        /// `const struct cred *f_cred` of `struct file`.
        pub file_cred: u32,
        /// `struct dentry *f_path.dentry` of `struct file`; 0 if paths cannot be read.
        pub file_entry: u32,
        /// Bits of [`registers`].
        pub registers: u32,
        /// 1 if calls are timed.
        pub is_timed: u32,
    }
}

/// Bits of [`AppOffsets::registers`]: the registers that hold the parameters of a probed function.
pub mod registers {
    /// The registers of x86-64; of 64-bit ARM when clear.
    pub const X86_64: u32 = 1 << 0;
}

/// Name of the array of [`AppPlaces`], one for each CPU; userspace may `mmap` it.
pub const APP_PLACES_MAP: &str = "APP_PLACES";
/// Name of the array of [`AppLatencies`], [`APP_LATENCIES_OF_CPU`] for each CPU; userspace may `mmap` it.
pub const APP_LATENCIES_MAP: &str = "APP_LATENCIES";
/// Name of the array of [`AppBegin`].
pub const APP_BEGINS_MAP: &str = "APP_BEGINS";
/// Name of the array of the hash maps, from [`AppKey`] to [`AppValue`].
pub const APP_CALLS_MAP: &str = "APP_CALLS";
/// Element of that array: sums by file.
pub const APP_CALLS_BY_FILE: u32 = 0;
/// Element of that array: sums by mount, for files without room, with 0 for their fileid and handle hash.
pub const APP_CALLS_BY_MOUNT: u32 = 1;
/// Number of elements of that array.
pub const APP_CALLS_MAPS: usize = 2;
/// Name of the array that counts, for each element, how many sums were begun in it; userspace may `mmap` it.
pub const APP_CALLS_BEGUN_MAP: &str = "APP_CALLS_BEGUN";
/// Entries of the map by file: 120 bytes each and 16 for its bucket, 1.1 MiB, twice.
pub const APP_CALL_ENTRIES: u32 = 8192;
/// Entries of the map by mount.
pub const APP_CALL_MOUNT_ENTRIES: u32 = 1024;

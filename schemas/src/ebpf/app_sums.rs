//! What the kernel side adds up of the calls by which applications read and write, and of pages of the page cache: a part of the
//! boundary, as [`crate::ebpf::ring`] and [`crate::ebpf::op_sums`] are.

use core::mem::{offset_of, size_of, zeroed};

use crate::ebpf::offsets::offsets;

/// What calls, or pages, have in common that are added up.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppKey {
    /// NFS fileid (inode number); 0 in sums of what had no room.
    pub fileid: u64,
    /// Id of the caller's cgroup; 0 when not known.
    pub cgroup: u64,
    /// In which window they returned: UTC in ns, divided by the length of a window.
    pub window: u64,
    /// Device of the superblock in the kernel's encoding: `major << 20 | minor`.
    pub dev: u32,
    /// The kernel's CRC32 of the file handle (`nfs_fhandle_hash`); 0 in sums of what had no room.
    pub handle_hash: u32,
    /// The user (`fsuid`) who opened the file; of pages, who made them come or become dirty.
    pub uid: u32,
    /// [`READS`], [`WRITES`], [`PAGES_ADDED`], [`PAGES_EVICTED`], [`PAGES_DIRTIED`], [`SYNCS`] or [`OPENS`]; and [`LOCAL`] and [`FILE_SYSTEM`].
    pub direction: u32,
}

/// Of [`AppKey::direction`].
pub const READS: u32 = 0;
/// Of [`AppKey::direction`].
pub const WRITES: u32 = 1;

/// Of [`AppKey::direction`]: pages that come into the page cache.
pub const PAGES_ADDED: u32 = 2;
/// Of [`AppKey::direction`]: those that leave it.
pub const PAGES_EVICTED: u32 = 3;
/// Of [`AppKey::direction`]: those that become dirty.
pub const PAGES_DIRTIED: u32 = 4;
/// Of [`AppKey::direction`]: calls that wait until a file is on its disk.
pub const SYNCS: u32 = 5;
/// Of [`AppKey::direction`]: calls that open it.
pub const OPENS: u32 = 6;
/// Bit of [`AppKey::direction`]: of another file system than NFS, by its inode's number and generation.
pub const LOCAL: u32 = 1 << 8;
/// Bit of [`AppKey::direction`]: of that file system itself, or of who uses its device without it. The inode only tells sums of several apart.
pub const FILE_SYSTEM: u32 = 1 << 9;
/// Bit of [`AppKey::direction`]: of calls that are counted elsewhere, or nowhere. Their place only tells what single ones have in common: nothing is
/// added to it.
pub const UNCOUNTED: u32 = 1 << 10;

/// What they add up to. Pages have [`AppValue::calls`], [`AppValue::bytes`] and [`AppValue::pid`].
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppValue {
    /// Calls that returned, failed ones included.
    pub calls: u64,
    /// Those that returned an error.
    pub errors: u64,
    /// Bytes that calls without `O_DIRECT` returned.
    pub bytes: u64,
    /// Calls with `O_DIRECT`, which are among the calls as well.
    pub direct_calls: u64,
    /// Bytes that they asked for.
    pub direct_bytes: u64,
    /// Process (tgid) that made the first of them.
    pub pid: u64,
    /// Calls whose begin was seen, too.
    pub timed: u64,
    /// Sum of their times from begin to end, ns.
    pub latency_ns_sum: u64,
    /// The longest of these, ns.
    pub latency_ns_max: u64,
    /// Element of the array of [`AppLatencies`] in which these times are counted, plus 1; 0 where they are in none.
    pub latencies: u64,
}

/// How many calls took how long: see [`APP_LATENCY_FIRST_OCTAVE`].
pub type AppLatencies = [u32; APP_LATENCY_BUCKETS];

/// Times of calls have buckets from `1 << APP_LATENCY_FIRST_OCTAVE` ns on, `1 << APP_LATENCY_BITS` to a power of two. Below that they are as wide
/// as the first of these.
pub const APP_LATENCY_FIRST_OCTAVE: u32 = 9;
/// They end before `1 << APP_LATENCY_END_OCTAVE` ns, 17 s. What took longer is in the last bucket.
pub const APP_LATENCY_END_OCTAVE: u32 = 34;
/// Highest bits of a time, below the leading one, that choose its bucket.
pub const APP_LATENCY_BITS: u32 = 3;
/// Buckets of times.
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

/// When a thread began a call, where calls are timed. Of the threads whose ids have the same lowest bits, the last one has the place.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AppBegin {
    /// As `bpf_get_current_pid_tgid` names it; 0 where no call is under way.
    pub thread: u64,
    /// By `CLOCK_MONOTONIC`, ns.
    pub begin_ns: u64,
}

/// Places for them, a power of two.
pub const APP_BEGINS: u32 = 4096;

/// Where calls are added up that are found without a search: of one CPU, and of one program, which is never interrupted by itself. So its places
/// need no lock. What finds its place taken goes into the hash maps.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppPlace {
    /// When the window began, by `CLOCK_MONOTONIC`, ns. 0 where the place is free; it is written last.
    pub begin_ns: u64,
    /// Address of the file's inode.
    pub inode: u64,
    /// The inode's generation: another file may have its address and its number in the same window.
    pub generation: u64,
    /// What the calls have in common.
    pub key: AppKey,
    /// What they add up to.
    pub value: AppValue,
}

/// The programs that count calls or pages, each with places of its own.
pub const APP_PROGRAMS: usize = 15;
/// Places of a program on a CPU, a power of two.
pub const APP_PLACES: usize = 32;
/// The first of the programs, which see calls return: where calls are timed, each of their places has an element of the array of [`AppLatencies`].
pub const APP_TIMED_PROGRAMS: usize = 7;
/// These elements of a CPU: of its first half, then of the other.
pub const APP_LATENCIES_OF_CPU: usize = 2 * APP_TIMED_PROGRAMS * APP_PLACES;

/// The places of a CPU, in two halves: the programs add to one of them, and the other one is empty or being read.
#[repr(C)]
pub struct AppPlaces {
    /// The half that the programs add to: 0 or 1.
    pub half: u64,
    /// How often a place was taken.
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
    /// Nothing yet.
    // SAFETY: it is all integers.
    pub const ZERO: Self = unsafe { zeroed() };
}

offsets! {
    /// Where the kernel keeps what a call is about: offsets in bytes. A part of [`crate::ebpf::ring::DirectOffsets`].
    pub struct AppOffsets {
        /// 1 where they are known.
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
        /// `struct dentry *f_path.dentry` of `struct file`; 0 where paths cannot be told.
        pub file_entry: u32,
        /// Bits of [`registers`].
        pub registers: u32,
        /// 1 where calls are timed.
        pub is_timed: u32,
    }
}

/// Where a probed function has its parameters: bits of [`AppOffsets::registers`].
pub mod registers {
    /// In the registers of x86-64; in those of 64-bit ARM when clear.
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
/// Element of that array: sums of the files for which there was no room, with 0 for their fileid and handle hash.
pub const APP_CALLS_BY_MOUNT: u32 = 1;
/// Elements of that array.
pub const APP_CALLS_MAPS: usize = 2;
/// Name of the array that counts, for each of them, how often a sum was begun there; userspace may `mmap` it.
pub const APP_CALLS_BEGUN_MAP: &str = "APP_CALLS_BEGUN";
/// Entries of the map by file: 120 bytes each and 16 for its bucket, 1.1 MiB, twice.
pub const APP_CALL_ENTRIES: u32 = 8192;
/// Entries of the map by mount.
pub const APP_CALL_MOUNT_ENTRIES: u32 = 1024;

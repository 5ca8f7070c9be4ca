//! The maps that programs share with each other and with userspace. Maps of a single module are defined there.

use core::ptr;

use aya_ebpf::{
    bindings::BPF_F_MMAPABLE,
    btf_maps::{ArrayOfMaps, RingBuf},
    macros::{btf_map, map},
    maps::{Array, HashMap, LruHashMap},
};
use trackiops_schemas::ebpf::app_sums::{
    APP_CALLS_MAPS, AppBegin, AppKey, AppLatencies, AppPlaces, AppValue,
};
use trackiops_schemas::ebpf::ceiling::Ceiling;
use trackiops_schemas::ebpf::file_op_sums::{FILE_OPS_MAPS, FileOpKey, FileOpValue};
use trackiops_schemas::ebpf::op_sums::{OPS_MAPS, OpKey, OpTable, OpValue};
use trackiops_schemas::ebpf::ring::{
    BOOKS_SLOTS, Books, FOLD_ENTRIES, FilterKey, FoldKey, FoldValue, MAX_RINGS, Recovery,
    RequestRecord,
};

use crate::{
    kernel_memory::{Memory, add_at, opaque},
    sums::Sums,
};

/// Requests in flight. sunrpc has at most 65,536 slots per TCP transport; NFSv4.1 sessions have
/// far fewer, and the callers' queue depth bounds the requests that wait for a slot. 96 bytes each
/// and 16 per bucket: 7 MiB.
const WAITING_ENTRIES: u32 = 65_536;

/// Threads that initiate or complete requests. An entry is in use for microseconds, so one entry
/// for each CPU would do. But before Linux 6.16 LRU maps move free entries to CPUs by 128 at a time.
/// A map with fewer than 128 entries for each CPU evicts entries in use. 16,384 is enough
/// for 128 CPUs: 1.5 MiB for `LINK_INIT`, 1.25 MiB for `LINK_END`.
const LINK_ENTRIES: u32 = 16_384;

/// A request between its RPC task's begin and its completion.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Waiting {
    pub fileid: u64,
    pub dev: u32,
    pub direction: u32,
    /// The process that initiated it.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its cgroup.
    pub cgroup: u64,
    /// 1 once another task of the same key has begun: from then on an end may be the other's.
    pub shared: u32,
    /// Start of the present attempt.
    pub start_ns: u64,
    /// End of the present attempt and so the start of the next; 0 before the first attempt ends.
    pub next_start_ns: u64,
}

/// What a thread has initiated: the file, the direction and the process.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Initiated {
    pub fileid: u64,
    pub dev: u32,
    pub direction: u32,
    pub pid: u32,
    /// 1 from the initiation to the RPC task's begin, which follows at once; 0 otherwise.
    pub pending: u32,
    /// The process's user.
    pub uid: u32,
    /// The process's cgroup.
    pub cgroup: u64,
}

/// Records of completed requests, on their way to userspace. One ring for each CPU, up to a limit: a ring has a lock.
/// Userspace makes the rings; the size written here is unused.
#[btf_map]
pub static RINGS: ArrayOfMaps<RingBuf<RequestRecord, 4096>, { MAX_RINGS as usize }> =
    ArrayOfMaps::new();

/// Sums of requests for which their ring has no room. To read a map, userspace first puts another one in its place:
/// the kernel returns from that when no program uses the old map any more
/// (`maybe_wait_bpf_programs`, kernel/bpf/syscall.c).
#[btf_map]
pub static FOLDS: ArrayOfMaps<FoldSums, 2> = ArrayOfMaps::new();

/// A map of [`FOLDS`].
pub type FoldSums =
    Sums<{ size_of::<FoldKey>() }, { size_of::<FoldValue>() }, { FOLD_ENTRIES as usize }>;

/// Sums of RPCs, by procedure or by window alone. Read like [`FOLDS`].
#[btf_map]
pub static OPS: ArrayOfMaps<OpSums, OPS_MAPS> = ArrayOfMaps::new();

/// How many sums were begun in each of [`OPS`]: userspace skips maps without sums, because looking for the first entry of an empty map would be
/// its most expensive step on an idle host.
#[map]
pub static OPS_BEGUN: Array<u64> = Array::with_max_entries(OPS_MAPS as u32, BPF_F_MMAPABLE);

/// A map of [`OPS`], as small as possible: userspace makes the maps that are used.
pub type OpSums = Sums<{ size_of::<OpKey>() }, { size_of::<OpValue>() }, 1>;

/// Sums of RPCs by the file that they are about. Read like [`FOLDS`].
#[btf_map]
pub static FILE_OPS: ArrayOfMaps<FileOpSums, FILE_OPS_MAPS> = ArrayOfMaps::new();

/// How many sums were begun in each of [`FILE_OPS`].
#[map]
pub static FILE_OPS_BEGUN: Array<u64> =
    Array::with_max_entries(FILE_OPS_MAPS as u32, BPF_F_MMAPABLE);

/// A map of [`FILE_OPS`], as small as possible.
pub type FileOpSums = Sums<{ size_of::<FileOpKey>() }, { size_of::<FileOpValue>() }, 1>;

/// The initial value of a sum in [`FILE_OPS`].
pub static FILE_OP_BEGIN: FileOpValue = FileOpValue::ZERO;

/// Sums of application calls, one element for each CPU. Userspace makes it larger if calls are counted.
#[map]
pub static APP_PLACES: Array<AppPlaces> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Sums of calls that have no place in [`APP_PLACES`]. Read like [`FOLDS`].
#[btf_map]
pub static APP_CALLS: ArrayOfMaps<AppSums, APP_CALLS_MAPS> = ArrayOfMaps::new();

/// How many sums were begun in each of [`APP_CALLS`].
#[map]
pub static APP_CALLS_BEGUN: Array<u64> =
    Array::with_max_entries(APP_CALLS_MAPS as u32, BPF_F_MMAPABLE);

/// Calls by thread, from the probe at their begin until they return. Userspace makes it larger if calls are probed.
#[map]
pub static APP_CALLS_UNDER_WAY: HashMap<u64, CallUnderWay> = HashMap::with_max_entries(1, 0);

/// Latency histograms of the calls in [`APP_PLACES`]. Userspace makes it larger if calls are timed.
#[map]
pub static APP_LATENCIES: Array<AppLatencies> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Begins of calls, by the lowest bits of the thread's id. Userspace makes it larger if calls are timed.
#[map]
pub static APP_BEGINS: Array<AppBegin> = Array::with_max_entries(1, 0);

/// A call before it returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CallUnderWay {
    /// Address of the `struct file`.
    pub file: u64,
    /// 1 if it bypasses the page cache.
    pub is_direct: u64,
    /// When it began, by `CLOCK_MONOTONIC`, ns; 0 where calls are not timed.
    pub begin_ns: u64,
}

/// A map of [`APP_CALLS`], as small as possible.
pub type AppSums = Sums<{ size_of::<AppKey>() }, { size_of::<AppValue>() }, 1>;

/// The initial value of a sum in [`APP_CALLS`].
pub static APP_CALL_BEGIN: AppValue = AppValue::ZERO;

/// The initial value of a sum in [`FOLDS`]. A global like [`OP_BEGIN`]: the stack has no room for it.
pub static FOLD_BEGIN: FoldValue = FoldValue::ZERO;

/// Most sums of RPCs. Userspace exchanges its halves, reads them and empties them through `mmap`.
#[map]
pub static OP_TABLE: Array<OpTable> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The initial value of a sum in [`OPS`].
pub static OP_BEGIN: OpValue = OpValue::ZERO;

/// Count of RPCs for which there was no room.
#[map]
pub static OPS_LOST: Array<u64> = Array::with_max_entries(1, 0);

/// UTC minus `CLOCK_MONOTONIC`, ns. Userspace writes it through `mmap`, whenever it looks at its clocks.
#[map]
pub static CLOCK: Array<i64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Details that userspace has shed.
#[map]
pub static CEILING: Array<Ceiling> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// What happened to completed requests.
///
/// Userspace reads it through `mmap`. Map operations of bpf(2) would keep programs on classic tracepoints off
/// the caller's CPU (`bpf_disable_instrumentation`, kernel/bpf/syscall.c). On a preemptible kernel that lasts while
/// the caller is preempted.
#[map]
pub static BOOKS: Array<[Books; BOOKS_SLOTS as usize]> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Stand-in for the rings in shared memory, which programs by probe do not have.
#[map]
static NO_RECORD_RINGS: Array<u8> = Array::with_max_entries(1, 0);

/// Counts of the program at the release of an RPC: what it has recovered.
#[map]
pub static RECOVERY: Array<Recovery> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// The keys of wanted requests. Userspace fills it, and makes it larger if there is a filter.
#[map]
pub static FILTER_SET: HashMap<FilterKey, u8> = HashMap::with_max_entries(1, 0);

/// By device and fileid: the period for which the result holds, with the result in the lowest bit: 1 if the file is in a wanted directory.
/// Userspace makes it larger if the filter has directories.
#[map]
pub static INSIDE: LruHashMap<FilterKey, u64> = LruHashMap::with_max_entries(1, 0);

/// By [`TaskKey`]: requests in flight.
#[map]
pub static WAITING: LruHashMap<TaskKey, Waiting> = LruHashMap::with_max_entries(WAITING_ENTRIES, 0);

/// By thread: the request it has just initiated. Entries are emptied, not deleted: a thread that
/// does I/O will do more, and writing in place takes neither lock nor free list.
#[map]
pub static LINK_INIT: LruHashMap<u32, Initiated> = LruHashMap::with_max_entries(LINK_ENTRIES, 0);

/// By thread: the RPC task that has just ended on it, with [`SHARED`] when that may be one of two,
/// [`NO_TASK`] for none. Emptied, not deleted.
///
/// An attempt that the kernel repeats without a completion event leaves its link behind. Nothing reads it:
/// a completion follows an end on its own thread, which overwrites the link.
#[map]
pub static LINK_END: LruHashMap<u32, TaskKey> = LruHashMap::with_max_entries(LINK_ENTRIES, 0);

/// Adds 1 to an element of an array.
#[inline(always)]
pub fn count(array: &Array<u64>, index: u32) {
    if let Some(count) = array.get_ptr_mut(index) {
        // SAFETY: an element of an array, which stays in place while the program runs; the addition is atomic.
        unsafe { add_at::<0, u64>(count, 1) };
    }
}

/// The only element of an array. Its address is part of the instruction where userspace links programs with the map
/// (`collector/src/engine/btf_tracepoints.rs`); elsewhere it needs a lookup. In the object, a word in the named section stands for the element.
macro_rules! only_element {
    ($name:ident: $type:ty, $array:ident, $section:literal) => {
        #[inline(always)]
        pub fn $name<M: Memory>() -> Option<*mut $type> {
            #[unsafe(link_section = $section)]
            static mut PLACE: u64 = 0;
            if !M::SINCE_6_2 {
                return $array.get_ptr_mut(0);
            }
            // The element is larger than the one word that the compiler sees.
            let element = opaque((&raw mut PLACE).expose_provenance() as u64);
            let element = ptr::with_exposed_provenance_mut(element as usize);
            Some(element)
        }
    };
}

only_element!(books: [Books; BOOKS_SLOTS as usize], BOOKS, ".bss.BOOKS");
only_element!(ceiling: Ceiling, CEILING, ".bss.CEILING");
only_element!(clock: i64, CLOCK, ".bss.CLOCK");
only_element!(op_table: OpTable, OP_TABLE, ".bss.OP_TABLE");
only_element!(record_rings: u8, NO_RECORD_RINGS, ".bss.RECORD_RINGS");
only_element!(recovery: Recovery, RECOVERY, ".bss.RECOVERY");

/// `client_id << 32 | task_id`. Task ids alone repeat: from Linux 5.16 on each RPC client counts
/// its own, in 16 bits.
pub type TaskKey = u64;

/// In a key of [`WAITING`]: the request that took up a task id while an earlier one of the same key
/// was still in flight. Ids are 16 bits wide, so a client wraps around within a second while a
/// server holds one request back for minutes.
pub const LATER: TaskKey = 1 << 31;

/// In a link: the task's key is, or has been, that of two tasks in flight.
pub const SHARED: TaskKey = 1 << 30;

/// No task: both ids count from 1 or stay far below the all-ones value.
pub const NO_TASK: TaskKey = u64::MAX;

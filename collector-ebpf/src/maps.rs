//! The maps that programs share with each other and with userspace. Those of one module only are there.

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
/// far fewer, and what waits for a slot is bounded by the callers' own queue depth. 96 bytes each
/// and 16 per bucket: 7 MiB.
const WAITING_ENTRIES: u32 = 65_536;

/// Threads that initiate or complete requests. An entry is in use for microseconds, so the number
/// of CPUs would do; but LRU maps of kernels before 6.16 move free entries to CPUs by 128 at a
/// time, and an LRU map smaller than that times the CPUs evicts entries that are in use. 16,384
/// is enough for 128 CPUs: 1.5 MiB for `LINK_INIT`, 1.25 MiB for `LINK_END`.
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

/// Records of completed requests, on their way to userspace. One ring for each CPU where there are
/// not too many: a ring has a lock. Userspace makes them; the size written here is nobody's.
#[btf_map]
pub static RINGS: ArrayOfMaps<RingBuf<RequestRecord, 4096>, { MAX_RINGS as usize }> =
    ArrayOfMaps::new();

/// Where requests are added up for which their ring has no room. Userspace puts another map in its place
/// to read this one: the kernel returns from that when no program uses the old one any more
/// (`maybe_wait_bpf_programs`, kernel/bpf/syscall.c).
#[btf_map]
pub static FOLDS: ArrayOfMaps<FoldSums, 2> = ArrayOfMaps::new();

/// A map of [`FOLDS`].
pub type FoldSums =
    Sums<{ size_of::<FoldKey>() }, { size_of::<FoldValue>() }, { FOLD_ENTRIES as usize }>;

/// Where RPCs are added up, by procedure or by window alone. As [`FOLDS`].
#[btf_map]
pub static OPS: ArrayOfMaps<OpSums, OPS_MAPS> = ArrayOfMaps::new();

/// How often a sum was begun in each of [`OPS`]. Looking through a map for a first one would take userspace longer than all else that it does
/// where nothing happens.
#[map]
pub static OPS_BEGUN: Array<u64> = Array::with_max_entries(OPS_MAPS as u32, BPF_F_MMAPABLE);

/// A map of [`OPS`], as small as can be: userspace makes those that are used.
pub type OpSums = Sums<{ size_of::<OpKey>() }, { size_of::<OpValue>() }, 1>;

/// Where RPCs are added up by the file that they are about. As [`FOLDS`].
#[btf_map]
pub static FILE_OPS: ArrayOfMaps<FileOpSums, FILE_OPS_MAPS> = ArrayOfMaps::new();

/// How often a sum was begun in each of [`FILE_OPS`].
#[map]
pub static FILE_OPS_BEGUN: Array<u64> =
    Array::with_max_entries(FILE_OPS_MAPS as u32, BPF_F_MMAPABLE);

/// A map of [`FILE_OPS`], as small as can be.
pub type FileOpSums = Sums<{ size_of::<FileOpKey>() }, { size_of::<FileOpValue>() }, 1>;

/// What a sum of [`FILE_OPS`] begins with.
pub static FILE_OP_BEGIN: FileOpValue = FileOpValue::ZERO;

/// Where calls of applications are added up, an element for each CPU: userspace makes it larger where they are counted.
#[map]
pub static APP_PLACES: Array<AppPlaces> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Where those are added up that have no place there. As [`FOLDS`].
#[btf_map]
pub static APP_CALLS: ArrayOfMaps<AppSums, APP_CALLS_MAPS> = ArrayOfMaps::new();

/// How often a sum was begun in each of [`APP_CALLS`].
#[map]
pub static APP_CALLS_BEGUN: Array<u64> =
    Array::with_max_entries(APP_CALLS_MAPS as u32, BPF_F_MMAPABLE);

/// Calls that were probed at their begin and have not returned, by thread. Userspace gives it room where calls are probed.
#[map]
pub static APP_CALLS_UNDER_WAY: HashMap<u64, CallUnderWay> = HashMap::with_max_entries(1, 0);

/// How long the calls took that have places, where they are timed; userspace makes it larger then.
#[map]
pub static APP_LATENCIES: Array<AppLatencies> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Calls that have begun, by the lowest bits of the thread's id. As [`APP_LATENCIES`].
#[map]
pub static APP_BEGINS: Array<AppBegin> = Array::with_max_entries(1, 0);

/// A call before it returns.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CallUnderWay {
    /// Address of the `struct file`.
    pub file: u64,
    /// 1 if it goes past the page cache.
    pub is_direct: u64,
    /// When it began, by `CLOCK_MONOTONIC`, ns; 0 where calls are not timed.
    pub begin_ns: u64,
}

/// A map of [`APP_CALLS`], as small as can be.
pub type AppSums = Sums<{ size_of::<AppKey>() }, { size_of::<AppValue>() }, 1>;

/// What a sum of [`APP_CALLS`] begins with.
pub static APP_CALL_BEGIN: AppValue = AppValue::ZERO;

/// What a sum of [`FOLDS`] begins with. A global, as [`OP_BEGIN`]: on a stack it takes room that the programs do not have.
pub static FOLD_BEGIN: FoldValue = FoldValue::ZERO;

/// Where most of them are added up. Userspace exchanges its halves, reads them and empties them through `mmap`.
#[map]
pub static OP_TABLE: Array<OpTable> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// What a sum of [`OPS`] begins with.
pub static OP_BEGIN: OpValue = OpValue::ZERO;

/// RPCs for which there was no room.
#[map]
pub static OPS_LOST: Array<u64> = Array::with_max_entries(1, 0);

/// UTC minus `CLOCK_MONOTONIC`, ns. Userspace writes it through `mmap`, whenever it looks at its clocks.
#[map]
pub static CLOCK: Array<i64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Details that are left out.
#[map]
pub static CEILING: Array<Ceiling> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// What happened to completed requests.
///
/// Userspace reads it through `mmap`: map operations of bpf(2) keep programs on classic tracepoints off
/// their CPU (`bpf_disable_instrumentation`, kernel/bpf/syscall.c), on a preemptible kernel for as long as the
/// caller waits its turn.
#[map]
pub static BOOKS: Array<[Books; BOOKS_SLOTS as usize]> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Stands where a program by probe would look the rings in shared memory up: it has none.
#[map]
static NO_RECORD_RINGS: Array<u8> = Array::with_max_entries(1, 0);

/// What the program at the release of an RPC has recovered.
#[map]
pub static RECOVERY: Array<Recovery> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// What requests that are wanted have. Userspace writes it, and makes it larger where there is a filter.
#[map]
pub static FILTER_SET: HashMap<FilterKey, u8> = HashMap::with_max_entries(1, 0);

/// By device and fileid: for how long it is known whether a file is in one of the wanted directories, and whether it is, in the lowest bit.
/// Userspace makes it larger where it is asked for.
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
/// An attempt that the kernel repeats without a completion event leaves its link. Nothing reads it:
/// a completion follows an end on its own thread, which writes the link anew.
#[map]
pub static LINK_END: LruHashMap<u32, TaskKey> = LruHashMap::with_max_entries(LINK_ENTRIES, 0);

/// One more in an element of an array.
#[inline(always)]
pub fn count(array: &Array<u64>, index: u32) {
    if let Some(count) = array.get_ptr_mut(index) {
        // SAFETY: an element of an array, which exists for as long as the program runs.
        unsafe { add_at::<0, u64>(count, 1) };
    }
}

/// The only element of an array: on its own address where userspace links programs with it (`collector/src/engine/btf_tracepoints.rs`), by a lookup
/// elsewhere. For the former a word of the section after whose name the array is stands in its place.
macro_rules! only_element {
    ($name:ident: $type:ty, $array:ident, $section:literal) => {
        #[inline(always)]
        pub fn $name<M: Memory>() -> Option<*mut $type> {
            #[unsafe(link_section = $section)]
            static mut PLACE: u64 = 0;
            if !M::SINCE_6_2 {
                return $array.get_ptr_mut(0);
            }
            // There is more than the one word that the compiler sees.
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

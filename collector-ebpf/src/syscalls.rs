//! The application view of local file systems: when a system call that reads or writes a file returns, it is added up like the calls on
//! NFS files.
//!
//! Each file system has separate functions that could be probed. One program on the system calls sees the calls on all of them.

use core::ptr::{self, NonNull};

use aya_ebpf::{
    helpers::bpf_get_current_pid_tgid,
    macros::map,
    maps::{Array, PerCpuArray},
};
use trackiops_schemas::ebpf::{
    app_sums::{AppBegin, AppKey, AppPlaces, AppValue, OPENS, READS, SYNCS, UNCOUNTED, WRITES},
    ceiling::shed,
    file_op_sums::NFS_SUPER_MAGIC,
    ring::NO_OFFSET,
    syscalls::{SYSCALLS, kept, kinds},
};

use crate::{
    application::{self, File, Program},
    ceiling::is_shed,
    cgroup,
    filter::{self, Who},
    globals::{DIRECT, FILTER, SYSCALL_KINDS},
    io_submit::{self, MOST_BATCHES, Way},
    kernel_memory::{
        Address, Memory, Probe, copy_words, cpu, global, now_ns, opaque, untraced, verified_once,
        word,
    },
    local,
    maps::APP_PLACES,
    paths,
    single_calls::{self, Kept, NOT_KEPT, POSITION},
    window,
};

/// `ERESTARTSYS` to `ERESTART_RESTARTBLOCK` (include/linux/errno.h): the call is restarted.
const RESTARTED: core::ops::RangeInclusive<i64> = -516..=-512;
const READ: u32 = Program::SyscallRead as u32;
const WRITE: u32 = Program::SyscallWrite as u32;
/// New sums that one call may begin: two for each descriptor, reads and writes.
const MOST_FIRSTS: usize = 2 * MOST_BATCHES;
/// Most paths that one call hands over.
const MOST_NAMED: usize = 2;

/// File systems whose files the kernel generates (include/uapi/linux/magic.h): accesses to them are not I/O.
pub const MADE_UP: [u64; 24] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0xf97c_ff8c, // selinuxfs
    0x4341_5d53, // smackfs
    0x5a3c_69f0, // apparmorfs
    0xcafe_4a11, // bpf
    0x6265_6570, // configfs
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0x1980_0202, // mqueue
    0x0765_5821, // resctrl
    0x6e73_6673, // nsfs
    0x0904_1934, // anonymous inodes
    0x5345_434d, // secretmem
    0x444d_4142, // dma-buf
    0x6759_6969, // rpc_pipefs
    0x6e66_7364, // nfsd
    0x4249_4e4d, // binfmt_misc
    0x6573_5543, // fusectl
];

/// Begins of system calls, by thread. NFS functions are timed inside of these calls, and have a separate array.
#[map]
static CALL_BEGINS: Array<AppBegin> = Array::with_max_entries(1, 0);

/// `sys_enter(registers, number)`: notes when the call begins, if calls are timed.
#[inline(always)]
pub fn begun(number: u64) {
    if kind_of(number as u32) != 0 {
        application::begun::<Probe>(&CALL_BEGINS);
    }
}

/// `sys_exit(registers, result)`.
#[inline(always)]
pub fn returned<M: Memory>(registers: u64, result: u64) {
    // It is never 0, but the verifier requires the check.
    if registers == 0 {
        return;
    }
    let call = Address::<M::Trusted>::new(registers);
    let kind = kind_of(call.held_or_zero(&DIRECT.syscalls.number));
    // Most system calls are of no counted kind.
    if kind == 0 || is_shed::<M>(shed::CALLS) {
        return;
    }
    let left = match M::SINCE_6_2 && global(&DIRECT.syscalls.keeps) == 0 {
        true => count::<M, true>(registers, result, kind),
        false => count::<M, false>(registers, result, kind),
    };
    if left != 0 {
        count_firsts();
    }
}

#[inline(always)]
fn kind_of(number: u32) -> u8 {
    if number as usize >= SYSCALLS {
        return 0;
    }
    // SAFETY: `number` is below the length of the table. Volatile, because the compiler only knows the table's initial value.
    unsafe {
        (&raw const SYSCALL_KINDS)
            .cast::<u8>()
            .add(number as usize)
            .read_volatile()
    }
}

/// Returns the same as [`count_descriptor`]. With `AT_ONCE`, reads and writes, which are most calls, are counted here instead of in the shared
/// function. That takes stack which single calls need.
#[inline(never)]
fn count<M: Memory, const AT_ONCE: bool>(registers: u64, result: u64, kind: u8) -> u64 {
    let own = &DIRECT.syscalls;
    let result = result.cast_signed();
    if RESTARTED.contains(&result) {
        return 0;
    }
    let thread = M::thread();
    let foreign = global(&own.foreign_modes);
    if foreign != 0 && thread.held_or_zero::<u32>(&own.task_mode) & foreign != 0 {
        return 0;
    }
    let call = Address::<M::Trusted>::new(registers);
    let first: u32 = call.held_or_zero(&own.first);
    let begin_ns = application::begin_ns::<M>(&CALL_BEGINS);
    let of_kind = kind & !kinds::AT;
    let mut file = 0;
    if of_kind <= kinds::WRITES {
        // First, because a filter excludes most calls.
        let Some(its) = wanted::<M>(thread, program_of(of_kind), first) else {
            return 0;
        };
        file = its;
    }
    if AT_ONCE && of_kind <= kinds::WRITES {
        let ended = Ended {
            calls: 1,
            result,
            begin_ns,
            kept: Kept::NOT,
        };
        return add_or_leave::<M>(thread, program_of(of_kind), file, &ended);
    }
    let mut kept = Kept::NOT;
    if !AT_ONCE && keeps::<M>() {
        let mut at = NO_OFFSET;
        if kind & kinds::AT != 0 {
            at = Address::<M>::new(registers).field_or_zero(&own.fourth);
        }
        // `preadv2` and `pwritev2` at -1 use the position, too. For other kinds (sendfile, copies) the position is not tracked.
        if of_kind <= kinds::WRITES && at == NO_OFFSET {
            at = POSITION;
        } else if at.cast_signed() < 0 {
            at = NO_OFFSET;
        }
        kept = Kept {
            at,
            begin_ns,
            thread: bpf_get_current_pid_tgid(),
        };
    }
    let is_kept = kept.at != NOT_KEPT;
    note_end(Ended {
        calls: 1,
        // The result of `open` is a descriptor, not a number of bytes.
        result: match of_kind {
            kinds::SYNCS | kinds::OPENS => result.min(0),
            _ => result,
        },
        begin_ns,
        kept,
    });
    match of_kind {
        kinds::READS | kinds::WRITES => count_file::<M>(program_of(of_kind), file),
        kinds::SENDS => transferred::<M>(call.held_or_zero(&own.second), first),
        kinds::COPIES => transferred::<M>(first, call.held_or_zero(&own.third)),
        kinds::SYNCS | kinds::OPENS => operated::<M>(of_kind, first, result, is_kept),
        // `untraced`, so that the verifier follows this once and not for each kind of result.
        _ if result > 0 => submitted::<M>(
            call.held_or_zero(&own.third),
            untraced(result as u32),
            begin_ns,
        ),
        _ => 0,
    }
}

#[inline(always)]
fn program_of(kind: u8) -> u32 {
    if kind == kinds::READS { READ } else { WRITE }
}

/// Whether single calls are handed over.
#[inline(always)]
pub fn keeps<M: Memory>() -> bool {
    global(&DIRECT.syscalls.keeps) != 0 && !is_shed::<M>(shed::SINGLE_CALLS)
}

/// A call has read from one descriptor and written to another one.
#[inline(never)]
fn transferred<M: Memory>(read: u32, write: u32) -> u64 {
    count_descriptor::<M>(READ, read) | count_descriptor::<M>(WRITE, write)
}

/// A call has opened or synced a file. Returns the same as [`count_descriptor`].
#[inline(always)]
fn operated<M: Memory>(kind: u8, first: u32, result: i64, is_kept: bool) -> u64 {
    if global(&DIRECT.syscalls.counts_operations) == 0 && !is_kept {
        return 0;
    }
    if kind == kinds::SYNCS {
        count_descriptor::<M>(Program::SyscallSync as u32, first)
    } else if result >= 0 {
        count_descriptor::<M>(Program::SyscallOpen as u32, result as u32)
    } else {
        0
    }
}

/// `io_submit` has submitted as many requests as it returned. Returns the same as [`count_descriptor`].
#[inline(never)]
fn submitted<M: Memory>(requests: u64, count: u32, begin_ns: u64) -> u64 {
    let Some(batches) = io_submit::batches(requests, count) else {
        return 0;
    };
    // Older kernels do not have enough stack for it.
    if M::SINCE_6_2 && keeps::<M>() {
        single_calls::keep_submitted::<M>(requests, count, batches, begin_ns);
    }
    let mut left = 0;
    // SAFETY: an element of a per-CPU map, which only this program uses; `number` and `way` are below the lengths of their arrays.
    unsafe {
        for number in 0..MOST_BATCHES {
            let batch = &raw const (*batches)[number];
            let its = (&raw const (*batch).of).read_volatile();
            if its == 0 {
                break;
            }
            for (program, way) in [READ, WRITE].into_iter().zip(0..) {
                let way: *const Way = &raw const (*batch).ways[way];
                let Way { calls, bytes } = way.read_volatile();
                if calls != 0 {
                    note_end(Ended {
                        calls,
                        result: bytes.cast_signed(),
                        begin_ns: 0,
                        kept: Kept::NOT,
                    });
                    left |= count_descriptor::<M>(program, (its - 1) as u32);
                }
            }
        }
    }
    left
}

/// Calls on one file that have ended together.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ended {
    pub calls: u64,
    pub result: i64,
    /// When they began, ns; 0 if unknown or not timed.
    pub begin_ns: u64,
    pub kept: Kept,
}

/// Identifies the sum that calls begin.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Begun {
    file: u64,
    /// The number of its place.
    nth: u64,
    /// `f_flags` of the file.
    file_flags: u64,
    now_ns: u64,
}

/// The first calls of a sum.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct First {
    pub sum: Begun,
    pub ended: Ended,
}

/// The calls that a system call completes, and the first calls of new sums.
#[repr(C)]
struct Firsts {
    ended: Ended,
    firsts: [First; MOST_FIRSTS],
    /// Number of elements in use.
    left: u64,
}

/// This CPU's element belongs to the program that counts the calls: the kernel skips the program while it runs on this CPU.
#[map]
static FIRSTS: PerCpuArray<Firsts> = PerCpuArray::with_max_entries(1, 0);

/// Stores the ended calls for [`count_descriptor`].
#[inline(always)]
fn note_end(ended: Ended) {
    if let Some(scratch) = FIRSTS.get_ptr_mut(0) {
        // SAFETY: an element of a per-CPU map, which only this program uses.
        unsafe { copy_words(&raw const ended, &raw mut (*scratch).ended, 0) };
    }
}

/// Counts the ended calls for the file of a descriptor. Returns 1 if it left them to [`count_firsts`], else 0.
#[inline(never)]
fn count_descriptor<M: Memory>(program: u32, descriptor: u32) -> u64 {
    match wanted::<M>(M::thread(), program, descriptor) {
        Some(file) => count_file::<M>(program, file),
        None => 0,
    }
}

/// [`count_descriptor`] for a `struct file`.
#[inline(always)]
fn count_file<M: Memory>(program: u32, file: u64) -> u64 {
    verified_once!(M, file_by_cast, file_by_probe: count_of(program: u32, file: u64))
}

#[inline(always)]
fn count_of<M: Memory>(program: u32, file: u64) -> u64 {
    let Some(scratch) = FIRSTS.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: an element of a per-CPU map, which only this program uses.
    let ended = unsafe { &(*scratch).ended };
    add_or_leave::<M>(M::thread(), program, file, ended)
}

/// Adds the calls to the sum of the file, or leaves them to [`count_firsts`]; returns 1 in that case.
#[inline(always)]
fn add_or_leave<M: Memory>(
    thread: Address<M::Trusted>,
    program: u32,
    file: u64,
    ended: &Ended,
) -> u64 {
    let mut left = 0;
    add_or_first::<M>(thread, program, file, ended, |sum| left = leave(sum, ended));
    left
}

#[inline(always)]
fn leave(sum: Begun, ended: &Ended) -> u64 {
    let Some(scratch) = FIRSTS.get_ptr_mut(0) else {
        return 0;
    };
    // SAFETY: an element of a per-CPU map, which only this program uses; `number` is below `MOST_FIRSTS`.
    unsafe {
        let left = &raw mut (*scratch).left;
        let number = left.read_volatile();
        if number >= MOST_FIRSTS as u64 {
            return 0;
        }
        let first = &raw mut (*scratch).firsts[number as usize];
        copy_words(&raw const sum, &raw mut (*first).sum, 0);
        copy_words(ended, &raw mut (*first).ended, 0);
        left.write_volatile(number + 1);
    }
    1
}

/// Counts the calls that begin a sum, and hands over the paths of their files. This takes most of the verifier's steps, so all kinds of calls share
/// it. The number of paths is limited: most files of an `io_submit` were opened by a call that handed over their path.
#[inline(never)]
fn count_firsts() {
    let Some(scratch) = FIRSTS.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: an element of a per-CPU map, which only this program uses; `place` is below `MOST_FIRSTS`.
    unsafe {
        // Loaded each time: if the verifier knew the range of one copy, each exit of the loop would be a separate state.
        let left = &raw const (*scratch).left;
        for number in 0..MOST_FIRSTS {
            if number as u64 >= left.read_volatile() {
                break;
            }
            count_left(number as u32);
        }
        // Starts at a different element each time, so that over several windows all files get their turn.
        let begin = now_ns();
        for number in 0..MOST_NAMED as u64 {
            let left = left.read_volatile();
            let place = opaque(begin.wrapping_add(number) % left.max(1));
            if number >= left || place >= MOST_FIRSTS as u64 {
                break;
            }
            let first = &raw const (*scratch).firsts[place as usize];
            let file = (&raw const (*first).sum.file).read_volatile();
            if file != 0 {
                name(file);
            }
        }
        (&raw mut (*scratch).left).write_volatile(0);
    }
}

/// Counts calls that [`leave`] has stored. The verifier follows it once: see [`verified_once`].
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_left(number: u32) -> u64 {
    let Some(scratch) = FIRSTS.get_ptr_mut(0) else {
        return 0;
    };
    if number as usize >= MOST_FIRSTS {
        return 0;
    }
    // SAFETY: an element of a per-CPU map, which only this program uses; `number` is below `MOST_FIRSTS`.
    unsafe {
        let first = &raw mut (*scratch).firsts[number as usize];
        if !count_first(first) {
            // The calls are not wanted or not the first: no path to hand over.
            (&raw mut (*first).sum.file).write_volatile(0);
        }
    }
    0
}

/// Hands over the path of a file, if it is a regular one.
#[inline(never)]
pub fn name(file: u64) {
    if let Some((inode, entry)) = application::opened(file)
        && Address::<Probe>::new(inode)
            .field(&DIRECT.local.inode_mode)
            .is_some_and(local::is_regular)
    {
        paths::name_opened(inode, entry);
    }
}

/// The `struct file` of a descriptor of a thread.
#[inline(always)]
pub fn file_of<M: Memory>(thread: Address<M::Trusted>, descriptor: u32) -> Option<u64> {
    let own = &DIRECT.syscalls;
    let files = thread.follow(&own.task_files);
    // The pointers are never 0. The verifier requires the checks for types whose objects may be freed.
    if files.0 == 0 {
        return None;
    }
    let table = Address::<M::Typed>::new(files.field(&own.files_table)?);
    if table.0 == 0 {
        return None;
    }
    if descriptor >= table.field::<u32>(&own.table_length)? {
        return None;
    }
    let all: u64 = table.field(&own.table_files)?;
    let file = word::<M>(all.wrapping_add(u64::from(descriptor) * 8))?;
    (file != 0).then_some(file)
}

/// The `struct file` of a descriptor, unless the filter has just left it out.
#[inline(always)]
fn wanted<M: Memory>(thread: Address<M::Trusted>, program: u32, descriptor: u32) -> Option<u64> {
    let file = file_of::<M>(thread, descriptor)?;
    (!is_left_out::<M>(thread, program, file)).then_some(file)
}

/// Whether the filter has just left out calls on a file.
#[inline(always)]
pub fn is_left_out<M: Memory>(thread: Address<M::Trusted>, program: u32, file: u64) -> bool {
    if global(&FILTER) == 0 {
        return false;
    }
    let of_file = M::file(file);
    let inode = Address::<M::Typed>::new(of_file.field_or_zero(&DIRECT.app.file_inode));
    let uid = || {
        let cred = Address::<M::Typed>::new(of_file.field_or_zero(&DIRECT.app.file_cred));
        cred.held_or_zero(&DIRECT.cred_uid)
    };
    let who = Who::calling(uid, || cgroup::of_local_thread::<M>(|| thread));
    filter::is_left_out(program, which(inode), who)
}

/// Adds calls to the sum in the place of their file. If the file has none, calls `first` to begin a sum.
#[inline(always)]
pub fn add_or_first<M: Memory>(
    thread: Address<M::Trusted>,
    program: u32,
    file: u64,
    ended: &Ended,
    first: impl FnOnce(Begun),
) -> Option<()> {
    let (own, app) = (&DIRECT.local, &DIRECT.app);
    let of_file = M::file(file);
    let inode: u64 = of_file.field(&app.file_inode)?;
    let inode = Address::<M::Typed>::new(inode);
    let mode: u16 = inode.field(&own.inode_mode)?;
    // Many calls are on sockets and pipes.
    if !local::is_regular(mode) && !local::is_device(mode) {
        return None;
    }
    let cred = Address::<M::Typed>::new(of_file.field(&app.file_cred)?);
    let uid: u32 = cred.held(&DIRECT.cred_uid)?;
    let file_now = which(inode);
    let cgroup = cgroup::of_local_thread::<M>(|| thread);
    let flags: u32 = of_file.field(&DIRECT.syscalls.file_flags)?;
    let now_ns = now_ns();
    let places = APP_PLACES.get_ptr_mut(cpu())?;
    let nth = application::number(program, inode)?;
    let who = (uid, cgroup);
    let Some(place) = application::begun_before(places, nth, file_now, who, now_ns) else {
        first(Begun {
            file,
            nth,
            file_flags: flags.into(),
            now_ns,
        });
        return Some(());
    };
    let place = place.as_ptr();
    // SAFETY: a map value, which stays in place while the program runs; `ended` is valid for reads.
    unsafe {
        let key = &raw const (*place).key;
        if ended.kept.at != NOT_KEPT {
            single_calls::keep::<M>(key, file, flags.into(), now_ns, ptr::from_ref(ended));
        }
        if (&raw const (*key).direction).read_volatile() & UNCOUNTED == 0 {
            add(application::value_of(place), flags.into(), ended, now_ns);
        }
    }
    Some(())
}

/// Identifies the file of an inode. NFS files matter only if single calls on them are handed over.
#[inline(always)]
fn which<M: Memory>(inode: Address<M>) -> File {
    match global(&DIRECT.syscalls.keeps) & kept::NFS {
        0 => File::of_local(inode),
        _ => File::of(inode),
    }
}

/// Adds calls to their sum. Returns whether they are the first ones in it.
///
/// # Safety
///
/// `sum` is a map value.
#[inline(always)]
unsafe fn add(sum: *mut AppValue, file_flags: u64, ended: &Ended, now_ns: u64) -> bool {
    let is_direct = file_flags & u64::from(global(&DIRECT.syscalls.direct_flag)) != 0;
    let Ended {
        calls,
        result,
        begin_ns,
        kept: _,
    } = *ended;
    // SAFETY: the caller passes a map value.
    unsafe { application::add(sum, is_direct, calls, result, begin_ns, now_ns) }
}

/// Counts calls that begin a sum, in its place or in a map, if they are wanted. Returns whether they are the first ones in it.
#[inline(never)]
pub fn count_first(first: *const First) -> bool {
    // SAFETY: `first` is valid for reads: a value of a per-CPU map that only this program uses. `sum` is a map value, which stays in place while the
    // program runs. Read member by member: the stack has no room for a copy.
    unsafe {
        let Some(places) = APP_PLACES.get_ptr_mut(cpu()) else {
            return false;
        };
        // Computed here, because `begin` has no room on the stack for it.
        let hash = hash_if_kept((&raw const (*first).sum.file).read_volatile());
        let Some(sum) = begin(places, first, hash) else {
            return false;
        };
        let now_ns = (&raw const (*first).sum.now_ns).read_volatile();
        let file_flags = (&raw const (*first).sum.file_flags).read_volatile();
        add(sum.as_ptr(), file_flags, &(*first).ended, now_ns)
    }
}

/// Finds or begins the sum in its place or in a map; `None` if the calls are not wanted or are counted elsewhere.
#[inline(never)]
fn begin(places: *mut AppPlaces, first: *const First, hash: u64) -> Option<NonNull<AppValue>> {
    let app = &DIRECT.app;
    // SAFETY: `first` is a value of a per-CPU map that only this program uses.
    let &First {
        sum:
            Begun {
                file,
                nth,
                file_flags,
                now_ns,
            },
        ref ended,
    } = unsafe { &*first };
    let of_file = Address::<Probe>::new(file);
    let inode = Address::<Probe>::new(of_file.field(&app.file_inode)?);
    let superblock = Address::<Probe>::new(inode.field(&DIRECT.inode_superblock)?);
    let magic: u64 = superblock.field(&DIRECT.local.superblock_magic)?;
    if MADE_UP.contains(&magic) {
        return None;
    }
    let cred = Address::<Probe>::new(of_file.field(&app.file_cred)?);
    let (window, begin_ns) = window::begin_of_holding::<Probe>(now_ns)?;
    let mut key = AppKey {
        fileid: 0,
        cgroup: cgroup::of_local_thread::<Probe>(Probe::thread),
        window,
        dev: 0,
        handle_hash: 0,
        uid: cred.held(&DIRECT.cred_uid)?,
        direction: direction_of(application::program_of(nth)),
    };
    let mut uncounted = 0;
    if magic == NFS_SUPER_MAGIC {
        // Other programs count these calls; only the single calls are handed over here.
        if hash > u64::from(u32::MAX) {
            return None;
        }
        key.handle_hash = hash as u32;
        key.fileid = inode.field(&DIRECT.inode_number)?;
        key.dev = superblock.field(&DIRECT.superblock_dev)?;
        uncounted = UNCOUNTED;
    } else {
        if key.direction >= SYNCS && global(&DIRECT.syscalls.counts_operations) == 0 {
            uncounted = UNCOUNTED;
        }
        local::describe(&mut key, inode, superblock, magic)?;
    }
    let pid = bpf_get_current_pid_tgid() >> 32;
    if global(&FILTER) != 0 && !filter::admits_call(&key, pid as u32, of_file) {
        let kind = application::program_of(nth);
        let who = Who::calling(|| key.uid, || key.cgroup);
        filter::leave_out(kind, which(inode), who);
        return None;
    }
    key.direction |= uncounted;
    if ended.kept.at != NOT_KEPT {
        let ended = ptr::from_ref(ended);
        // SAFETY: `key` is a local variable and `ended` a reference.
        unsafe { single_calls::keep::<Probe>(&raw const key, file, file_flags, now_ns, ended) };
    }
    let sum = application::claim(places, nth, which(inode), &mut key, pid, begin_ns);
    if uncounted == 0 { sum } else { None }
}

/// The hash of the handle of an NFS file, if single calls on NFS are kept; more than 32 bits if unknown. Meaningless for other files.
#[inline(always)]
pub fn hash_if_kept(file: u64) -> u64 {
    if global(&DIRECT.syscalls.keeps) & kept::NFS == 0 {
        return u64::MAX;
    }
    let inode = Address::<Probe>::new(file).field_or_zero(&DIRECT.app.file_inode);
    application::hash(inode)
}

/// The direction of the calls that a program counts.
#[inline(always)]
fn direction_of(program: u32) -> u32 {
    let is_of = |programs: u32| programs >> program & 1 != 0;
    if is_of(const { 1 << Program::SyscallWrite as u32 | 1 << Program::RingWrite as u32 }) {
        WRITES
    } else if is_of(const { 1 << Program::SyscallSync as u32 | 1 << Program::RingSync as u32 }) {
        SYNCS
    } else if is_of(const { 1 << Program::SyscallOpen as u32 }) {
        OPENS
    } else {
        READS
    }
}

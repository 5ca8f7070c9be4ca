//! A call by which an application reads or writes returns: it is added up with those of the same file, user, cgroup and window.
//!
//! Bytes are counted where the kernel counts them for `/proc/self/mountstats` (`NFSIOS_NORMALREADBYTES` and its like, fs/nfs/file.c and
//! fs/nfs/direct.c): returned ones of calls through the page cache, and requested ones of direct I/O.

use core::{arch::asm, ptr::NonNull};

use aya_ebpf::{helpers::bpf_get_current_pid_tgid, maps::Array};
use trackiops_schemas::ebpf::{
    app_sums::{
        APP_BEGINS as BEGINS, APP_CALLS_BY_FILE, APP_CALLS_BY_MOUNT, APP_LATENCIES_OF_CPU,
        APP_LATENCY_BITS, APP_LATENCY_END_OCTAVE, APP_LATENCY_FIRST_OCTAVE, APP_PLACES as PLACES,
        APP_PROGRAMS, APP_TIMED_PROGRAMS, AppBegin, AppKey, AppPlace, AppPlaces, AppValue, READS,
        UNCOUNTED, WRITES, registers,
    },
    ceiling::shed,
    file_op_sums::NFS_SUPER_MAGIC,
    ring::filters,
};

use crate::{
    ceiling::{is_shed, valid_begin},
    cells, cgroup, file_operation,
    filter::{self, Who},
    globals::{DIRECT, FILTER, PATHS, WINDOW_NS},
    handle,
    kernel_memory::{
        Address, Memory, Probe, Typed, add, count_half, cpu, global, now_ns, opaque, raise,
    },
    maps::{
        self, APP_BEGINS, APP_CALL_BEGIN, APP_CALLS, APP_CALLS_BEGUN, APP_CALLS_UNDER_WAY,
        APP_LATENCIES, APP_PLACES, CallUnderWay,
    },
    paths, window,
};

/// The programs that count calls or pages. Those of one kind are never used together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Read = 0,
    Write = 1,
    SpliceRead = 2,
    SyscallRead = 3,
    SyscallWrite = 4,
    SyscallSync = 5,
    SyscallOpen = 6,
    // Those before have room for how long each of their calls took.
    DirectRead = 7,
    DirectWrite = 8,
    PagesAdded = 9,
    PagesEvicted = 10,
    PagesDirtied = 11,
    RingRead = 12,
    RingWrite = 13,
    RingSync = 14,
}

/// `IOCB_DIRECT` (include/linux/fs.h).
const DIRECT_CALL: u32 = 1 << 17;
/// `-EAGAIN`: the caller will come back, from a thread that may wait.
const AGAIN: i64 = -11;
/// `-EIOCBQUEUED` (include/linux/errno.h): it goes on without its caller.
const QUEUED: i64 = -529;

/// A call of this thread begins, and is to be timed.
#[inline(always)]
pub fn begun<M: Memory>(begins: &Array<AppBegin>) {
    if is_shed::<M>(shed::CALL_TIMES) {
        return;
    }
    let thread = bpf_get_current_pid_tgid();
    if let Some(begin) = begin_of(begins, thread) {
        // SAFETY: an element of an array. Threads with the same place write over each other, and see that at their ends.
        unsafe {
            (&raw mut (*begin).thread).write_volatile(thread);
            (&raw mut (*begin).begin_ns).write_volatile(now_ns());
        }
    }
}

/// When this thread's call began, ns; 0 if nobody knows.
#[inline(always)]
pub fn begin_ns<M: Memory>(begins: &Array<AppBegin>) -> u64 {
    if !is_timed() || is_shed::<M>(shed::CALL_TIMES) {
        return 0;
    }
    let thread = bpf_get_current_pid_tgid();
    let Some(begin) = begin_of(begins, thread) else {
        return 0;
    };
    // SAFETY: as above.
    unsafe {
        if (&raw const (*begin).thread).read_volatile() != thread {
            return 0;
        }
        // Of its next call the begin may be missed.
        (&raw mut (*begin).thread).write_volatile(0);
        valid_begin::<M>((&raw const (*begin).begin_ns).read_volatile())
    }
}

#[inline(always)]
fn begin_of(begins: &Array<AppBegin>, thread: u64) -> Option<*mut AppBegin> {
    begins.get_ptr_mut(thread as u32 & (BEGINS - 1))
}

#[inline(always)]
fn is_timed() -> bool {
    global(&DIRECT.app.is_timed) != 0
}

/// A call that is described by a `struct kiocb` returns.
#[inline(always)]
pub fn returned(program: Program, call: u64, result: u64) {
    let call = Address::<Typed>::new(call);
    let own = &DIRECT.app;
    let result = result.cast_signed();
    // One that goes on without its caller may have ended meanwhile, and its `struct kiocb` with it.
    if is_unfinished(result) || is_shed::<Typed>(shed::CALLS) {
        return;
    }
    let is_direct = is_direct(call);
    // As `count` decides it, before anything else is read.
    if is_direct && result >= 0 && !is_timed() {
        return;
    }
    if let Some(file) = call.field(&own.call_file) {
        count::<Typed>(
            program,
            file,
            is_direct,
            result,
            begin_ns::<Typed>(&APP_BEGINS),
        );
    }
}

/// Whether it goes past the page cache.
#[inline(always)]
fn is_direct(call: Address<impl Memory>) -> bool {
    call.field::<u32>(&DIRECT.app.call_flags)
        .is_some_and(|flags| flags & DIRECT_CALL != 0)
}

/// Whether its caller comes back, or it goes on without its caller.
#[inline(always)]
fn is_unfinished(result: i64) -> bool {
    result == AGAIN || result == QUEUED
}

/// A call that is for a `struct file` returns.
#[inline(always)]
pub fn returned_of_file(program: Program, file: u64, result: u64) {
    if is_shed::<Typed>(shed::CALLS) {
        return;
    }
    let begin_ns = begin_ns::<Typed>(&APP_BEGINS);
    count::<Typed>(program, file, false, result.cast_signed(), begin_ns);
}

/// A call begins that is described by a `struct kiocb`: a probe remembers it, for that at its end does not see the parameters.
#[inline(always)]
pub fn probed_begin(registers: *const u64) {
    if is_shed::<Probe>(shed::CALLS) {
        return;
    }
    let call = Address::<Probe>::new(parameter::<0>(registers));
    if let Some(file) = call.field(&DIRECT.app.call_file) {
        remember(file, is_direct(call));
    }
}

/// The same of one that is for a `struct file`.
#[inline(always)]
pub fn probed_begin_of_file(registers: *const u64) {
    if !is_shed::<Probe>(shed::CALLS) {
        remember(parameter::<0>(registers), false);
    }
}

/// The call of this thread returns.
#[inline(always)]
pub fn probed_return(program: Program, registers: *const u64) {
    let thread = bpf_get_current_pid_tgid();
    // SAFETY: a map value, copied; only this thread writes it.
    let Some(CallUnderWay {
        file,
        is_direct,
        begin_ns,
    }) = (unsafe { APP_CALLS_UNDER_WAY.get(&thread).copied() })
    else {
        return;
    };
    // It is there.
    let _ = APP_CALLS_UNDER_WAY.remove(&thread);
    let result = returned_value(registers).cast_signed();
    count::<Probe>(program, file, is_direct != 0, result, begin_ns);
}

#[inline(always)]
fn remember(file: u64, is_direct: bool) {
    let call = CallUnderWay {
        file,
        is_direct: u64::from(is_direct),
        begin_ns: match is_timed() && !is_shed::<Probe>(shed::CALL_TIMES) {
            true => now_ns(),
            false => 0,
        },
    };
    // Without room it is missed. There are more places than threads that call at once.
    let _ = APP_CALLS_UNDER_WAY.insert(&bpf_get_current_pid_tgid(), &call, 0);
}

/// [`returned`] from a function that other file systems call as well.
#[inline(always)]
pub fn generic_returned(program: Program, call: u64, result: u64) {
    if is_shed::<Typed>(shed::CALLS) {
        return;
    }
    if let Some(file) = Address::<Typed>::new(call).field(&DIRECT.app.call_file) {
        generic_returned_of_file(program, file, result);
    }
}

/// [`returned_of_file`] from such a function.
#[inline(always)]
pub fn generic_returned_of_file(program: Program, file: u64, result: u64) {
    if !is_shed::<Typed>(shed::CALLS) && is_of_nfs(file) {
        let begin_ns = begin_ns::<Typed>(&APP_BEGINS);
        count::<Typed>(program, file, false, result.cast_signed(), begin_ns);
    }
}

/// A call begins that goes past the page cache.
#[inline(always)]
pub fn direct(program: Program, call: u64, iterator: u64) {
    if is_shed::<Typed>(shed::CALLS) {
        return;
    }
    let own = &DIRECT.app;
    let file = Address::<Typed>::new(call).field(&own.call_file);
    let bytes = Address::<Typed>::new(iterator).field(&own.iterator_count);
    if let (Some(file), Some(bytes)) = (file, bytes)
        && let Some(sum) = sum_of::<Typed>(program, file, now_ns())
    {
        count_direct(sum.as_ptr(), bytes);
    }
}

/// The same from a probe, whose registers these are. Nobody tells when that call returns.
#[inline(always)]
pub fn probed_direct(program: Program, registers: *const u64) {
    if is_shed::<Probe>(shed::CALLS) {
        return;
    }
    let own = &DIRECT.app;
    let call = Address::<Probe>::new(parameter::<0>(registers));
    let iterator = Address::<Probe>::new(parameter::<1>(registers));
    if let (Some(file), Some(bytes)) = (
        call.field(&own.call_file),
        iterator.field(&own.iterator_count),
    ) && let Some(sum) = sum_of::<Probe>(program, file, now_ns())
    {
        count_direct(sum.as_ptr(), bytes);
    }
}

/// The first or second parameter of a probed function.
#[inline(always)]
fn parameter<const NTH: usize>(registers: *const u64) -> u64 {
    let is_x86_64 = global(&DIRECT.app.registers) & registers::X86_64 != 0;
    match (is_x86_64, NTH) {
        // `di` and `si` of `struct pt_regs`.
        (true, 0) => register::<112>(registers),
        (true, _) => register::<104>(registers),
        (false, 0) => register::<0>(registers),
        (false, _) => register::<8>(registers),
    }
}

/// What a probed function returns.
#[inline(always)]
fn returned_value(registers: *const u64) -> u64 {
    if global(&DIRECT.app.registers) & registers::X86_64 != 0 {
        // `ax` of `struct pt_regs`.
        register::<80>(registers)
    } else {
        register::<0>(registers)
    }
}

#[inline(always)]
fn count_direct(sum: *mut AppValue, bytes: u64) {
    // SAFETY: see `count`.
    unsafe {
        add!(AppValue, sum.calls, 1);
        add!(AppValue, sum.direct_calls, 1);
        add!(AppValue, sum.direct_bytes, bytes);
    }
}

/// A register of a probed function. The verifier wants its place to stand in the instruction.
#[inline(always)]
pub fn register<const OFFSET: usize>(registers: *const u64) -> u64 {
    let value;
    // SAFETY: one of the registers.
    unsafe {
        asm!(
            "{value} = *(u64 *)({registers} + {offset})",
            value = lateout(reg) value,
            registers = in(reg) registers,
            offset = const OFFSET,
            options(nostack, readonly),
        );
    }
    value
}

/// Adds a call to its sum; of a direct one, which was counted when it began, only that it has failed and how long it took. `begin_ns` is 0 if it is
/// not known.
#[inline(always)]
fn count<M: Memory>(program: Program, file: u64, is_direct: bool, result: i64, begin_ns: u64) {
    // Most direct ones: nothing is left to add, and the clock need not be read.
    if is_unfinished(result) || (is_direct && result >= 0 && begin_ns == 0) {
        return;
    }
    let now_ns = now_ns();
    // Each by itself: the verifier would follow what comes after for both.
    if is_direct {
        if let Some(sum) = sum_of::<M>(program, file, now_ns) {
            let sum = sum.as_ptr();
            // SAFETY: as below.
            unsafe {
                if result < 0 {
                    add!(AppValue, sum.errors, 1);
                }
                count_time(sum, begin_ns, now_ns);
            }
        }
        return;
    }
    let Some(sum) = sum_of::<M>(program, file, now_ns) else {
        return;
    };
    // SAFETY: a map value, which stays where it is while the program runs; those of hash maps are added to by every CPU. Userspace takes it away
    // before it reads it.
    let is_first = unsafe { add(sum.as_ptr(), false, 1, result, begin_ns, now_ns) };
    // What is written is soon sent, and names its file then. It comes last: the verifier would follow it for each kind of sum.
    if let Program::Read = program
        && is_first
    {
        name(file);
    }
}

/// Adds calls that have returned `result` together to their sum. Whether they are the first ones there.
///
/// # Safety
///
/// `sum` is a map value.
#[inline(always)]
pub unsafe fn add(
    sum: *mut AppValue,
    is_direct: bool,
    calls: u64,
    result: i64,
    begin_ns: u64,
    now_ns: u64,
) -> bool {
    // SAFETY: by the caller.
    unsafe {
        let is_first = (&raw const (*sum).calls).read_volatile() == 0;
        add!(AppValue, sum.calls, calls);
        if is_direct {
            add!(AppValue, sum.direct_calls, calls);
        }
        if result < 0 {
            add!(AppValue, sum.errors, 1);
        } else if is_direct {
            add!(AppValue, sum.direct_bytes, result.cast_unsigned());
        } else {
            add!(AppValue, sum.bytes, result.cast_unsigned());
        }
        count_time(sum, begin_ns, now_ns);
        is_first
    }
}

/// Adds how long a call took whose begin is known.
///
/// # Safety
///
/// `sum` is a map value.
#[inline(always)]
unsafe fn count_time(sum: *mut AppValue, begin_ns: u64, now_ns: u64) {
    if begin_ns == 0 {
        return;
    }
    let ns = now_ns.saturating_sub(begin_ns);
    // SAFETY: by the caller; elements of an array.
    unsafe {
        add!(AppValue, sum.timed, 1);
        add!(AppValue, sum.latency_ns_sum, ns);
        raise(&raw mut (*sum).latency_ns_max, ns);
        let element = (&raw const (*sum).latencies).read_volatile();
        let bucket =
            cells::place_of::<APP_LATENCY_FIRST_OCTAVE, APP_LATENCY_END_OCTAVE, APP_LATENCY_BITS>(
                ns,
            );
        // The element of 0 is beyond the array.
        if let Some(latencies) = APP_LATENCIES.get_ptr_mut((element as u32).wrapping_sub(1))
            && let Some((bucket, _)) = bucket
            && let Some(count) = (*latencies).get_mut(bucket)
        {
            count_half(count);
        }
    }
}

#[inline(always)]
fn is_of_nfs(file: u64) -> bool {
    let magic = || {
        let inode = Address::<Typed>::new(file).field(&DIRECT.app.file_inode)?;
        let superblock = Address::<Typed>::new(inode).field(&DIRECT.inode_superblock)?;
        Address::<Typed>::new(superblock).field::<u64>(&DIRECT.file_operation.superblock_magic)
    };
    magic() == Some(NFS_SUPER_MAGIC)
}

/// The sum for a call that is for this `struct file`.
#[inline(always)]
fn sum_of<M: Memory>(program: Program, file: u64, now_ns: u64) -> Option<NonNull<AppValue>> {
    let own = &DIRECT.app;
    // By the helper: these programs are loaded on kernels, too, that do not hand over threads by their type.
    let cgroup = cgroup::of_thread::<Probe>(Probe::thread);
    let places = APP_PLACES.get_ptr_mut(cpu())?;
    let of_file = Address::<M>::new(file);
    let cred: u64 = of_file.field(&own.file_cred)?;
    let uid: u32 = Address::<M>::new(cred).held(&DIRECT.cred_uid)?;
    let inode: u64 = of_file.field(&own.file_inode)?;
    let inode = Address::<M>::new(inode);
    if global(&FILTER) != 0
        && filter::is_left_out(
            program as u32,
            File::below(inode, || entry(of_file)),
            Who::calling(uid, cgroup),
        )
    {
        return None;
    }
    let nth = number(program as u32, inode)?;
    let who = (uid, cgroup);
    if let Some(place) = begun_before(places, nth, File::of_nfs(inode), who, now_ns) {
        return NonNull::new(value_of(place.as_ptr()));
    }
    begin(places, nth, file, now_ns)
}

/// The entry by which a file (`struct file`) was opened.
#[inline(always)]
fn entry<M: Memory>(file: Address<M>) -> Option<Address<M>> {
    file.field(&DIRECT.app.file_entry).map(Address::new)
}

/// The number of the place of a program for an inode.
#[inline(always)]
pub fn number(program: u32, inode: Address<impl Memory>) -> Option<u64> {
    let hash: u64 = inode.hash::<{ PLACES.ilog2() }>().into();
    in_range(u64::from(program) * PLACES as u64 + hash)
}

/// The number of the other place.
#[inline(always)]
fn other(nth: u64) -> Option<u64> {
    in_range(nth ^ 1)
}

/// The verifier wants to see it where it does not know the program, and of the other place. In one piece, and with all bits: before Linux 6.2 it
/// forgets what it knew of halves and of parts.
#[inline(always)]
fn in_range(nth: u64) -> Option<u64> {
    let nth = opaque(nth);
    (nth < (PLACES * APP_PROGRAMS) as u64).then_some(nth)
}

/// The program that has this place.
#[inline(always)]
pub fn program_of(nth: u64) -> u32 {
    (nth / PLACES as u64) as u32
}

/// Which file an inode is: it may be another one soon, with the same address and number.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct File {
    /// The address of the inode.
    pub inode: u64,
    pub fileid: u64,
    /// The inode's generation. NFS has none: what [`handle::fold`] makes of its handle.
    pub generation: u64,
}

impl File {
    #[inline(always)]
    fn with(inode: Address<impl Memory>, generation: u64) -> Self {
        Self {
            inode: inode.0,
            fileid: inode.field_or_zero(&DIRECT.inode_number),
            generation,
        }
    }

    /// That of a local file system.
    #[inline(always)]
    pub fn of_local(inode: Address<impl Memory>) -> Self {
        let generation: u32 = inode.field_or_zero(&DIRECT.local.inode_generation);
        Self::with(inode, generation.into())
    }

    /// That of NFS.
    #[inline(always)]
    pub fn of_nfs(inode: Address<impl Memory>) -> Self {
        let handle = file_operation::handle_in_typed(inode);
        Self::with(inode, handle.map_or(0, handle::fold))
    }

    /// That of either.
    #[inline(always)]
    pub fn of<M: Memory>(inode: Address<M>) -> Self {
        let superblock = Address::<M>::new(inode.field_or_zero(&DIRECT.inode_superblock));
        match superblock.field_or_zero(&DIRECT.local.superblock_magic) {
            NFS_SUPER_MAGIC => Self::of_nfs(inode),
            _ => Self::of_local(inode),
        }
    }

    /// The same of NFS as the filter sees it: in the directory of this entry, whose address stands for the generation.
    #[inline(always)]
    pub fn below<M: Memory>(
        inode: Address<impl Memory>,
        entry: impl FnOnce() -> Option<Address<M>>,
    ) -> Self {
        let parent = || entry()?.field(&DIRECT.tree.entry_parent);
        let directory = match global(&FILTER) & filters::DIRECTORIES {
            0 => 0,
            _ => parent().unwrap_or(0),
        };
        Self::with(inode, directory)
    }
}

/// The sum of a place.
#[inline(always)]
pub fn value_of(place: *mut AppPlace) -> *mut AppValue {
    // SAFETY: it is not read.
    unsafe { &raw mut (*place).value }
}

/// The place that has the sum.
#[inline(always)]
pub fn begun_before(
    places: *mut AppPlaces,
    nth: u64,
    file: File,
    (uid, cgroup): (u32, u64),
    now_ns: u64,
) -> Option<NonNull<AppPlace>> {
    // SAFETY: of an element of the array.
    unsafe {
        let first = place(places, nth);
        let is_ours = |place: *mut AppPlace| {
            now_ns.wrapping_sub((&raw const (*place).begin_ns).read_volatile()) < global(&WINDOW_NS)
                && (&raw const (*place).inode).read_volatile() == file.inode
                && (&raw const (*place).key.fileid).read_volatile() == file.fileid
                && (&raw const (*place).generation).read_volatile() == file.generation
                && (&raw const (*place).key.cgroup).read_volatile() == cgroup
                && (&raw const (*place).key.uid).read_volatile() == uid
        };
        if is_ours(first) {
            return NonNull::new(first);
        }
        // Until userspace has taken the sums of a window, the next one has the other place.
        let second = place(places, other(nth)?);
        if is_ours(second) {
            return NonNull::new(second);
        }
    }
    None
}

/// A place of the half that is in use.
///
/// # Safety
///
/// `nth` is below the number of places of a half.
#[inline(always)]
unsafe fn place(places: *mut AppPlaces, nth: u64) -> *mut AppPlace {
    // SAFETY: by the caller.
    unsafe {
        let half = (&raw const (*places).half).read_volatile() as usize & 1;
        (&raw mut (*places).halves[half])
            .cast::<AppPlace>()
            .add(nth as usize)
    }
}

/// The sum in its place, or in a map. The first of these calls in its window begins it.
#[inline(never)]
fn begin(places: *mut AppPlaces, nth: u64, file: u64, now_ns: u64) -> Option<NonNull<AppValue>> {
    let own = &DIRECT.app;
    let of_file = Address::<Probe>::new(file);
    let inode_address: u64 = of_file.field(&own.file_inode)?;
    let inode = Address::<Probe>::new(inode_address);
    let superblock = Address::<Probe>::new(inode.field(&DIRECT.inode_superblock)?);
    if superblock.field::<u64>(&DIRECT.file_operation.superblock_magic)? != NFS_SUPER_MAGIC {
        return None;
    }
    let cred = Address::<Probe>::new(of_file.field(&own.file_cred)?);
    let (window, begin_ns) = window::begin_of_holding::<Probe>(now_ns)?;
    let writes = const { 1 << Program::Write as u32 | 1 << Program::DirectWrite as u32 };
    let direction = match writes >> program_of(nth) & 1 {
        0 => READS,
        _ => WRITES,
    };
    let hash = hash(inode_address);
    let is_known = hash <= u64::from(u32::MAX);
    let mut key = AppKey {
        fileid: inode.field(&DIRECT.inode_number)?,
        cgroup: cgroup::of_thread::<Probe>(Probe::thread),
        window,
        dev: superblock.field(&DIRECT.superblock_dev)?,
        handle_hash: if is_known { hash as u32 } else { 0 },
        uid: cred.held(&DIRECT.cred_uid)?,
        direction,
    };
    let pid = bpf_get_current_pid_tgid() >> 32;
    if global(&FILTER) != 0 && !filter::admits_call(&key, pid as u32, of_file) {
        filter::leave_out(
            program_of(nth),
            File::below(inode, || entry(of_file)),
            Who::calling(key.uid, key.cgroup),
        );
        return None;
    }
    if !is_known {
        key.fileid = 0;
    }
    claim(places, nth, File::of_nfs(inode), &mut key, pid, begin_ns)
}

/// A place for a sum that begins, or the sum in a map. What is not counted is in no map.
#[inline(always)]
pub fn claim(
    places: *mut AppPlaces,
    nth: u64,
    file: File,
    key: &mut AppKey,
    pid: u64,
    begin_ns: u64,
) -> Option<NonNull<AppValue>> {
    let is_known = key.fileid != 0;
    // SAFETY: a place of this CPU and program, which nobody else writes before userspace has taken its half away.
    unsafe {
        let nth = in_range(nth)?;
        let half = || (&raw const (*places).half).read_volatile() as u32 & 1;
        let (half_before, mut taken) = (half(), nth);
        let (first, second) = (place(places, nth), place(places, other(nth)?));
        let place = if (&raw const (*first).begin_ns).read_volatile() == 0 {
            first
        } else {
            taken ^= 1;
            second
        };
        if (&raw const (*place).begin_ns).read_volatile() == 0 && is_known {
            (&raw mut (*place).inode).write_volatile(file.inode);
            (&raw mut (*place).generation).write_volatile(file.generation);
            (&raw mut (*place).key).write_volatile(*key);
            (&raw mut (*place).value.pid).write_volatile(pid);
            // Where userspace has just exchanged the halves, nobody knows of which one the place is.
            if is_timed() && (taken as usize) < PLACES * APP_TIMED_PROGRAMS && half() == half_before
            {
                let of_cpu = cpu() * APP_LATENCIES_OF_CPU as u32;
                let of_half = half_before * (PLACES * APP_TIMED_PROGRAMS) as u32;
                let element = of_cpu + of_half + taken as u32 + 1;
                (&raw mut (*place).value.latencies).write_volatile(element.into());
            }
            add!(AppPlaces, places.taken, 1);
            (&raw mut (*place).begin_ns).write_volatile(begin_ns);
            return NonNull::new(&raw mut (*place).value);
        }
    }
    if key.direction & UNCOUNTED != 0 {
        return None;
    }
    let sum = in_map(APP_CALLS_BY_FILE, key, pid).or_else(|| {
        key.fileid = 0;
        key.handle_hash = 0;
        in_map(APP_CALLS_BY_MOUNT, key, pid)
    })?;
    NonNull::new(sum)
}

/// The hash of the file's handle; more than 32 bits if that is not known. An `Option` would be returned through memory.
#[inline(never)]
pub fn hash(inode: u64) -> u64 {
    let handle = file_operation::handle_in(inode);
    handle
        .and_then(|at| handle::hash(Address::<Probe>::new(at)))
        .map_or(u64::MAX, u64::from)
}

/// The sum in one of the maps.
#[inline(always)]
fn in_map(map: u32, key: &AppKey, pid: u64) -> Option<*mut AppValue> {
    let sums = APP_CALLS.get(map)?;
    if let Some(sum) = sums.get(key) {
        return Some(sum);
    }
    let sum: *mut AppValue = sums.entry(key, &APP_CALL_BEGIN)?;
    maps::count(&APP_CALLS_BEGUN, map);
    // SAFETY: a map value. Another CPU may write its own.
    unsafe { (&raw mut (*sum).pid).write_volatile(pid) };
    Some(sum)
}

/// Tells the path of the file, by the name that it was opened by. A file of which all is cached has no request that would.
#[inline(never)]
fn name(file: u64) {
    if let Some((inode, entry)) = opened(file) {
        paths::name_file::<Probe>(inode, entry);
    }
}

/// The inode of a file (`struct file`) and the name that it was opened by, where paths are read.
#[inline(always)]
pub fn opened(file: u64) -> Option<(u64, u64)> {
    let own = &DIRECT.app;
    if global(&PATHS) == 0 || global(&own.file_entry) == 0 {
        return None;
    }
    let file = Address::<Probe>::new(file);
    Some((file.field(&own.file_inode)?, file.field(&own.file_entry)?))
}

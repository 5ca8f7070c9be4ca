//! When a read or write of an application returns: adds the call to the sum of its file, user, cgroup and window.
//!
//! Bytes are counted where the kernel counts them for `/proc/self/mountstats` (`NFSIOS_NORMALREADBYTES` and its like, fs/nfs/file.c and
//! fs/nfs/direct.c): returned bytes of calls through the page cache, requested bytes of direct I/O.

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

/// The programs that count calls or pages. Programs that share a number are never attached together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Program {
    Read = 0,
    Write = 1,
    SpliceRead = 2,
    SyscallRead = 3,
    SyscallWrite = 4,
    SyscallSync = 5,
    SyscallOpen = 6,
    // The programs above have room for the duration of each call.
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
/// `-EIOCBQUEUED` (include/linux/errno.h): the call continues asynchronously.
const QUEUED: i64 = -529;

/// Notes when a call of this thread begins, if calls are timed.
#[inline(always)]
pub fn begun<M: Memory>(begins: &Array<AppBegin>) {
    if is_shed::<M>(shed::CALL_TIMES) {
        return;
    }
    let thread = bpf_get_current_pid_tgid();
    if let Some(begin) = begin_of(begins, thread) {
        // SAFETY: `begin` is an element of an array. Threads that share it overwrite each other; the stored thread id reveals that at the end.
        unsafe {
            (&raw mut (*begin).thread).write_volatile(thread);
            (&raw mut (*begin).begin_ns).write_volatile(now_ns());
        }
    }
}

/// When this thread's call began, ns; 0 if unknown.
#[inline(always)]
pub fn begin_ns<M: Memory>(begins: &Array<AppBegin>) -> u64 {
    if !is_timed() || is_shed::<M>(shed::CALL_TIMES) {
        return 0;
    }
    let thread = bpf_get_current_pid_tgid();
    let Some(begin) = begin_of(begins, thread) else {
        return 0;
    };
    // SAFETY: `begin` is an element of an array, and the load of each word is a single access.
    unsafe {
        if (&raw const (*begin).thread).read_volatile() != thread {
            return 0;
        }
        // Cleared, because the begin of this thread's next call may be missed.
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
    // An asynchronous call may have ended already, and its `struct kiocb` may be freed.
    if is_unfinished(result) || is_shed::<Typed>(shed::CALLS) {
        return;
    }
    let is_direct = is_direct(call);
    // `count` would return early as well; this saves the reads below.
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

/// Whether the call bypasses the page cache.
#[inline(always)]
fn is_direct(call: Address<impl Memory>) -> bool {
    call.field::<u32>(&DIRECT.app.call_flags)
        .is_some_and(|flags| flags & DIRECT_CALL != 0)
}

/// Whether the call is retried by its caller or continues asynchronously.
#[inline(always)]
fn is_unfinished(result: i64) -> bool {
    result == AGAIN || result == QUEUED
}

/// A call on a `struct file` returns.
#[inline(always)]
pub fn returned_of_file(program: Program, file: u64, result: u64) {
    if is_shed::<Typed>(shed::CALLS) {
        return;
    }
    let begin_ns = begin_ns::<Typed>(&APP_BEGINS);
    count::<Typed>(program, file, false, result.cast_signed(), begin_ns);
}

/// A call that is described by a `struct kiocb` begins. Its parameters are stored, because the probe at the return does not see them.
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

/// [`probed_begin`] for a call on a `struct file`.
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
    // SAFETY: a map value, copied at once; only this thread writes the entry of its id.
    let Some(CallUnderWay {
        file,
        is_direct,
        begin_ns,
    }) = (unsafe { APP_CALLS_UNDER_WAY.get(&thread).copied() })
    else {
        return;
    };
    // Cannot fail: the entry was just found.
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
    // Without room the call is missed. The map has more entries than threads that call at once.
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

/// [`returned_of_file`] from a function that other file systems call as well.
#[inline(always)]
pub fn generic_returned_of_file(program: Program, file: u64, result: u64) {
    if !is_shed::<Typed>(shed::CALLS) && is_of_nfs(file) {
        let begin_ns = begin_ns::<Typed>(&APP_BEGINS);
        count::<Typed>(program, file, false, result.cast_signed(), begin_ns);
    }
}

/// A call begins that bypasses the page cache.
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

/// [`direct`] from a probe, with the probed function's registers. The return of these calls is not probed.
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

/// The return value of a probed function.
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
    // SAFETY: `sum` is a map value, which stays in place while the program runs; every CPU adds atomically.
    unsafe {
        add!(AppValue, sum.calls, 1);
        add!(AppValue, sum.direct_calls, 1);
        add!(AppValue, sum.direct_bytes, bytes);
    }
}

/// A register of a probed function. The verifier requires the offset to be a constant of the instruction.
#[inline(always)]
pub fn register<const OFFSET: usize>(registers: *const u64) -> u64 {
    let value;
    // SAFETY: `registers` is the context, a `struct pt_regs` of the probed function, and `OFFSET` is one of its members.
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

/// Adds a call to its sum. A direct call was counted when it began, so only its failure and its duration are added. `begin_ns` is 0 if unknown.
#[inline(always)]
fn count<M: Memory>(program: Program, file: u64, is_direct: bool, result: i64, begin_ns: u64) {
    // The common case of direct calls: nothing is left to add, so the clock is not read.
    if is_unfinished(result) || (is_direct && result >= 0 && begin_ns == 0) {
        return;
    }
    let now_ns = now_ns();
    // Two copies of the same code: otherwise the verifier follows the rest for both cases.
    if is_direct {
        if let Some(sum) = sum_of::<M>(program, file, now_ns) {
            let sum = sum.as_ptr();
            // SAFETY: `sum` is a map value, which stays in place while the program runs; every CPU adds atomically.
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
    // SAFETY: `sum` is a map value, which stays in place while the program runs; every CPU adds atomically. Userspace takes a map away before it
    // reads it.
    let is_first = unsafe { add(sum.as_ptr(), false, 1, result, begin_ns, now_ns) };
    // Writes need no name here: their requests follow soon and report it. Last, because the verifier would follow it for each kind of sum.
    if let Program::Read = program
        && is_first
    {
        name(file);
    }
}

/// Adds `calls` calls, which returned `result` in total, to their sum. Returns whether they are the first ones in it.
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
    // SAFETY: the caller passes a map value, which stays in place while the program runs; every CPU adds atomically.
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

/// Adds the duration of a call whose begin is known.
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
    // SAFETY: the caller passes a map value; `latencies` is an element of the array; every CPU adds atomically.
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

/// The sum for a call on this `struct file`.
#[inline(always)]
fn sum_of<M: Memory>(program: Program, file: u64, now_ns: u64) -> Option<NonNull<AppValue>> {
    let own = &DIRECT.app;
    // By the helper: these programs also load on kernels that do not pass threads as typed pointers.
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
            Who::calling(|| uid, || cgroup),
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

/// The directory entry (`struct dentry`) by which a `struct file` was opened.
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

/// The number of the alternative place.
#[inline(always)]
fn other(nth: u64) -> Option<u64> {
    in_range(nth ^ 1)
}

/// The verifier requires this check where it does not know the program, and for the alternative place. All 64 bits are checked at once: before
/// Linux 6.2 the verifier forgets bounds of partial registers.
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

/// Identifies the file of an inode: another file may reuse its address and number soon.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct File {
    /// The address of the inode.
    pub inode: u64,
    pub fileid: u64,
    /// The inode's generation. NFS has none: there it is the result of [`handle::fold`].
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

    /// A file of a local file system.
    #[inline(always)]
    pub fn of_local(inode: Address<impl Memory>) -> Self {
        let generation: u32 = inode.field_or_zero(&DIRECT.local.inode_generation);
        Self::with(inode, generation.into())
    }

    /// A file of NFS.
    #[inline(always)]
    pub fn of_nfs(inode: Address<impl Memory>) -> Self {
        let handle = file_operation::handle_in_typed(inode);
        Self::with(inode, handle.map_or(0, handle::fold))
    }

    /// A file of either kind.
    #[inline(always)]
    pub fn of<M: Memory>(inode: Address<M>) -> Self {
        let superblock = Address::<M>::new(inode.field_or_zero(&DIRECT.inode_superblock));
        match superblock.field_or_zero(&DIRECT.local.superblock_magic) {
            NFS_SUPER_MAGIC => Self::of_nfs(inode),
            _ => Self::of_local(inode),
        }
    }

    /// An NFS file as the filter sees it: the address of the directory above `entry` takes the place of the generation.
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
    // SAFETY: only computes an address inside the place; nothing is read.
    unsafe { &raw mut (*place).value }
}

/// The place that already has the sum.
#[inline(always)]
pub fn begun_before(
    places: *mut AppPlaces,
    nth: u64,
    file: File,
    (uid, cgroup): (u32, u64),
    now_ns: u64,
) -> Option<NonNull<AppPlace>> {
    // SAFETY: the places are an element of the array, and `nth` was checked by `in_range`. Only this CPU and program begin sums in them.
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
        // The next window uses the alternative place until userspace has taken the sums of this window.
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
    // SAFETY: `half` is 0 or 1, and the caller guarantees that `nth` is inside a half.
    unsafe {
        let half = (&raw const (*places).half).read_volatile() as usize & 1;
        (&raw mut (*places).halves[half])
            .cast::<AppPlace>()
            .add(nth as usize)
    }
}

/// Finds or begins the sum in its place or in a map.
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
            Who::calling(|| key.uid, || key.cgroup),
        );
        return None;
    }
    if !is_known {
        key.fileid = 0;
    }
    claim(places, nth, File::of_nfs(inode), &mut key, pid, begin_ns)
}

/// Claims a place for a new sum, or finds the sum in a map. Sums with [`UNCOUNTED`] use no map.
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
    // SAFETY: `in_range` checks the numbers. Only this CPU and program write the place until userspace has taken its half.
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
            // If userspace has just exchanged the halves, the place may be in either one: then it gets no latencies.
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

/// The hash of the file's handle; a value above 32 bits if unknown. An `Option` would be returned through memory.
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
    // SAFETY: a map value, which stays in place while the program runs. CPUs that race store any one of their pids.
    unsafe { (&raw mut (*sum).pid).write_volatile(pid) };
    Some(sum)
}

/// Reports the path of the file, by the name that it was opened by. A fully cached file sends no request that would report it.
#[inline(never)]
fn name(file: u64) {
    if let Some((inode, entry)) = opened(file) {
        paths::name_file::<Probe>(inode, entry);
    }
}

/// The inode of a `struct file` and the name that it was opened by, if paths are read.
#[inline(always)]
pub fn opened(file: u64) -> Option<(u64, u64)> {
    let own = &DIRECT.app;
    if global(&PATHS) == 0 || global(&own.file_entry) == 0 {
        return None;
    }
    let file = Address::<Probe>::new(file);
    Some((file.field(&own.file_inode)?, file.field(&own.file_entry)?))
}

//! Single calls of applications, where they are kept: a system call by which an application reads, writes, opens or syncs a file returns, and its
//! record goes into a ring of its own. It is in no sum of requests.

use core::ptr;

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_RB_NO_WAKEUP},
    btf_maps::RingBuf,
    helpers::{bpf_get_current_pid_tgid, generated::bpf_ringbuf_output},
    macros::{btf_map, map},
    maps::{Array, PerCpuArray},
};
use trackiops_schemas::ebpf::{
    app_sums::{AppBegin, AppKey, FILE_SYSTEM, OPENS, READS, SYNCS, WRITES},
    file_op_sums::NFS_SUPER_MAGIC,
    local::FILE_SYSTEM_HASH,
    ring::{NO_OFFSET, RequestRecord, flags},
    syscalls::{RING_BEGINS as RINGS, RingBegin, kept, kinds},
};

use crate::{
    application,
    ceiling::valid_begin,
    cgroup, filter,
    globals::{DIRECT, FILTER},
    io_submit::{self, Batches, MOST_BATCHES},
    kernel_memory::{Address, Memory, Probe, global, now_ns, zero},
    local, maps,
    syscalls::{MADE_UP, NO_DESCRIPTOR, file_of},
};

/// Where they are handed over. Userspace gives it its size.
#[btf_map]
static CALL_RING: RingBuf<u8, 4096> = RingBuf::new();

/// Calls that found no room there.
#[map]
static CALLS_LEFT_OUT: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// When threads began them: calls for files of NFS are timed elsewhere as well.
#[map]
static CALL_BEGINS: Array<AppBegin> = Array::with_max_entries(1, 0);

/// When requests of io_uring began.
#[map]
static RING_BEGINS: Array<RingBegin> = Array::with_max_entries(1, 0);

/// Stands for the position of the file before the call.
const POSITION: u64 = NO_OFFSET - 1;

/// `O_APPEND` (include/uapi/asm-generic/fcntl.h).
const APPEND: u32 = 0o2000;

/// A call begins.
#[inline(always)]
pub fn begun() {
    application::note_begin(&CALL_BEGINS);
}

/// Hands a call over that has returned. Memory is read by the helper, whatever reads the rest: who keeps single calls pays for each.
#[inline(never)]
pub fn keep(registers: u64, kind: u8, result: i64) {
    let own = &DIRECT.syscalls;
    // See `keep_submitted`.
    if kind == kinds::SUBMITS {
        return;
    }
    let begin_ns = begin_ns();
    let call = Address::<Probe>::new(registers);
    let first: u32 = call.held_or_zero(&own.first);
    // What the verifier follows for each kind of call is this, and handing over for what is read and for the rest.
    let (read, other, direction, result) = match kind & !kinds::AT {
        kinds::READS => (first, NO_DESCRIPTOR, READS, result),
        kinds::WRITES => (NO_DESCRIPTOR, first, WRITES, result),
        kinds::SENDS => (call.held_or_zero(&own.second), first, WRITES, result),
        kinds::COPIES => (first, call.held_or_zero(&own.third), WRITES, result),
        kinds::SYNCS => (NO_DESCRIPTOR, first, SYNCS, result.min(0)),
        kinds::OPENS if result >= 0 => (NO_DESCRIPTOR, result as u32, OPENS, 0),
        _ => return,
    };
    let mut at = NO_OFFSET;
    if kind & kinds::AT != 0 {
        at = call.field_or_zero(&own.fourth);
    }
    // By `preadv2` and `pwritev2` at -1 as well. Where the others move their positions is not looked at.
    if kind & !kinds::AT <= kinds::WRITES && at == NO_OFFSET {
        at = POSITION;
    }
    if read != NO_DESCRIPTOR {
        let _ = hand_over(read, READS, at, result, begin_ns);
    }
    if other != NO_DESCRIPTOR {
        let _ = hand_over(other, direction, at, result, begin_ns);
    }
}

#[inline(always)]
fn begin_of_ring(request: u64) -> Option<*mut RingBegin> {
    let place = Address::<Probe>::new(request).hash::<{ RINGS.ilog2() }>();
    RING_BEGINS.get_ptr_mut(place)
}

/// A request of io_uring begins.
#[inline(always)]
pub fn ring_begun(request: u64) {
    if let Some(begin) = begin_of_ring(request) {
        let what = RingBegin {
            request,
            begin_ns: now_ns(),
            thread: bpf_get_current_pid_tgid(),
            position: Address::<Probe>::new(request).field_or_zero(&DIRECT.syscalls.ring_position),
        };
        // SAFETY: an element of an array. Requests with the same place write over each other, and see that at their ends.
        unsafe { begin.write_volatile(what) };
    }
}

/// Hands a request of io_uring over that has completed. Where its begin is not known, its thread is the one in which it completes.
#[inline(never)]
pub fn keep_of_ring(request: u64, file: u64, direction: u32, result: i64) {
    let (mut thread, mut begin_ns, mut offset) = (bpf_get_current_pid_tgid(), 0, NO_OFFSET);
    if let Some(begin) = begin_of_ring(request) {
        // SAFETY: as above.
        unsafe {
            let known = begin.read_volatile();
            if known.request == request && valid_begin::<Probe>(known.begin_ns) != 0 {
                (&raw mut (*begin).request).write_volatile(0);
                (thread, begin_ns) = (known.thread, known.begin_ns);
                if direction != SYNCS {
                    offset = known.position;
                }
            }
        }
    }
    let _ = hand_over_file(thread, file, direction, offset, result, begin_ns);
}

#[inline(never)]
fn hand_over(
    descriptor: u32,
    direction: u32,
    offset: u64,
    result: i64,
    begin_ns: u64,
) -> Option<()> {
    let thread = bpf_get_current_pid_tgid();
    let file = file_of::<Probe>(Probe::thread(), descriptor)?;
    hand_over_file(thread, file, direction, offset, result, begin_ns)
}

#[inline(always)]
fn hand_over_file(
    thread: u64,
    file: u64,
    direction: u32,
    mut offset: u64,
    result: i64,
    begin_ns: u64,
) -> Option<()> {
    let mut record = of_file(thread, file, direction, begin_ns)?;
    // Linux appends, wherever `pwrite` wants it.
    if direction == WRITES && offset != POSITION && appends(file) {
        offset = NO_OFFSET;
    }
    let done = result.max(0).cast_unsigned();
    if offset == POSITION {
        let after: u64 = Address::<Probe>::new(file).field(&DIRECT.syscalls.file_position)?;
        offset = after.wrapping_sub(done);
    }
    record.offset = offset;
    record.asked_bytes = done as u32;
    record.done_bytes = done as u32;
    record.error = result.min(0) as i32;
    output(&record);
    Some(())
}

#[inline(always)]
fn appends(file: u64) -> bool {
    let flags: u32 = Address::<Probe>::new(file).field_or_zero(&DIRECT.syscalls.file_flags);
    flags & APPEND != 0
}

/// The record of a call that ends now, but for what it transferred and where; `None` if nobody wants it.
#[inline(always)]
fn of_file(thread: u64, file: u64, direction: u32, begin_ns: u64) -> Option<RequestRecord> {
    let (own, app) = (&DIRECT.syscalls, &DIRECT.app);
    let file = Address::<Probe>::new(file);
    let inode_address: u64 = file.field(&app.file_inode)?;
    let inode = Address::<Probe>::new(inode_address);
    let mode: u16 = inode.field(&DIRECT.local.inode_mode)?;
    if !local::is_regular(mode) && !local::is_device(mode) {
        return None;
    }
    let superblock = Address::<Probe>::new(inode.field(&DIRECT.inode_superblock)?);
    let magic: u64 = superblock.field(&DIRECT.local.superblock_magic)?;
    let cred = Address::<Probe>::new(file.field(&app.file_cred)?);
    let mut key = AppKey {
        fileid: 0,
        cgroup: cgroup::of_local_thread::<Probe>(Probe::thread),
        window: 0,
        dev: 0,
        handle_hash: 0,
        uid: cred.held(&DIRECT.cred_uid)?,
        direction,
    };
    let mut bits = flags::CALL | flags::UNSPLIT;
    if magic == NFS_SUPER_MAGIC {
        if global(&own.keeps) & kept::NFS == 0 {
            return None;
        }
        key.fileid = inode.field(&DIRECT.inode_number)?;
        key.dev = superblock.field(&DIRECT.superblock_dev)?;
        let hash = application::hash(inode_address);
        if hash > u64::from(u32::MAX) {
            return None;
        }
        key.handle_hash = hash as u32;
    } else {
        if MADE_UP.contains(&magic) {
            return None;
        }
        local::describe(&mut key, inode, superblock, magic)?;
        bits |= flags::BLOCK;
    }
    let pid = (thread >> 32) as u32;
    if global(&FILTER) != 0 && !filter::admits_call(&key, pid, file) {
        return None;
    }
    if key.direction & FILE_SYSTEM != 0 {
        (key.fileid, key.handle_hash) = (0, FILE_SYSTEM_HASH);
    }
    bits |= match direction {
        WRITES => flags::WRITE,
        SYNCS => flags::SYNC,
        OPENS => flags::OPEN,
        _ => 0,
    };
    let file_flags: u32 = file.field(&own.file_flags)?;
    if file_flags & global(&own.direct_flag) != 0 {
        bits |= flags::DIRECT;
    }
    let end_ns = now_ns();
    let mut latency_ns = end_ns.saturating_sub(begin_ns);
    if begin_ns == 0 {
        bits |= flags::UNTIMED;
        latency_ns = 0;
    }
    Some(RequestRecord {
        end_ns,
        latency_ns,
        fileid: key.fileid,
        offset: NO_OFFSET,
        asked_bytes: 0,
        done_bytes: 0,
        dev: key.dev,
        handle_hash: key.handle_hash,
        error: 0,
        pid,
        flags: bits,
        uid: key.uid,
        cgroup: key.cgroup,
        queue_ns: zero(),
        rtt_ns: zero(),
        xid: thread as u32,
        retransmissions: 0,
    })
}

/// What the records of requests of one descriptor have in common that one call has submitted.
#[repr(C)]
struct Common {
    record: RequestRecord,
    /// All bits where Linux appends what is written, wherever it is to go; else none.
    appends: u64,
}

/// When this thread's call began that returns, ns; 0 if nobody knows.
#[inline(always)]
fn begin_ns() -> u64 {
    application::take_begin::<Probe>(&CALL_BEGINS)
}

/// Looks up what the requests of a descriptor have in common. False if nobody wants them.
#[inline(never)]
fn describe(common: *mut Common, descriptor: u32, begin_ns: u64) -> bool {
    let found = || {
        let file = file_of::<Probe>(Probe::thread(), descriptor)?;
        let record = of_file(bpf_get_current_pid_tgid(), file, READS, begin_ns)?;
        Some((record, if appends(file) { u64::MAX } else { 0 }))
    };
    let Some((record, appends)) = found() else {
        return false;
    };
    // SAFETY: by the caller.
    unsafe {
        (&raw mut (*common).record).write_volatile(record);
        (&raw mut (*common).appends).write_volatile(appends);
    }
    true
}

/// This CPU's element belongs to the program on the call: the kernel skips it while it runs there.
#[map]
static COMMON: PerCpuArray<[Common; MOST_BATCHES]> = PerCpuArray::with_max_entries(1, 0);

/// Hands over the requests of a call that are in its batches, as calls that took as long as that call.
#[inline(always)]
pub fn keep_submitted(requests: u64, count: u32, batches: *const Batches) {
    let begin_ns = begin_ns();
    let Some(all) = COMMON.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: of the maps.
    unsafe {
        for number in 0..MOST_BATCHES {
            let its = (&raw const (*batches)[number].of).read_volatile();
            if its == 0 {
                break;
            }
            let common = &raw mut (*all)[number];
            if !describe(common, (its - 1) as u32, begin_ns) {
                // What has ended has another time.
                (&raw mut (*common).record.end_ns).write_volatile(0);
            }
        }
    }
    hand_over_submitted(requests, count, batches);
}

/// In a function of its own: what it has on the stack must not be there while they are described.
#[inline(never)]
fn hand_over_submitted(requests: u64, count: u32, batches: *const Batches) {
    let Some(all) = COMMON.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: as above.
    unsafe {
        io_submit::each(requests, count, batches, |place, request| {
            let common = &raw mut (*all)[place];
            let record = &raw mut (*common).record;
            if (&raw const (*record).end_ns).read_volatile() == 0 {
                return;
            }
            let is_write = u64::from(request.operation & 1);
            let appends = (&raw const (*common).appends).read_volatile();
            let offset = request.offset | appends & is_write.wrapping_neg();
            let others = (&raw const (*record).flags).read_volatile() & !flags::WRITE;
            (&raw mut (*record).flags).write_volatile(others | flags::WRITE * is_write as u32);
            (&raw mut (*record).offset).write_volatile(offset);
            (&raw mut (*record).asked_bytes).write_volatile(request.bytes as u32);
            (&raw mut (*record).done_bytes).write_volatile(request.bytes as u32);
            output(&*record);
        });
    }
}

/// Hands a record over.
#[inline(always)]
pub fn output(record: &RequestRecord) {
    // SAFETY: a map, and a record that the verifier sees filled.
    unsafe {
        let ring = ptr::from_ref(&CALL_RING).cast_mut().cast();
        let from = ptr::from_ref(record).cast_mut().cast();
        let size = size_of::<RequestRecord>() as u64;
        if bpf_ringbuf_output(ring, from, size, u64::from(BPF_RB_NO_WAKEUP)) != 0 {
            maps::count(&CALLS_LEFT_OUT, 0);
        }
    }
}

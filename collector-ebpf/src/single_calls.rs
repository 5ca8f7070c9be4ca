//! Single calls of applications, where they are kept: when a system call that reads, writes, opens or syncs a file returns, its record goes
//! into a separate ring. Sums of requests do not include these records.

use core::{array, ptr};

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_RB_NO_WAKEUP},
    btf_maps::RingBuf,
    helpers::{
        bpf_get_current_pid_tgid,
        generated::{bpf_ringbuf_output, bpf_ringbuf_reserve, bpf_ringbuf_submit},
    },
    macros::{btf_map, map},
    maps::{Array, PerCpuArray},
};
use trackiops_schemas::ebpf::{
    app_sums::{AppKey, FILE_SYSTEM, LOCAL, OPENS, READS, SYNCS, UNCOUNTED, WRITES},
    file_op_sums::NFS_SUPER_MAGIC,
    local::FILE_SYSTEM_HASH,
    ring::{NO_OFFSET, RequestRecord, flags},
    syscalls::{RING_BUCKETS, RING_PLACES, RingBegin, kept, ring_place},
};

use crate::{
    ceiling::valid_begin,
    cgroup, filter,
    globals::{DIRECT, FILTER},
    io_submit::{self, Batches, MOST_BATCHES},
    kernel_memory::{Address, Memory, Probe, exchange, global, now_ns, opaque, zero},
    local, maps,
    syscalls::{self, Ended, MADE_UP, file_of},
};

/// Records of single calls, on their way to userspace, which sets the size.
#[btf_map]
static CALL_RING: RingBuf<u8, 4096> = RingBuf::new();

/// Count of calls that found no room in the ring.
#[map]
static CALLS_LEFT_OUT: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// When requests of io_uring began, by a hash of the request's address.
#[map]
static RING_BEGINS: Array<Bucket> = Array::with_max_entries(1, 0);

/// Requests whose addresses have the same hash.
type Bucket = [RingBegin; RING_PLACES];

/// Stands for the file's position before the call.
pub const POSITION: u64 = NO_OFFSET - 1;
/// Marks a call that is not handed over.
pub const NOT_KEPT: u64 = NO_OFFSET - 2;

/// `O_APPEND` (include/uapi/asm-generic/fcntl.h).
const APPEND: u64 = 0o2000;

/// What distinguishes a single call from others in the same sum.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Kept {
    /// The offset in the file, or [`NO_OFFSET`], [`POSITION`] or [`NOT_KEPT`].
    pub at: u64,
    /// When it began, ns; 0 if unknown.
    pub begin_ns: u64,
    /// The thread that began it.
    pub thread: u64,
}

impl Kept {
    /// The call is not handed over.
    pub const NOT: Self = Self {
        at: NOT_KEPT,
        begin_ns: 0,
        thread: 0,
    };
}

/// Hands over a call that has ended. `file_flags` are the `f_flags` of its `struct file`.
///
/// # Safety
///
/// `key` and `ended` are valid for reads.
#[inline(never)]
pub unsafe fn keep<M: Memory>(
    key: *const AppKey,
    file: u64,
    file_flags: u64,
    end_ns: u64,
    ended: *const Ended,
) {
    // SAFETY: the caller guarantees that both are valid for reads.
    let (key, ended) = unsafe { (&*key, &*ended) };
    let Kept {
        at,
        begin_ns,
        thread,
    } = ended.kept;
    let done = ended.result.max(0).cast_unsigned();
    let direction = key.direction & !(LOCAL | FILE_SYSTEM | UNCOUNTED);
    let mut offset = at;
    if at == POSITION {
        let after: u64 = M::file(file).field_or_zero(&DIRECT.syscalls.file_position);
        offset = after.wrapping_sub(done);
    } else if direction == WRITES && file_flags & APPEND != 0 {
        // Linux appends, whatever the offset of `pwrite`.
        offset = NO_OFFSET;
    }
    let mut bits = bits_of(direction, key.direction, file_flags);
    let mut latency_ns = end_ns.saturating_sub(begin_ns);
    if begin_ns == 0 {
        bits |= flags::UNTIMED;
        latency_ns = 0;
    }
    let is_file = key.direction & FILE_SYSTEM == 0;
    let Some(record) = reserve() else {
        return;
    };
    macro_rules! write {
        ($field:ident, $value:expr) => {
            // SAFETY: `reserve` returned room for a whole record, which only this program writes to.
            unsafe { (&raw mut (*record).$field).write_volatile($value) }
        };
    }
    write!(end_ns, end_ns);
    write!(latency_ns, latency_ns);
    write!(fileid, if is_file { key.fileid } else { 0 });
    write!(offset, offset);
    write!(asked_bytes, done as u32);
    write!(done_bytes, done as u32);
    write!(dev, key.dev);
    write!(
        handle_hash,
        if is_file {
            key.handle_hash
        } else {
            FILE_SYSTEM_HASH
        }
    );
    write!(error, ended.result.min(0) as i32);
    write!(pid, (thread >> 32) as u32);
    write!(flags, bits);
    write!(uid, key.uid);
    write!(cgroup, key.cgroup);
    write!(queue_ns, 0);
    write!(rtt_ns, 0);
    write!(xid, thread as u32);
    write!(retransmissions, 0);
    submit(record);
}

/// The flags of a record except for [`flags::UNTIMED`].
#[inline(always)]
fn bits_of(direction: u32, of_key: u32, file_flags: u64) -> u32 {
    let mut bits = flags::CALL | flags::UNSPLIT;
    if of_key & LOCAL != 0 {
        bits |= flags::BLOCK;
    }
    bits |= match direction {
        WRITES => flags::WRITE,
        SYNCS => flags::SYNC,
        OPENS => flags::OPEN,
        _ => 0,
    };
    if file_flags & u64::from(global(&DIRECT.syscalls.direct_flag)) != 0 {
        bits |= flags::DIRECT;
    }
    bits
}

/// Room for a record in the ring. The caller writes every member.
#[inline(always)]
fn reserve() -> Option<*mut RequestRecord> {
    // SAFETY: helpers take the address of a map object, and `CALL_RING` is one.
    let room = unsafe {
        let ring = ptr::from_ref(&CALL_RING).cast_mut().cast();
        bpf_ringbuf_reserve(ring, size_of::<RequestRecord>() as u64, 0)
    };
    if room.is_null() {
        maps::count(&CALLS_LEFT_OUT, 0);
        return None;
    }
    Some(room.cast())
}

/// Submits a record that [`reserve`] returned.
#[inline(always)]
fn submit(record: *mut RequestRecord) {
    // SAFETY: `reserve` returned this record, and it is submitted only once.
    unsafe { bpf_ringbuf_submit(record.cast(), BPF_RB_NO_WAKEUP.into()) };
}

#[inline(always)]
fn bucket_of(request: u64) -> Option<*mut RingBegin> {
    let number = Address::<Probe>::new(request).hash::<{ RING_BUCKETS.ilog2() }>();
    Some(RING_BEGINS.get_ptr_mut(number)?.cast())
}

/// The word of a place that tells its request.
///
/// # Safety
///
/// `nth` is below [`RING_PLACES`].
#[inline(always)]
unsafe fn request_of(bucket: *mut RingBegin, nth: usize) -> *mut u64 {
    // SAFETY: only computes an address; the caller guarantees that `nth` is inside the bucket.
    unsafe { &raw mut (*bucket.add(nth)).request }
}

/// A request of io_uring begins.
#[inline(always)]
pub fn ring_begun(request: u64) {
    let Some(bucket) = bucket_of(request) else {
        return;
    };
    let what = RingBegin {
        request,
        begin_ns: now_ns(),
        thread: bpf_get_current_pid_tgid(),
        position: Address::<Probe>::new(request).field_or_zero(&DIRECT.syscalls.ring_position),
    };
    // Again if another CPU takes the place at the same time.
    for _ in 0..RING_PLACES {
        // SAFETY: each place is inside the bucket. Only the one whose exchange succeeds writes the rest of it, and only that request's completion
        // reads it.
        unsafe {
            let requests = array::from_fn(|nth| request_of(bucket, nth).read_volatile());
            let begins_ns =
                array::from_fn(|nth| (&raw const (*bucket.add(nth)).begin_ns).read_volatile());
            let (nth, before) = ring_place(requests, begins_ns, request);
            // The verifier requires this bound.
            let nth = opaque(nth as u64) as usize & (RING_PLACES - 1);
            if exchange(request_of(bucket, nth), before, request) == before {
                let begin = bucket.add(nth);
                (&raw mut (*begin).begin_ns).write_volatile(what.begin_ns);
                (&raw mut (*begin).thread).write_volatile(what.thread);
                (&raw mut (*begin).position).write_volatile(what.position);
                return;
            }
        }
    }
}

/// The begin of an io_uring request that completes. If it is unknown, the completing thread stands in for the one that began it.
#[inline(always)]
pub fn of_ring(request: u64, is_sync: bool) -> Kept {
    let mut kept = Kept {
        at: NO_OFFSET,
        begin_ns: 0,
        thread: bpf_get_current_pid_tgid(),
    };
    let Some(bucket) = bucket_of(request) else {
        return kept;
    };
    for nth in 0..RING_PLACES {
        // SAFETY: each place is inside the bucket. Its request is this one, so no other program writes to it, except that one for which the bucket
        // is full takes the place.
        unsafe {
            if request_of(bucket, nth).read_volatile() != request {
                continue;
            }
            let known = bucket.add(nth).read_volatile();
            if exchange(request_of(bucket, nth), request, 0) == request
                && valid_begin::<Probe>(known.begin_ns) != 0
            {
                (kept.thread, kept.begin_ns) = (known.thread, known.begin_ns);
                if !is_sync && known.position.cast_signed() >= 0 {
                    kept.at = known.position;
                }
            }
        }
        break;
    }
    kept
}

/// The record that submitted requests of a file share, without each request's own members; `None` if the filter does not want them.
#[inline(always)]
fn of_file<M: Memory>(file_address: u64, begin_ns: u64, hash: u64) -> Option<RequestRecord> {
    let (own, app) = (&DIRECT.syscalls, &DIRECT.app);
    let file = M::file(file_address);
    let inode = Address::<M::Typed>::new(file.field(&app.file_inode)?);
    let mode: u16 = inode.field(&DIRECT.local.inode_mode)?;
    if !local::is_regular(mode) && !local::is_device(mode) {
        return None;
    }
    let superblock = Address::<M::Typed>::new(inode.field(&DIRECT.inode_superblock)?);
    let magic: u64 = superblock.field(&DIRECT.local.superblock_magic)?;
    let cred = Address::<M::Typed>::new(file.field(&app.file_cred)?);
    let mut key = AppKey {
        fileid: 0,
        cgroup: cgroup::of_local_thread::<M>(M::thread),
        window: 0,
        dev: 0,
        handle_hash: 0,
        uid: cred.held(&DIRECT.cred_uid)?,
        direction: READS,
    };
    if magic == NFS_SUPER_MAGIC {
        if global(&own.keeps) & kept::NFS == 0 {
            return None;
        }
        key.fileid = inode.field(&DIRECT.inode_number)?;
        key.dev = superblock.field(&DIRECT.superblock_dev)?;
        if hash > u64::from(u32::MAX) {
            return None;
        }
        key.handle_hash = hash as u32;
    } else {
        if MADE_UP.contains(&magic) {
            return None;
        }
        local::describe(&mut key, inode, superblock, magic)?;
    }
    let thread = bpf_get_current_pid_tgid();
    let pid = (thread >> 32) as u32;
    if global(&FILTER) != 0 && !filter::admits_call(&key, pid, Address::new(file_address)) {
        return None;
    }
    if key.direction & FILE_SYSTEM != 0 {
        (key.fileid, key.handle_hash) = (0, FILE_SYSTEM_HASH);
    }
    let file_flags: u32 = file.field(&own.file_flags)?;
    let mut bits = bits_of(READS, key.direction, file_flags.into());
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

/// What the records of one descriptor share, among the requests of one call.
#[repr(C)]
struct Common {
    record: RequestRecord,
    /// All bits set if Linux appends writes to the file regardless of their offset; else 0.
    appends: u64,
}

/// Looks up what the requests of a descriptor share. False if they are not wanted.
#[inline(never)]
fn describe<M: Memory>(common: *mut Common, file: u64, begin_ns: u64, hash: u64) -> bool {
    let found = || {
        let file_flags: u32 = M::file(file).field_or_zero(&DIRECT.syscalls.file_flags);
        let appends = u64::from(file_flags) & APPEND != 0;
        let record = of_file::<M>(file, begin_ns, hash)?;
        Some((record, if appends { u64::MAX } else { 0 }))
    };
    let Some((record, appends)) = found() else {
        return false;
    };
    // SAFETY: the caller passes an element of `COMMON`, which only this program writes to.
    unsafe {
        (&raw mut (*common).record).write_volatile(record);
        (&raw mut (*common).appends).write_volatile(appends);
    }
    true
}

/// This CPU's element belongs to the program on the call: the kernel skips the program while it runs on this CPU.
#[map]
static COMMON: PerCpuArray<[Common; MOST_BATCHES]> = PerCpuArray::with_max_entries(1, 0);

/// Hands over the batched requests of a call, as calls that took as long as that call.
#[inline(always)]
pub fn keep_submitted<M: Memory>(
    requests: u64,
    count: u32,
    batches: *const Batches,
    begin_ns: u64,
) {
    let Some(all) = COMMON.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: elements of per-CPU maps, which only this program uses. `number` is below the length of both arrays.
    unsafe {
        for number in 0..MOST_BATCHES {
            let its = (&raw const (*batches)[number].of).read_volatile();
            if its == 0 {
                break;
            }
            let common = &raw mut (*all)[number];
            let file = file_of::<M>(M::thread(), (its - 1) as u32).unwrap_or(0);
            // Computed here, because `describe` has no room on the stack for it.
            let hash = syscalls::hash_if_kept(file);
            if file == 0 || !describe::<M>(common, file, begin_ns, hash) {
                // 0 marks a batch that is not handed over: every record has another end time.
                (&raw mut (*common).record.end_ns).write_volatile(0);
            }
        }
    }
    hand_over_submitted(requests, count, batches);
}

/// `#[inline(never)]`, so that its stack is free while [`describe`] runs.
#[inline(never)]
fn hand_over_submitted(requests: u64, count: u32, batches: *const Batches) {
    let Some(all) = COMMON.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: elements of per-CPU maps, which only this program uses; `each` passes a `place` below `MOST_BATCHES`.
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
    // SAFETY: helpers take the address of a map object, and the record is valid for reads.
    unsafe {
        let ring = ptr::from_ref(&CALL_RING).cast_mut().cast();
        let from = ptr::from_ref(record).cast_mut().cast();
        let size = size_of::<RequestRecord>() as u64;
        if bpf_ringbuf_output(ring, from, size, u64::from(BPF_RB_NO_WAKEUP)) != 0 {
            maps::count(&CALLS_LEFT_OUT, 0);
        }
    }
}

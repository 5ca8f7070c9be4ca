//! The block level: when a request to a device completes, its bytes go to the files whose pages it moved.
//!
//! One program on `block_rq_complete(request, status, bytes)`, which the kernel calls before it ends the bios of the request
//! (`blk_update_request`, block/blk-mq.c). It keeps no state between a request's start and completion.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use trackiops_schemas::ebpf::{
    block::BLOCK_STATUSES,
    left_out::table,
    local::FILE_SYSTEM_HASH,
    ring::{NO_USER, RequestRecord, filters, flags},
};

use crate::{
    application,
    completion::Completion,
    filter::{self, Who},
    globals::{BLOCK_ERRNOS, DIRECT, FILTER, PATHS},
    kernel_memory::{
        Address, Memory, Probe, Reader, copy_words, global, if_zero, now_ns, opaque, untraced,
        verified_once, word,
    },
    left_out, local, paths,
};

/// Limits of one request: bios looked at, and runs of consecutive bios of one file. The verifier follows no more. Bytes beyond the limits are
/// counted for the other files of the device.
const MOST_BIOS: usize = 256;
const MOST_RUNS: usize = 32;
/// Most steps from a disk's bio back to the file's bio: one for each device in between that splits or clones bios.
const MOST_COPIES: usize = 5;
/// Where the search for the original of a cloned bio looks: the first words after `bi_private`, and the words before the bio.
const WORDS_BEHIND: u64 = 12;
const WORDS_BEFORE: u64 = 20;
/// An original is less than 8 TiB from its clone: see [`if_near`].
const NEAR_BITS: u32 = 43;
/// `1 << BIO_CLONED` (include/linux/blk_types.h).
const CLONED: u16 = 1 << 1;
/// Runs of clones that are searched for an original; a power of two.
const MOST_COPIED: usize = 4;
/// `REQ_OP_MASK`, `REQ_OP_DISCARD` and the bit of operations that write (include/linux/blk_types.h).
const OPERATION: u32 = 0xff;
const DISCARD: u32 = 3;
const WRITES: u32 = 1;
/// Bits in a page's `mapping` that mark a value that is not a mapping (`PAGE_MAPPING_FLAGS`, include/linux/page-flags.h).
pub const NO_MAPPING: u64 = 3;
/// Bytes of `struct bio_vec`; userspace checks this size.
const VECTOR_BYTES: u64 = 16;

/// File systems that may be on several disks, by their magic numbers (include/uapi/linux/magic.h, fs/bcachefs/bcachefs_format.h).
const ON_SEVERAL_DISKS: [u64; 5] = [
    0x9123_683e, // btrfs
    0xca45_1a4e, // bcachefs
    0xe0f5_e1e2, // erofs
    0xf2f5_2010, // f2fs
    0x5846_5342, // xfs, whose real-time files are on a disk of their own
];

/// The owner of a bio's pages: the address of an inode, whose lowest bit marks direct I/O; 0 if unknown; or this value.
const NOT_LOOKED_AT: u64 = 2;
const IS_DIRECT: u64 = 1;

/// Files whose path was reported lately, by a hash of the inode: [`token`]s.
static mut NAMED_INODES: [u64; 1 << NAMED_BITS] = [0; 1 << NAMED_BITS];
const NAMED_BITS: u32 = 9;

/// `block_rq_complete(request, status, bytes)`.
#[inline(always)]
pub fn completed<M: Memory>(request: u64, status: u64, bytes: u64) {
    // It is never 0, but the verifier requires the check.
    if request != 0 {
        account::<M>(Address::new(request), status as u32, bytes as u32);
    }
}

#[inline(always)]
fn account<M: Memory>(request: Address<M::Trusted>, status: u32, bytes: u32) {
    let own = &DIRECT.block;
    let operation = request.held_or_zero::<u32>(&own.request_operation) & OPERATION;
    // Requests that the kernel's statistics leave out, such as its own flushes, have no `part`. Discards move no bytes; they have separate counters.
    let part: u64 = request.held_or_zero(&own.request_part);
    if part == 0 || operation == DISCARD {
        return;
    }
    let mut bits = flags::BLOCK;
    if operation & WRITES != 0 {
        bits |= flags::WRITE;
    }
    // A request may complete in several pieces. One in a flush sequence has an `end_io` at the end of its data, and completes once more without
    // bytes (`blk_insert_flush`, block/blk-flush.c).
    let left: u32 = request.held_or_zero(&own.request_left);
    if left != bytes || request.held_or_zero::<u64>(&own.request_end) != 0 {
        bits |= flags::PIECE;
    }
    // Most requests have one bio and take this short way.
    if M::SINCE_6_2 {
        let bio = request.follow(&own.request_bio);
        if bio.field_or_zero::<u32>(&own.bio_bytes) >= bytes
            && of_one::<M>(request, bio, part, bits, bytes, status)
        {
            return;
        }
    }
    let Some(scratch) = take() else {
        // The programs that this one interrupts use all scratch areas.
        if let Some(completion) = Completion::seen::<M>() {
            completion.lost();
        }
        return;
    };
    let course = Course::of(request, status);
    let end_ns = course.end_ns;
    // SAFETY: `take` returned this element, and only this program writes to it until `leave`.
    unsafe {
        (&raw mut (*scratch).record.end_ns).write_volatile(end_ns);
        (*scratch).bits = course.note(&raw mut (*scratch).record, bits);
        (*scratch).device = Address::<M>::new(part).field_or_zero(&own.part_dev);
        (*scratch).disk = disk::<M>(request, part);
        (*scratch).bio = Address::<M>::new(request.0).held_or_zero(&own.request_bio);
        // One store each: the compiler turns plain assignments into a loop over bytes.
        (&raw mut (*scratch).left).write_volatile(u64::from(bytes));
        (&raw mut (*scratch).unnamed).write_volatile(0);
        (&raw mut (*scratch).runs).write_volatile(0);
        (&raw mut (*scratch).cloned).write_volatile(0);
        walk::<M>(scratch);
        let unnamed = (&raw const (*scratch).unnamed).read_volatile();
        for number in 0..MOST_RUNS {
            if number as u64 >= unnamed {
                break;
            }
            let inode = (&raw const (*scratch).unnamed_inodes[number]).read_volatile();
            name(Address::new(inode), end_ns);
        }
        leave(scratch);
    }
}

/// Writes one member of a record. A copy of several members would become a loop over their bytes.
macro_rules! write {
    ($record:ident.$field:ident, $value:expr) => {
        (&raw mut (*$record).$field).write_volatile($value)
    };
}

/// Writes the bytes that were moved, their first sector, and the cgroup that the bio is charged to.
///
/// # Safety
///
/// `record` is valid for writes.
#[inline(always)]
unsafe fn note_bytes<B: Memory>(
    record: *mut RequestRecord,
    bio: Address<B>,
    bytes: u32,
    error: i32,
) {
    let sector: u64 = bio.field_or_zero(&DIRECT.block.bio_sector);
    // SAFETY: the caller guarantees that `record` is valid for writes.
    unsafe {
        write!(record.asked_bytes, bytes);
        write!(record.done_bytes, if error == 0 { bytes } else { 0 });
        write!(record.offset, sector << 9);
        write!(record.cgroup, group(bio));
    }
}

/// When a request completed and began, and how it ended.
struct Course {
    end_ns: u64,
    /// 0 if unknown, like `issued_ns`.
    start_ns: u64,
    /// When it went to its device.
    issued_ns: u64,
    error: i32,
}

impl Course {
    /// That of a request which completes now.
    #[inline(always)]
    fn of(request: Address<impl Reader>, status: u32) -> Self {
        let own = &DIRECT.block;
        Self {
            end_ns: now_ns(),
            start_ns: request.held_or_zero(&own.request_start),
            issued_ns: request.held_or_zero(&own.request_issued),
            error: errno(status),
        }
    }

    /// Writes the members that all records of a request share, and returns the flags of the first record.
    ///
    /// # Safety
    ///
    /// `record` is valid for writes.
    #[inline(always)]
    unsafe fn note(&self, record: *mut RequestRecord, mut bits: u32) -> u32 {
        let Self {
            end_ns,
            start_ns,
            issued_ns,
            error,
        } = *self;
        // The clock of BPF may lag by some ns.
        let mut latency_ns = since(end_ns, start_ns);
        if start_ns == 0 {
            bits |= flags::UNTIMED;
            latency_ns = 0;
        }
        // The kernel notes this time only if a feature such as writeback throttling needs it.
        let (mut queue_ns, mut rtt_ns) = (0, 0);
        if issued_ns == 0 {
            bits |= flags::UNSPLIT;
        } else {
            queue_ns = since(issued_ns, start_ns).min(latency_ns);
            rtt_ns = latency_ns - queue_ns;
        }
        // SAFETY: the caller guarantees that `record` is valid for writes.
        unsafe {
            write!(record.latency_ns, latency_ns);
            write!(record.queue_ns, queue_ns);
            write!(record.rtt_ns, rtt_ns);
            write!(record.error, error);
            write!(record.pid, 0);
            write!(record.uid, NO_USER);
            write!(record.xid, 0);
            write!(record.retransmissions, 0);
        }
        bits
    }
}

/// Makes the record of a request with one bio directly in its slot, without the scratch area, unless the filter leaves it out. Returns false if
/// there is no slot.
#[inline(always)]
fn of_one<M: Memory>(
    request: Address<M::Trusted>,
    bio: Address<M::Typed>,
    part: u64,
    bits: u32,
    bytes: u32,
    status: u32,
) -> bool {
    let own = &DIRECT.block;
    let device: u32 = Address::<M>::new(part).field_or_zero(&own.part_dev);
    let (mut inode, host) = direct::<M, M::Typed>(bio.field_or_zero(&own.bio_private), M::file);
    let mut direct = flags::DIRECT;
    let file = if inode != 0 && inode == host {
        file_of(Address::<M::Typed>::new(inode))
    } else {
        // Loaded again as a number: the verifier allows no arithmetic on a typed pointer.
        inode = original_file::<M>(Address::<M>::new(request.0).held_or_zero(&own.request_bio));
        if inode == 0 {
            inode = cached::<M>(Address::new(bio.0));
            direct = 0;
        }
        file_on::<M>(inode, device, || disk::<M>(request, part))
    };
    let file = match file {
        Some(file) => file,
        None => File::device(device),
    };
    let bits = untraced(bits | direct);
    // Nothing more is read of a request that is left out.
    if global(&FILTER) != 0 && is_left_out_lately(bits, bio, &file, inode, bytes) {
        return true;
    }
    let Some(slot) = Completion::free_slot::<M>() else {
        return false;
    };
    let Some(completion) = Completion::seen::<M>() else {
        return true;
    };
    let course = Course::of(request, status);
    // SAFETY: `free_slot` returned this slot, and only this CPU writes to it until `in_slot` publishes it.
    unsafe {
        write!(slot.flags, course.note(slot, bits));
        note_bytes(slot, bio, bytes, course.error);
        file.note(slot);
    }
    completion.in_slot(slot, course.end_ns, true);
    if file.fileid != 0 && global(&PATHS) != 0 {
        let inode = Address::new(inode);
        if is_unnamed(inode, &file, course.end_ns) {
            name(inode, course.end_ns);
        }
    }
    true
}

/// State of the walk through a request. Not on the stack: there the verifier would follow every number, on every way through every bio.
#[repr(C)]
pub struct Scratch {
    /// 1 while in use. A program may be interrupted by another one on the same CPU.
    busy: u64,
    /// The bio that the walk has reached.
    bio: u64,
    /// Bytes that are not yet assigned to a run.
    left: u64,
    /// Files whose path must be reported.
    unnamed: u64,
    /// Runs that were found.
    runs: u64,
    /// The owner of the last run's bytes.
    last: u64,
    /// The disk (`struct gendisk`).
    disk: u64,
    /// The device.
    device: u32,
    /// Flags of the next record.
    bits: u32,
    record: RequestRecord,
    run: [Run; MOST_RUNS],
    /// Indexes of the runs that begin with a clone, and their count.
    cloned_runs: [u64; MOST_COPIED],
    cloned: u64,
    unnamed_inodes: [u64; MOST_RUNS],
}

/// Consecutive bios with pages of one file.
#[repr(C)]
#[derive(Clone, Copy)]
struct Run {
    whose: u64,
    bio: u64,
    last_bio: u64,
    bytes: u64,
}

/// Requests complete in threads, in soft interrupts and in hard ones, and each kind may interrupt the ones before. On Linux 5.10 an
/// interrupted program runs again inside the interrupt.
const MOST_NESTED: u32 = 3;

#[map]
static BLOCK_SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(MOST_NESTED, 0);

/// A scratch area that only this program uses until [`leave`].
#[inline(never)]
fn take() -> Option<*mut Scratch> {
    for number in 0..MOST_NESTED {
        let scratch = BLOCK_SCRATCH.get_ptr_mut(number)?;
        // SAFETY: an element of this CPU. A program that interrupts between the load and the store has released the element when this one continues.
        unsafe {
            let busy = &raw mut (*scratch).busy;
            if busy.read_volatile() == 0 {
                busy.write_volatile(1);
                return Some(scratch);
            }
        }
    }
    None
}

#[inline(always)]
unsafe fn leave(scratch: *mut Scratch) {
    // SAFETY: `take` returned this element, and this program writes to it for the last time here.
    unsafe { (&raw mut (*scratch).busy).write_volatile(0) };
}

/// Hands over one record per run of pages of one file.
#[inline(always)]
unsafe fn walk<M: Memory>(scratch: *mut Scratch) {
    // SAFETY: `take` returned this element, and only this program writes to it until `leave`.
    unsafe {
        find_runs::<M>(scratch);
        for number in 0..MOST_COPIED {
            if number as u64 >= (&raw const (*scratch).cloned).read_volatile() {
                break;
            }
            let run = (&raw const (*scratch).cloned_runs[number]).read_volatile();
            if let Some(run) = self::run(scratch, opaque(run)) {
                trace::<M>(run);
            }
        }
        let runs = (&raw const (*scratch).runs).read_volatile();
        for number in 0..MOST_RUNS {
            if number as u64 >= runs {
                break;
            }
            let run = &raw const (*scratch).run[number];
            let bytes = (&raw const (*run).bytes).read_volatile();
            (&raw mut (*scratch).record.done_bytes).write_volatile(bytes as u32);
            let whose = (&raw const (*run).whose).read_volatile();
            let bio = (&raw const (*run).bio).read_volatile();
            hand_over::<M>(scratch, whose, bio);
        }
        let left = (&raw const (*scratch).left).read_volatile();
        if left != 0 {
            (&raw mut (*scratch).record.done_bytes).write_volatile(left as u32);
            hand_over::<M>(scratch, NOT_LOOKED_AT, 0);
        }
    }
}

/// Splits the request into runs of pages of one file.
#[inline(never)]
unsafe fn find_runs<M: Memory>(scratch: *mut Scratch) {
    let own = &DIRECT.block;
    // SAFETY: `take` returned this element, and only this program writes to it until `leave`; `place` is masked to the length of `cloned_runs`.
    unsafe {
        let (bio, left) = (&raw mut (*scratch).bio, &raw mut (*scratch).left);
        let (runs, last) = (&raw mut (*scratch).runs, &raw mut (*scratch).last);
        for _ in 0..MOST_BIOS {
            let this = Address::<M>::new(bio.read_volatile());
            let whose = owner::<M>(this.0);
            let number = runs.read_volatile();
            if number == 0 || whose != last.read_volatile() {
                let Some(run) = run(scratch, number) else {
                    break;
                };
                (&raw mut (*run).whose).write_volatile(whose);
                (&raw mut (*run).bio).write_volatile(this.0);
                (&raw mut (*run).bytes).write_volatile(0);
                last.write_volatile(whose);
                runs.write_volatile(number + 1);
                // Without a branch: the verifier would follow both ways, for each bio once more.
                let cloned = (&raw const (*scratch).cloned).read_volatile();
                let noted = (&raw mut (*scratch).cloned_runs).cast::<u64>();
                let place = cloned as usize & (MOST_COPIED - 1);
                noted.add(place).write_volatile(number);
                let flags = u64::from(this.field_or_zero::<u16>(&own.bio_flags) & CLONED);
                let is_cloned = !if_zero(flags) & if_zero(whose & IS_DIRECT) & 1;
                (&raw mut (*scratch).cloned).write_volatile(cloned + is_cloned);
            }
            let Some(run) = run(scratch, runs.read_volatile().wrapping_sub(1)) else {
                break;
            };
            (&raw mut (*run).last_bio).write_volatile(this.0);
            let before = left.read_volatile();
            let bytes = u64::from(this.field_or_zero::<u32>(&own.bio_bytes)).min(before);
            let bytes_of_run = (&raw const (*run).bytes).read_volatile() + bytes;
            (&raw mut (*run).bytes).write_volatile(bytes_of_run);
            left.write_volatile(before - bytes);
            bio.write_volatile(this.field_or_zero(&own.bio_next));
            if left.read_volatile() == 0 || bio.read_volatile() == 0 {
                break;
            }
        }
    }
}

/// Finds the owner of a run of clones. The first and the last bio must lead to the same file.
#[inline(never)]
unsafe fn trace<M: Memory>(run: *mut Run) {
    // SAFETY: `run` lies in the element that `take` returned, and only this program writes to it until `leave`.
    unsafe {
        let (first, last) = (
            (&raw const (*run).bio).read_volatile(),
            (&raw const (*run).last_bio).read_volatile(),
        );
        let inode = original_file::<M>(first);
        if inode != 0 && (last == first || original_file::<M>(last) == inode) {
            (&raw mut (*run).whose).write_volatile(inode | IS_DIRECT);
        }
    }
}

#[inline(always)]
unsafe fn run(scratch: *mut Scratch, number: u64) -> Option<*mut Run> {
    // SAFETY: `number` is below the length of the array.
    (number < MOST_RUNS as u64).then(|| unsafe { &raw mut (*scratch).run[number as usize] })
}

/// The owner of a bio's pages, which all belong to one file. Without a branch: the verifier would follow both ways, for each bio once more.
#[inline(never)]
fn owner<M: Memory>(bio: u64) -> u64 {
    let bio = Address::<M>::new(bio);
    // Direct I/O first, because its buffer may be a mapping of another file.
    let (inode, host) = direct::<M, M>(
        bio.field_or_zero(&DIRECT.block.bio_private),
        Address::<M>::new,
    );
    let is_direct = if_zero(inode ^ host) & !if_zero(inode);
    (inode | IS_DIRECT) & is_direct | cached(bio) & !is_direct
}

/// The inode of the file whose direct I/O a split or cloned bio carries, or 0.
///
/// ```text
/// split (`bio_chain`)     bi_private ------------------> original
/// MD (`md_io_clone`,      bi_private -> structure with a word -------> original
///     `r1bio`, `r10bio`)
/// dm (`dm_io`)            one word before the clone --> original
/// ```
///
/// A clone shares the vectors of its original (`bi_io_vec`), which identifies the original without any driver's types. Encryption and parity
/// use separate pages and vectors, so the search finds nothing there.
#[inline(always)]
fn original_file<M: Memory>(bio: u64) -> u64 {
    verified_once!(M, original_file_by_cast, original_file_by_probe: copied_from(bio: u64))
}

#[inline(always)]
fn copied_from<M: Memory>(bio: u64) -> u64 {
    let own = &DIRECT.block;
    let mut bio = bio;
    let vectors: u64 = Address::<M>::new(bio).field_or_zero(&own.bio_vectors);
    for step in 0..MOST_COPIES as u64 {
        // A bio that is not a clone owns its pages, so it has no original.
        let flags: u16 = Address::<M>::new(bio).field_or_zero(&own.bio_flags);
        if flags & CLONED == 0 || vectors == 0 {
            break;
        }
        bio = original::<M>(bio, vectors, step);
        if bio == 0 {
            break;
        }
        let private = Address::<M>::new(bio).field_or_zero(&own.bio_private);
        let (inode, host) = direct::<M, M>(private, Address::new);
        if inode != 0 && inode == host {
            return inode;
        }
    }
    0
}

/// Where each step last found an original, as numbers of [`candidate`]: it is tried first.
static mut ORIGINALS: [u64; MOST_COPIES] = [0; MOST_COPIES];

/// The original of a bio with these vectors, or 0.
#[inline(always)]
fn original<M: Memory>(bio: u64, vectors: u64, step: u64) -> u64 {
    let own = &DIRECT.block;
    let private: u64 = Address::<M>::new(bio).field_or_zero(&own.bio_private);
    // SAFETY: `step` is below `MOST_COPIES`, the length of the array.
    let last = unsafe { (&raw mut ORIGINALS).cast::<u64>().add(step as usize) };
    // SAFETY: `last` is an aligned word of the array. Another CPU may store a number that does not fit here; then the search runs.
    let place = unsafe { last.read_volatile() };
    let known = candidate::<M>(bio, private, place);
    if is_with::<M>(known, bio, vectors) {
        return known;
    }
    let (mut found, mut at) = (0, 0);
    // Without a branch: the verifier would follow both ways at each word.
    for place in 0..=WORDS_BEHIND + WORDS_BEFORE {
        let other = candidate::<M>(bio, private, place);
        let its: u64 = Address::<M>::new(other).field_or_zero(&own.bio_vectors);
        let is_it = if_zero(its ^ vectors) & !if_zero(other ^ bio) & if_zero(found);
        found |= other & is_it;
        at |= place & is_it;
    }
    let found = opaque(found);
    if found != 0 {
        // SAFETY: `last` is an aligned word of the array, and any number below `WORDS_BEHIND + WORDS_BEFORE + 1` is a valid hint.
        unsafe { last.write_volatile(at) };
    }
    found
}

/// Whether a bio has these vectors and differs from `other`.
#[inline(always)]
fn is_with<M: Memory>(bio: u64, other: u64, vectors: u64) -> bool {
    bio != other
        && Address::<M>::new(bio).field_or_zero::<u64>(&DIRECT.block.bio_vectors) == vectors
}

/// A possible address of the original: `bi_private`, then the words after it, then the words before the bio. 0 if no bio can be at that address.
#[inline(always)]
fn candidate<M: Memory>(bio: u64, private: u64, place: u64) -> u64 {
    let private = if_near(private, bio);
    let at = if place == 0 {
        return private;
    } else if place <= WORDS_BEHIND {
        private.wrapping_add((place - 1) * 8)
    } else {
        bio.wrapping_sub((place - WORDS_BEHIND) * 8)
    };
    if_near(word::<M>(at).unwrap_or(0), bio)
}

/// The address, or 0 if it is outside the direct map, where bios are. Reading device registers may change them; they are mapped at least 10 TiB
/// behind the end of memory (`kernel_randomize_memory`, arch/x86/mm/kaslr.c).
#[inline(always)]
fn if_near(address: u64, bio: u64) -> u64 {
    let distance = address.wrapping_sub(bio).wrapping_add(1 << NEAR_BITS);
    address & if_zero(distance >> (NEAR_BITS + 1))
}

/// For a bio's `bi_private` under direct I/O by iomap: the inode of its file, and the inode that this one names as its host. The word may point
/// to anything: it is a `struct iomap_dio` only if both are equal and not 0.
#[inline(always)]
fn direct<M: Memory, F: Memory>(private: u64, file: impl Fn(u64) -> Address<F>) -> (u64, u64) {
    let own = &DIRECT.block;
    let call = Address::<M>::new(Address::<M>::new(private).field_or_zero(&own.direct_call));
    let file = file(call.field_or_zero(&own.call_file));
    let inode: u64 = file.field_or_zero(&own.file_inode);
    (
        inode,
        Address::<F>::new(inode).field_or_zero(&own.inode_host),
    )
}

/// The inode whose page cache holds the first page of a bio, or 0.
#[inline(always)]
fn cached<M: Memory>(bio: Address<M>) -> u64 {
    let own = &DIRECT.block;
    let vectors: u64 = bio.field_or_zero(&own.bio_vectors);
    let index: u32 = bio.field_or_zero(&own.bio_index);
    // After an earlier completion, the index of the bio is behind the last vector.
    let bytes: u32 = bio.field_or_zero(&own.bio_bytes);
    let index = u64::from(index).wrapping_add(if_zero(u64::from(bytes)));
    let vector = Address::<M>::new(vectors.wrapping_add(index.wrapping_mul(VECTOR_BYTES)));
    let page = Address::<M>::new(vector.field_or_zero(&own.vector_page));
    let page = Address::<M>::new(head(page.0, page.field_or_zero(&DIRECT.cgroup.page_head)));
    let mapping: u64 = page.field_or_zero(&own.page_mapping);
    let inode: u64 = Address::<M>::new(mapping).field_or_zero(&own.mapping_host);
    // Pages outside any cache have other contents there, or bits that mark them.
    let mapping_in_inode = global(&own.inode_host).wrapping_sub(global(&own.mapping_host));
    let its = inode.wrapping_add(u64::from(mapping_in_inode));
    inode & if_zero(its ^ mapping | mapping & NO_MAPPING)
}

/// [`cgroup::head`] without a branch.
#[inline(always)]
fn head(page: u64, info: u64) -> u64 {
    let is_first = if_zero(info & 1);
    let is_mask = if_zero(info >> 32 ^ u64::from(u32::MAX));
    let first = page & info & is_mask | info.wrapping_sub(1) & !is_mask;
    page & is_first | first & !is_first
}

/// Completes the record with the owner of the pages and the cgroup of the bio, and hands it over. Later records of the same request are flagged
/// as pieces.
#[inline(never)]
fn hand_over<M: Memory>(scratch: *mut Scratch, whose: u64, bio: u64) {
    // SAFETY: `take` returned this element, and only this program writes to it until `leave`.
    unsafe {
        let record = &raw mut (*scratch).record;
        let bits = (&raw const (*scratch).bits).read_volatile();
        let bytes = (&raw const (*record).done_bytes).read_volatile();
        let error = (&raw const (*record).error).read_volatile();
        note_bytes(record, Address::<M>::new(bio), bytes, error);
        let mut file = File::device((&raw const (*scratch).device).read_volatile());
        if whose == NOT_LOOKED_AT {
            file.handle_hash = 0;
        }
        (*record).flags = match whose & IS_DIRECT {
            0 => bits,
            _ => bits | flags::DIRECT,
        };
        (*scratch).bits = bits | flags::PIECE;
        let inode = whose & !(IS_DIRECT | NOT_LOOKED_AT);
        let disk = (&raw const (*scratch).disk).read_volatile();
        if let Some(its) = file_on::<M>(inode, file.dev, || disk) {
            file = its;
        }
        file.note(record);
        if inode != 0 {
            let is_file = (&raw const (*record).fileid).read_volatile() != 0;
            let end_ns = (&raw const (*record).end_ns).read_volatile();
            if is_file && global(&PATHS) != 0 && is_unnamed(Address::new(inode), &file, end_ns) {
                let unnamed = (&raw const (*scratch).unnamed).read_volatile();
                if unnamed < MOST_RUNS as u64 {
                    (&raw mut (*scratch).unnamed_inodes[unnamed as usize]).write_volatile(inode);
                    (*scratch).unnamed = unnamed + 1;
                }
            }
        }
        deliver::<M>(&mut *record, &file, inode);
    }
}

/// The file that a record belongs to.
struct File {
    dev: u32,
    fileid: u64,
    handle_hash: u32,
}

impl File {
    /// Stands for the file system's metadata on this device, and for I/O on the device itself.
    #[inline(always)]
    fn device(dev: u32) -> Self {
        Self {
            dev,
            fileid: 0,
            handle_hash: FILE_SYSTEM_HASH,
        }
    }

    /// Writes the file into a record.
    ///
    /// # Safety
    ///
    /// `record` is valid for writes.
    #[inline(always)]
    unsafe fn note(&self, record: *mut RequestRecord) {
        // SAFETY: the caller guarantees that `record` is valid for writes.
        unsafe {
            write!(record.dev, self.dev);
            write!(record.fileid, self.fileid);
            write!(record.handle_hash, self.handle_hash);
        }
    }
}

/// The file of an inode; `None` for the cache of a block device.
#[inline(always)]
fn file_of<M: Memory>(inode: Address<M>) -> Option<File> {
    let (offsets, own) = (&DIRECT, &DIRECT.local);
    if local::is_device(inode.field_or_zero(&own.inode_mode)) {
        return None;
    }
    let superblock = Address::<M>::new(inode.field_or_zero(&offsets.inode_superblock));
    let fileid: u64 = inode.field_or_zero(&offsets.inode_number);
    let dev = superblock.field_or_zero(&offsets.superblock_dev);
    let magic = || superblock.field_or_zero(&own.superblock_magic);
    if local::is_metadata(magic, fileid) {
        return Some(File::device(dev));
    }
    Some(File {
        dev,
        fileid,
        handle_hash: inode.field_or_zero(&own.inode_generation),
    })
}

/// The file of an inode whose pages a request to a device moves; `None` if there is none or another device has counted them.
#[inline(always)]
fn file_on<M: Memory>(inode: u64, device: u32, disk: impl FnOnce() -> u64) -> Option<File> {
    if inode == 0 {
        return None;
    }
    let file = file_of(Address::<M>::new(inode))?;
    // Most file systems have the device number of their disk.
    (file.dev == device || is_first::<M>(inode, disk()) != 0).then_some(file)
}

/// 1 if no other disk completes a request for the same pages of a file before this one, else 0.
///
/// A stacked disk may pass on the pages themselves: a loop device with direct I/O, multipath, a target exported to its own machine.
/// Then both disks complete a request, and the disk that holds the file system counts for the file. Disks without a request queue, such as
/// linear and RAID, complete none.
#[inline(always)]
fn is_first<M: Memory>(inode: u64, disk: u64) -> u64 {
    verified_once!(M, first_by_cast, first_by_probe: completes_first(inode: u64, disk: u64))
}

#[inline(always)]
fn completes_first<M: Memory>(inode: u64, disk: u64) -> u64 {
    let own = &DIRECT.block;
    let superblock = Address::<M>::new(inode).field_or_zero(&DIRECT.inode_superblock);
    let superblock = Address::<M>::new(superblock);
    let device = Address::<M>::new(superblock.field_or_zero(&own.superblock_device));
    let its: u64 = device.field_or_zero(&own.device_disk);
    if its == disk {
        return 1;
    }
    let queue = Address::<M>::new(Address::<M>::new(its).field_or_zero(&own.disk_queue));
    if queue.field_or_zero::<u64>(&own.queue_operations) == 0 {
        return 1;
    }
    let magic: u64 = superblock.field_or_zero(&DIRECT.local.superblock_magic);
    if !ON_SEVERAL_DISKS.contains(&magic) {
        return 0;
    }
    // The superblock names only one of its disks.
    let its = standing(Address::<M>::new(its));
    u64::from(its == 0 || its == standing(Address::<M>::new(disk)))
}

/// The first bytes of a disk's name if its kind is stacked on others: `loop0` or `dm-0`. Else 0.
#[inline(always)]
fn standing<M: Memory>(disk: Address<M>) -> u32 {
    const LOOP: u32 = u32::from_le_bytes(*b"loop");
    const MAPPER: u32 = u32::from_le_bytes(*b"dm-\0");
    let name: u32 = disk.field_or_zero(&DIRECT.block.disk_name);
    match name {
        LOOP => LOOP,
        _ if name << 8 == MAPPER << 8 => MAPPER,
        _ => 0,
    }
}

/// The disk of a request (`struct gendisk`).
#[inline(always)]
fn disk<M: Memory>(request: Address<M::Trusted>, part: u64) -> u64 {
    let own = &DIRECT.block;
    // Before Linux 5.11 a part does not lead to its disk.
    if M::SINCE_6_2 || global(own.request_disk.word()) == 0 {
        Address::<M>::new(part).field_or_zero(&own.device_disk)
    } else {
        request.held_or_zero(&own.request_disk)
    }
}

/// Whether the path of the file was not reported lately.
#[inline(always)]
fn is_unnamed(inode: Address<Probe>, file: &File, end_ns: u64) -> bool {
    // SAFETY: `named` returns an aligned word of the table.
    unsafe { named(inode).read_volatile() != token(file, end_ns) }
}

/// Stands for a file and the period for which its path counts as reported. Not made of the inode's address: its memory may belong to another
/// file within milliseconds.
#[inline(always)]
fn token(file: &File, end_ns: u64) -> u64 {
    /// 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, 6.4).
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let inode = (u64::from(file.handle_hash) << 32) | u64::from(file.dev);
    let spread = (inode ^ file.fileid.rotate_left(20)).wrapping_mul(SPREAD);
    paths::token(spread, end_ns)
}

/// Reports the path. If two CPUs race for one word, one of the files is reported once more.
#[inline(always)]
fn name(inode: Address<Probe>, end_ns: u64) {
    // On failure the next request tries again.
    if paths::name_cached(inode.0, end_ns)
        && let Some(file) = file_of(inode)
    {
        // SAFETY: `named` returns an aligned word of the table, where any value is valid.
        unsafe { named(inode).write_volatile(token(&file, end_ns)) };
    }
}

#[inline(always)]
fn named(inode: Address<Probe>) -> *mut u64 {
    let place = inode.hash::<NAMED_BITS>() as usize;
    (&raw mut NAMED_INODES).cast::<u64>().wrapping_add(place)
}

/// The id of the cgroup that a bio is charged to; 0 if unknown.
#[inline(always)]
fn group<M: Memory>(bio: Address<M>) -> u64 {
    let own = &DIRECT.block;
    if global(&DIRECT.local.has_groups) == 0 {
        return 0;
    }
    let group = Address::<M>::new(bio.field_or_zero(&own.bio_group));
    let owner = Address::<M>::new(group.field_or_zero(&own.group_owner));
    let cgroup = Address::<M>::new(owner.field_or_zero(&own.owner_cgroup));
    let node = Address::<M>::new(cgroup.held_or_zero(&DIRECT.cgroup.cgroup_node));
    node.held_or_zero(&DIRECT.cgroup.node_id)
}

/// [`is_left_out`], which first looks whether the filter has left out the file lately. The program must not interrupt itself.
#[inline(always)]
fn is_left_out_lately<B: Memory>(
    bits: u32,
    bio: Address<B>,
    file: &File,
    inode: u64,
    bytes: u32,
) -> bool {
    let kind = filter::BLOCK_REQUESTS + u32::from(bits & flags::WRITE != 0);
    let its = application::File {
        inode,
        fileid: file.fileid,
        generation: u64::from(file.dev) << 32 | u64::from(file.handle_hash),
    };
    let who = Who {
        pid: 0,
        uid: 0,
        cgroup: match global(&FILTER) & filters::CGROUPS {
            0 => 0,
            _ => group(bio),
        },
    };
    if filter::is_left_out(kind, its, who) {
        count_left_out(bits, bytes);
        return true;
    }
    let is_left_out = is_left_out(bits, who.cgroup, file, inode, bytes);
    if is_left_out {
        filter::leave_out(kind, its, who);
    }
    is_left_out
}

/// Whether the filter leaves out a request on a file; if so, counts it as left out.
#[inline(always)]
fn is_left_out(bits: u32, cgroup: u64, file: &File, inode: u64, bytes: u32) -> bool {
    if filter::admits_block(bits, cgroup, file.dev, file.fileid, inode) {
        return false;
    }
    count_left_out(bits, bytes);
    true
}

#[inline(always)]
fn count_left_out(bits: u32, bytes: u32) {
    let requests = u64::from(bits & flags::PIECE == 0);
    let table = left_out::table(table::BLOCK, bits);
    left_out::count(table, 0, requests, bytes.into());
}

#[inline(always)]
fn deliver<M: Memory>(record: &mut RequestRecord, file: &File, inode: u64) {
    if global(&FILTER) != 0
        && is_left_out(record.flags, record.cgroup, file, inode, record.asked_bytes)
    {
        return;
    }
    let Some(completion) = Completion::seen::<M>() else {
        return;
    };
    if !M::SINCE_6_2 {
        completion.record(Some(*record));
        return;
    }
    match completion.slot::<M>() {
        Some(slot) => {
            // SAFETY: `slot` returned a slot that only this CPU writes to. `in_slot` writes the end time last, which publishes the record.
            unsafe { copy_words(record, slot, 1) };
            completion.in_slot(slot, record.end_ns, true);
        }
        None => completion.fold(record),
    }
}

/// `later - earlier`, or 0.
#[inline(always)]
fn since(later_ns: u64, earlier_ns: u64) -> u64 {
    later_ns
        .wrapping_sub(earlier_ns)
        .cast_signed()
        .max(0)
        .cast_unsigned()
}

/// The error of a status. Linux before 5.16 passes the error itself.
#[inline(always)]
fn errno(status: u32) -> i32 {
    let error = status.cast_signed();
    if error <= 0 {
        return error;
    }
    let place = (status as usize).min(BLOCK_STATUSES - 1);
    -global(&BLOCK_ERRNOS[place])
}

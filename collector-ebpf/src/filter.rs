//! Which requests are wanted. Without a filter the verifier removes all of this code.

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, generated::bpf_jiffies64},
    macros::map,
    maps::Array,
};
use trackiops_schemas::ebpf::app_sums::{
    APP_PROGRAMS, AppKey, FILE_SYSTEM, LOCAL, OPENS, PAGES_DIRTIED, SYNCS, WRITES,
};
use trackiops_schemas::ebpf::ring::{FilterKey, RequestRecord, filters, flags};

use crate::{
    application::File,
    cgroup,
    globals::{DIRECT, FILTER},
    kernel_memory::{Address, Probe, cpu, global, now_ns, opaque},
    maps::{FILTER_SET, INSIDE},
    paths,
};

/// Directories above a file that are looked at; few paths are deeper.
const MAX_DEPTH: usize = 64;
/// The result for a file's directories holds for 2^30 ns, about a second: then the file may have been moved.
const VALID_BITS: u32 = 30;

/// The process, user and cgroup that the filter checks.
#[derive(Clone, Copy)]
pub struct Who {
    pub pid: u32,
    pub uid: u32,
    pub cgroup: u64,
}

impl Who {
    /// The calling process, with the user that owns the open file. What the filter does not ask for is 0: it would split entries that are left out
    /// alike.
    #[inline(always)]
    pub fn calling(uid: impl FnOnce() -> u32, cgroup: impl FnOnce() -> u64) -> Self {
        let asks = |kind: u32| global(&FILTER) & kind != 0;
        Self {
            pid: if asks(filters::PIDS) {
                (bpf_get_current_pid_tgid() >> 32) as u32
            } else {
                0
            },
            uid: if asks(filters::UIDS) { uid() } else { 0 },
            cgroup: if asks(filters::CGROUPS) { cgroup() } else { 0 },
        }
    }
}

/// A file and a user of it that were left out.
#[repr(C)]
struct LeftOut {
    file: File,
    who: Who,
    /// The time, in `jiffies`.
    at: u64,
}

/// Kinds of left-out entries, after the numbers of the programs of [`crate::application`].
pub const READ_REQUESTS: u32 = APP_PROGRAMS as u32;
pub const WRITE_REQUESTS: u32 = READ_REQUESTS + 1;
/// Kinds for requests to block devices: reads, then writes.
pub const BLOCK_REQUESTS: u32 = WRITE_REQUESTS + 1;
const KINDS: usize = APP_PROGRAMS + 4;
/// Elements of each kind on a CPU; a power of two.
const ELEMENTS: usize = 32;
/// How long an entry holds, in `jiffies`: 0.1 s at 1000 HZ, 1 s at 100 HZ. Then a file may have moved.
const VALID: u64 = 100;

/// What the filter has left out lately, for each CPU. A lookup here costs a fraction of the full check. Each program has separate elements and
/// never interrupts itself. Userspace makes the map larger if there is a filter.
#[map]
static LEFT_OUT: Array<[[LeftOut; ELEMENTS]; KINDS]> = Array::with_max_entries(1, 0);

#[inline(always)]
fn element(kind: u32, inode: u64) -> Option<*mut LeftOut> {
    let of_cpu = LEFT_OUT.get_ptr_mut(cpu())?;
    let number = u64::from(kind) * ELEMENTS as u64;
    let number =
        opaque(number + u64::from(Address::<Probe>::new(inode).hash::<{ ELEMENTS.ilog2() }>()));
    if number >= (KINDS * ELEMENTS) as u64 {
        return None;
    }
    // SAFETY: `number` was checked against the number of elements above.
    Some(unsafe { of_cpu.cast::<LeftOut>().add(number as usize) })
}

/// Whether the filter has just left out this file for `who`.
#[inline(always)]
pub fn is_left_out(kind: u32, file: File, who: Who) -> bool {
    let Some(element) = element(kind, file.inode) else {
        return false;
    };
    let kinds = global(&FILTER);
    // SAFETY: `element` is valid; only this CPU and program write it. Members that the filter does not ask for are 0 in all entries.
    unsafe {
        (&raw const (*element).file.inode).read_volatile() == file.inode
            && (&raw const (*element).file.fileid).read_volatile() == file.fileid
            && (&raw const (*element).file.generation).read_volatile() == file.generation
            && (kinds & filters::UIDS == 0
                || (&raw const (*element).who.uid).read_volatile() == who.uid)
            && (kinds & filters::CGROUPS == 0
                || (&raw const (*element).who.cgroup).read_volatile() == who.cgroup)
            && (kinds & filters::PIDS == 0
                || (&raw const (*element).who.pid).read_volatile() == who.pid)
            && jiffies().wrapping_sub((&raw const (*element).at).read_volatile()) < VALID
    }
}

/// Notes that the filter has left out this file for `who`.
#[inline(always)]
pub fn leave_out(kind: u32, file: File, who: Who) {
    if let Some(element) = element(kind, file.inode) {
        // SAFETY: `element` is valid; only this CPU and program write it. Word by word, because the stack has no room for the whole.
        unsafe {
            (&raw mut (*element).file.inode).write_volatile(file.inode);
            (&raw mut (*element).file.fileid).write_volatile(file.fileid);
            (&raw mut (*element).file.generation).write_volatile(file.generation);
            (&raw mut (*element).who.pid).write_volatile(who.pid);
            (&raw mut (*element).who.uid).write_volatile(who.uid);
            (&raw mut (*element).who.cgroup).write_volatile(who.cgroup);
            (&raw mut (*element).at).write_volatile(jiffies());
        }
    }
}

#[inline(always)]
fn jiffies() -> u64 {
    // SAFETY: the helper takes no arguments and any program may call it. The kernel inlines it as a load of its counter.
    unsafe { bpf_jiffies64() }
}

/// Whether the request that completes is wanted. `#[inline(never)]`, and reads memory by the helper: this is off the fast path, because a filter may
/// take its time.
#[inline(never)]
pub fn admits(task: u64, header: u64, direction: u32) -> bool {
    // A request that cannot be read is admitted; it is then counted as lost.
    request(Address::new(task), Address::new(header), direction).unwrap_or(true)
}

#[inline(always)]
fn request(task: Address<Probe>, header: Address<Probe>, direction: u32) -> Option<bool> {
    let (kinds, offsets) = (global(&FILTER), &DIRECT);
    if kinds & way(direction) != 0 {
        return Some(false);
    }
    if kinds & filters::PIDS != 0 {
        let pid: u32 = task.held(&offsets.task_owner)?;
        if !is_listed(filters::PIDS, 0, u64::from(pid)) {
            return Some(false);
        }
    }
    if kinds & filters::UIDS != 0 {
        let cred = Address::<Probe>::new(header.held(&offsets.header_cred)?);
        let uid: u32 = cred.held(&offsets.cred_uid)?;
        if !is_listed(filters::UIDS, 0, u64::from(uid)) {
            return Some(false);
        }
    }
    if kinds & filters::CGROUPS != 0 {
        let request = Address::<Probe>::new(header.held(&offsets.cgroup.header_request)?);
        let cgroup = cgroup::of_request(request, &offsets.cgroup).unwrap_or(0);
        if !is_listed(filters::CGROUPS, 0, cgroup) {
            return Some(false);
        }
    }
    if kinds & filters::PLACES == 0 {
        return Some(true);
    }
    let inode = Address::<Probe>::new(header.held(&offsets.header_inode)?);
    let superblock = Address::<Probe>::new(inode.field(&offsets.inode_superblock)?);
    let dev: u32 = superblock.field(&offsets.superblock_dev)?;
    let fileid: u64 = inode.field(&offsets.inode_number)?;
    if is_at(kinds, dev, fileid) {
        return Some(true);
    }
    if kinds & filters::DIRECTORIES == 0 {
        return Some(false);
    }
    Some(is_inside(dev, fileid, || {
        let context = Address::<Probe>::new(header.held(&offsets.tree.header_context)?);
        context.field(&offsets.tree.context_entry)
    }))
}

/// [`admits`] for a record of the tracepoint engine, which knows everything but the directories.
#[inline(always)]
pub fn admits_record(record: &RequestRecord) -> bool {
    let kinds = global(&FILTER);
    let listed = |kind: u32, id: u64| kinds & kind == 0 || is_listed(kind, 0, id);
    kinds & way(record.flags & flags::WRITE) == 0
        && listed(filters::PIDS, u64::from(record.pid))
        && listed(filters::UIDS, u64::from(record.uid))
        && listed(filters::CGROUPS, record.cgroup)
        && (kinds & filters::PLACES == 0 || is_at(kinds, record.dev, record.fileid))
}

/// [`admits`] for a call of process `pid` on this `struct file`.
#[inline(never)]
pub fn admits_call(key: &AppKey, pid: u32, file: Address<Probe>) -> bool {
    admits_sum(key, pid, || file.field(&DIRECT.app.file_entry))
}

/// [`admits`] for pages of this `struct inode`.
#[inline(never)]
pub fn admits_pages(key: &AppKey, pid: u32, inode: u64) -> bool {
    admits_sum(key, pid, || paths::only_name(inode))
}

#[inline(always)]
fn admits_sum(key: &AppKey, pid: u32, entry: impl FnOnce() -> Option<u64>) -> bool {
    let kinds = global(&FILTER);
    let left_out = match key.direction & !(LOCAL | FILE_SYSTEM) {
        WRITES | PAGES_DIRTIED => filters::NO_WRITES,
        // Syncs and opens are wanted only if both reads and writes are.
        SYNCS | OPENS => filters::NO_READS | filters::NO_WRITES,
        _ => filters::NO_READS,
    };
    // The inode of a file system itself is not one of its files.
    let fileid = match key.direction & FILE_SYSTEM {
        0 => key.fileid,
        _ => 0,
    };
    let listed = |kind: u32, id: u64| kinds & kind == 0 || is_listed(kind, 0, id);
    kinds & left_out == 0
        && listed(filters::PIDS, u64::from(pid))
        && listed(filters::UIDS, u64::from(key.uid))
        && listed(filters::CGROUPS, key.cgroup)
        && (kinds & filters::PLACES == 0
            || is_at(kinds, key.dev, fileid)
            || kinds & filters::DIRECTORIES != 0 && is_inside(key.dev, fileid, entry))
}

/// Whether a request to a block device is wanted, for this file and its `struct inode`, if any. Processes and users do not apply to block requests.
#[inline(never)]
pub fn admits_block(bits: u32, cgroup: u64, dev: u32, fileid: u64, inode: u64) -> bool {
    let kinds = global(&FILTER);
    kinds & way(bits & flags::WRITE) == 0
        && (kinds & filters::CGROUPS == 0 || is_listed(filters::CGROUPS, 0, cgroup))
        && (kinds & filters::PLACES == 0
            || is_at(kinds, dev, fileid)
            || kinds & filters::DIRECTORIES != 0
                && inode != 0
                && is_inside(dev, fileid, || paths::only_name(inode)))
}

/// The bit that leaves out requests of this direction.
#[inline(always)]
fn way(direction: u32) -> u32 {
    if direction == flags::WRITE {
        filters::NO_WRITES
    } else {
        filters::NO_READS
    }
}

#[inline(always)]
fn is_at(kinds: u32, dev: u32, fileid: u64) -> bool {
    kinds & filters::MOUNTS != 0 && is_listed(filters::MOUNTS, dev, 0)
        || kinds & filters::FILES != 0 && is_listed(filters::FILES, dev, fileid)
}

#[inline(always)]
fn is_listed(kind: u32, dev: u32, id: u64) -> bool {
    FILTER_SET.get_ptr(FilterKey { kind, dev, id }).is_some()
}

/// Whether the file is in or below one of the directories. `entry` is the name that it was opened by.
#[inline(always)]
fn is_inside(dev: u32, fileid: u64, entry: impl FnOnce() -> Option<u64>) -> bool {
    let key = FilterKey {
        kind: filters::DIRECTORIES,
        dev,
        id: fileid,
    };
    let valid = now_ns() >> VALID_BITS << 1;
    if let Some(known) = INSIDE.get_ptr_mut(key) {
        // SAFETY: a map value, read as one aligned word.
        let known = unsafe { known.read_volatile() };
        if known & !1 == valid {
            return known & 1 != 0;
        }
    }
    let inside = entry().map_or(0, |entry| directory_above(entry, dev));
    let _ = INSIDE.insert(key, valid | inside, 0);
    inside != 0
}

/// Walks from the name that the file was opened by to the top of its file system; 1 if one of the wanted directories is on the way.
///
/// `no_mangle` makes it a global function, which the verifier follows once, whatever its arguments. Otherwise its steps would exceed the limit
/// where several calls of a file are counted.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn directory_above(mut entry: u64, dev: u32) -> u64 {
    let step = |entry| {
        let parent: u64 = Address::<Probe>::new(entry).field(&DIRECT.tree.entry_parent)?;
        let inode: u64 = Address::<Probe>::new(parent).field(&DIRECT.tree.entry_inode)?;
        let id: u64 = Address::<Probe>::new(inode).field(&DIRECT.inode_number)?;
        (parent != entry).then_some((parent, id))
    };
    for _ in 0..MAX_DEPTH {
        let Some((parent, id)) = step(entry) else {
            break;
        };
        if is_listed(filters::DIRECTORIES, dev, id) {
            return 1;
        }
        entry = parent;
    }
    0
}

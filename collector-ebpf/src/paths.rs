//! The paths of files: reported when a file is first seen, and again when its path changes.
//!
//! A request only compares the name that its file was opened by with the token beside the file's handle
//! ([`crate::handle`]). This module handles the rest, off the fast path: its functions are not inlined and read memory by the helper.

use core::{mem::offset_of, ptr};

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_RB_NO_WAKEUP},
    btf_maps::RingBuf,
    helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_kernel_str, bpf_ringbuf_output},
    macros::{btf_map, map},
    maps::{Array, LruHashMap, PerCpuArray},
};
use trackiops_schemas::ebpf::paths::{HEAD_BYTES, MOST_BYTES, MOST_NAMES, NAME_BYTES, PathHead};

use crate::{
    file_operation,
    globals::DIRECT,
    handle::{self, Slot},
    kernel_memory::{Address, Memory, Probe, Window, global, now_ns, opaque},
};

/// For 2^32 ns, about four seconds, the path of a file in use is not checked again. A rename by another client shows after
/// at most this long.
const PERIOD_BITS: u32 = 32;
/// The path of a file that is in use by several names is reported at most this often, ns.
const NAMES_APART_NS: u64 = 250_000_000;
/// A fingerprint mixes the kernel's hashes of the names and their addresses by this odd number.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Paths on their way to userspace, which makes the ring larger.
#[btf_map]
static PATH_RING: RingBuf<u8, 4096> = RingBuf::new();

/// The paths that were reported. Userspace makes it larger if paths are read.
#[map]
static NAMED: LruHashMap<NamedKey, Named> = LruHashMap::with_max_entries(1, 0);

/// Where a path is assembled, per CPU.
#[map]
static SCRATCH: PerCpuArray<Scratch> = PerCpuArray::with_max_entries(1, 0);

/// Paths that were reported in another epoch are reported again. Userspace raises it through `mmap` when it forgets names.
#[map]
static EPOCH: Array<u64> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// A file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NamedKey {
    fileid: u64,
    dev: u32,
    handle_hash: u32,
}

/// The last report of a file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Named {
    /// The name (`struct dentry`) that it was opened by.
    entry: u64,
    /// Covers the whole path.
    fingerprint: u64,
    /// When the path was last checked.
    period: u64,
    /// When it was reported.
    told_ns: u64,
    epoch: u64,
}

/// Where a path is assembled.
#[repr(C)]
pub struct Scratch {
    /// 1 while in use. A program may be interrupted by another one on the same CPU.
    busy: u64,
    fingerprint: u64,
    /// Bytes of paths so far. In the map, so that to the verifier all ways of reading a path end in the same state.
    end: u64,
    /// See [`is_told`].
    root: u64,
    record: Record,
}

#[repr(C)]
struct Record {
    head: PathHead,
    bytes: [u8; MOST_BYTES],
}

const _: () = assert!(offset_of!(Record, bytes) == HEAD_BYTES);

/// Stands for a name (`struct dentry`) and the period for which its path counts as reported. Names are at least 64 bytes apart, so for four
/// minutes no other name has the same token.
#[inline(always)]
pub fn token(entry: u64, now_ns: u64) -> u64 {
    entry.wrapping_add(period(now_ns))
}

#[inline(always)]
fn period(now_ns: u64) -> u64 {
    now_ns >> PERIOD_BITS
}

/// Reports the path of a request's file (`struct nfs_pgio_header`), by the name it was opened by, unless it is known. If that fails, the next request
/// tries again.
#[inline(never)]
pub fn name(header: u64, entry: u64, slot: *mut Slot, handle_hash: u32, end_ns: u64) {
    // Some requests are not for an opened file.
    let Some(key) = key(Address::new(header), handle_hash).filter(|_| entry != 0) else {
        return;
    };
    if is_told(&key, entry, end_ns, 0, 0) {
        handle::set_named(slot, token(entry, end_ns));
    }
}

/// Reports the path of a file (`struct inode`) by the name `entry` that it was opened by, unless it is known.
#[inline(never)]
pub fn name_file<M: Memory>(inode: u64, entry: u64) {
    let handle = file_operation::handle_in(inode);
    let Some(handle_hash) = handle.and_then(|at| handle::hash(Address::<M>::new(at))) else {
        return;
    };
    if let Some(key) = key_of(Address::new(inode), handle_hash) {
        is_told(&key, entry, now_ns(), 0, 0);
    }
}

/// Reports the path of a directory (`struct inode`) that an operation is about, unless it is known. A directory has only one name: the first in
/// the inode's list.
#[inline(never)]
pub fn name_directory<M: Memory>(inode: u64) {
    let handle = file_operation::handle_in(inode);
    let Some(handle_hash) = handle.and_then(|at| handle::hash(Address::<M>::new(at))) else {
        return;
    };
    let Some(entry) = only_name(inode) else {
        return;
    };
    if let Some(key) = key_of(Address::new(inode), handle_hash) {
        is_told(&key, entry, now_ns(), 1, 0);
    }
}

/// The first name in the list of an inode. A file may have several; the one that it was opened by is unknown here.
#[inline(always)]
pub fn only_name(inode: u64) -> Option<u64> {
    let own = &DIRECT.file_operation;
    let first: u64 = Address::<Probe>::new(inode).field(&own.inode_entries)?;
    if first == 0 {
        return None;
    }
    let entry = first.wrapping_sub(u64::from(global(&own.entry_alias)));
    // The name may have been removed meanwhile.
    let its: u64 = Address::<Probe>::new(entry).field(&DIRECT.tree.entry_inode)?;
    (its == inode).then_some(entry)
}

/// Reports the path of a local file whose pages a block request moves, unless it is known. Returns whether it is known now.
#[inline(never)]
pub fn name_cached(inode: u64, end_ns: u64) -> bool {
    let entry = only_name(inode);
    entry.and_then(|entry| name_local(inode, entry, end_ns)) == Some(true)
}

/// Reports the path of a local file by the name `entry` that it was opened by, unless it is known.
#[inline(never)]
pub fn name_opened(inode: u64, entry: u64) {
    let _ = name_local(inode, entry, now_ns());
}

#[inline(always)]
fn name_local(inode: u64, entry: u64, end_ns: u64) -> Option<bool> {
    let own = &DIRECT.local;
    let object = Address::<Probe>::new(inode);
    let generation = object.field::<u32>(&own.inode_generation)?;
    let superblock = object.field(&DIRECT.inode_superblock)?;
    let root = Address::<Probe>::new(superblock).field::<u64>(&own.superblock_root)?;
    let key = key_of(object, generation)?;
    Some(is_told(&key, entry, end_ns, 0, root))
}

/// Reports the path by the name `entry` unless it is known. Returns whether that path is known now. `root` is 0 for NFS; for other file systems it is
/// the name of the top, which has no text.
#[inline(always)]
fn is_told(key: &NamedKey, entry: u64, end_ns: u64, is_directory: u16, root: u64) -> bool {
    let (period, epoch) = (period(end_ns), epoch());
    if let Some(known) = NAMED.get_ptr_mut(key) {
        // SAFETY: a map value, which stays in place while the program runs. Another CPU may store another path, which the next period checks.
        let known = unsafe { &mut *known };
        if known.epoch == epoch {
            if known.entry != entry {
                if end_ns.wrapping_sub(known.told_ns) < NAMES_APART_NS {
                    return false;
                }
            } else if known.period == period || fingerprint(entry) == known.fingerprint {
                known.period = period;
                return true;
            }
        }
    }
    let fingerprint = tell(key, entry, end_ns, is_directory, root);
    if fingerprint == 0 {
        return false;
    }
    let named = Named {
        entry,
        fingerprint,
        period,
        told_ns: end_ns,
        epoch,
    };
    NAMED.insert(key, named, 0).is_ok()
}

/// `nfs_rename_exit(old_dir, old_dentry, new_dir, new_dentry, error)`: the kernel moves the old name to the place of the new one
/// after that.
#[inline(always)]
pub fn renamed(directory: u64, before: u64, after: u64, error: u64) {
    if error as i32 == 0 {
        let _ = tell_renamed(Address::new(directory), before, after);
    }
}

#[inline(always)]
fn tell_renamed(directory: Address<Probe>, before: u64, after: u64) -> Option<()> {
    let superblock = Address::<Probe>::new(directory.field(&DIRECT.inode_superblock)?);
    let dev = superblock.field(&DIRECT.superblock_dev)?;
    let scratch = take()?;
    // SAFETY: `take` returned this element, and only this program writes to it until `leave`.
    unsafe {
        if copy(scratch, after) {
            let path_bytes = (&raw const (*scratch).end).read_volatile();
            if copy(scratch, before) {
                let end = (&raw const (*scratch).end).read_volatile();
                (*scratch).record.head = PathHead {
                    at_ns: now_ns(),
                    fileid: 0,
                    dev,
                    handle_hash: 0,
                    path_bytes: path_bytes as u32,
                    before_bytes: end.wrapping_sub(path_bytes) as u16,
                    is_directory: 0,
                };
                output(scratch, end);
            }
        }
        leave(scratch);
    }
    Some(())
}

#[inline(always)]
fn key(header: Address<Probe>, handle_hash: u32) -> Option<NamedKey> {
    let inode = header.held(&DIRECT.header_inode)?;
    key_of(Address::new(inode), handle_hash)
}

#[inline(always)]
fn key_of(inode: Address<Probe>, handle_hash: u32) -> Option<NamedKey> {
    let superblock = Address::<Probe>::new(inode.field(&DIRECT.inode_superblock)?);
    Some(NamedKey {
        fileid: inode.field(&DIRECT.inode_number)?,
        dev: superblock.field(&DIRECT.superblock_dev)?,
        handle_hash,
    })
}

#[inline(always)]
fn epoch() -> u64 {
    // SAFETY: an aligned word of the map, which userspace writes with one store.
    EPOCH
        .get_ptr(0)
        .map_or(0, |epoch| unsafe { epoch.read_volatile() })
}

/// A fingerprint of a name's path.
#[inline(never)]
fn fingerprint(entry: u64) -> u64 {
    let (mut entry, mut mixed, apart) = (entry, 0, Step::apart());
    for _ in 0..MOST_NAMES {
        let Some(step) = Step::from(entry, apart) else {
            return 0;
        };
        mixed = step.mix(mixed, entry);
        if step.parent == entry {
            break;
        }
        entry = step.parent;
    }
    mixed
}

/// A name on a path.
struct Step {
    parent: u64,
    hash: u64,
    name: u64,
}

impl Step {
    /// 0 if the three members of a name are adjacent, as in all kernels up to Linux 7.2.
    #[inline(always)]
    fn apart() -> u64 {
        let after = |member: &u32| global(member).wrapping_sub(global(&DIRECT.tree.entry_parent));
        let (hash, name) = (&DIRECT.name.entry_hash, &DIRECT.name.entry_name);
        u64::from((after(hash) ^ 8) | (after(name) ^ 16))
    }

    /// `apart` is [`Self::apart`], looked up once instead of for each name: the verifier follows this for up to [`MOST_NAMES`] names.
    #[inline(always)]
    fn from(entry: u64, apart: u64) -> Option<Self> {
        let entry = Address::<Probe>::new(entry);
        // Without `opaque` the compiler duplicates the loop.
        if opaque(apart) == 0 {
            let mut window = Window::<3>::EMPTY;
            let view = window.fill(entry, Some(&DIRECT.tree.entry_parent))?;
            return Some(Self {
                parent: view.word(0),
                hash: view.word(1),
                name: view.word(2),
            });
        }
        Some(Self {
            parent: entry.field(&DIRECT.tree.entry_parent)?,
            hash: entry.field(&DIRECT.name.entry_hash)?,
            name: entry.field(&DIRECT.name.entry_name)?,
        })
    }

    /// Mixes a name into a fingerprint. Never 0.
    #[inline(always)]
    fn mix(&self, mixed: u64, entry: u64) -> u64 {
        let mixed = (mixed ^ entry).wrapping_mul(MIX);
        (mixed ^ mixed >> 29 ^ self.hash).wrapping_mul(MIX) | 1
    }
}

/// Reports the path of a file by one of its names. Returns the path's fingerprint, even if the path has no text to report; 0 to try again later.
#[inline(always)]
fn tell(key: &NamedKey, entry: u64, at_ns: u64, is_directory: u16, root: u64) -> u64 {
    let Some(scratch) = take() else {
        return 0;
    };
    // SAFETY: `take` returned this element, and only this program writes to it until `leave`.
    unsafe {
        (&raw mut (*scratch).root).write_volatile(root);
        let is_whole = copy(scratch, entry);
        let mut fingerprint = (&raw const (*scratch).fingerprint).read_volatile();
        if is_whole {
            let end = (&raw const (*scratch).end).read_volatile();
            (*scratch).record.head = PathHead {
                at_ns,
                fileid: key.fileid,
                dev: key.dev,
                handle_hash: key.handle_hash,
                path_bytes: end as u32,
                before_bytes: 0,
                is_directory,
            };
            if !output(scratch, end) {
                fingerprint = 0;
            }
        }
        leave(scratch);
        fingerprint
    }
}

/// A scratch area that only this program uses until [`leave`].
#[inline(always)]
fn take() -> Option<*mut Scratch> {
    let scratch = SCRATCH.get_ptr_mut(0)?;
    // SAFETY: an element of this CPU. A program that interrupts between the load and the store has released the element when this one continues.
    unsafe {
        let busy = &raw mut (*scratch).busy;
        if busy.read_volatile() != 0 {
            return None;
        }
        busy.write_volatile(1);
        (&raw mut (*scratch).end).write_volatile(0);
        (&raw mut (*scratch).root).write_volatile(0);
    }
    Some(scratch)
}

#[inline(always)]
unsafe fn leave(scratch: *mut Scratch) {
    // SAFETY: `take` returned this element, and this program writes to it for the last time here.
    unsafe { (&raw mut (*scratch).busy).write_volatile(0) };
}

/// Appends the path of the name to the bytes before `end`. False if the path is unknown; the fingerprint is then 0 if a later attempt
/// may succeed.
#[inline(never)]
fn copy(scratch: *mut Scratch, entry: u64) -> bool {
    let (mut entry, mut mixed, apart) = (entry, 0, Step::apart());
    // SAFETY: `take` returned this element. Each name begins at least `NAME_BYTES` before the end of `bytes`, and is no longer than that.
    unsafe {
        (*scratch).fingerprint = 0;
        let bytes = (&raw mut (*scratch).record.bytes).cast::<u8>();
        let end_of_all = &raw mut (*scratch).end;
        for _ in 0..MOST_NAMES {
            let Some(step) = Step::from(entry, apart) else {
                return false;
            };
            mixed = step.mix(mixed, entry);
            let end = end_of_all.read_volatile();
            if end > (MOST_BYTES - NAME_BYTES) as u64 {
                break;
            }
            let to = bytes.add(end as usize).cast();
            if step.parent == entry {
                (*scratch).fingerprint = mixed;
                let Some(length) = top(to, entry, (&raw const (*scratch).root).read_volatile())
                else {
                    return false;
                };
                end_of_all.write_volatile(end + u64::from(length));
                return true;
            }
            let length = step.hash >> 32 & (NAME_BYTES as u64 - 1);
            let from = ptr::with_exposed_provenance(step.name as usize);
            if bpf_probe_read_kernel(to, length as u32, from) != 0 {
                return false;
            }
            // A concurrent rename may have torn the name.
            let hash = Address::<Probe>::new(entry).field(&DIRECT.name.entry_hash);
            if hash != Some(step.hash) {
                return false;
            }
            let end = end + length;
            bytes.add(end as usize).write(0);
            end_of_all.write_volatile(end + 1);
            entry = step.parent;
        }
        (*scratch).fingerprint = mixed;
    }
    false
}

/// Copies the name of the top of a mount, and returns its length. `None` for the top of a file that was opened by its handle.
#[inline(always)]
unsafe fn top(to: *mut core::ffi::c_void, entry: u64, root: u64) -> Option<u32> {
    if root != 0 {
        // SAFETY: the caller guarantees `NAME_BYTES` bytes at `to`.
        unsafe { to.cast::<u8>().write(0) };
        return (entry == root).then_some(1);
    }
    let data: u64 = Address::<Probe>::new(entry).field(&DIRECT.name.entry_data)?;
    if data == 0 {
        return None;
    }
    let from = ptr::with_exposed_provenance(data as usize);
    // SAFETY: the caller guarantees `NAME_BYTES` bytes at `to`; the helper reads at any address without faulting.
    let length = unsafe { bpf_probe_read_kernel_str(to, NAME_BYTES as u32, from) };
    // Longer than the terminating zero byte, and not truncated.
    (length > 1 && length < NAME_BYTES as i64).then_some(length as u32)
}

#[inline(always)]
unsafe fn output(scratch: *mut Scratch, end: u64) -> bool {
    if end > MOST_BYTES as u64 {
        return false;
    }
    let map = ptr::from_ref(&PATH_RING).cast_mut().cast();
    // SAFETY: `take` returned this element, and `end` is within its bytes.
    unsafe {
        let record = (&raw mut (*scratch).record).cast();
        bpf_ringbuf_output(
            map,
            record,
            end + HEAD_BYTES as u64,
            u64::from(BPF_RB_NO_WAKEUP),
        ) == 0
    }
}

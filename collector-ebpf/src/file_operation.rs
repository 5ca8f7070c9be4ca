//! When an RPC other than READ and WRITE completes: adds it to the sum of its file, procedure, user, cgroup and window.
//!
//! Such RPCs have no records of single requests: they are always added up, because they are few beside READs and WRITEs. The
//! file is found by the handle in the RPC's arguments, if that handle is part of an NFS inode.

use trackiops_schemas::ebpf::{
    file_op_sums::{
        CREATE_HANDLE, FILE_OPS_BY_FILE, FILE_OPS_BY_MOUNT, FILE_OPS_OF_COMMITS, FileOpKey,
        FileOpValue, NFS_SUPER_MAGIC, handles,
    },
    op_sums::OpValue,
    ring::NO_USER,
};

use crate::{
    cgroup,
    globals::{DIRECT, INODE_DISTANCE},
    handle,
    kernel_memory::{Address, Memory, Probe, Reader, add, global, raise, word},
    maps::{self, FILE_OP_BEGIN, FILE_OPS, FILE_OPS_BEGUN},
    rpc_stats_latency::{EXECUTE, QUEUE, RTT, TASK},
    window,
};

/// Number of the NFS program (RFC 1813, RFC 7530).
const NFS_PROGRAM: u32 = 100_003;
/// `RPC_TASK_ASYNC` in a task's flags (include/linux/sunrpc/sched.h): the task completes in another thread than its caller's.
const ASYNCHRONOUS: u16 = 1;

/// `S_IFMT` and `S_IFDIR` (include/uapi/linux/stat.h).
const TYPE: u16 = 0o170_000;
const DIRECTORY: u16 = 0o040_000;

/// Procedures of NFSv3 by number (RFC 1813) whose arguments are the handle itself: GETATTR, FSSTAT, FSINFO, PATHCONF.
const BY_HANDLE: u32 = 1 << 1 | 1 << 18 | 1 << 19 | 1 << 20;
/// Procedures of NFSv3 whose arguments hold the handle's address where NFSv4's do: READ, WRITE, REMOVE, RENAME, COMMIT. Others begin with it.
const LIKE_V4: u32 = READ_AND_WRITE | 1 << 12 | 1 << 14 | 1 << 21;
/// READ and WRITE.
const READ_AND_WRITE: u32 = 1 << 6 | 1 << 7;
/// Possible distances from a handle to the inode in the same `struct nfs_inode`. A handle has at most 130 bytes.
const DISTANCES: core::ops::Range<u64> = 136..1024;
/// COMMIT.
const COMMIT: u32 = 1 << 21;

/// The first 8 bytes of a procedure's name, as a word.
const fn name(text: [u8; 8]) -> u64 {
    u64::from_ne_bytes(text)
}

/// Bits of [`handles`] for a procedure, whose name begins with `begin`.
#[inline(always)]
pub fn handle_of(program: u32, version: u32, index: u32, begin: u64) -> u32 {
    let own = &DIRECT.file_operation;
    if global(&own.is_known) == 0 || program != NFS_PROGRAM {
        return 0;
    }
    let address = handles::ADDRESS | global(&own.arguments_handle) << handles::OFFSET_SHIFT;
    // SAFETY: an aligned word of a global, which programs write with one store.
    let must_learn = global(&own.handle_inode) == 0
        && unsafe { (&raw const INODE_DISTANCE).read_volatile() } == 0;
    let of_requests = if must_learn {
        address | handles::TEACHES
    } else {
        0
    };
    if version == 3 {
        let bit = 1_u32 << (index & 31);
        if bit & READ_AND_WRITE != 0 {
            of_requests
        } else if bit & BY_HANDLE != 0 {
            handles::ITSELF
        } else if bit & COMMIT != 0 {
            address | handles::COMMIT
        } else if bit & LIKE_V4 != 0 {
            address
        } else {
            handles::ADDRESS
        }
    } else if version != 4 {
        0
    } else if begin == const { name(*b"READ\0\0\0\0") }
        || begin == const { name(*b"READ_PLU") }
        || begin == const { name(*b"WRITE\0\0\0") }
    {
        of_requests
    } else if begin == const { name(*b"COMMIT\0\0") } {
        address | handles::COMMIT
    } else if begin == const { name(*b"CREATE\0\0") } || begin == const { name(*b"SYMLINK\0") } {
        handles::ADDRESS | CREATE_HANDLE << handles::OFFSET_SHIFT
    } else {
        address
    }
}

/// Counts an RPC of the sum `sum`, by the tracepoint's arguments. If it begins a sum for a directory, returns that directory's inode, whose path
/// must be reported; else 0. Without `TELLS_PATHS`, the next RPC of that sum returns it.
///
/// `#[inline(never)]`: metadata is off the fast path, and its stack is free outside of the call.
#[inline(never)]
pub fn count<M: Memory, R: Reader, const TELLS_PATHS: bool>(
    argument: impl Fn(usize) -> u64,
    sum: *mut OpValue,
) -> u64 {
    add_up::<M, R, TELLS_PATHS>(argument, sum).unwrap_or(0)
}

/// `None` if the RPC's file is unknown.
#[inline(always)]
fn add_up<M: Memory, R: Reader, const TELLS_PATHS: bool>(
    argument: impl Fn(usize) -> u64,
    sum: *mut OpValue,
) -> Option<u64> {
    let task = Address::<R>::new(argument(TASK));
    // It is never 0, but the verifier requires the check.
    if task.0 == 0 {
        return None;
    }
    // For members that are pointers: see `direct::Request::fold`.
    let of_task = Address::<M>::new(argument(TASK));
    let execute_ns = argument(EXECUTE);
    let (offsets, own) = (&DIRECT, &DIRECT.file_operation);
    // SAFETY: the caller passes a map value; `handle` is an aligned word of it.
    let way = unsafe { (&raw const (*sum).handle).read_volatile() };
    let arguments: u64 = task.held(&own.task_arguments)?;
    let handle = if way & handles::ITSELF != 0 {
        arguments
    } else {
        word::<M>(arguments + u64::from(way >> handles::OFFSET_SHIFT))?
    };
    let inode = handle
        + match distance() {
            Some(known) => known,
            None => learn::<M>(handle)?,
        };
    if way & handles::TEACHES != 0 {
        // SAFETY: a map value; every program that gets here stores 0.
        unsafe { (&raw mut (*sum).handle).write_volatile(0) };
        return Some(0);
    }
    let superblock = superblock::<M>(inode)?;
    // Early, while the verifier has only one state in which to follow the loops.
    let handle_hash = handle::hash(Address::<M>::new(handle))?;
    let inode = Address::<M>::new(inode);
    let start_ns: u64 = task.held(&offsets.task_start)?;
    let mut key = FileOpKey {
        fileid: inode.field(&offsets.inode_number)?,
        procedure: of_task.held(&offsets.operation.task_procedure)?,
        cgroup: cgroup::<M>(task)?,
        window: window::holding::<M>(start_ns.wrapping_add(execute_ns))?,
        dev: superblock.field(&offsets.superblock_dev)?,
        handle_hash,
        uid: user(of_task).unwrap_or(NO_USER),
        padding: 0,
    };
    let by_file = if way & handles::COMMIT != 0 {
        FILE_OPS_OF_COMMITS
    } else {
        FILE_OPS_BY_FILE
    };
    let (own_sum, is_new) = match sum_of(by_file, &key, sum, task) {
        Some(found) => found,
        None => {
            key.fileid = 0;
            key.handle_hash = 0;
            (sum_of(FILE_OPS_BY_MOUNT, &key, sum, task)?.0, false)
        }
    };
    let status: i32 = task.held(&offsets.operation.task_status)?;
    // SAFETY: a map value, which stays in place while the program runs; every CPU adds atomically. Userspace takes the map away before
    // it reads it.
    unsafe {
        add!(FileOpValue, own_sum.requests, 1);
        if status < 0 {
            add!(FileOpValue, own_sum.errors, 1);
        }
        add!(FileOpValue, own_sum.queue_ns_sum, argument(QUEUE));
        add!(FileOpValue, own_sum.rtt_ns_sum, argument(RTT));
        add!(FileOpValue, own_sum.latency_ns_sum, execute_ns);
        raise(&raw mut (*own_sum).latency_ns_max, execute_ns);
    }
    // SAFETY: computes the address of a member of the map value.
    let is_untold = unsafe { &raw mut (*own_sum).is_untold };
    if !TELLS_PATHS {
        if is_new {
            // SAFETY: an aligned member of the map value, which stays in place while the program runs.
            unsafe { is_untold.write_volatile(1) };
        }
        return Some(0);
    }
    // SAFETY: an aligned member of the map value, which stays in place while the program runs.
    let is_next = unsafe { is_untold.read_volatile() } != 0;
    if is_next {
        // SAFETY: an aligned member of the map value. CPUs that race report the path twice at worst.
        unsafe { is_untold.write_volatile(0) };
    }
    Some(if (is_new || is_next) && is_directory(inode) {
        inode.0
    } else {
        0
    })
}

/// The address of the handle in an inode.
#[inline(always)]
pub fn handle_in(inode: u64) -> Option<u64> {
    Some(inode.wrapping_sub(distance()?))
}

/// [`handle_in`] for an inode of any type. The verifier lets nothing unknown be subtracted from a typed pointer, so the inode's `i_data.host`
/// stands in for it.
#[inline(always)]
pub fn handle_in_typed(inode: Address<impl Memory>) -> Option<u64> {
    let own = &DIRECT.file_operation;
    match global(&own.handle_inode) {
        0 => handle_in(Address::<Probe>::new(inode.0).field(&own.inode_host)?),
        known => Some(inode.0.wrapping_sub(known.into())),
    }
}

/// Whether this is a directory whose path can be reported. The path of a file is reported when it is used: an inode does not reveal which of its
/// names is meant.
#[inline(always)]
fn is_directory(inode: Address<impl Memory>) -> bool {
    let own = &DIRECT.file_operation;
    global(&own.inode_entries) != 0
        && inode
            .field::<u16>(&own.inode_mode)
            .is_some_and(|mode| mode & TYPE == DIRECTORY)
}

/// The sum in one of the maps, and whether this RPC begins it. If so, writes the sum's identity.
#[inline(always)]
fn sum_of(
    map: u32,
    key: &FileOpKey,
    of: *const OpValue,
    task: Address<impl Reader>,
) -> Option<(*mut FileOpValue, bool)> {
    let sums = FILE_OPS.get(map)?;
    if let Some(sum) = sums.get(key) {
        return Some((sum, false));
    }
    let sum: *mut FileOpValue = sums.entry(key, &FILE_OP_BEGIN)?;
    maps::count(&FILE_OPS_BEGUN, map);
    // SAFETY: map values, which stay in place while the program runs. Racing CPUs write the same name.
    unsafe {
        let from = (&raw const (*of).name).cast::<u64>();
        let to = (&raw mut (*sum).name).cast::<u64>();
        to.write_volatile(from.read_volatile());
        to.add(1).write_volatile(from.add(1).read_volatile());
        to.add(2).write_volatile(from.add(2).read_volatile());
        (&raw mut (*sum).pid).write_volatile(task.held(&DIRECT.task_owner)?);
    }
    Some((sum, true))
}

/// Finds the distance from this handle to its inode, if it is in one: a `struct nfs_inode` begins with the fileid and the handle, and the
/// inode after them has the same number.
#[inline(always)]
fn learn<M: Memory>(handle: u64) -> Option<u64> {
    let fileid = word::<M>(handle.wrapping_sub(8))?;
    for distance in DISTANCES.step_by(8) {
        let inode = handle.wrapping_add(distance);
        if superblock::<M>(inode).is_some()
            && Address::<M>::new(inode).field::<u64>(&DIRECT.inode_number) == Some(fileid)
        {
            // SAFETY: an aligned word of a global; every program that learns it writes the same value.
            unsafe { (&raw mut INODE_DISTANCE).write_volatile(distance) };
            return Some(distance);
        }
    }
    None
}

/// Learns the distance from a request, which has the addresses of both.
#[inline(always)]
pub fn learn_from(header: Address<impl Reader>, handle: u64) {
    if distance().is_none()
        && let Some(inode) = header.held::<u64>(&DIRECT.header_inode)
    {
        let distance = inode.wrapping_sub(handle);
        if DISTANCES.contains(&distance) {
            // SAFETY: an aligned word of a global; every program that learns it writes the same value.
            unsafe { (&raw mut INODE_DISTANCE).write_volatile(distance) };
        }
    }
}

/// The distance from a handle to its inode, if known.
#[inline(always)]
fn distance() -> Option<u64> {
    let known = u64::from(global(&DIRECT.file_operation.handle_inode));
    if known != 0 {
        return Some(known);
    }
    // SAFETY: an aligned word of a global, which programs write with one store.
    let learned = unsafe { (&raw const INODE_DISTANCE).read_volatile() };
    (learned != 0).then_some(learned)
}

/// The superblock of an NFS inode; `None` if the address holds something else. An inode's embedded mapping points back to the inode
/// (`inode_init_always`, fs/inode.c), and its superblock has the magic number of NFS.
#[inline(always)]
fn superblock<M: Memory>(inode: u64) -> Option<Address<M>> {
    let own = &DIRECT.file_operation;
    let host: u64 = Address::<M>::new(inode).field(&own.inode_host)?;
    if host != inode {
        return None;
    }
    let superblock: u64 = Address::<M>::new(inode).field(&DIRECT.inode_superblock)?;
    let superblock = Address::<M>::new(superblock);
    let magic: u64 = superblock.field(&own.superblock_magic)?;
    (magic == NFS_SUPER_MAGIC).then_some(superblock)
}

/// The user of an RPC: from the credentials of the task, or from those that were looked up for it.
#[inline(always)]
fn user<M: Memory>(task: Address<M>) -> Option<u32> {
    let own = &DIRECT.file_operation;
    let mut cred: u64 = task.field(&own.task_cred)?;
    if cred == 0 {
        if global(&own.transmission_cred) == 0 {
            return None;
        }
        let transmission: u64 = task.held(&DIRECT.task_transmission)?;
        let found: u64 = Address::<M>::new(transmission).field(&own.transmission_cred)?;
        cred = Address::<M>::new(found).field(&own.rpc_cred_owner)?;
    }
    Address::<M>::new(cred).held(&DIRECT.cred_uid)
}

/// The cgroup of the caller, if the task completes in its thread; 0 if not, or where the cgroup of data is unknown.
#[inline(always)]
fn cgroup<M: Memory>(task: Address<impl Reader>) -> Option<u64> {
    let flags: u16 = task.held(&DIRECT.file_operation.task_flags)?;
    if flags & ASYNCHRONOUS != 0 {
        return Some(0);
    }
    Some(cgroup::of_thread::<M>(M::thread))
}

//! The application view of local file systems: a system call by which an application reads or writes a file returns, or a request of io_uring
//! that does so completes. They are added up as the calls for files of NFS are.
//!
//! Which file system that is, its functions are called by nobody else; so one program sees the calls of all of them.

use core::ptr::NonNull;

use aya_ebpf::{
    helpers::{bpf_get_current_pid_tgid, bpf_get_current_task, bpf_probe_read_user},
    macros::map,
    maps::PerCpuArray,
};
use trackiops_schemas::ebpf::{
    app_sums::{AppKey, AppPlaces, AppValue, OPENS, READS, SYNCS, WRITES},
    file_op_sums::NFS_SUPER_MAGIC,
    syscalls::{SYSCALLS, kinds, rings},
};

use crate::{
    application::{self, Program},
    filter,
    globals::{DIRECT, FILTER, SYSCALL_KINDS},
    kernel_memory::{Address, Memory, Probe, cpu, global, now_ns, word},
    local,
    maps::APP_PLACES,
    paths, single_calls, window,
};

/// `ERESTARTSYS` to `ERESTART_RESTARTBLOCK` (include/linux/errno.h): the call begins once more.
const RESTARTED: core::ops::RangeInclusive<i64> = -516..=-512;
/// Stands for no descriptor.
pub const NO_DESCRIPTOR: u32 = u32::MAX;
/// Requests of an `io_submit` that are looked at, and of how many descriptors they may be.
const MOST_SUBMITTED: i64 = 128;
const MOST_BATCHES: usize = 8;

/// File systems whose files the kernel makes up (include/uapi/linux/magic.h): nobody waits for them as for data.
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

/// `sys_enter(registers, number)`: a call begins, and is to be timed.
#[inline(always)]
pub fn begun(number: u64) {
    if kind_of(number as u32) != 0 {
        application::begun();
        if global(&DIRECT.syscalls.keeps) != 0 {
            single_calls::begun();
        }
    }
}

/// `sys_exit(registers, result)`.
#[inline(always)]
pub fn returned<M: Memory>(registers: u64, result: u64) {
    // It is never 0.
    if registers == 0 {
        return;
    }
    let call = Address::<M::Argument>::new(registers);
    let kind = kind_of(call.field_or_zero(&DIRECT.syscalls.number));
    // Most calls are others.
    if kind != 0 {
        count::<M>(registers, result, kind);
    }
}

#[inline(always)]
fn kind_of(number: u32) -> u8 {
    if number as usize >= SYSCALLS {
        return 0;
    }
    // SAFETY: one of the elements. Volatile: the compiler knows the table as it is in the object.
    unsafe {
        (&raw const SYSCALL_KINDS)
            .cast::<u8>()
            .add(number as usize)
            .read_volatile()
    }
}

#[inline(never)]
fn count<M: Memory>(registers: u64, result: u64, kind: u8) {
    let own = &DIRECT.syscalls;
    let result = result.cast_signed();
    if RESTARTED.contains(&result) {
        return;
    }
    // SAFETY: takes nothing.
    let task = Address::<M>::new(unsafe { bpf_get_current_task() });
    let foreign = global(&own.foreign_modes);
    if foreign != 0 && task.field_or_zero::<u32>(&own.task_mode) & foreign != 0 {
        return;
    }
    let call = Address::<M::Argument>::new(registers);
    let first: u32 = call.field_or_zero(&own.first);
    let begin_ns = application::begin_ns();
    if global(&own.keeps) != 0 {
        single_calls::keep(registers, kind, result);
    }
    let (read, write) = match kind & !kinds::AT {
        kinds::READS => (first, NO_DESCRIPTOR),
        kinds::WRITES => (NO_DESCRIPTOR, first),
        kinds::SENDS => (call.field_or_zero(&own.second), first),
        kinds::COPIES => (first, call.field_or_zero(&own.third)),
        kinds::SYNCS | kinds::OPENS => {
            operated::<M>(kind, first, result, begin_ns);
            return;
        }
        _ => {
            let requests: u64 = call.field_or_zero(&own.third);
            submitted::<M>(requests, result);
            return;
        }
    };
    if read != NO_DESCRIPTOR {
        count_descriptor::<M>(Program::SyscallRead, read, 1, result, begin_ns);
    }
    if write != NO_DESCRIPTOR {
        count_descriptor::<M>(Program::SyscallWrite, write, 1, result, begin_ns);
    }
}

/// A call has opened a file, or waited until it is on its disk.
#[inline(always)]
fn operated<M: Memory>(kind: u8, first: u32, result: i64, begin_ns: u64) {
    if global(&DIRECT.syscalls.counts_operations) == 0 {
        return;
    }
    if kind == kinds::SYNCS {
        count_descriptor::<M>(Program::SyscallSync, first, 1, result.min(0), begin_ns);
    } else if result >= 0 {
        count_descriptor::<M>(Program::SyscallOpen, result as u32, 1, 0, begin_ns);
    }
}

/// `io_submit` has begun as many of the requests (`struct iocb`, include/uapi/linux/aio_abi.h) as it returns. What each of them will transfer
/// nobody tells: what it asks for counts. They are added up by descriptor first: the verifier would follow all of the counting for each request.
#[inline(never)]
fn submitted<M: Memory>(requests: u64, count: i64) {
    let Some(batches) = SUBMITTED.get_ptr_mut(0) else {
        return;
    };
    // SAFETY: this CPU's element, which belongs to this program: the kernel skips it while it runs there.
    unsafe {
        for number in 0..MOST_BATCHES {
            (&raw mut (*batches)[number].calls).write_volatile(0);
        }
        for number in 0..MOST_SUBMITTED {
            if number >= count {
                break;
            }
            let at = requests.wrapping_add(number.cast_unsigned() * 8);
            // It reads at any address without faulting.
            let request = bpf_probe_read_user(at as *const u64)
                .and_then(|at| bpf_probe_read_user(at as *const Submitted));
            let Ok(request) = request else {
                break;
            };
            if request.operation > 1 {
                continue;
            }
            let what = u64::from(request.descriptor) << 1 | u64::from(request.operation);
            for number in 0..MOST_BATCHES {
                let batch = &raw mut (*batches)[number];
                let calls = (&raw const (*batch).calls).read_volatile();
                if calls == 0 {
                    (&raw mut (*batch).what).write_volatile(what);
                    (&raw mut (*batch).bytes).write_volatile(0);
                } else if (&raw const (*batch).what).read_volatile() != what {
                    continue;
                }
                let bytes = (&raw const (*batch).bytes).read_volatile();
                (&raw mut (*batch).bytes).write_volatile(bytes.wrapping_add(request.bytes));
                (&raw mut (*batch).calls).write_volatile(calls + 1);
                break;
            }
        }
        for number in 0..MOST_BATCHES {
            let batch = &raw const (*batches)[number];
            let calls = (&raw const (*batch).calls).read_volatile();
            if calls == 0 {
                break;
            }
            let what = (&raw const (*batch).what).read_volatile();
            let bytes = (&raw const (*batch).bytes).read_volatile().cast_signed();
            let descriptor = (what >> 1) as u32;
            match what & 1 {
                0 => count_descriptor::<M>(Program::SyscallRead, descriptor, calls, bytes, 0),
                _ => count_descriptor::<M>(Program::SyscallWrite, descriptor, calls, bytes, 0),
            }
        }
    }
}

/// Requests of one call for one descriptor.
#[repr(C)]
#[derive(Clone, Copy)]
struct Batch {
    /// The descriptor, and in the lowest bit whether they write to it.
    what: u64,
    calls: u64,
    bytes: u64,
}

/// Where they are added up.
#[map]
static SUBMITTED: PerCpuArray<[Batch; MOST_BATCHES]> = PerCpuArray::with_max_entries(1, 0);

/// The begin of `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Submitted {
    data: u64,
    key_and_flags: u64,
    /// `IOCB_CMD_PREAD` or `IOCB_CMD_PWRITE`; those of vectors are others.
    operation: u16,
    priority: u16,
    descriptor: u32,
    buffer: u64,
    bytes: u64,
}

/// Counts calls for a file by its descriptor, that returned `result` together.
#[inline(never)]
fn count_descriptor<M: Memory>(
    program: Program,
    descriptor: u32,
    calls: u64,
    result: i64,
    begin_ns: u64,
) {
    if let Some(file) = file_of::<M>(descriptor) {
        let _ = count_file::<M>(program, file, calls, result, begin_ns);
    }
}

/// The file (`struct file`) of a descriptor of this thread.
#[inline(always)]
pub fn file_of<M: Memory>(descriptor: u32) -> Option<u64> {
    let own = &DIRECT.syscalls;
    // SAFETY: takes nothing.
    let task = Address::<M>::new(unsafe { bpf_get_current_task() });
    // Farther behind its begin than a plain load may reach.
    let files = word::<M>(task.0.wrapping_add(u64::from(global(&own.task_files))))?;
    let files = Address::<M>::new(files);
    let table = Address::<M>::new(files.field(&own.files_table)?);
    if descriptor >= table.field::<u32>(&own.table_length)? {
        return None;
    }
    let all: u64 = table.field(&own.table_files)?;
    let file = word::<M>(all.wrapping_add(u64::from(descriptor) * 8))?;
    (file != 0).then_some(file)
}

/// `io_uring_complete`, whose arguments are other ones from kernel to kernel. The verifier does not know the type of the request on all of them.
#[inline(always)]
pub fn ring_completed<M: Memory>(argument: impl Fn(usize) -> u64) {
    let own = &DIRECT.syscalls;
    let request = Address::<M>::new(argument(1));
    // What belongs to no request completes, too.
    if request.0 == 0 {
        return;
    }
    let result = if global(&own.ring_form) == rings::ENTRY {
        Address::<M>::new(argument(2)).field_or_zero(&own.ring_result)
    } else {
        argument(3) as i32
    };
    // `enum io_uring_op` (include/uapi/linux/io_uring.h): those with vectors, with registered buffers, and with one buffer; `IORING_OP_FSYNC` and
    // `IORING_OP_SYNC_FILE_RANGE`.
    let (program, result) = match request.field_or_zero::<u8>(&own.ring_operation) {
        1 | 4 | 22 | 60 => (Program::RingRead, result),
        2 | 5 | 23 | 61 => (Program::RingWrite, result),
        3 | 8 if global(&own.counts_operations) != 0 => (Program::RingSync, result.min(0)),
        _ => return,
    };
    let file: u64 = request.field_or_zero(&own.ring_file);
    if file != 0 {
        let _ = count_file::<M>(program, file, 1, i64::from(result), 0);
    }
}

#[inline(always)]
fn count_file<M: Memory>(
    program: Program,
    file: u64,
    calls: u64,
    result: i64,
    begin_ns: u64,
) -> Option<()> {
    let (own, app) = (&DIRECT.local, &DIRECT.app);
    let of_file = Address::<M>::new(file);
    let inode: u64 = of_file.field(&app.file_inode)?;
    let inode = Address::<M>::new(inode);
    let mode: u16 = inode.field(&own.inode_mode)?;
    // Many calls are for sockets and pipes.
    if !local::is_regular(mode) && !local::is_device(mode) {
        return None;
    }
    let cred = Address::<M>::new(of_file.field(&app.file_cred)?);
    let uid: u32 = cred.field(&DIRECT.cred_uid)?;
    let fileid: u64 = inode.field(&DIRECT.inode_number)?;
    let who = (uid, local::cgroup_of_caller());
    let flags: u32 = of_file.field(&DIRECT.syscalls.file_flags)?;
    let now_ns = now_ns();
    let places = APP_PLACES.get_ptr_mut(cpu())?;
    let nth = application::number(program, inode);
    let sum = match application::begun_before(places, nth, inode.0, fileid, who, now_ns) {
        Some(sum) => sum,
        None => begin(places, nth, file, now_ns)?,
    };
    let is_direct = flags & global(&DIRECT.syscalls.direct_flag) != 0;
    // SAFETY: a map value, which stays where it is while the program runs; those of hash maps are added to by every CPU.
    let is_first =
        unsafe { application::add(sum.as_ptr(), is_direct, calls, result, begin_ns, now_ns) };
    if is_first
        && local::is_regular(mode)
        && let Some((inode, entry)) = application::opened(file)
    {
        paths::name_opened(inode, entry);
    }
    Some(())
}

/// The sum in its place, or in a map. The first of these calls in its window begins it.
#[inline(never)]
fn begin(places: *mut AppPlaces, nth: u32, file: u64, now_ns: u64) -> Option<NonNull<AppValue>> {
    let app = &DIRECT.app;
    let of_file = Address::<Probe>::new(file);
    let inode = Address::<Probe>::new(of_file.field(&app.file_inode)?);
    let superblock = Address::<Probe>::new(inode.field(&DIRECT.inode_superblock)?);
    let magic: u64 = superblock.field(&DIRECT.local.superblock_magic)?;
    if magic == NFS_SUPER_MAGIC || MADE_UP.contains(&magic) {
        return None;
    }
    let cred = Address::<Probe>::new(of_file.field(&app.file_cred)?);
    let (window, begin_ns) = window::begin_of_holding::<Probe>(now_ns)?;
    let mut key = AppKey {
        fileid: 0,
        cgroup: local::cgroup_of_caller(),
        window,
        dev: 0,
        handle_hash: 0,
        uid: cred.field(&DIRECT.cred_uid)?,
        direction: direction_of(application::program_of(nth)),
    };
    local::describe(&mut key, inode, superblock, magic)?;
    let pid = bpf_get_current_pid_tgid() >> 32;
    if global(&FILTER) != 0 && !filter::admits_call(&key, pid as u32, of_file) {
        return None;
    }
    application::claim(places, nth, inode.0, &mut key, pid, begin_ns)
}

/// What the calls do that a program counts.
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

//! When an RPC of any procedure completes: adds it to the sum of its procedure, client and connection.
//!
//! Runs where the kernel updates its own statistics in `/proc/self/mountstats` (`rpc_count_iostats_metrics`,
//! net/sunrpc/stats.c), and reads the same members.

use core::ptr::{self, NonNull};

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use trackiops_schemas::ebpf::{
    ceiling::shed,
    op_sums::{
        NO_NUMBER, OP_BUCKET_SHIFT, OP_CELL_BITS, OP_END_OCTAVE, OP_FIRST_OCTAVE, OP_PLACES,
        OP_TAKEN, OPS_BY_PROCEDURE, OPS_BY_WINDOW, OpHalf, OpKey, OpOffsets, OpValue, op_flags,
    },
    ring::{DirectOffsets, Recovery},
};

use crate::{
    ceiling::is_shed,
    cells, file_operation,
    globals::{DIRECT, OP_CELL_TABLE, WINDOW_NS},
    kernel_memory::{
        Address, HASH_FACTOR, Memory, Probe, Reader, View, Window, add, count_half, exchange,
        global, opaque, raise,
    },
    maps::{self, OP_BEGIN, OPS, OPS_BEGUN, OPS_LOST},
    marks, paths,
    rpc_stats_latency::{EXECUTE, QUEUE, RTT, TASK},
    window,
};

/// The only program on the tracepoint `rpc_stats_latency(task, backlog, rtt, execute)`; `argument` returns these by number.
/// The times are in ns.
#[inline(always)]
pub fn alone<M: Memory>(argument: impl Fn(usize) -> u64) {
    let task = Address::<M::Trusted>::new(argument(TASK));
    // It is never 0, but the verifier requires the check.
    if task.0 != 0 {
        account::<M, M::Trusted, true>(task, argument);
    }
}

/// [`alone`] on kernels that may skip the program, where the release looks at the RPC once more. See [`crate::release`].
#[inline(always)]
pub fn marked<M: Memory>(argument: impl Fn(usize) -> u64) {
    let task = Address::<M::Trusted>::new(argument(TASK));
    if task.0 == 0 {
        return;
    }
    if marks::leave_operation(task) {
        account::<M, M::Trusted, true>(task, argument);
    } else {
        left::<M>();
    }
}

/// Counts an RPC at its release, for which the program was skipped or had no room for a mark.
#[inline(always)]
pub fn recovered<M: Memory>(argument: impl Fn(usize) -> u64) {
    account::<M, M, false>(Address::new(argument(TASK)), argument);
}

/// Counts an RPC that was left to the release. `#[inline(never)]`: cold path.
#[inline(never)]
fn left<M: Memory>() {
    if let Some(recovery) = maps::recovery::<M>() {
        // SAFETY: an element of an array, and the addition is atomic.
        unsafe { add!(Recovery, recovery.operations_left, 1) };
    }
}

#[inline(always)]
fn account<M: Memory, R: Reader, const TELLS_PATHS: bool>(
    task: Address<R>,
    argument: impl Fn(usize) -> u64,
) {
    if add_up::<M, R, TELLS_PATHS>(task, argument).is_none() {
        lost();
    }
}

/// Counts an RPC that could not be added up. `#[inline(never)]`: cold path.
#[inline(never)]
pub fn lost() {
    maps::count(&OPS_LOST, 0);
}

/// The part of a task that is read.
type TaskView<'a, R> = View<'a, R, 12>;

/// `None` if there is no room for the RPC, or the kernel is locked down against reading its memory.
#[inline(always)]
fn add_up<M: Memory, R: Reader, const TELLS_PATHS: bool>(
    task: Address<R>,
    argument: impl Fn(usize) -> u64,
) -> Option<()> {
    let offsets: &'static DirectOffsets = &DIRECT;
    let own = &offsets.operation;
    let of_task = Address::<M>::new(task.0);
    let mut room = Window::EMPTY;
    let task: TaskView<'_, R> = room.fill(task, Some(&own.task_window))?;
    let start_ns: u64 = task.held(&offsets.task_start)?;
    let end_ns = start_ns.wrapping_add(argument(EXECUTE));
    let sum = match at_once::<M, R>(&task, end_ns) {
        Some(sum) => sum,
        None if M::SINCE_6_2 => begin_of_task(of_task, end_ns)?,
        None => {
            let procedure = task.held(&own.task_procedure)?;
            let transport = task.held(&own.task_transport)?;
            let client = task.held(&own.task_client)?;
            begin::<M>(procedure, transport, client, end_ns)?
        }
    };
    let sum = sum.as_ptr();
    let status: i32 = task.held(&own.task_status)?;
    let transmission = Address::<R::Followed>::new(task.held(&offsets.task_transmission)?);
    let (sent_bytes, received_bytes) = bytes(transmission, own)?;
    // SAFETY: a map value, which stays in place while the program runs; every CPU adds atomically. Userspace takes it away
    // before it reads it.
    unsafe {
        if status < 0 {
            add!(OpValue, sum.errors, 1);
        }
        add!(OpValue, sum.sent_bytes, sent_bytes);
        add!(OpValue, sum.received_bytes, received_bytes);
        add!(OpValue, sum.queue_ns_sum, argument(QUEUE));
        add!(OpValue, sum.rtt_ns_sum, argument(RTT));
        let execute_ns = argument(EXECUTE);
        add!(OpValue, sum.execute_ns_sum, execute_ns);
        raise(&raw mut (*sum).execute_ns_max, execute_ns);
        let bucket = bucket_of(execute_ns)?;
        count_half((*sum).execute.get_mut(bucket)?);
        // It is 0 for READ and WRITE.
        if (&raw const (*sum).handle).read_volatile() != 0 && !is_shed::<M>(shed::FILE_OPERATIONS) {
            // Called here and not inside `count`, because the stacks of all functions in a chain share one limit.
            let directory = file_operation::count::<M, R, TELLS_PATHS>(argument, sum);
            if TELLS_PATHS && directory != 0 {
                paths::name_directory::<M>(directory);
            }
        }
    }
    Some(())
}

#[inline(always)]
fn bytes<M: Memory>(transmission: Address<M>, offsets: &'static OpOffsets) -> Option<(u64, u64)> {
    let mut room = Window::<2>::EMPTY;
    let view: View<'_, M, 2> = room.fill(transmission, Some(&offsets.bytes_window))?;
    Some((
        view.field(&offsets.sent_bytes)?,
        view.field(&offsets.received_bytes)?,
    ))
}

/// The sum in the table, if it has its place there and belongs to the half's window or the next one.
#[inline(always)]
fn at_once<M: Memory, R: Reader>(task: &TaskView<'_, R>, end_ns: u64) -> Option<NonNull<OpValue>> {
    if !M::SINCE_6_2 {
        return None;
    }
    let half = half::<M>()?;
    // SAFETY: `half` points into the table, which stays in place while the program runs; every load is one aligned word.
    unsafe {
        let elapsed_ns = end_ns.wrapping_sub((&raw const (*half).begin_ns).read_volatile());
        let mut window = (&raw const (*half).window).read_volatile();
        let window_ns = global(&WINDOW_NS);
        if elapsed_ns >= window_ns {
            // The next window: userspace exchanges the halves some time after it has begun.
            if elapsed_ns - window_ns >= window_ns {
                return None;
            }
            window += 1;
        }
        let own = &DIRECT.operation;
        let key = OpKey {
            procedure: task.held(&own.task_procedure)?,
            transport: task.held(&own.task_transport)?,
            client: task.held(&own.task_client)?,
            window,
        };
        let (owner, sum) = place::<M>(half, &key);
        // The task's members are read again, which is cheaper than keeping them.
        let is_ours = (&raw const (*owner).procedure).read_volatile()
            == task.held(&own.task_procedure)?
            && (&raw const (*owner).transport).read_volatile() == task.held(&own.task_transport)?
            && (&raw const (*owner).client).read_volatile() == task.held(&own.task_client)?
            && (&raw const (*owner).window).read_volatile() == window;
        NonNull::new(sum).filter(|_| is_ours)
    }
}

/// Whether the place belongs to this key.
///
/// # Safety
///
/// `owner` is an element of the table.
#[inline(always)]
unsafe fn is_of(owner: *mut OpKey, key: &OpKey) -> bool {
    // SAFETY: the caller guarantees an element of the table.
    unsafe {
        (&raw const (*owner).procedure).read_volatile() == key.procedure
            && (&raw const (*owner).transport).read_volatile() == key.transport
            && (&raw const (*owner).client).read_volatile() == key.client
            && (&raw const (*owner).window).read_volatile() == key.window
    }
}

/// The half of the table that is in use.
#[inline(always)]
fn half<M: Memory>() -> Option<*mut OpHalf> {
    let table = maps::op_table::<M>()?;
    // SAFETY: the table stays in place while the program runs, and `index` is 0 or 1.
    unsafe {
        let index = (&raw const (*table).half).read_volatile() as usize & 1;
        Some(&raw mut (*table).halves[index])
    }
}

/// The place of a key in the half.
#[inline(always)]
fn place<M: Memory>(half: *mut OpHalf, key: &OpKey) -> (*mut OpKey, *mut OpValue) {
    let low_half = |address| Address::<M>::new(address).low_half();
    let mixed = low_half(key.procedure)
        .wrapping_add(low_half(key.transport))
        .wrapping_add(low_half(key.client))
        .wrapping_add(key.window as u32)
        .wrapping_mul(HASH_FACTOR);
    let index = (mixed >> (32 - OP_PLACES.ilog2())) as usize;
    // SAFETY: `index` has `OP_PLACES.ilog2()` bits, so both elements are inside the half.
    unsafe { (&raw mut (*half).owners[index], &raw mut (*half).sums[index]) }
}

/// [`begin`] for a task. `#[inline(never)]`: cold path. Reads by `M`, not by the task's type, for the reason in
/// `direct::Request::fold`.
#[inline(never)]
fn begin_of_task<M: Memory>(task: Address<M>, end_ns: u64) -> Option<NonNull<OpValue>> {
    let own = &DIRECT.operation;
    let procedure = task.held(&own.task_procedure)?;
    let transport = task.held(&own.task_transport)?;
    let client = task.held(&own.task_client)?;
    begin::<M>(procedure, transport, client, end_ns)
}

/// Finds or begins the sum in the table or in a map. Takes the members of the key, because a key would need stack.
#[inline(never)]
fn begin<M: Memory>(
    procedure: u64,
    transport: u64,
    client: u64,
    end_ns: u64,
) -> Option<NonNull<OpValue>> {
    let key = &OpKey {
        procedure,
        transport,
        client,
        window: window::holding::<M>(end_ns)?,
    };
    if M::SINCE_6_2 {
        let (owner, sum) = place::<M>(half::<M>()?, key);
        // SAFETY: elements of the table. `OP_TAKEN` reserves the place; no other key matches it until `procedure` is written, last.
        unsafe {
            if is_of(owner, key) {
                return NonNull::new(sum);
            }
            if exchange(&raw mut (*owner).procedure, 0, OP_TAKEN) == 0 {
                describe::<M>(sum, key)?;
                (&raw mut (*owner).transport).write_volatile(key.transport);
                (&raw mut (*owner).client).write_volatile(key.client);
                (&raw mut (*owner).window).write_volatile(key.window);
                (&raw mut (*owner).procedure).write_volatile(key.procedure);
                return NonNull::new(sum);
            }
        }
    }
    let sums = OPS.get(OPS_BY_PROCEDURE)?;
    if let Some(sum) = sums.get(key) {
        return NonNull::new(sum);
    }
    let Some(sum) = sums.entry(key, &OP_BEGIN) else {
        let others = OpKey {
            procedure: 0,
            transport: 0,
            client: 0,
            window: key.window,
        };
        let sum = OPS.get(OPS_BY_WINDOW)?.entry(&others, &OP_BEGIN)?;
        maps::count(&OPS_BEGUN, OPS_BY_WINDOW);
        return NonNull::new(sum);
    };
    maps::count(&OPS_BEGUN, OPS_BY_PROCEDURE);
    describe::<M>(sum, key)?;
    NonNull::new(sum)
}

/// Writes the identity of a sum: its client, procedure and connection.
#[inline(always)]
fn describe<M: Memory>(sum: *mut OpValue, key: &OpKey) -> Option<()> {
    let offsets = &DIRECT.operation;
    let client = Address::<M>::new(key.client);
    let procedure = Address::<M>::new(key.procedure);
    // By the helper: the members read here are farther from the begin than casts reach.
    let transport = Address::<Probe>::new(key.transport);
    // SAFETY: a map value, which stays in place while the program runs. Racing CPUs write the same values.
    unsafe {
        (*sum).client = client.field(&offsets.client_number)?;
        (*sum).program = client.field(&offsets.client_program)?;
        (*sum).version = client.field(&offsets.client_version)?;
        (*sum).index = procedure.field(&offsets.procedure_index)?;
        (*sum).transport = if global(&offsets.flags) & op_flags::NUMBERED != 0 {
            transport.field(&offsets.transport_number)?
        } else {
            NO_NUMBER
        };
        copy_text(
            &raw mut (*sum).name,
            procedure.field(&offsets.procedure_name)?,
        );
        (*sum).handle = file_operation::handle_of(
            (*sum).program,
            (*sum).version,
            (*sum).index,
            (&raw const (*sum).name).cast::<u64>().read_volatile(),
        );
        copy_text(
            &raw mut (*sum).protocol,
            transport.field(&offsets.transport_protocol)?,
        );
        copy_text(
            &raw mut (*sum).address,
            transport.field(&offsets.transport_address)?,
        );
    }
    Some(())
}

/// Copies a string of the kernel, truncated to the room. Copies nothing if `from` is not readable.
#[inline(always)]
fn copy_text<const BYTES: usize>(to: *mut [u8; BYTES], from: u64) {
    // SAFETY: the helper writes at most `BYTES` bytes and reads at any address without faulting.
    unsafe {
        bpf_probe_read_kernel_str(
            to.cast(),
            BYTES as u32,
            ptr::with_exposed_provenance(from as usize),
        )
    };
}

/// The bucket that holds a time.
#[inline(always)]
fn bucket_of(ns: u64) -> Option<usize> {
    let (place, ns) = cells::place_of::<OP_FIRST_OCTAVE, OP_END_OCTAVE, OP_CELL_BITS>(ns)?;
    let cell = global(OP_CELL_TABLE.get(place)?);
    Some(opaque(cell.wrapping_add(ns) >> OP_BUCKET_SHIFT) as usize)
}

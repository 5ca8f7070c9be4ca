//! An RPC of any procedure completes: it is added up with those of the same procedure, client and connection.
//!
//! Where the kernel adds it to its own statistics, which are in `/proc/self/mountstats` (`rpc_count_iostats_metrics`,
//! net/sunrpc/stats.c), and from the same members.

use core::ptr;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel_str;
use trackiops_schemas::{
    op_sums::{
        NO_NUMBER, OP_BUCKET_BITS, OP_CELL_BITS, OP_END_OCTAVE, OP_FIRST_OCTAVE, OPS_BY_PROCEDURE,
        OPS_BY_WINDOW, OpKey, OpOffsets, OpValue, op_flags,
    },
    ring::DirectOffsets,
};

use crate::{
    kernel::{Address, Memory, Probe, View, Window, add, add_half, global, raise},
    maps::{DIRECT, OP_BEGIN, OP_CELL_TABLE, OPS, OPS_LOST},
    marks, window,
};

/// Arguments of `rpc_stats_latency(task, backlog, rtt, execute)`, the times in ns.
#[derive(Clone, Copy)]
pub struct Statistics {
    pub task: u64,
    pub queue_ns: u64,
    pub rtt_ns: u64,
    pub execute_ns: u64,
}

impl Statistics {
    /// From the tracepoint's arguments by their numbers.
    #[inline(always)]
    pub fn of(argument: impl Fn(usize) -> u64) -> Self {
        Self {
            task: argument(0),
            queue_ns: argument(1),
            rtt_ns: argument(2),
            execute_ns: argument(3),
        }
    }
}

/// The only program on the tracepoint.
#[inline(always)]
pub fn alone<M: Memory>(statistics: Statistics) {
    account::<M>(statistics);
}

/// The first of two programs on the tracepoint. See [`crate::direct`].
#[inline(always)]
pub fn first<M: Memory>(statistics: Statistics) {
    if marks::leave(Address::<M::Argument>::new(statistics.task)) {
        account::<M>(statistics);
    }
}

/// The second of two programs on the tracepoint.
#[inline(always)]
pub fn second<M: Memory>(statistics: Statistics) {
    if !marks::take(Address::<M::Argument>::new(statistics.task)) {
        account::<M>(statistics);
    }
}

#[inline(always)]
fn account<M: Memory>(statistics: Statistics) {
    if add_up::<M>(statistics).is_none() {
        lost();
    }
}

/// In a function of its own, like the others that are seldom called.
#[inline(never)]
pub fn lost() {
    if let Some(lost) = OPS_LOST.get_ptr_mut(0) {
        // SAFETY: an element of an array, which exists for as long as the program runs.
        unsafe { add(lost, 1) };
    }
}

/// `None` if there is no room for it, or the kernel refuses to show its memory.
#[inline(always)]
fn add_up<M: Memory>(statistics: Statistics) -> Option<()> {
    let offsets: &'static DirectOffsets = &DIRECT;
    let own = &offsets.operation;
    let mut room = Window::<12>::EMPTY;
    let task = room.fill(
        Address::<M::Argument>::new(statistics.task),
        Some(&own.task_window),
    )?;
    let start_ns: u64 = task.field(&offsets.task_start)?;
    let client = Address::<M>::new(task.field(&own.task_client)?);
    let key = OpKey {
        procedure: task.field(&own.task_procedure)?,
        transport: task.field(&own.task_transport)?,
        client: client.field(&own.client_number)?,
        window: window::holding(start_ns.wrapping_add(statistics.execute_ns))? as u32,
    };
    let sum = match OPS.get(OPS_BY_PROCEDURE)?.get(&key) {
        Some(sum) => sum,
        None => begin::<M>(&key, client)?,
    };
    let status: i32 = task.field(&own.task_status)?;
    let transmission = Address::<M::Argument>::new(task.field(&offsets.task_transmission)?);
    let (sent_bytes, received_bytes) = bytes(transmission, own)?;
    // SAFETY: a map value, which stays where it is while the program runs; every CPU adds atomically. Userspace takes
    // the map away before it reads it.
    unsafe {
        add(&raw mut (*sum).requests, 1);
        if status < 0 {
            add(&raw mut (*sum).errors, 1);
        }
        add(&raw mut (*sum).sent_bytes, sent_bytes);
        add(&raw mut (*sum).received_bytes, received_bytes);
        add(&raw mut (*sum).queue_ns_sum, statistics.queue_ns);
        add(&raw mut (*sum).rtt_ns_sum, statistics.rtt_ns);
        add(&raw mut (*sum).execute_ns_sum, statistics.execute_ns);
        raise(&raw mut (*sum).execute_ns_max, statistics.execute_ns);
        if let Some(count) = (*sum).execute.get_mut(bucket_of(statistics.execute_ns)?) {
            add_half(count, 1);
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

/// The first of these in its window: what they are is written down.
#[inline(never)]
fn begin<M: Memory>(key: &OpKey, client: Address<M>) -> Option<*mut OpValue> {
    let offsets = &DIRECT.operation;
    let sums = OPS.get(OPS_BY_PROCEDURE)?;
    let sum: *mut OpValue = match sums.entry(key, &OP_BEGIN) {
        Some(sum) => sum,
        None => {
            let others = OpKey {
                procedure: 0,
                transport: 0,
                client: 0,
                window: key.window,
            };
            return OPS.get(OPS_BY_WINDOW)?.entry(&others, &OP_BEGIN);
        }
    };
    let procedure = Address::<M>::new(key.procedure);
    // By the helper: what is read of it stands farther from its begin than casts reach.
    let transport = Address::<Probe>::new(key.transport);
    // SAFETY: a map value. Another CPU may be first, and write the same.
    unsafe {
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
        copy_text(
            &raw mut (*sum).protocol,
            transport.field(&offsets.transport_protocol)?,
        );
        copy_text(
            &raw mut (*sum).address,
            transport.field(&offsets.transport_address)?,
        );
    }
    Some(sum)
}

/// Copies a string of the kernel's, as far as there is room. Without one nothing is copied.
#[inline(always)]
fn copy_text<const BYTES: usize>(to: *mut [u8; BYTES], from: u64) {
    // SAFETY: writes no more than there is; reads at any address without faulting.
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
    let ns = ns.clamp(1 << OP_FIRST_OCTAVE, (1 << OP_END_OCTAVE) - 1);
    let octave = octave_of(ns);
    let below = (ns >> (octave - OP_CELL_BITS)) & ((1 << OP_CELL_BITS) - 1);
    let cell = ((octave - OP_FIRST_OCTAVE) << OP_CELL_BITS) as usize + below as usize;
    let cell = global(OP_CELL_TABLE.get(cell)?);
    let (bucket, last_ns) = (cell & ((1 << OP_BUCKET_BITS) - 1), cell >> OP_BUCKET_BITS);
    Some(bucket as usize + usize::from(ns > last_ns))
}

/// The place of the highest bit that is set. There is no instruction for it.
#[inline(always)]
fn octave_of(mut value: u64) -> u32 {
    let mut octave = 0;
    for bits in [32, 16, 8, 4, 2, 1] {
        if value >> bits != 0 {
            value >>= bits;
            octave += bits;
        }
    }
    octave
}

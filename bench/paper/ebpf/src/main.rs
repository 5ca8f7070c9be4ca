//! The kernel side of the CHEOPS'24 extractor, as published: four probes link a request from its thread to its RPC
//! task and back to a thread, and add it to its file's metrics. See `bench/README.md`.
//!
//! Built for BPF by `make ebpf`; on the host this is an empty program.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
mod programs {
    use core::arch::asm;

    use aya_ebpf::{
        EbpfContext as _,
        bindings::BPF_NOEXIST,
        helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
        macros::{map, tracepoint},
        maps::HashMap,
        programs::TracePointContext,
    };

    // Offsets of fields in the events. They are equal from Linux 5.10 to 7.2, so they can be compile-time constants, as in C.
    const TASK_ID: usize = 8;
    const FILEID: usize = 16;
    const RES_COUNT: usize = 36;

    const LINK_ENTRIES: u32 = 16_384;
    const FILES: u32 = 16_384;

    /// Sums of a file since its last reset: requests, bytes, and latencies in ns.
    #[repr(C)]
    pub struct Metrics {
        read: Direction,
        write: Direction,
    }

    #[repr(C)]
    pub struct Direction {
        requests: u64,
        bytes: u64,
        latency_ns: u64,
    }

    /// By thread: when it initiated a request.
    #[map(name = "LINK_BEGIN")]
    static LINK_BEGIN: HashMap<u32, u64> = HashMap::with_max_entries(LINK_ENTRIES, 0);

    /// By RPC task id: when its request was initiated.
    #[map(name = "WAITING_RPC")]
    static WAITING_RPC: HashMap<u32, u64> = HashMap::with_max_entries(LINK_ENTRIES, 0);

    /// By thread: the latency of the request that has just ended on it.
    #[map(name = "LINK_END")]
    static LINK_END: HashMap<u32, u64> = HashMap::with_max_entries(LINK_ENTRIES, 0);

    /// By file; userspace reads and resets it.
    #[map(name = "IO_METRICS")]
    static IO_METRICS: HashMap<u64, Metrics> = HashMap::with_max_entries(FILES, 0);

    #[tracepoint]
    pub fn nfs_initiate_read(_: TracePointContext) {
        initiate();
    }

    #[tracepoint]
    pub fn nfs_initiate_write(_: TracePointContext) {
        initiate();
    }

    #[tracepoint]
    pub fn rpc_task_begin(ctx: TracePointContext) {
        let thread = thread();
        if let Some(start_ns) = get(&LINK_BEGIN, thread) {
            let _ = WAITING_RPC.insert(field::<u32>(&ctx, TASK_ID), start_ns, 0);
            let _ = LINK_BEGIN.remove(thread);
        }
    }

    #[tracepoint]
    pub fn rpc_task_end(ctx: TracePointContext) {
        let task = field::<u32>(&ctx, TASK_ID);
        if let Some(start_ns) = get(&WAITING_RPC, task) {
            let _ = LINK_END.insert(thread(), now_ns().wrapping_sub(start_ns), 0);
            let _ = WAITING_RPC.remove(task);
        }
    }

    #[tracepoint]
    pub fn nfs_readpage_done(ctx: TracePointContext) {
        // SAFETY: only the address is taken.
        done(&ctx, |metrics| unsafe { &raw mut (*metrics).read });
    }

    #[tracepoint]
    pub fn nfs_writeback_done(ctx: TracePointContext) {
        // SAFETY: only the address is taken.
        done(&ctx, |metrics| unsafe { &raw mut (*metrics).write });
    }

    #[inline(always)]
    fn initiate() {
        let _ = LINK_BEGIN.insert(thread(), now_ns(), 0);
    }

    #[inline(always)]
    fn done(ctx: &TracePointContext, direction: impl Fn(*mut Metrics) -> *mut Direction) {
        let thread = thread();
        let Some(latency_ns) = get(&LINK_END, thread) else {
            return;
        };
        let _ = LINK_END.remove(thread);
        let fileid = field::<u64>(ctx, FILEID);
        let metrics = match IO_METRICS.get_ptr_mut(fileid) {
            None => {
                const NOTHING: Direction = Direction {
                    requests: 0,
                    bytes: 0,
                    latency_ns: 0,
                };
                let new = Metrics {
                    read: NOTHING,
                    write: NOTHING,
                };
                // Another CPU may have inserted it first.
                let _ = IO_METRICS.insert(fileid, new, u64::from(BPF_NOEXIST));
                IO_METRICS.get_ptr_mut(fileid)
            }
            found => found,
        };
        if let Some(sums) = metrics.map(direction) {
            let bytes = u64::from(field::<u32>(ctx, RES_COUNT));
            // SAFETY: a map value, which the map keeps in place while the program runs.
            unsafe {
                add(&raw mut (*sums).requests, 1);
                add(&raw mut (*sums).bytes, bytes);
                add(&raw mut (*sums).latency_ns, latency_ns);
            }
        }
    }

    /// `__sync_fetch_and_add` of C, because `AtomicU64` does not exist on this target.
    #[inline(always)]
    unsafe fn add(sum: *mut u64, value: u64) {
        // SAFETY: the caller passes an aligned word.
        unsafe {
            asm!(
                "lock *(u64 *)({sum} + 0) += {value}",
                sum = in(reg) sum,
                value = in(reg) value,
                options(nostack),
            );
        }
    }

    #[inline(always)]
    fn get(map: &HashMap<u32, u64>, key: u32) -> Option<u64> {
        // SAFETY: a map value of one aligned word, written as a whole.
        unsafe { map.get(key).copied() }
    }

    /// A field of the event, read directly from the context, like in C.
    #[inline(always)]
    fn field<T: Copy>(ctx: &TracePointContext, offset: usize) -> T {
        // SAFETY: the verifier knows the size of the context, and rejects reads beyond it.
        unsafe { ctx.as_ptr().byte_add(offset).cast::<T>().read() }
    }

    #[inline(always)]
    fn thread() -> u32 {
        bpf_get_current_pid_tgid() as u32
    }

    #[inline(always)]
    fn now_ns() -> u64 {
        // SAFETY: a helper without arguments.
        unsafe { bpf_ktime_get_ns() }
    }
}

/// Only GPL-compatible programs may call the helpers.
#[cfg(target_arch = "bpf")]
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";

/// Never reached: nothing here can panic, and the verifier would refuse the loop.
#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[cfg(not(target_arch = "bpf"))]
fn main() {}

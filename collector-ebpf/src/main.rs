//! The kernel side: records the I/O of NFS, block devices and system calls, by file and user.
//!
//! Programs of the tracepoint engine are named after the tracepoints they belong on. See the README beside this crate for
//! the order of events. Built for BPF by `make ebpf`; on the host this is an empty program.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
mod application;
#[cfg(target_arch = "bpf")]
mod block;
#[cfg(target_arch = "bpf")]
mod cache;
#[cfg(target_arch = "bpf")]
mod ceiling;
#[cfg(target_arch = "bpf")]
mod cells;
#[cfg(target_arch = "bpf")]
mod cgroup;
#[cfg(target_arch = "bpf")]
mod completion;
#[cfg(target_arch = "bpf")]
mod direct;
#[cfg(target_arch = "bpf")]
mod file_operation;
#[cfg(target_arch = "bpf")]
mod filter;
#[cfg(target_arch = "bpf")]
mod fold;
#[cfg(target_arch = "bpf")]
mod globals;
#[cfg(target_arch = "bpf")]
mod handle;
#[cfg(target_arch = "bpf")]
mod io_submit;
#[cfg(target_arch = "bpf")]
mod io_uring;
#[cfg(target_arch = "bpf")]
mod kernel_memory;
#[cfg(target_arch = "bpf")]
mod left_out;
#[cfg(target_arch = "bpf")]
mod local;
#[cfg(target_arch = "bpf")]
mod maps;
#[cfg(target_arch = "bpf")]
mod marks;
#[cfg(target_arch = "bpf")]
mod operation;
#[cfg(target_arch = "bpf")]
mod paths;
#[cfg(target_arch = "bpf")]
mod release;
#[cfg(target_arch = "bpf")]
mod rpc_stats_latency;
#[cfg(target_arch = "bpf")]
mod single_calls;
#[cfg(target_arch = "bpf")]
mod spans;
#[cfg(target_arch = "bpf")]
mod sums;
#[cfg(target_arch = "bpf")]
mod syscalls;
#[cfg(target_arch = "bpf")]
mod tracepoint;
#[cfg(target_arch = "bpf")]
mod window;

#[cfg(target_arch = "bpf")]
mod programs {
    use aya_ebpf::{
        EbpfContext as _,
        macros::{
            btf_tracepoint, fentry, fexit, kprobe, kretprobe, raw_tracepoint, tracepoint, uprobe,
            uretprobe,
        },
        programs::{
            BtfTracePointContext, FEntryContext, FExitContext, ProbeContext, RawTracePointContext,
            RetProbeContext, TracePointContext,
        },
    };
    use trackiops_schemas::ebpf::ring::flags;

    use crate::{
        application::{self, Program},
        block, cache, direct,
        globals::OFFSETS,
        io_uring,
        kernel_memory::{Cast, Probe, Typed},
        maps::APP_BEGINS,
        operation, paths, release, spans, syscalls, tracepoint,
    };

    /// The direction of a READ, in the bits of a record's flags.
    const READ: u32 = 0;

    #[tracepoint(category = "nfs", name = "nfs_initiate_read")]
    pub fn nfs_initiate_read(ctx: TracePointContext) {
        tracepoint::initiate(&ctx, &OFFSETS.initiate_read, READ);
    }

    #[tracepoint(category = "nfs", name = "nfs_initiate_write")]
    pub fn nfs_initiate_write(ctx: TracePointContext) {
        tracepoint::initiate(&ctx, &OFFSETS.initiate_write, flags::WRITE);
    }

    #[tracepoint(category = "sunrpc", name = "rpc_task_begin")]
    pub fn rpc_task_begin(ctx: TracePointContext) {
        tracepoint::task_begin(&ctx, &OFFSETS.task_begin);
    }

    #[tracepoint(category = "sunrpc", name = "rpc_task_end")]
    pub fn rpc_task_end(ctx: TracePointContext) {
        tracepoint::task_end(&ctx, &OFFSETS.task_end);
    }

    #[tracepoint(category = "nfs", name = "nfs_readpage_done")]
    pub fn nfs_readpage_done(ctx: TracePointContext) {
        tracepoint::done(&ctx, &OFFSETS.read_done, READ);
    }

    #[tracepoint(category = "nfs", name = "nfs_writeback_done")]
    pub fn nfs_writeback_done(ctx: TracePointContext) {
        tracepoint::done(&ctx, &OFFSETS.write_done, flags::WRITE);
    }

    #[raw_tracepoint(tracepoint = "nfs_readpage_done")]
    pub fn alone_read_done_by_probe(ctx: RawTracePointContext) {
        direct::alone::<Probe>(ctx.arg(0), ctx.arg(1), READ);
    }

    #[raw_tracepoint(tracepoint = "nfs_writeback_done")]
    pub fn alone_write_done_by_probe(ctx: RawTracePointContext) {
        direct::alone::<Probe>(ctx.arg(0), ctx.arg(1), flags::WRITE);
    }

    #[raw_tracepoint(tracepoint = "nfs_readpage_done")]
    pub fn marked_read_done_by_probe(ctx: RawTracePointContext) {
        direct::marked::<Probe>(ctx.arg(0), ctx.arg(1), READ);
    }

    #[raw_tracepoint(tracepoint = "nfs_writeback_done")]
    pub fn marked_write_done_by_probe(ctx: RawTracePointContext) {
        direct::marked::<Probe>(ctx.arg(0), ctx.arg(1), flags::WRITE);
    }

    #[btf_tracepoint(function = "nfs_readpage_done")]
    pub fn alone_read_done_by_cast(ctx: BtfTracePointContext) -> i32 {
        direct::alone::<Cast>(ctx.arg(0), ctx.arg(1), READ);
        0
    }

    #[btf_tracepoint(function = "nfs_writeback_done")]
    pub fn alone_write_done_by_cast(ctx: BtfTracePointContext) -> i32 {
        direct::alone::<Cast>(ctx.arg(0), ctx.arg(1), flags::WRITE);
        0
    }

    #[btf_tracepoint(function = "nfs_readpage_done")]
    pub fn marked_read_done_by_cast(ctx: BtfTracePointContext) -> i32 {
        direct::marked::<Cast>(ctx.arg(0), ctx.arg(1), READ);
        0
    }

    #[btf_tracepoint(function = "nfs_writeback_done")]
    pub fn marked_write_done_by_cast(ctx: BtfTracePointContext) -> i32 {
        direct::marked::<Cast>(ctx.arg(0), ctx.arg(1), flags::WRITE);
        0
    }

    #[raw_tracepoint(tracepoint = "nfs_rename_exit")]
    pub fn renamed(ctx: RawTracePointContext) {
        paths::renamed(ctx.arg(0), ctx.arg(1), ctx.arg(3), ctx.arg(4));
    }

    #[raw_tracepoint(tracepoint = "rpc_stats_latency")]
    pub fn alone_operation_by_probe(ctx: RawTracePointContext) {
        operation::alone::<Probe>(move |n| ctx.arg(n));
    }

    #[raw_tracepoint(tracepoint = "rpc_stats_latency")]
    pub fn marked_operation_by_probe(ctx: RawTracePointContext) {
        operation::marked::<Probe>(move |n| ctx.arg(n));
    }

    #[btf_tracepoint(function = "rpc_stats_latency")]
    pub fn alone_operation_by_cast(ctx: BtfTracePointContext) -> i32 {
        operation::alone::<Cast>(move |n| ctx.arg(n));
        0
    }

    #[btf_tracepoint(function = "rpc_stats_latency")]
    pub fn marked_operation_by_cast(ctx: BtfTracePointContext) -> i32 {
        operation::marked::<Cast>(move |n| ctx.arg(n));
        0
    }

    // Also attached to `xprt_release_cong`. A typed program fits only one tracepoint, and would be loaded for each.
    #[raw_tracepoint(tracepoint = "xprt_release_xprt")]
    pub fn released_by_probe(ctx: RawTracePointContext) {
        release::released::<Probe>(ctx.arg(1));
    }

    #[raw_tracepoint(tracepoint = "xprt_release_xprt")]
    pub fn released_by_cast(ctx: RawTracePointContext) {
        release::released::<Cast>(ctx.arg(1));
    }

    #[raw_tracepoint(tracepoint = "block_rq_complete")]
    pub fn block_request_by_probe(ctx: RawTracePointContext) {
        block::completed::<Probe>(ctx.arg(0), ctx.arg(1), ctx.arg(2));
    }

    #[btf_tracepoint(function = "block_rq_complete")]
    pub fn block_request_by_cast(ctx: BtfTracePointContext) -> i32 {
        block::completed::<Cast>(ctx.arg(0), ctx.arg(1), ctx.arg(2));
        0
    }

    #[raw_tracepoint(tracepoint = "mm_filemap_add_to_page_cache")]
    pub fn pages_added_by_probe(ctx: RawTracePointContext) {
        cache::changed::<Probe>(Program::PagesAdded, ctx.arg(0));
    }

    #[btf_tracepoint(function = "mm_filemap_add_to_page_cache")]
    pub fn pages_added_by_cast(ctx: BtfTracePointContext) -> i32 {
        cache::changed::<Cast>(Program::PagesAdded, ctx.arg(0));
        0
    }

    #[raw_tracepoint(tracepoint = "mm_filemap_delete_from_page_cache")]
    pub fn pages_evicted_by_probe(ctx: RawTracePointContext) {
        cache::changed::<Probe>(Program::PagesEvicted, ctx.arg(0));
    }

    #[btf_tracepoint(function = "mm_filemap_delete_from_page_cache")]
    pub fn pages_evicted_by_cast(ctx: BtfTracePointContext) -> i32 {
        cache::changed::<Cast>(Program::PagesEvicted, ctx.arg(0));
        0
    }

    // Before Linux 5.18 on `writeback_dirty_page`.

    #[raw_tracepoint(tracepoint = "writeback_dirty_folio")]
    pub fn pages_dirtied_by_probe(ctx: RawTracePointContext) {
        cache::changed::<Probe>(Program::PagesDirtied, ctx.arg(0));
    }

    #[btf_tracepoint(function = "writeback_dirty_folio")]
    pub fn pages_dirtied_by_cast(ctx: BtfTracePointContext) -> i32 {
        cache::changed::<Cast>(Program::PagesDirtied, ctx.arg(0));
        0
    }

    // Loaded in one form, whatever the form of the program on `sys_exit`: it reads no memory.
    #[raw_tracepoint(tracepoint = "sys_enter")]
    pub fn app_syscall_begin(ctx: RawTracePointContext) {
        syscalls::begun(ctx.arg(1));
    }

    #[raw_tracepoint(tracepoint = "sys_exit")]
    pub fn app_syscall_by_probe(ctx: RawTracePointContext) {
        syscalls::returned::<Probe>(ctx.arg(0), ctx.arg(1));
    }

    #[btf_tracepoint(function = "sys_exit")]
    pub fn app_syscall_by_cast(ctx: BtfTracePointContext) -> i32 {
        syscalls::returned::<Cast>(ctx.arg(0), ctx.arg(1));
        0
    }

    // Loaded in one form, if single calls are kept: it reads by the helper.
    #[raw_tracepoint(tracepoint = "io_uring_submit_req")]
    pub fn app_ring_begin(ctx: RawTracePointContext) {
        io_uring::begun(ctx.arg(0));
    }

    #[raw_tracepoint(tracepoint = "io_uring_complete")]
    pub fn app_ring_by_probe(ctx: RawTracePointContext) {
        io_uring::completed::<Probe>(move |n| ctx.arg(n));
    }

    #[btf_tracepoint(function = "io_uring_complete")]
    pub fn app_ring_by_cast(ctx: BtfTracePointContext) -> i32 {
        io_uring::completed::<Cast>(move |n| ctx.arg(n));
        0
    }

    // Attached to each function of the following programs, if calls are timed.
    #[fentry(function = "nfs_file_read")]
    pub fn app_begin(_: FEntryContext) -> i32 {
        application::begun::<Typed>(&APP_BEGINS);
        0
    }

    #[fexit(function = "nfs_file_read")]
    pub fn app_read(ctx: FExitContext) -> i32 {
        application::returned(Program::Read, ctx.arg(0), ctx.arg::<u64>(2));
        0
    }

    #[fexit(function = "nfs_file_write")]
    pub fn app_write(ctx: FExitContext) -> i32 {
        application::returned(Program::Write, ctx.arg(0), ctx.arg::<u64>(2));
        0
    }

    #[fexit(function = "nfs_file_splice_read")]
    pub fn app_splice_read(ctx: FExitContext) -> i32 {
        application::returned_of_file(Program::SpliceRead, ctx.arg(0), ctx.arg::<u64>(5));
        0
    }

    #[fentry(function = "nfs_file_direct_read")]
    pub fn app_direct_read(ctx: FEntryContext) -> i32 {
        application::direct(Program::DirectRead, ctx.arg(0), ctx.arg(1));
        0
    }

    #[fentry(function = "nfs_file_direct_write")]
    pub fn app_direct_write(ctx: FEntryContext) -> i32 {
        application::direct(Program::DirectWrite, ctx.arg(0), ctx.arg(1));
        0
    }

    // For kernels that may preempt programs: probes of the same functions, which run with preemption off.

    #[kprobe]
    pub fn app_probed_begin(ctx: ProbeContext) {
        application::probed_begin(ctx.as_ptr().cast());
    }

    #[kprobe]
    pub fn app_probed_splice_begin(ctx: ProbeContext) {
        application::probed_begin_of_file(ctx.as_ptr().cast());
    }

    #[kretprobe]
    pub fn app_probed_read(ctx: RetProbeContext) {
        application::probed_return(Program::Read, ctx.as_ptr().cast());
    }

    #[kretprobe]
    pub fn app_probed_write(ctx: RetProbeContext) {
        application::probed_return(Program::Write, ctx.as_ptr().cast());
    }

    #[kretprobe]
    pub fn app_probed_splice_read(ctx: RetProbeContext) {
        application::probed_return(Program::SpliceRead, ctx.as_ptr().cast());
    }

    // Spans: functions of programs, and marks in them.
    #[uprobe]
    pub fn span_begin(ctx: ProbeContext) {
        spans::begun(&ctx);
    }

    #[uretprobe]
    pub fn span_return(ctx: RetProbeContext) {
        spans::returned(&ctx);
    }

    #[uprobe]
    pub fn span_end(ctx: ProbeContext) {
        spans::returned(&ctx);
    }

    #[uprobe]
    pub fn span_mark(ctx: ProbeContext) {
        spans::passed(&ctx);
    }

    // For kernels whose BTF lacks the module's functions: attached to functions of the kernel proper that those call.

    #[fexit(function = "generic_file_read_iter")]
    pub fn app_generic_read(ctx: FExitContext) -> i32 {
        application::generic_returned(Program::Read, ctx.arg(0), ctx.arg::<u64>(2));
        0
    }

    #[fexit(function = "generic_perform_write")]
    pub fn app_generic_write(ctx: FExitContext) -> i32 {
        application::generic_returned_of_file(Program::Write, ctx.arg(0), ctx.arg::<u64>(3));
        0
    }

    #[kprobe]
    pub fn app_probed_direct_read(ctx: ProbeContext) {
        application::probed_direct(Program::DirectRead, ctx.as_ptr().cast());
    }

    #[kprobe]
    pub fn app_probed_direct_write(ctx: ProbeContext) {
        application::probed_direct(Program::DirectWrite, ctx.as_ptr().cast());
    }
}

/// The kernel offers these helpers to GPL-compatible programs only.
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

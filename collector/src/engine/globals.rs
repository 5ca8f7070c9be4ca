//! Settings from before the programs are loaded: their globals, and the sizes of maps.

use aya::EbpfLoader;
use trackiops_schemas::ebpf::app_sums::{
    APP_BEGINS, APP_BEGINS_MAP, APP_LATENCIES_MAP, APP_LATENCIES_OF_CPU, APP_PLACES_MAP,
};
use trackiops_schemas::ebpf::left_out::LEFT_OUT_MAP;
use trackiops_schemas::ebpf::offsets::Offsets as _;
use trackiops_schemas::ebpf::op_sums::{OP_CELLS, OP_CELLS_GLOBAL};
use trackiops_schemas::ebpf::ring::{
    DIRECT_GLOBAL, DIRECT_WORDS, FILTER_ENTRIES, FILTER_GLOBAL, FILTER_MAP, INSIDE_ENTRIES,
    INSIDE_MAP, NAMED_ENTRIES, NAMED_MAP, OFFSETS_GLOBAL, PARTS_GLOBAL, PATH_RING_BYTES,
    PATH_RING_MAP, PATHS_GLOBAL, RING_MASK_GLOBAL, SLOT_MASK_GLOBAL, TRACEPOINT_WORDS,
    WAKEUP_BYTES_GLOBAL, WINDOW_NS_GLOBAL, filters, parts,
};
use trackiops_schemas::ebpf::spans::{SPAN_ENTRIES, SPANS_MAP};
use trackiops_schemas::ebpf::syscalls::{
    CALL_BEGINS_MAP, CALL_RING_MAP, RING_BEGINS_MAP, RING_BUCKETS, SYSCALLS, SYSCALLS_GLOBAL,
};

use crate::filter::Filter;
use crate::kernel_sums::by_operation;
use crate::plan::{CallPrograms, Plan, Programs, syscall_kinds};
use crate::rings::RingSizes;
use crate::settings::Settings;

/// Threads that may be within a call at once: 80 bytes each, 1.3 MiB.
const CALLS_UNDER_WAY: u32 = 16_384;

/// Values of the globals. The loader borrows them until it has loaded the programs.
pub struct ProgramGlobals {
    offsets: OffsetGlobals,
    paths: u32,
    wakeup_bytes: u64,
    ring_mask: u32,
    slot_mask: u32,
    window_ns: u64,
    filter_kinds: u32,
    latency_parts: u32,
    syscalls: [u8; SYSCALLS],
    cpus: u32,
    /// Whether calls of applications or page cache changes are counted.
    counts_calls: bool,
    /// Whether they are timed.
    times_calls: bool,
    /// Bytes of the ring of single calls.
    call_ring_bytes: u32,
    map_share: u32,
    /// Whether single calls are kept.
    keeps_calls: bool,
    /// Whether functions of programs are followed.
    has_functions: bool,
    /// Most calls that may be under way at once, if they are probed at begin and end.
    calls_under_way: u32,
}

/// Values for one engine only.
enum OffsetGlobals {
    Direct {
        offsets: Box<[u32; DIRECT_WORDS]>,
        cells: Box<[u64; OP_CELLS]>,
    },
    Tracepoint([u32; TRACEPOINT_WORDS]),
}

/// The kinds of keys that the programs compare. Directories distinguish volumes that share a superblock, if the programs support that.
fn filter_kinds(plan: &Plan, filter: &Filter) -> u32 {
    match filter.mounts.is_empty() || !plan.has_paths() {
        true => filter.kinds(),
        false => filter.kinds() | filters::DIRECTORIES,
    }
}

impl ProgramGlobals {
    /// The values for a plan, settings, and rings of these sizes.
    pub fn new(plan: &Plan, settings: &Settings, rings: RingSizes, cpus: u32) -> Self {
        Self {
            offsets: match &plan.programs {
                Programs::Direct {
                    offsets,
                    levels,
                    switches,
                    ..
                } => OffsetGlobals::Direct {
                    offsets: Box::new(switches.applied_to(offsets, *levels).words()),
                    cells: Box::new(by_operation::bucket_cells()),
                },
                Programs::Tracepoint(offsets) => OffsetGlobals::Tracepoint(offsets.words()),
            },
            paths: u32::from(plan.has_paths()),
            // A ring wakes the recorder when it is a quarter full, long before it overflows.
            wakeup_bytes: u64::from(rings.bytes / 4),
            ring_mask: rings.count - 1,
            slot_mask: rings.slots() - 1,
            window_ns: settings.granularity.ns(),
            filter_kinds: filter_kinds(plan, &settings.filter),
            syscalls: syscall_kinds(),
            cpus,
            counts_calls: plan.has_sums_of_files(),
            call_ring_bytes: settings.call_ring_bytes,
            map_share: settings.map_share,
            keeps_calls: plan.keeps_calls(),
            has_functions: !settings.functions.is_empty(),
            times_calls: plan.times_calls(),
            calls_under_way: match &plan.programs {
                Programs::Direct {
                    calls: Some(CallPrograms::Probed { .. }),
                    ..
                } => CALLS_UNDER_WAY,
                _ => 1,
            },
            latency_parts: match (settings.latency_parts, settings.requests) {
                (false, _) => 0,
                (true, false) => parts::SPLIT,
                (true, true) => parts::SPLIT | parts::XIDS,
            },
        }
    }

    /// Whether single calls, of system calls or functions, are handed over.
    pub fn keeps_single_calls(&self) -> bool {
        self.keeps_calls || self.has_functions
    }

    /// Sets the globals in the loader, and the sizes of the maps that the programs will use.
    pub fn hand_to<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        match &self.offsets {
            OffsetGlobals::Direct { offsets, cells } => {
                loader.override_global(DIRECT_GLOBAL, offsets.as_slice(), true);
                loader.override_global(OP_CELLS_GLOBAL, cells.as_slice(), true);
                // Maps of the other engine are in the object as well, but stay unused.
                for map in ["WAITING", "LINK_INIT", "LINK_END"] {
                    loader.map_max_entries(map, 1);
                }
            }
            OffsetGlobals::Tracepoint(offsets) => {
                loader.override_global(OFFSETS_GLOBAL, offsets.as_slice(), true);
            }
        }
        if self.counts_calls {
            loader.map_max_entries(APP_PLACES_MAP, self.cpus);
        }
        loader.map_max_entries("APP_CALLS_UNDER_WAY", self.calls_under_way);
        if self.keeps_single_calls() {
            loader.map_max_entries(CALL_RING_MAP, self.call_ring_bytes);
        }
        if self.has_functions {
            loader.map_max_entries(SPANS_MAP, SPAN_ENTRIES);
        }
        if self.keeps_calls {
            loader.map_max_entries(RING_BEGINS_MAP, RING_BUCKETS);
        }
        if self.times_calls {
            loader.map_max_entries(APP_LATENCIES_MAP, self.cpus * APP_LATENCIES_OF_CPU as u32);
            loader.map_max_entries(APP_BEGINS_MAP, APP_BEGINS);
            loader.map_max_entries(CALL_BEGINS_MAP, APP_BEGINS);
        }
        if self.filter_kinds != 0 {
            loader.map_max_entries("LEFT_OUT", self.cpus);
            loader.map_max_entries(LEFT_OUT_MAP, self.cpus);
            loader.map_max_entries(FILTER_MAP, FILTER_ENTRIES / self.map_share);
        }
        if self.filter_kinds & filters::DIRECTORIES != 0 {
            loader.map_max_entries(INSIDE_MAP, INSIDE_ENTRIES / self.map_share);
        }
        if self.paths != 0 {
            loader.map_max_entries(NAMED_MAP, NAMED_ENTRIES / self.map_share);
            loader.map_max_entries(PATH_RING_MAP, PATH_RING_BYTES);
        }
        loader
            .override_global(PATHS_GLOBAL, &self.paths, true)
            .override_global(WAKEUP_BYTES_GLOBAL, &self.wakeup_bytes, true)
            .override_global(RING_MASK_GLOBAL, &self.ring_mask, true)
            .override_global(SLOT_MASK_GLOBAL, &self.slot_mask, true)
            .override_global(WINDOW_NS_GLOBAL, &self.window_ns, true)
            .override_global(FILTER_GLOBAL, &self.filter_kinds, true)
            .override_global(SYSCALLS_GLOBAL, &self.syscalls, true)
            .override_global(PARTS_GLOBAL, &self.latency_parts, true);
    }
}

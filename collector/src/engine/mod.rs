//! Executes a plan: loads the programs, attaches them, and hands out rings, sums and books. The
//! only module that knows the BPF loader.

pub(crate) mod bpf_calls;
pub(crate) mod btf_tracepoints;
pub(crate) mod filter_maps;
pub(crate) mod relocations;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::maps::{Array, ArrayOfMaps, HashMap, Map, MapError, MapFd};
use aya::programs::{ProgramError, RawTracePoint, TracePoint};
use aya::{Ebpf, EbpfError, EbpfLoader, include_bytes_aligned};
use trackiops_schemas::file_op_sums::{FILE_OPS_BEGUN_MAP, FILE_OPS_MAP, FILE_OPS_MAPS};
use trackiops_schemas::offsets::Offsets as _;
use trackiops_schemas::op_sums::{
    OP_CELLS_GLOBAL, OP_TABLE_MAP, OP_TABLE_WORDS, OPS_BEGUN_MAP, OPS_LOST_MAP, OPS_MAP, OPS_MAPS,
};
use trackiops_schemas::ring::{
    BOOKS_MAP, Books, CLOCK_MAP, CgroupOffsets, DIRECT_GLOBAL, DIRECT_WORDS, EPOCH_MAP,
    FILTER_ENTRIES, FILTER_GLOBAL, FILTER_MAP, FOLDS_MAP, INSIDE_ENTRIES, INSIDE_MAP,
    NAMED_ENTRIES, NAMED_MAP, OFFSETS_GLOBAL, PARTS_GLOBAL, PATH_RING_BYTES, PATH_RING_MAP,
    PATHS_GLOBAL, RING_MASK_GLOBAL, RINGS_MAP, TRACEPOINT_WORDS, TreeOffsets, WAKEUP_BYTES_GLOBAL,
    WINDOW_NS_GLOBAL, filters, parts,
};
use trackiops_schemas::time::Granularity;

use crate::btf::Cast;
use crate::clock::Sample;
use crate::engine::bpf_calls::recursion_misses;
use crate::engine::btf_tracepoints::Typed;
use crate::engine::filter_maps::{FilterMaps, WantedError};
use crate::facts::TRACEPOINTS;
use crate::filter::{Filter, FilterError, Resolved};
use crate::kernel_sums::by_file::FileOpSums;
use crate::kernel_sums::by_operation::{self, OpSums};
use crate::kernel_sums::folded::Folds;
use crate::names::path_ring::PathRing;
use crate::plan::{Plan, Programs};
use crate::rings::{RingSizes, Rings};
use crate::settings::Settings;
use crate::shared_memory::{SharedBooks, SharedWord, SharedWords};

/// The kernel side, as `make ebpf` built it.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../../../collector-ebpf/trackiops.bpf.o");

/// A program of the direct engine, in both forms, and the tracepoint it belongs on.
#[derive(Clone, Copy)]
struct Raw {
    event: &'static str,
    by_probe: &'static str,
    by_cast: &'static str,
}

/// The tracepoint on which operations are seen.
const OPERATION_EVENT: &str = "rpc_stats_latency";

/// The direct engine's programs, that of operations last.
const ALONE: [Raw; 3] = [
    Raw {
        event: "nfs_readpage_done",
        by_probe: "alone_read_done_by_probe",
        by_cast: "alone_read_done_by_cast",
    },
    Raw {
        event: "nfs_writeback_done",
        by_probe: "alone_write_done_by_probe",
        by_cast: "alone_write_done_by_cast",
    },
    Raw {
        event: OPERATION_EVENT,
        by_probe: "alone_operation_by_probe",
        by_cast: "alone_operation_by_cast",
    },
];

/// Its programs where the kernel may skip them.
const FIRST: [Raw; 3] = [
    Raw {
        event: "nfs_readpage_done",
        by_probe: "first_read_done_by_probe",
        by_cast: "first_read_done_by_cast",
    },
    Raw {
        event: "nfs_writeback_done",
        by_probe: "first_write_done_by_probe",
        by_cast: "first_write_done_by_cast",
    },
    Raw {
        event: OPERATION_EVENT,
        by_probe: "first_operation_by_probe",
        by_cast: "first_operation_by_cast",
    },
];

/// The programs that watch those.
const SECOND: [Raw; 3] = [
    Raw {
        event: "nfs_readpage_done",
        by_probe: "second_read_done_by_probe",
        by_cast: "second_read_done_by_cast",
    },
    Raw {
        event: "nfs_writeback_done",
        by_probe: "second_write_done_by_probe",
        by_cast: "second_write_done_by_cast",
    },
    Raw {
        event: OPERATION_EVENT,
        by_probe: "second_operation_by_probe",
        by_cast: "second_operation_by_cast",
    },
];

/// The tracepoint on which renaming is seen, and the program for it. Where the kernel may skip it, what it has missed is seen when the file
/// is looked at again.
const RENAME_EVENT: &str = "nfs_rename_exit";
const RENAME: &str = "renamed";

/// Why the kernel side could not be started.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The kernel refused a program or a map.
    #[error("the kernel refused the BPF programs: {}", causes(.0))]
    Load(#[from] EbpfError),
    /// A program could not be attached.
    #[error("cannot attach to the tracepoint `{event}`: {}", causes(.source))]
    Attach {
        /// The tracepoint.
        event: &'static str,
        /// What the kernel said.
        source: ProgramError,
    },
    /// The same, where the BPF loader has no part in it.
    #[error("cannot attach to the tracepoint `{event}`: {source}")]
    AttachTyped {
        /// The tracepoint.
        event: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// What the kernel says of a program cannot be read.
    #[error("cannot read what the kernel says of a BPF program: {0}")]
    Missed(io::Error),
    /// A map cannot be used.
    #[error("cannot use the BPF map `{name}`: {}", causes(.source))]
    Map {
        /// The map.
        name: &'static str,
        /// What the kernel said.
        source: MapError,
    },
    /// What the programs share cannot be mapped.
    #[error("cannot map the counters of the BPF programs into memory: {0}")]
    Shared(#[source] io::Error),
    /// What the programs have added up cannot be read.
    #[error("cannot read what the BPF programs have added up: {}", causes(.0))]
    Folds(#[source] MapError),
    /// What the programs have added up of operations cannot be read.
    #[error("cannot read what the BPF programs have added up of operations: {}", causes(.0))]
    Operations(#[source] MapError),
    /// The number of CPUs cannot be read.
    #[error("cannot read how many CPUs there may be ({path}): {source}")]
    Cpus {
        /// The file.
        path: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// There cannot be such a filter.
    #[error("cannot filter: {0}")]
    Filter(#[from] FilterError),
    /// The object lacks what this program expects of it.
    #[error(
        "the built-in BPF object has no `{0}`: this build of trackiops is broken, run `make ebpf`"
    )]
    Object(&'static str),
}

/// The loader's errors keep their cause to themselves.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Completions at which the kernel skipped the programs, because it was in the middle of one on that CPU. 0 before Linux
/// 5.12, which does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// At most so many requests are not in the books.
    pub requests: u64,
    /// At most so many RPCs are not in the sums of operations.
    pub operations: u64,
}

/// A program of which the kernel counts for how many completions it was skipped, and its tracepoint.
type Counted = (&'static str, OwnedFd);

/// Paths that the programs tell.
pub struct Paths {
    /// Where they arrive.
    pub ring: PathRing,
    epoch: SharedWord,
}

impl Paths {
    /// Lets the paths of files in use be told once more.
    pub fn tell_again(&self) {
        self.epoch.raise();
    }
}

/// The kernel side at work. Dropping it detaches every probe.
pub struct Engine {
    /// Owns the programs and their links; dropped first when stopping.
    programs: Option<Ebpf>,
    /// Completed requests.
    pub rings: Rings,
    /// Those that found them full.
    pub folds: Folds,
    /// RPCs of any procedure, if they are recorded.
    pub operations: Option<OpSums>,
    /// Paths of files, if the kernel tells them.
    pub paths: Option<Paths>,
    /// These by file.
    pub file_operations: Option<FileOpSums>,
    books: SharedBooks,
    clock: SharedWord,
    /// What requests are compared with, where there is a filter.
    wanted: Option<FilterMaps>,
    attached: Attached,
}

/// What the loader does not keep.
#[derive(Default)]
struct Attached {
    /// The programs that see a request or an operation last, with their tracepoints: what they are not run for is
    /// missed.
    counted: Vec<Counted>,
    /// Programs and what keeps them attached.
    links: Vec<OwnedFd>,
    /// Why the kernel has refused programs that load from its memory, if it has.
    refused: Option<io::Error>,
}

impl Engine {
    /// Loads and attaches everything.
    pub fn start(plan: &Plan, settings: &Settings, clock: Sample) -> Result<Self, EngineError> {
        let cpus = cpus()?;
        let page = u32::try_from(rustix::param::page_size()).unwrap_or(u32::MAX);
        let sizes = RingSizes::of(settings.ring_memory, cpus, page);
        // A ring that is a quarter full is read long before its timer would let it overflow.
        let wakeup_bytes = u64::from(sizes.bytes / 4);
        let window_ns = settings.granularity.ns();
        let filter = filter(plan, &settings.filter)?;
        let cells = by_operation::cells();
        let mut loader = EbpfLoader::new();
        let mut typed = None;
        let (tracepoint, direct);
        match &plan.programs {
            Programs::Direct { offsets, cast, .. } => {
                direct = offsets.words::<DIRECT_WORDS>();
                typed = cast
                    .and_then(|cast| Some((cast, relocations::complete(OBJECT, cast, &direct)?)));
                loader.override_global(DIRECT_GLOBAL, direct.as_slice(), true);
                loader.override_global(OP_CELLS_GLOBAL, cells.as_slice(), true);
                // The other engine's maps are in the object, too.
                for map in ["WAITING", "LINK_INIT", "LINK_END"] {
                    loader.map_max_entries(map, 1);
                }
            }
            Programs::Tracepoint(offsets) => {
                tracepoint = offsets.words::<TRACEPOINT_WORDS>();
                loader.override_global(OFFSETS_GLOBAL, tracepoint.as_slice(), true);
            }
        }
        let told = match (settings.latency_parts, settings.requests) {
            (false, _) => 0,
            (true, false) => parts::SPLIT,
            (true, true) => parts::SPLIT | parts::XIDS,
        };
        let kinds = settings.filter.kinds();
        if filter.is_some() {
            loader.map_max_entries(FILTER_MAP, FILTER_ENTRIES);
        }
        if kinds & filters::DIRECTORIES != 0 {
            loader.map_max_entries(INSIDE_MAP, INSIDE_ENTRIES);
        }
        if plan.has_paths() {
            loader.map_max_entries(NAMED_MAP, NAMED_ENTRIES);
            loader.map_max_entries(PATH_RING_MAP, PATH_RING_BYTES);
        }
        let mut programs = loader
            .override_global(PATHS_GLOBAL, &u32::from(plan.has_paths()), true)
            .override_global(WAKEUP_BYTES_GLOBAL, &wakeup_bytes, true)
            .override_global(RING_MASK_GLOBAL, &(sizes.count - 1), true)
            .override_global(WINDOW_NS_GLOBAL, &window_ns, true)
            .override_global(FILTER_GLOBAL, &kinds, true)
            .override_global(PARTS_GLOBAL, &told, true)
            .load(OBJECT)?;
        let typed = typed.map(|(cast, object)| {
            let typed = Typed::link(&object, &programs, &cast.events)?;
            Ok((cast, typed))
        });
        // The loader knows maps by their descriptors: none may be closed before the programs are loaded.
        let map = programs
            .map_mut(RINGS_MAP)
            .ok_or(EngineError::Object(RINGS_MAP))?;
        let rings = ArrayOfMaps::try_from(map)
            .and_then(|map| Rings::create(sizes, map))
            .map_err(map_error(RINGS_MAP))?;
        let map = programs
            .take_map(FOLDS_MAP)
            .ok_or(EngineError::Object(FOLDS_MAP))?;
        let folds = ArrayOfMaps::try_from(map)
            .and_then(Folds::create)
            .map_err(map_error(FOLDS_MAP))?;
        let (operations, file_operations) = match plan.has_operations() {
            true => (
                Some(operations(&mut programs, settings.granularity, clock)?),
                Some(file_operations(&mut programs)?),
            ),
            false => (None, None),
        };
        let paths = match plan.has_paths() {
            true => Some(paths(&mut programs)?),
            false => None,
        };
        let books =
            SharedBooks::map(array_fd(&programs, BOOKS_MAP)?, cpus).map_err(EngineError::Shared)?;
        let shared_clock =
            SharedWord::map(array_fd(&programs, CLOCK_MAP)?).map_err(EngineError::Shared)?;
        shared_clock.set(clock.offset_ns);
        let wanted = match filter {
            Some(filter) => {
                let map = programs.take_map(FILTER_MAP);
                Some(wanted(map.ok_or(EngineError::Object(FILTER_MAP))?, filter)?)
            }
            None => None,
        };
        let mut attached = Attached::default();
        match &plan.programs {
            Programs::Direct { tandem, .. } => {
                attached = attach_direct(&mut programs, *tandem, operations.is_some(), typed)?;
                if plan.has_paths() {
                    attached
                        .links
                        .push(attach_raw(&mut programs, RENAME, RENAME_EVENT)?);
                }
            }
            // In the order in which a request meets them: one that starts while they are being
            // attached is linked or is counted without a latency, but never linked to the wrong start.
            Programs::Tracepoint(_) => {
                for (category, event) in TRACEPOINTS {
                    attach(&mut programs, category, event)?;
                }
            }
        }
        Ok(Self {
            programs: Some(programs),
            rings,
            folds,
            operations,
            paths,
            file_operations,
            books,
            clock: shared_clock,
            wanted,
            attached,
        })
    }

    /// Why the kernel has refused the programs that load from its memory, if it has. Those in their place call it for each read.
    pub fn refused(&self) -> Option<&io::Error> {
        self.attached.refused.as_ref()
    }

    /// How often the kernel has skipped the programs.
    pub fn missed(&self) -> Result<Missed, EngineError> {
        let mut missed = Missed::default();
        for (event, fd) in &self.attached.counted {
            let sum = match *event {
                OPERATION_EVENT => &mut missed.operations,
                _ => &mut missed.requests,
            };
            *sum += recursion_misses(fd.as_fd()).map_err(EngineError::Missed)?;
        }
        Ok(missed)
    }

    /// The kernel's books. The order of reading keeps `recorded + folded + lost <= seen`.
    pub fn books(&self) -> Books {
        self.books.read()
    }

    /// Tells the programs what time it is.
    pub fn set_clock(&mut self, sample: Sample) {
        self.clock.set(sample.offset_ns);
        if let Some(operations) = &mut self.operations {
            operations.set_clock(sample);
        }
    }

    /// Lets the filter follow mounts and cgroups that came or went.
    pub fn follow_filter(&mut self) -> Result<(), EngineError> {
        match &mut self.wanted {
            Some(wanted) => wanted.follow().map_err(map_error(FILTER_MAP)),
            None => Ok(()),
        }
    }

    /// Detaches every probe; rings, sums and books stay readable.
    pub fn detach(&mut self) {
        self.attached = Attached::default();
        self.programs = None;
    }
}

/// The filter as the kernel side will have it, if there is one.
fn filter(plan: &Plan, filter: &Filter) -> Result<Option<Resolved>, FilterError> {
    let kinds = filter.kinds();
    match &plan.programs {
        Programs::Direct { offsets, .. } => {
            if kinds & filters::DIRECTORIES != 0 && offsets.tree == TreeOffsets::default() {
                return Err(FilterError::NoWay("directories"));
            }
            if kinds & filters::CGROUPS != 0 && offsets.cgroup == CgroupOffsets::default() {
                return Err(FilterError::NoWay("cgroup"));
            }
        }
        Programs::Tracepoint(_) if kinds & filters::DIRECTORIES != 0 => {
            return Err(FilterError::DirectoriesByTracepoint);
        }
        Programs::Tracepoint(_) => {}
    }
    (kinds != 0).then(|| Resolved::new(filter)).transpose()
}

fn wanted(map: Map, filter: Resolved) -> Result<FilterMaps, EngineError> {
    let map = HashMap::try_from(map).map_err(map_error(FILTER_MAP))?;
    FilterMaps::new(map, filter).map_err(|error| match error {
        WantedError::Filter(error) => EngineError::Filter(error),
        WantedError::Map(source) => map_error(FILTER_MAP)(source),
    })
}

/// How many CPUs there may ever be: their numbers are below it.
fn cpus() -> Result<u32, EngineError> {
    let cpus = aya::util::nr_cpus().map_err(|(path, source)| EngineError::Cpus { path, source })?;
    Ok(u32::try_from(cpus).unwrap_or(u32::MAX))
}

fn map_error(name: &'static str) -> impl Fn(MapError) -> EngineError {
    move |source| EngineError::Map { name, source }
}

fn array_fd<'p>(programs: &'p Ebpf, name: &'static str) -> Result<&'p MapFd, EngineError> {
    match programs.map(name) {
        Some(Map::Array(array)) => Ok(array.fd()),
        _ => Err(EngineError::Object(name)),
    }
}

fn shared_words(
    programs: &Ebpf,
    name: &'static str,
    count: usize,
) -> Result<SharedWords, EngineError> {
    SharedWords::map(array_fd(programs, name)?, count).map_err(EngineError::Shared)
}

fn paths(programs: &mut Ebpf) -> Result<Paths, EngineError> {
    let ring = programs
        .take_map(PATH_RING_MAP)
        .ok_or(EngineError::Object(PATH_RING_MAP))?;
    Ok(Paths {
        ring: PathRing::new(ring).map_err(map_error(PATH_RING_MAP))?,
        epoch: SharedWord::map(array_fd(programs, EPOCH_MAP)?).map_err(EngineError::Shared)?,
    })
}

fn operations(
    programs: &mut Ebpf,
    granularity: Granularity,
    clock: Sample,
) -> Result<OpSums, EngineError> {
    let lost = programs
        .take_map(OPS_LOST_MAP)
        .ok_or(EngineError::Object(OPS_LOST_MAP))?;
    let lost = Array::try_from(lost).map_err(map_error(OPS_LOST_MAP))?;
    let table = shared_words(programs, OP_TABLE_MAP, OP_TABLE_WORDS)?;
    let begun = shared_words(programs, OPS_BEGUN_MAP, OPS_MAPS)?;
    let map = programs
        .take_map(OPS_MAP)
        .ok_or(EngineError::Object(OPS_MAP))?;
    ArrayOfMaps::try_from(map)
        .and_then(|map| OpSums::create(map, table, begun, lost, granularity, clock))
        .map_err(map_error(OPS_MAP))
}

fn file_operations(programs: &mut Ebpf) -> Result<FileOpSums, EngineError> {
    let begun = shared_words(programs, FILE_OPS_BEGUN_MAP, FILE_OPS_MAPS)?;
    let map = programs
        .take_map(FILE_OPS_MAP)
        .ok_or(EngineError::Object(FILE_OPS_MAP))?;
    ArrayOfMaps::try_from(map)
        .and_then(|map| FileOpSums::create(map, begun))
        .map_err(map_error(FILE_OPS_MAP))
}

fn attach(programs: &mut Ebpf, category: &str, event: &'static str) -> Result<(), EngineError> {
    let attach_error = |source| EngineError::Attach { event, source };
    let program = programs
        .program_mut(event)
        .ok_or(EngineError::Object(event))?;
    let program: &mut TracePoint = program.try_into().map_err(attach_error)?;
    program.load().map_err(attach_error)?;
    program.attach(category, event).map_err(attach_error)?;
    Ok(())
}

/// Returns the programs that see a request last, with their tracepoints, and what keeps them all attached.
fn attach_direct(
    programs: &mut Ebpf,
    tandem: bool,
    operations: bool,
    typed: Option<io::Result<(Cast, Typed)>>,
) -> Result<Attached, EngineError> {
    let events = ALONE.len() - usize::from(!operations);
    // Programs of a tracepoint run in the order in which they came.
    let used = if tandem {
        [&FIRST[..events], &SECOND[..events]].concat()
    } else {
        ALONE[..events].to_vec()
    };
    let load = |(cast, typed): (Cast, Typed)| {
        let events = cast.events.iter().take(events).cycle();
        let loaded = used.iter().zip(events);
        loaded
            .map(|(raw, event)| typed.load(raw.by_cast, *event))
            .collect::<io::Result<Vec<OwnedFd>>>()
    };
    // A kernel that has the types may still refuse the programs, without its JIT for example.
    let (by_cast, refused) = match typed.map(|typed| typed.and_then(load)) {
        Some(Ok(loaded)) => (Some(loaded), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    let (mut attached, mut links) = (Vec::new(), Vec::new());
    if let Some(loaded) = by_cast {
        for (raw, program) in used.iter().zip(&loaded) {
            let link = btf_tracepoints::attach(program.as_fd());
            links.push(link.map_err(|source| EngineError::AttachTyped {
                event: raw.event,
                source,
            })?);
        }
        attached = loaded;
    } else {
        for raw in &used {
            attached.push(attach_raw(programs, raw.by_probe, raw.event)?);
        }
    }
    let last = attached.split_off(attached.len() - events);
    let counted = ALONE.iter().map(|raw| raw.event).zip(last).collect();
    // Whoever measures the programs finds them by this process's descriptors.
    links.append(&mut attached);
    Ok(Attached {
        counted,
        links,
        refused,
    })
}

fn attach_raw(
    programs: &mut Ebpf,
    name: &'static str,
    event: &'static str,
) -> Result<OwnedFd, EngineError> {
    let attach_error = |source| EngineError::Attach { event, source };
    let program = programs
        .program_mut(name)
        .ok_or(EngineError::Object(name))?;
    let program: &mut RawTracePoint = program.try_into().map_err(attach_error)?;
    program.load().map_err(attach_error)?;
    program.attach(event).map_err(attach_error)?;
    let fd = program.fd().map_err(attach_error)?.as_fd();
    fd.try_clone_to_owned().map_err(EngineError::Missed)
}

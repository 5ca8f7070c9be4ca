//! Executes a plan: loads the programs, attaches them, and hands out rings, sums and books. The
//! only module that knows the BPF loader.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use aya::maps::{ArrayOfMaps, Map, MapError, MapFd};
use aya::programs::{ProgramError, RawTracePoint, TracePoint};
use aya::{Ebpf, EbpfError, EbpfLoader, include_bytes_aligned};
use trackiops_schemas::ring::{
    BOOKS_MAP, Books, CLOCK_MAP, CgroupOffsets, DIRECT_GLOBAL, DIRECT_WORDS, DirectOffsets,
    DoneOffsets, FOLDS_MAP, InitiateOffsets, OFFSETS_GLOBAL, RING_MASK_GLOBAL, RINGS_MAP,
    SPLIT_GLOBAL, TaskOffsets, TracepointOffsets, WAKEUP_BYTES_GLOBAL, WINDOW_NS_GLOBAL,
    XIDS_GLOBAL,
};

use crate::btf::Cast;
use crate::cast;
use crate::clock::Sample;
use crate::facts::TRACEPOINTS;
use crate::folds::Folds;
use crate::plan::{Plan, Programs};
use crate::rings::{RingSizes, Rings};
use crate::settings::Settings;
use crate::shared::{SharedBooks, SharedClock};
use crate::typed::{self, Typed};

/// The kernel side, as `make ebpf` built it.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../../collector-ebpf/trackiops.bpf.o");

/// A program of the direct engine, in both forms, and the tracepoint it belongs on.
#[derive(Clone, Copy)]
struct Raw {
    event: &'static str,
    by_probe: &'static str,
    by_cast: &'static str,
}

/// The direct engine's programs.
const ALONE: [Raw; 2] = [
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
];

/// Its programs where the kernel may skip them.
const FIRST: [Raw; 2] = [
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
];

/// The programs that watch those.
const SECOND: [Raw; 2] = [
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
];

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
    /// The number of CPUs cannot be read.
    #[error("cannot read how many CPUs there may be ({path}): {source}")]
    Cpus {
        /// The file.
        path: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
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

/// The kernel side at work. Dropping it detaches every probe.
pub struct Engine {
    /// Owns the programs and their links; dropped first when stopping.
    programs: Option<Ebpf>,
    /// Completed requests.
    pub rings: Rings,
    /// Those that found them full.
    pub folds: Folds,
    books: SharedBooks,
    clock: SharedClock,
    /// The programs that see a request last: what they are not run for is missed.
    counted: Vec<OwnedFd>,
    /// Programs and what keeps them attached, as far as the loader does not do so.
    links: Vec<OwnedFd>,
}

impl Engine {
    /// Loads and attaches everything.
    pub fn start(plan: &Plan, settings: &Settings, clock: Sample) -> Result<Self, EngineError> {
        let cpus = cpus()?;
        let page = u32::try_from(rustix::param::page_size()).unwrap_or(u32::MAX);
        let sizes = RingSizes::of(settings.ring_memory, cpus, page);
        // A ring that is a quarter full is read long before its timer would let it overflow.
        let wakeup_bytes = u64::from(sizes.bytes / 4);
        let window_ns = settings.granularity.ms().unsigned_abs() * 1_000_000;
        let mut loader = EbpfLoader::new();
        let mut typed = None;
        let (tracepoint, direct);
        match &plan.programs {
            Programs::Direct { offsets, cast, .. } => {
                direct = direct_words(offsets);
                typed = cast.and_then(|cast| Some((cast, cast::complete(OBJECT, cast, &direct)?)));
                loader.override_global(DIRECT_GLOBAL, direct.as_slice(), true);
                // The other engine's maps are in the object, too.
                for map in ["WAITING", "LINK_INIT", "LINK_END"] {
                    loader.map_max_entries(map, 1);
                }
            }
            Programs::Tracepoint(offsets) => {
                tracepoint = tracepoint_words(offsets);
                loader.override_global(OFFSETS_GLOBAL, tracepoint.as_slice(), true);
            }
        }
        let mut programs = loader
            .override_global(WAKEUP_BYTES_GLOBAL, &wakeup_bytes, true)
            .override_global(RING_MASK_GLOBAL, &(sizes.count - 1), true)
            .override_global(WINDOW_NS_GLOBAL, &window_ns, true)
            .override_global(SPLIT_GLOBAL, &u32::from(settings.latency_parts), true)
            .override_global(XIDS_GLOBAL, &u32::from(settings.requests), true)
            .load(OBJECT)?;
        // A kernel that has the types may still refuse the programs, without its JIT for example.
        let typed = typed.and_then(|(cast, object)| {
            let typed = Typed::link(&object, &programs, cast.module).ok()?;
            Some((cast, typed))
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
        let books =
            SharedBooks::map(array_fd(&programs, BOOKS_MAP)?, cpus).map_err(EngineError::Shared)?;
        let shared_clock =
            SharedClock::map(array_fd(&programs, CLOCK_MAP)?).map_err(EngineError::Shared)?;
        shared_clock.set(clock.offset_ns);
        let (mut counted, mut links) = (Vec::new(), Vec::new());
        match &plan.programs {
            Programs::Direct { tandem, .. } => {
                (counted, links) = attach_direct(&mut programs, *tandem, typed)?;
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
            books,
            clock: shared_clock,
            counted,
            links,
        })
    }

    /// Completions at which the kernel skipped the programs, because it was in the middle of one on
    /// that CPU: at most so many requests are not in the books. 0 before Linux 5.12, which does not tell.
    pub fn missed(&self) -> Result<u64, EngineError> {
        let mut missed = 0;
        for fd in &self.counted {
            let path = format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd());
            let text = fs::read_to_string(path).map_err(EngineError::Missed)?;
            missed += recursion_misses(&text);
        }
        Ok(missed)
    }

    /// The kernel's books. The order of reading keeps `recorded + folded + lost <= seen`.
    pub fn books(&self) -> Books {
        self.books.read()
    }

    /// Tells the programs what time it is.
    pub fn set_clock(&self, sample: Sample) {
        self.clock.set(sample.offset_ns);
    }

    /// Detaches every probe; rings, sums and books stay readable.
    pub fn detach(&mut self) {
        self.counted.clear();
        self.links.clear();
        self.programs = None;
    }
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

/// Returns the programs that see a request last, and what keeps them all attached.
fn attach_direct(
    programs: &mut Ebpf,
    tandem: bool,
    typed: Option<(Cast, Typed)>,
) -> Result<(Vec<OwnedFd>, Vec<OwnedFd>), EngineError> {
    // Programs of a tracepoint run in the order in which they came.
    let used = if tandem {
        [FIRST, SECOND].concat()
    } else {
        ALONE.to_vec()
    };
    let by_cast = typed.and_then(|(cast, typed)| {
        let events = cast.events.iter().cycle();
        let loaded = used.iter().zip(events);
        loaded
            .map(|(raw, event)| typed.load(raw.by_cast, *event).ok())
            .collect::<Option<Vec<OwnedFd>>>()
    });
    let (mut attached, mut links) = (Vec::new(), Vec::new());
    if let Some(loaded) = by_cast {
        for (raw, program) in used.iter().zip(&loaded) {
            let link = typed::attach(program.as_fd());
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
    let counted = attached.split_off(attached.len() - ALONE.len());
    // Whoever measures the programs finds them by this process's descriptors.
    links.append(&mut attached);
    Ok((counted, links))
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

/// In what the kernel says of a program.
fn recursion_misses(fdinfo: &str) -> u64 {
    fdinfo
        .lines()
        .find_map(|line| line.strip_prefix("recursion_misses:")?.trim().parse().ok())
        .unwrap_or(0)
}

/// The offsets as the words of which their `repr(C)` consists.
fn direct_words(offsets: &DirectOffsets) -> [u32; DIRECT_WORDS] {
    let DirectOffsets {
        task_window,
        task_start,
        task_owner,
        header_inode,
        header_status,
        arguments_window,
        result_window,
        header_handle,
        header_offset,
        header_asked,
        header_done,
        header_eof,
        inode_window,
        inode_superblock,
        inode_number,
        superblock_dev,
        header_cred,
        cred_uid,
        header_direct,
        header_stable,
        task_transmission,
        transmission_window,
        transmission_rtt,
        transmission_sent,
        transmission_count,
        transmission_xid,
        cgroup:
            CgroupOffsets {
                way,
                header_request,
                request_page,
                page_head,
                page_owner,
                object_owner,
                owner_cgroup,
                cgroup_node,
                node_id,
            },
    } = *offsets;
    [
        task_window,
        task_start,
        task_owner,
        header_inode,
        header_status,
        arguments_window,
        result_window,
        header_handle,
        header_offset,
        header_asked,
        header_done,
        header_eof,
        inode_window,
        inode_superblock,
        inode_number,
        superblock_dev,
        header_cred,
        cred_uid,
        header_direct,
        header_stable,
        task_transmission,
        transmission_window,
        transmission_rtt,
        transmission_sent,
        transmission_count,
        transmission_xid,
        way,
        header_request,
        request_page,
        page_head,
        page_owner,
        object_owner,
        owner_cgroup,
        cgroup_node,
        node_id,
    ]
}

/// The offsets as the words of which their `repr(C)` consists.
fn tracepoint_words(offsets: &TracepointOffsets) -> [u32; 24] {
    let TracepointOffsets {
        initiate_read,
        initiate_write,
        task_begin,
        task_end,
        read_done,
        write_done,
    } = *offsets;
    let mut words = Vec::with_capacity(24);
    for InitiateOffsets { dev, fileid } in [initiate_read, initiate_write] {
        words.extend([dev, fileid]);
    }
    for TaskOffsets { task_id, client_id } in [task_begin, task_end] {
        words.extend([task_id, client_id]);
    }
    for DoneOffsets {
        dev,
        fhandle,
        fileid,
        offset,
        arg_count,
        res_count,
        error,
        eof,
    } in [read_done, write_done]
    {
        words.extend([
            dev, fhandle, fileid, offset, arg_count, res_count, error, eof,
        ]);
    }
    let mut array = [0; 24];
    array
        .iter_mut()
        .zip(words)
        .for_each(|(slot, word)| *slot = word);
    array
}

//! Executes a plan: loads and attaches the programs, and provides rings, sums and counters. The
//! only module that knows the BPF loader.

mod attach;
pub(crate) mod bpf_calls;
pub(crate) mod btf_tracepoints;
mod error;
pub(crate) mod filter_maps;
mod globals;
mod maps;
mod missed;
pub(crate) mod relocations;
mod sampler;
mod spans;

use std::{io, mem, thread};

use aya::{Ebpf, EbpfLoader, include_bytes_aligned};
use landlock::{AccessFs, Ruleset, RulesetAttr as _, RulesetError};
use trackiops_schemas::ebpf::ring::{Books, FILTER_MAP, filters};
use trackiops_schemas::identity::Dev;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::shed::Details;

use crate::audit::left_out::{LeftOutSums, SharedLeftOut};
use crate::audit::transfers::DISKS;
use crate::ceiling::Kind;
use crate::clock::{ClockSample, MonotonicNs};
use crate::engine::attach::{AttachedPrograms, LoadedByCast, LoadedCall};
pub use crate::engine::error::EngineError;
use crate::engine::filter_maps::FilterMaps;
use crate::engine::globals::ProgramGlobals;
use crate::engine::maps::{PathFeed, map_error};
pub use crate::engine::missed::MissedCompletions;
use crate::engine::missed::{MissedCounter, SharedRecovery};
pub use crate::engine::sampler::Sample;
use crate::engine::sampler::Sampler;
pub use crate::engine::spans::check_functions;
use crate::filter::{Filter, FilterError, ResolvedFilter};
use crate::kernel_sums::by_call::CallSums;
use crate::kernel_sums::by_file::FileOpSums;
use crate::kernel_sums::by_operation::OpSums;
use crate::kernel_sums::folded::Folds;
use crate::plan::{Plan, Programs};
use crate::rings::call_ring::CallRing;
use crate::rings::{RingSizes, Rings};
use crate::settings::Settings;
use crate::shared_memory::{SharedBooks, SharedCeiling, SharedWord};
use crate::timing::StartTiming;

/// The kernel side, as `make ebpf` built it. The file is a link: a packed crate holds nothing from beside its directory.
pub(crate) static OBJECT: &[u8] = include_bytes_aligned!("../../trackiops.bpf.o");

/// The kernel side, loaded and attached. Dropping it detaches every probe.
pub struct Engine {
    /// The programs and links that the loader owns; `None` once detached.
    programs: Option<Ebpf>,
    /// Completed requests.
    pub rings: Rings,
    /// Sums of requests that found the rings full.
    pub folds: Folds,
    /// Sums of RPCs of any procedure, if operations are recorded.
    pub operations: Option<OpSums>,
    /// Paths of files, if the kernel side reports them.
    pub paths: Option<PathFeed>,
    /// Single calls of applications, if they are kept.
    pub single_calls: Option<CallRing>,
    /// Sums of RPCs by file, if operations are recorded.
    pub file_operations: Option<FileOpSums>,
    /// Sums of the calls of applications and of page cache changes, if any are counted.
    pub calls: Option<CallSums>,
    /// Whether calls are counted.
    pub has_calls: bool,
    /// Whether requests to block devices are recorded.
    pub has_block: bool,
    /// Whether operations of all recorded levels are recorded.
    pub has_operations: bool,
    books: SharedBooks,
    clock: SharedWord,
    /// The keys that requests are compared with, if there is a filter.
    filter_maps: Option<FilterMaps>,
    /// The requests that it leaves out.
    left_out: Option<SharedLeftOut>,
    attached: AttachedPrograms,
    /// Measures the programs, and holds some of their links; `None` once detached.
    sampler: Option<Sampler>,
    ceiling: SharedCeiling,
    refused: Option<io::Error>,
    recovery: SharedRecovery,
    missed: MissedCounter,
}

impl Engine {
    /// Loads and attaches everything.
    pub fn start(
        plan: &Plan,
        settings: &Settings,
        clock: ClockSample,
        timing: &mut StartTiming,
    ) -> Result<Self, EngineError> {
        let filter = resolve_filter(plan, &settings.filter)?;
        let functions = spans::find(&settings.functions)?;
        let Loaded {
            mut programs,
            cpus,
            sizes,
            globals,
            by_cast,
            refused,
            calls: loaded_calls,
        } = Loaded::new(plan, settings, timing)?;
        // The loader knows maps by their descriptors: none may be closed before the programs are
        // loaded.
        let memory = by_cast.as_ref().map(|by_cast| &by_cast.memory);
        let rings = maps::rings(&mut programs, sizes, memory)?;
        let folds = maps::folds(&mut programs, settings.map_share)?;
        let (operations, file_operations) = match plan.has_operations() {
            true => (
                Some(maps::operations(
                    &mut programs,
                    settings.granularity,
                    clock,
                )?),
                Some(maps::file_operations(&mut programs, settings.map_share)?),
            ),
            false => (None, None),
        };
        let calls = match plan.has_sums_of_files() {
            true => Some(maps::calls(
                &mut programs,
                cpus,
                plan.times_calls(),
                settings.map_share,
            )?),
            false => None,
        };
        let paths = match plan.has_paths() {
            true => Some(maps::paths(&mut programs)?),
            false => None,
        };
        let single_calls = match globals.keeps_single_calls() {
            true => Some(maps::single_calls(&mut programs)?),
            false => None,
        };
        let books = maps::books(&programs, cpus)?;
        let shared_clock = maps::clock(&programs)?;
        shared_clock.set(clock.offset_ns);
        let (filter_maps, left_out) = match filter {
            Some(filter) => (
                Some(maps::filter_maps(
                    &mut programs,
                    filter,
                    settings.map_share,
                )?),
                Some(maps::left_out(&programs, cpus)?),
            ),
            None => (None, None),
        };
        let recovery = maps::recovery(&programs)?;
        timing.ended("make rings and sums");
        let ceiling = maps::ceiling(&programs)?;
        let mut attached = attach::attach(&mut programs, plan, by_cast, loaded_calls, timing)?;
        spans::attach(&mut programs, &functions, timing)?;
        let mut measured = mem::take(&mut attached.measured);
        measured.extend(spans::measured(&programs).map_err(EngineError::Missed)?);
        let sampler = Sampler::start(measured).map_err(EngineError::Thread)?;
        timing.ended("start the thread that measures");
        recovery.begin(ClockSample::take().now);
        Ok(Self {
            programs: Some(programs),
            rings,
            folds,
            operations,
            paths,
            single_calls,
            file_operations,
            calls,
            has_calls: plan.counts_calls(),
            has_block: plan.levels().block,
            has_operations: plan.covers_operations(),
            books,
            clock: shared_clock,
            filter_maps,
            left_out,
            attached,
            sampler: Some(sampler),
            ceiling,
            refused,
            recovery,
            missed: MissedCounter::default(),
        })
    }

    /// Why the kernel refused the programs that read its memory by plain loads, if it did. The
    /// engine then uses programs that call a helper for each read.
    pub fn refused(&self) -> Option<&io::Error> {
        self.refused.as_ref()
    }

    /// Completions for which the kernel skipped the programs, and that were not recovered.
    pub fn missed(&mut self) -> Result<MissedCompletions, EngineError> {
        let missed = self.missed.look(&self.attached.counted, &self.recovery);
        missed.map_err(EngineError::Missed)
    }

    /// [`Self::missed`], for the last time.
    pub fn missed_at_last(&mut self) -> Result<MissedCompletions, EngineError> {
        let missed = self
            .missed
            .last_look(&self.attached.counted, &self.recovery);
        missed.map_err(EngineError::Missed)
    }

    /// Records for which each ring has room, and the most that were in one ring since the last call.
    pub fn rings_used(&mut self) -> (u64, u64) {
        (self.rings.capacity(), self.rings.take_used_max())
    }

    /// Requests a sample of the programs' run times, unless one is under way. Afterwards programs of the `idle` kinds are detached, if
    /// possible, and all others attached.
    pub fn measure(&mut self, idle: Vec<Kind>) {
        if let Some(sampler) = &mut self.sampler {
            sampler.ask(idle);
        }
    }

    /// Whether a sample is under way.
    pub fn is_measuring(&self) -> bool {
        self.sampler.as_ref().is_some_and(Sampler::is_busy)
    }

    /// The sample, once it is there.
    pub fn measured(&mut self) -> Option<io::Result<Sample>> {
        self.sampler.as_mut()?.sample()
    }

    /// Sets the details that the programs leave out.
    pub fn shed(&self, details: Details, now: MonotonicNs) {
        self.ceiling.shed(details, now);
    }

    /// The kernel side's counters. The order of reading keeps `recorded + folded + lost <= seen`.
    pub fn books(&self) -> Books {
        self.books.read()
    }

    /// The sums of left-out requests, if there is a filter.
    pub fn left_out(&self) -> Option<LeftOutSums> {
        self.left_out.as_ref().map(SharedLeftOut::read)
    }

    /// Sets the programs' clock.
    pub fn set_clock(&mut self, sample: ClockSample) {
        self.clock.set(sample.offset_ns);
        if let Some(operations) = &mut self.operations {
            operations.set_clock(sample);
        }
    }

    /// Updates the filter for mounts and cgroups that came or went. Returns whether it may want files on other mounts now.
    pub fn follow_filter(&mut self) -> Result<bool, EngineError> {
        match &mut self.filter_maps {
            Some(maps) => maps.follow().map_err(map_error(FILTER_MAP)),
            None => Ok(false),
        }
    }

    /// Whether the filter may want files on a mount.
    pub fn includes(&self, mount: &MountPoint) -> bool {
        let filter = self.filter_maps.as_ref();
        filter.is_none_or(|filter| filter.includes(mount))
    }

    /// Whether the filter may want requests of a device; all block devices count as one.
    pub fn may_want(&self, dev: Dev) -> bool {
        let filter = self.filter_maps.as_ref();
        dev == DISKS || filter.is_none_or(|filter| filter.may_want(dev))
    }

    /// Detaches every probe; rings, sums and counters stay readable.
    pub fn detach(&mut self) {
        self.sampler = None;
        self.attached = AttachedPrograms::default();
        self.programs = None;
    }
}

/// Everything that is loaded before anything is attached.
struct Loaded {
    /// The loader, with maps, and with programs that are not loaded yet.
    programs: Ebpf,
    cpus: u32,
    sizes: RingSizes,
    globals: ProgramGlobals,
    /// The programs that read kernel memory by plain loads, if the plan has them and the kernel accepts them.
    by_cast: Option<LoadedByCast>,
    refused: Option<io::Error>,
    calls: Vec<LoadedCall>,
}

impl Loaded {
    fn new(
        plan: &Plan,
        settings: &Settings,
        timing: &mut StartTiming,
    ) -> Result<Self, EngineError> {
        let cpus = cpus()?;
        let page = u32::try_from(rustix::param::page_size()).unwrap_or(u32::MAX);
        let sizes = RingSizes::for_memory(settings.ring_memory, cpus, page);
        let globals = ProgramGlobals::new(plan, settings, sizes, cpus);
        let mut loader = loader();
        globals.hand_to(&mut loader);
        let programs = loader.load(OBJECT)?;
        timing.ended("parse the programs and make maps");
        let (by_cast, refused) =
            match attach::load_by_cast(plan, &programs, sizes, timing).transpose() {
                Ok(loaded) => (loaded, None),
                Err(why) => (None, Some(why)),
            };
        // Otherwise, an interruption would look like a refusal.
        attach::go_on(timing)?;
        Ok(Self {
            calls: attach::load_calls(plan, &programs, timing)?,
            programs,
            cpus,
            sizes,
            globals,
            by_cast,
            refused,
        })
    }
}

/// Passes a plan's programs with plain loads to the verifier, without attaching them.
pub(crate) fn verify(
    plan: &Plan,
    settings: &Settings,
    timing: &mut StartTiming,
) -> Result<(), EngineError> {
    match Loaded::new(plan, settings, timing)?.refused {
        Some(refused) => Err(EngineError::Refused(refused)),
        None => Ok(()),
    }
}

/// The filter with its names resolved, if there is one. Refuses filters that the engine does not support.
fn resolve_filter(plan: &Plan, filter: &Filter) -> Result<Option<ResolvedFilter>, FilterError> {
    let kinds = filter.kinds();
    match &plan.programs {
        Programs::Direct {
            offsets, levels, ..
        } => {
            if kinds & filters::DIRECTORIES != 0 && !plan.has_paths() {
                return Err(FilterError::NoWay("directories"));
            }
            let has_cgroups = (!levels.wire || offsets.cgroup.way != 0)
                && (!levels.has_local() || offsets.local.has_groups != 0);
            let are_of_threads = levels.has_local() || levels.cache || plan.counts_calls();
            if are_of_threads && !filter.knows_calls() {
                return Err(FilterError::CgroupsApart);
            }
            if kinds & filters::CGROUPS != 0 && !has_cgroups {
                return Err(FilterError::NoWay("cgroup"));
            }
            if levels.block && kinds & filters::PIDS != 0 {
                return Err(FilterError::NotAtBlock("processes", "pid"));
            }
            if levels.block && kinds & filters::UIDS != 0 {
                return Err(FilterError::NotAtBlock("users", "uid"));
            }
        }
        Programs::Tracepoint(_) if kinds & filters::DIRECTORIES != 0 => {
            return Err(FilterError::DirectoriesByTracepoint);
        }
        Programs::Tracepoint(_) => {}
    }
    (kinds != 0)
        .then(|| ResolvedFilter::new(filter, plan.levels(), plan.has_paths()))
        .transpose()
}

/// A loader that cannot read the kernel's BTF, if Landlock can deny that (Linux 5.13). It would parse all of the BTF, which takes 75 million
/// instructions, to relocate programs that TrackIOps relocates itself.
fn loader<'a>() -> EbpfLoader<'a> {
    let confined = || {
        let confine = || {
            let ruleset = Ruleset::default().handle_access(AccessFs::ReadFile)?;
            ruleset.create()?.restrict_self()
        };
        // Without the restriction the loader works as well, but takes longer.
        let _: Result<_, RulesetError> = confine();
        EbpfLoader::new()
    };
    let made = thread::scope(|scope| scope.spawn(confined).join());
    made.unwrap_or_else(|_| EbpfLoader::new())
}

/// The largest possible number of CPUs. All CPU numbers are below it.
fn cpus() -> Result<u32, EngineError> {
    let cpus = aya::util::nr_cpus().map_err(|(path, source)| EngineError::Cpus { path, source })?;
    Ok(u32::try_from(cpus).unwrap_or(u32::MAX))
}

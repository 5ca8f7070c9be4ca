//! Finds the maps of the loaded programs, and wraps each for its use.

use aya::Ebpf;
use aya::maps::{Array, ArrayOfMaps, HashMap, Map, MapError, MapFd};
use trackiops_schemas::ebpf::app_sums::{
    APP_CALLS_BEGUN_MAP, APP_CALLS_MAP, APP_CALLS_MAPS, APP_LATENCIES_MAP, APP_LATENCIES_OF_CPU,
    APP_LATENCY_WORDS, APP_PLACES_MAP, APP_PLACES_WORDS,
};
use trackiops_schemas::ebpf::ceiling::{CEILING_MAP, CEILING_WORDS};
use trackiops_schemas::ebpf::file_op_sums::{FILE_OPS_BEGUN_MAP, FILE_OPS_MAP, FILE_OPS_MAPS};
use trackiops_schemas::ebpf::left_out::LEFT_OUT_MAP;
use trackiops_schemas::ebpf::op_sums::{
    OP_TABLE_MAP, OP_TABLE_WORDS, OPS_BEGUN_MAP, OPS_LOST_MAP, OPS_MAP, OPS_MAPS,
};
use trackiops_schemas::ebpf::ring::{
    BOOKS_MAP, CLOCK_MAP, EPOCH_MAP, FILTER_ENTRIES, FILTER_MAP, FOLDS_MAP, PATH_RING_MAP,
    RECOVERY_MAP, RECOVERY_WORDS, RINGS_MAP,
};
use trackiops_schemas::ebpf::syscalls::{CALL_RING_MAP, CALLS_LEFT_OUT_MAP};
use trackiops_schemas::time::Granularity;

use crate::audit::left_out::SharedLeftOut;
use crate::clock::ClockSample;
use crate::engine::error::EngineError;
use crate::engine::filter_maps::{FilterMapError, FilterMaps};
use crate::engine::missed::SharedRecovery;
use crate::filter::ResolvedFilter;
use crate::kernel_sums::by_call::CallSums;
use crate::kernel_sums::by_file::FileOpSums;
use crate::kernel_sums::by_operation::OpSums;
use crate::kernel_sums::folded::Folds;
use crate::names::path_ring::PathRing;
use crate::rings::call_ring::CallRing;
use crate::rings::record_ring::RecordMemory;
use crate::rings::{RingSizes, Rings};
use crate::shared_memory::{SharedBooks, SharedCeiling, SharedWord, SharedWords};

/// Paths that the programs report.
pub struct PathFeed {
    /// The ring in which they arrive.
    pub ring: PathRing,
    epoch: SharedWord,
}

impl PathFeed {
    /// Makes the programs report the paths of files in use again.
    pub fn tell_again(&self) {
        self.epoch.increment();
    }
}

/// The error of a map that cannot be used.
pub fn map_error(name: &'static str) -> impl Fn(MapError) -> EngineError {
    move |source| EngineError::Map { name, source }
}

/// Takes a map out of the loader, which would otherwise close it when dropped.
fn take(programs: &mut Ebpf, name: &'static str) -> Result<Map, EngineError> {
    programs.take_map(name).ok_or(EngineError::Object(name))
}

/// The rings of completed requests: in `memory`, if there is one.
pub fn rings(
    programs: &mut Ebpf,
    sizes: RingSizes,
    memory: Option<&RecordMemory>,
) -> Result<Rings, EngineError> {
    let map = programs
        .map_mut(RINGS_MAP)
        .ok_or(EngineError::Object(RINGS_MAP))?;
    ArrayOfMaps::try_from(map)
        .and_then(|map| match memory {
            Some(memory) => Rings::in_memory(memory, map),
            None => Rings::create(sizes, map),
        })
        .map_err(map_error(RINGS_MAP))
}

/// The sums of requests that find the rings full. `share` means [`crate::Settings::map_share`], here and below.
pub fn folds(programs: &mut Ebpf, share: u32) -> Result<Folds, EngineError> {
    ArrayOfMaps::try_from(take(programs, FOLDS_MAP)?)
        .and_then(|map| Folds::create(map, share))
        .map_err(map_error(FOLDS_MAP))
}

/// The kernel side's counters.
pub fn books(programs: &Ebpf, cpus: u32) -> Result<SharedBooks, EngineError> {
    SharedBooks::map(array_fd(programs, BOOKS_MAP)?, cpus).map_err(EngineError::Shared)
}

/// The sums of requests that the filter leaves out.
pub fn left_out(programs: &Ebpf, cpus: u32) -> Result<SharedLeftOut, EngineError> {
    SharedLeftOut::map(array_fd(programs, LEFT_OUT_MAP)?, cpus).map_err(EngineError::Shared)
}

/// The word with the programs' clock.
pub fn clock(programs: &Ebpf) -> Result<SharedWord, EngineError> {
    SharedWord::map(array_fd(programs, CLOCK_MAP)?).map_err(EngineError::Shared)
}

/// The words with the shed details.
pub fn ceiling(programs: &Ebpf) -> Result<SharedCeiling, EngineError> {
    shared_words(programs, CEILING_MAP, CEILING_WORDS).map(SharedCeiling::new)
}

/// The counters of recovery at the release of RPCs.
pub fn recovery(programs: &Ebpf) -> Result<SharedRecovery, EngineError> {
    shared_words(programs, RECOVERY_MAP, RECOVERY_WORDS).map(SharedRecovery::new)
}

/// The keys that requests are compared with.
pub fn filter_maps(
    programs: &mut Ebpf,
    filter: ResolvedFilter,
    share: u32,
) -> Result<FilterMaps, EngineError> {
    let map = HashMap::try_from(take(programs, FILTER_MAP)?).map_err(map_error(FILTER_MAP))?;
    FilterMaps::new(map, filter, FILTER_ENTRIES / share).map_err(|error| match error {
        FilterMapError::Filter(error) => EngineError::Filter(error),
        FilterMapError::Map(source) => map_error(FILTER_MAP)(source),
    })
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

/// The paths that the programs report.
pub fn paths(programs: &mut Ebpf) -> Result<PathFeed, EngineError> {
    let ring = take(programs, PATH_RING_MAP)?;
    Ok(PathFeed {
        ring: PathRing::new(ring).map_err(map_error(PATH_RING_MAP))?,
        epoch: SharedWord::map(array_fd(programs, EPOCH_MAP)?).map_err(EngineError::Shared)?,
    })
}

/// The single calls that are kept.
pub fn single_calls(programs: &mut Ebpf) -> Result<CallRing, EngineError> {
    let left_out = shared_words(programs, CALLS_LEFT_OUT_MAP, 1)?;
    CallRing::new(take(programs, CALL_RING_MAP)?, left_out).map_err(map_error(CALL_RING_MAP))
}

/// The sums of operations.
pub fn operations(
    programs: &mut Ebpf,
    granularity: Granularity,
    clock: ClockSample,
) -> Result<OpSums, EngineError> {
    let lost = take(programs, OPS_LOST_MAP)?;
    let lost = Array::try_from(lost).map_err(map_error(OPS_LOST_MAP))?;
    let table = shared_words(programs, OP_TABLE_MAP, OP_TABLE_WORDS)?;
    let begun = shared_words(programs, OPS_BEGUN_MAP, OPS_MAPS)?;
    let map = take(programs, OPS_MAP)?;
    ArrayOfMaps::try_from(map)
        .and_then(|map| OpSums::create(map, table, begun, lost, granularity, clock))
        .map_err(map_error(OPS_MAP))
}

/// The sums of operations by file.
pub fn file_operations(programs: &mut Ebpf, share: u32) -> Result<FileOpSums, EngineError> {
    let begun = shared_words(programs, FILE_OPS_BEGUN_MAP, FILE_OPS_MAPS)?;
    let map = take(programs, FILE_OPS_MAP)?;
    ArrayOfMaps::try_from(map)
        .and_then(|map| FileOpSums::create(map, begun, share))
        .map_err(map_error(FILE_OPS_MAP))
}

/// The sums of calls of applications on `cpus` CPUs, which are `timed` or not.
pub fn calls(
    programs: &mut Ebpf,
    cpus: u32,
    timed: bool,
    share: u32,
) -> Result<CallSums, EngineError> {
    let begun = shared_words(programs, APP_CALLS_BEGUN_MAP, APP_CALLS_MAPS)?;
    let places = shared_words(programs, APP_PLACES_MAP, cpus as usize * APP_PLACES_WORDS)?;
    let words = match timed {
        true => cpus as usize * APP_LATENCIES_OF_CPU * APP_LATENCY_WORDS,
        false => APP_LATENCY_WORDS,
    };
    let latencies = shared_words(programs, APP_LATENCIES_MAP, words)?;
    let map = take(programs, APP_CALLS_MAP)?;
    ArrayOfMaps::try_from(map)
        .and_then(|map| CallSums::create(map, places, latencies, begun, share))
        .map_err(map_error(APP_CALLS_MAP))
}

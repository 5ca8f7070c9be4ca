//! Attaches the programs to their tracepoints.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::Ebpf;
use aya::programs::{RawTracePoint, TracePoint};

use crate::btf::CastBtfIds;
use crate::engine::bpf_calls::recursion_misses;
use crate::engine::btf_tracepoints::{self, CastPrograms};
use crate::engine::error::EngineError;
use crate::facts::TRACEPOINTS;
use crate::plan::{Plan, Programs};

/// A program of the direct engine, in both forms, and its tracepoint.
#[derive(Clone, Copy)]
struct DirectProgram {
    event: &'static str,
    by_probe: &'static str,
    by_cast: &'static str,
}

/// The tracepoint on which operations are seen.
const OPERATION_EVENT: &str = "rpc_stats_latency";

/// The direct engine's programs, that of operations last.
const ALONE: [DirectProgram; 3] = [
    DirectProgram {
        event: "nfs_readpage_done",
        by_probe: "alone_read_done_by_probe",
        by_cast: "alone_read_done_by_cast",
    },
    DirectProgram {
        event: "nfs_writeback_done",
        by_probe: "alone_write_done_by_probe",
        by_cast: "alone_write_done_by_cast",
    },
    DirectProgram {
        event: OPERATION_EVENT,
        by_probe: "alone_operation_by_probe",
        by_cast: "alone_operation_by_cast",
    },
];

/// Its programs where the kernel may skip them.
const FIRST: [DirectProgram; 3] = [
    DirectProgram {
        event: "nfs_readpage_done",
        by_probe: "first_read_done_by_probe",
        by_cast: "first_read_done_by_cast",
    },
    DirectProgram {
        event: "nfs_writeback_done",
        by_probe: "first_write_done_by_probe",
        by_cast: "first_write_done_by_cast",
    },
    DirectProgram {
        event: OPERATION_EVENT,
        by_probe: "first_operation_by_probe",
        by_cast: "first_operation_by_cast",
    },
];

/// The programs that do the work of those where the kernel skipped them.
const SECOND: [DirectProgram; 3] = [
    DirectProgram {
        event: "nfs_readpage_done",
        by_probe: "second_read_done_by_probe",
        by_cast: "second_read_done_by_cast",
    },
    DirectProgram {
        event: "nfs_writeback_done",
        by_probe: "second_write_done_by_probe",
        by_cast: "second_write_done_by_cast",
    },
    DirectProgram {
        event: OPERATION_EVENT,
        by_probe: "second_operation_by_probe",
        by_cast: "second_operation_by_cast",
    },
];

/// The tracepoint on which renames are seen, and the program for it. If the kernel skips it, the
/// new path is noticed when the file is used again.
const RENAME_EVENT: &str = "nfs_rename_exit";
const RENAME: &str = "renamed";

/// Completions at which the kernel skipped the programs, because one was running on that CPU
/// already. 0 before Linux 5.12, which does not count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissedCompletions {
    /// At most this many requests are missing from the counters.
    pub requests: u64,
    /// At most this many RPCs are missing from the sums of operations.
    pub operations: u64,
}

/// A tracepoint, and the program on it whose skipped runs are counted.
type CountedProgram = (&'static str, OwnedFd);

/// The programs and links that the BPF loader does not keep.
#[derive(Default)]
pub struct AttachedPrograms {
    /// The last program on each tracepoint: what the kernel skips it for is missed.
    counted: Vec<CountedProgram>,
    /// Programs and what keeps them attached.
    links: Vec<OwnedFd>,
    /// Why the kernel refused the programs that read its memory by plain loads, if it did.
    pub refused: Option<io::Error>,
}

impl AttachedPrograms {
    /// How often the kernel skipped the programs.
    pub fn missed(&self) -> Result<MissedCompletions, EngineError> {
        let mut missed = MissedCompletions::default();
        for (event, fd) in &self.counted {
            let sum = match *event {
                OPERATION_EVENT => &mut missed.operations,
                _ => &mut missed.requests,
            };
            *sum += recursion_misses(fd.as_fd()).map_err(EngineError::Missed)?;
        }
        Ok(missed)
    }
}

/// Attaches the programs of a plan; `cast_programs` are those that read kernel memory by plain
/// loads, or why there are none.
pub fn attach(
    programs: &mut Ebpf,
    plan: &Plan,
    cast_programs: Option<io::Result<(CastBtfIds, CastPrograms)>>,
) -> Result<AttachedPrograms, EngineError> {
    match &plan.programs {
        Programs::Direct { tandem, .. } => {
            let mut attached =
                attach_direct(programs, *tandem, plan.has_operations(), cast_programs)?;
            if plan.has_paths() {
                let renamed = attach_raw(programs, RENAME, RENAME_EVENT)?;
                attached.links.push(renamed);
            }
            Ok(attached)
        }
        // In the order in which a request meets them. So a request that starts meanwhile may be
        // counted without a latency, but is never linked to the wrong start.
        Programs::Tracepoint(_) => {
            for (category, event) in TRACEPOINTS {
                attach_tracepoint(programs, category, event)?;
            }
            Ok(AttachedPrograms::default())
        }
    }
}

fn attach_tracepoint(
    programs: &mut Ebpf,
    category: &str,
    event: &'static str,
) -> Result<(), EngineError> {
    let attach_error = |source| EngineError::Attach { event, source };
    let program = programs
        .program_mut(event)
        .ok_or(EngineError::Object(event))?;
    let program: &mut TracePoint = program.try_into().map_err(attach_error)?;
    program.load().map_err(attach_error)?;
    program.attach(category, event).map_err(attach_error)?;
    Ok(())
}

/// Loads and attaches the direct engine's programs, in the form that reads by loads if the kernel
/// accepts it.
fn attach_direct(
    programs: &mut Ebpf,
    tandem: bool,
    operations: bool,
    cast_programs: Option<io::Result<(CastBtfIds, CastPrograms)>>,
) -> Result<AttachedPrograms, EngineError> {
    let events = ALONE.len() - usize::from(!operations);
    // Programs on a tracepoint run in the order in which they were attached.
    let used = if tandem {
        [&FIRST[..events], &SECOND[..events]].concat()
    } else {
        ALONE[..events].to_vec()
    };
    let load = |(cast, cast_programs): (CastBtfIds, CastPrograms)| {
        let events = cast.events.iter().take(events).cycle();
        let loaded = used.iter().zip(events);
        loaded
            .map(|(raw, event)| cast_programs.load(raw.by_cast, *event))
            .collect::<io::Result<Vec<OwnedFd>>>()
    };
    // A kernel that has the types may still refuse the programs, without its JIT for example.
    let (by_cast, refused) = match cast_programs.map(|cast_programs| cast_programs.and_then(load)) {
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
    // Kept open, because benchmarks find the programs by this process's descriptors.
    links.append(&mut attached);
    Ok(AttachedPrograms {
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

//! Attaches the programs to their tracepoints.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::Ebpf;
use aya::programs::{RawTracePoint, TracePoint};

use crate::btf::CastBtfIds;
use crate::engine::btf_tracepoints::{self, CastPrograms};
use crate::engine::error::EngineError;
use crate::engine::missed::CountedPrograms;
use crate::facts::TRACEPOINTS;
use crate::plan::{Plan, Programs};
use crate::timing::StartTiming;

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

/// Those where the kernel may skip them. They mark what they have seen.
const MARKED: [DirectProgram; 3] = [
    DirectProgram {
        event: "nfs_readpage_done",
        by_probe: "marked_read_done_by_probe",
        by_cast: "marked_read_done_by_cast",
    },
    DirectProgram {
        event: "nfs_writeback_done",
        by_probe: "marked_write_done_by_probe",
        by_cast: "marked_write_done_by_cast",
    },
    DirectProgram {
        event: OPERATION_EVENT,
        by_probe: "marked_operation_by_probe",
        by_cast: "marked_operation_by_cast",
    },
];

/// The programs that handle completions for which the kernel skipped those, where it skips any.
const RELEASED: [DirectProgram; 2] = [
    DirectProgram {
        event: "xprt_release_xprt",
        by_probe: "released_by_probe",
        by_cast: "released_by_cast",
    },
    DirectProgram {
        event: "xprt_release_cong",
        by_probe: "released_cong_by_probe",
        by_cast: "released_cong_by_cast",
    },
];

/// The tracepoint on which renames are seen, and the program for it. If the kernel skips it, the
/// new path is noticed when the file is used again.
const RENAME_EVENT: &str = "nfs_rename_exit";
const RENAME: &str = "renamed";

/// The programs and links that the BPF loader does not keep.
#[derive(Default)]
pub struct AttachedPrograms {
    /// The programs whose skipped runs the kernel counts.
    pub counted: CountedPrograms,
    /// Programs and what keeps them attached.
    links: Vec<OwnedFd>,
    /// Why the kernel refused the programs that read its memory by plain loads, if it did.
    pub refused: Option<io::Error>,
}

/// Attaches the programs of a plan; `cast_programs` are those that read kernel memory by plain
/// loads, or why there are none.
pub fn attach(
    programs: &mut Ebpf,
    plan: &Plan,
    cast_programs: Option<io::Result<(CastBtfIds, CastPrograms)>>,
    timing: &mut StartTiming,
) -> Result<AttachedPrograms, EngineError> {
    match &plan.programs {
        Programs::Direct { recovers, .. } => {
            let operations = plan.has_operations();
            let mut attached =
                attach_direct(programs, *recovers, operations, cast_programs, timing)?;
            if plan.has_paths() {
                let renamed = attach_raw(programs, RENAME, RENAME_EVENT)?;
                attached.links.push(renamed);
                timing.ended(format!("load and attach {RENAME}"));
            }
            Ok(attached)
        }
        // In the order in which a request meets them. So a request that starts meanwhile may be
        // counted without a latency, but is never linked to the wrong start.
        Programs::Tracepoint(_) => {
            for (category, event) in TRACEPOINTS {
                attach_tracepoint(programs, category, event)?;
                timing.ended(format!("load and attach {event}"));
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
    recovers: bool,
    operations: bool,
    cast_programs: Option<io::Result<(CastBtfIds, CastPrograms)>>,
    timing: &mut StartTiming,
) -> Result<AttachedPrograms, EngineError> {
    let events = ALONE.len() - usize::from(!operations);
    let used = if recovers {
        [&MARKED[..events], &RELEASED[..]].concat()
    } else {
        ALONE[..events].to_vec()
    };
    let mut load = |(cast, cast_programs): (CastBtfIds, CastPrograms)| {
        let events = cast.events.iter().take(events);
        let loaded = used
            .iter()
            .zip(events.chain(cast.releases.as_ref().into_iter().flatten()));
        loaded
            .map(|(raw, event)| {
                let program = cast_programs.load(raw.by_cast, *event);
                timing.ended(format!("load {}", raw.by_cast));
                program
            })
            .collect::<io::Result<Vec<OwnedFd>>>()
    };
    // A kernel that has the types may still refuse the programs, without its JIT for example.
    let by_cast = cast_programs.map(|cast_programs| cast_programs.and_then(&mut load));
    let (by_cast, refused) = match by_cast {
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
        timing.ended("attach");
        attached = loaded;
    } else {
        for raw in &used {
            attached.push(attach_raw(programs, raw.by_probe, raw.event)?);
            timing.ended(format!("load and attach {}", raw.by_probe));
        }
    }
    // Kept open, because benchmarks find the programs by this process's descriptors.
    links.extend(attached.split_off(events));
    let of_operations = attached.split_off(attached.len() - usize::from(operations));
    Ok(AttachedPrograms {
        counted: CountedPrograms {
            of_requests: attached,
            of_operations,
        },
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

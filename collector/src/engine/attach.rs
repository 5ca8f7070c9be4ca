//! Attaches the programs to their tracepoints.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use aya::Ebpf;
use aya::programs::{KProbe, ProgramError, ProgramFd, RawTracePoint, TracePoint};
use trackiops_schemas::ebpf::offsets::Offsets as _;
use trackiops_schemas::ebpf::syscalls::rings;

use crate::btf::BtfType;
use crate::engine::OBJECT;
use crate::engine::btf_tracepoints::{self, AttachedTo, CastPrograms};
use crate::engine::error::EngineError;
use crate::engine::missed::CountedPrograms;
use crate::engine::relocations;
use crate::engine::sampler::MeasuredProgram;
use crate::facts::TRACEPOINTS;
use crate::plan::{CallPrograms, Plan, Programs};
use crate::rings::RingSizes;
use crate::rings::record_ring::RecordMemory;
use crate::timing::StartTiming;

/// A program of the direct engine, in both forms, and its tracepoint.
#[derive(Clone, Copy)]
struct DirectProgram {
    event: &'static str,
    by_probe: &'static str,
    by_cast: &'static str,
}

/// The tracepoint for operations.
const OPERATION_EVENT: &str = "rpc_stats_latency";

/// The direct engine's programs; the one for operations is last.
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

/// The same for kernels that may skip the programs: these leave marks.
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

/// The program on the completion of requests to block devices.
const BLOCK: DirectProgram = DirectProgram {
    event: "block_rq_complete",
    by_probe: "block_request_by_probe",
    by_cast: "block_request_by_cast",
};

/// The programs on the page cache. Before Linux 5.18 the last one has another tracepoint.
const CACHE: [DirectProgram; 3] = [
    DirectProgram {
        event: "mm_filemap_add_to_page_cache",
        by_probe: "pages_added_by_probe",
        by_cast: "pages_added_by_cast",
    },
    DirectProgram {
        event: "mm_filemap_delete_from_page_cache",
        by_probe: "pages_evicted_by_probe",
        by_cast: "pages_evicted_by_cast",
    },
    DirectProgram {
        event: "writeback_dirty_folio",
        by_probe: "pages_dirtied_by_probe",
        by_cast: "pages_dirtied_by_cast",
    },
];

/// The programs on system calls: a call returns; an io_uring request completes.
const SYSCALLS: [DirectProgram; 2] = [
    DirectProgram {
        event: "sys_exit",
        by_probe: "app_syscall_by_probe",
        by_cast: "app_syscall_by_cast",
    },
    DirectProgram {
        event: "io_uring_complete",
        by_probe: "app_ring_by_probe",
        by_cast: "app_ring_by_cast",
    },
];
/// The tracepoint on the begin of system calls, and its program, used if calls are timed.
const SYSCALL_BEGIN_EVENT: &str = "sys_enter";
const SYSCALL_BEGIN: &str = "app_syscall_begin";
/// The program on the submission of io_uring requests, used if single calls are kept.
const RING_BEGIN: &str = "app_ring_begin";

/// The program that recovers completions for which the kernel skipped the programs above.
const RELEASED_BY_PROBE: &str = "released_by_probe";
const RELEASED_BY_CAST: &str = "released_by_cast";
/// Its tracepoints. One program serves both, because it is the largest, and loading dominates the time of a start.
const RELEASE_EVENTS: [&str; 2] = ["xprt_release_xprt", "xprt_release_cong"];

/// The tracepoint on renames, and its program. If the kernel skips it, the
/// new path is noticed when the file is used again.
const RENAME_EVENT: &str = "nfs_rename_exit";
const RENAME: &str = "renamed";

/// The programs and links that the BPF loader does not own.
#[derive(Default)]
pub struct AttachedPrograms {
    /// The programs whose skipped runs the kernel counts.
    pub counted: CountedPrograms,
    /// All programs, for measuring their run times. Also holds the links of those that are detached while they have no work.
    pub measured: Vec<MeasuredProgram>,
    /// Other programs and links.
    links: Vec<OwnedFd>,
}

/// Fails if the start is to be given up.
pub(super) fn go_on(timing: &StartTiming) -> Result<(), EngineError> {
    match timing.is_over() {
        true => Err(EngineError::Interrupted),
        false => Ok(()),
    }
}

/// Whether a program is detached while details are shed and it has no work. Programs on functions stay attached: not every kernel can
/// attach trampolines and probes again.
fn is_detachable(name: &str) -> bool {
    let prefixes = ["app_syscall", "app_ring", "pages_"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

impl AttachedPrograms {
    /// Keeps a program that was attached to tracepoints by name.
    fn keep(
        &mut self,
        name: &'static str,
        by_name: AttachedByName,
    ) -> Result<OwnedFd, EngineError> {
        let AttachedByName { program, links } = by_name;
        for (event, link) in links {
            self.keep_link(name, &program, Some(event), link)?;
        }
        Ok(program)
    }

    /// [`Self::keep`] for one link.
    fn keep_link(
        &mut self,
        name: &'static str,
        program: &OwnedFd,
        event: Option<&'static str>,
        link: OwnedFd,
    ) -> Result<(), EngineError> {
        let measured = if is_detachable(name) {
            MeasuredProgram::detachable(name, program, event, link)
        } else {
            self.links.push(link);
            // A program that is attached twice counts its runs once.
            if self.measured.last().is_some_and(|last| last.name() == name) {
                return Ok(());
            }
            MeasuredProgram::new(name, program)
        };
        self.measured.push(measured.map_err(EngineError::Missed)?);
        Ok(())
    }
}

/// A program that was attached to tracepoints by name.
struct AttachedByName {
    program: OwnedFd,
    links: Vec<(&'static str, OwnedFd)>,
}

/// The direct engine's programs that read kernel memory by plain loads, ready to be attached.
pub struct LoadedByCast {
    /// The rings that they write to.
    pub memory: RecordMemory,
    /// In the order of [`used_programs`].
    programs: Vec<OwnedFd>,
    /// The program on releases.
    released: Option<OwnedFd>,
}

/// Loads the programs that read kernel memory by plain loads, if the plan has them. A kernel that
/// has the types may still refuse the programs, without its JIT for example.
pub fn load_by_cast(
    plan: &Plan,
    programs: &Ebpf,
    sizes: RingSizes,
    timing: &mut StartTiming,
) -> Option<io::Result<LoadedByCast>> {
    let Programs::Direct {
        offsets,
        levels,
        switches,
        recovers,
        cast,
        ..
    } = &plan.programs
    else {
        return None;
    };
    let cast = (*cast)?;
    let offsets = switches.applied_to(offsets, *levels);
    let object = relocations::complete(OBJECT, Some(cast), &offsets.words())?;
    let used = used_programs(plan);
    // A plan has `cast` only if the types of all tracepoints are known.
    let syscalls = cast.syscalls.into_iter();
    let syscalls = syscalls.flat_map(|(exit, ring)| [Some(exit), ring]);
    let syscalls = syscalls.flatten().take(used_syscalls(plan).len());
    let cache = cast.cache.filter(|_| levels.cache);
    let block = cast.block.filter(|_| levels.block);
    let others = syscalls.chain(cache.into_iter().flatten()).chain(block);
    let of_wire = cast.events.into_iter().flatten();
    // Without operations the last one is not used.
    let events: Vec<_> = others.chain(of_wire).take(used.len()).collect();
    let mut names: Vec<_> = used.iter().map(|used| used.by_cast).collect();
    names.extend(recovers.then_some(RELEASED_BY_CAST));
    let mut load = || {
        let memory = RecordMemory::create(sizes).map_err(io::Error::other)?;
        let linked = CastPrograms::link(&object, &names, programs, Some(&memory), &events)?;
        timing.ended("link the programs that read by loads");
        let mut load = |name: &str, event| {
            if timing.is_over() {
                return Err(io::Error::from(io::ErrorKind::Interrupted));
            }
            let program = linked.load(name, event, timing.verifier_log(name));
            timing.ended(format!("load {name}"));
            program
        };
        let loaded = used.iter().zip(&events);
        let loaded =
            loaded.map(|(used, event)| load(used.by_cast, Some(AttachedTo::Tracepoint(*event))));
        Ok(LoadedByCast {
            programs: loaded.collect::<io::Result<_>>()?,
            released: match recovers {
                true => Some(load(RELEASED_BY_CAST, None)?),
                false => None,
            },
            memory,
        })
    };
    Some(load())
}

/// The programs on system calls that a plan uses.
fn used_syscalls(plan: &Plan) -> &'static [DirectProgram] {
    match &plan.programs {
        Programs::Direct {
            offsets, levels, ..
        } if levels.app => match offsets.syscalls.ring_form {
            rings::NONE => &SYSCALLS[..1],
            _ => &SYSCALLS,
        },
        _ => &[],
    }
}

/// The direct engine's programs on tracepoints that a plan uses. In this order: system calls, page cache, block level, wire; the one for
/// operations is last.
fn used_programs(plan: &Plan) -> Vec<DirectProgram> {
    let levels = plan.levels();
    let recovers = matches!(plan.programs, Programs::Direct { recovers: true, .. });
    let of_wire = if recovers { MARKED } else { ALONE };
    let left_out = usize::from(!plan.has_operations());
    let of_wire = &of_wire[..of_wire.len() - left_out];
    let of_wire = if levels.wire { of_wire } else { &[] };
    let block = levels.block.then_some(BLOCK);
    let mut cache = CACHE;
    if let (Programs::Direct { dirty_event, .. }, [.., last]) = (&plan.programs, &mut cache) {
        last.event = dirty_event;
    }
    let cache = if levels.cache { &cache[..] } else { &[] };
    let syscalls = used_syscalls(plan).iter().copied();
    let others = syscalls.chain(cache.iter().copied()).chain(block);
    others.chain(of_wire.iter().copied()).collect()
}

/// Attaches the programs of a plan; `by_cast` and `calls` are loaded already.
pub fn attach(
    programs: &mut Ebpf,
    plan: &Plan,
    by_cast: Option<LoadedByCast>,
    calls: Vec<LoadedCall>,
    timing: &mut StartTiming,
) -> Result<AttachedPrograms, EngineError> {
    match &plan.programs {
        Programs::Direct {
            recovers,
            offsets,
            ring_submission,
            ..
        } => {
            let mut attached = attach_direct(programs, plan, *recovers, by_cast, timing)?;
            if plan.has_paths() && plan.levels().wire {
                let renamed = attach_raw(programs, RENAME, &[RENAME_EVENT])?;
                attached.keep(RENAME, renamed)?;
                timing.ended(format!("load and attach {RENAME}"));
            }
            attach_calls(programs, plan, calls, &mut attached, timing)?;
            if plan.times_calls() && plan.levels().app {
                let begun = attach_raw(programs, SYSCALL_BEGIN, &[SYSCALL_BEGIN_EVENT])?;
                attached.keep(SYSCALL_BEGIN, begun)?;
                timing.ended(format!("load and attach {SYSCALL_BEGIN}"));
            }
            if let Some(event) = ring_submission
                && plan.keeps_calls()
                && offsets.syscalls.ring_form != rings::NONE
            {
                let begun = attach_raw(programs, RING_BEGIN, &[event])?;
                attached.keep(RING_BEGIN, begun)?;
                timing.ended(format!("load and attach {RING_BEGIN}"));
            }
            Ok(attached)
        }
        // In the order in which a request meets them. So a request that starts meanwhile may have
        // no latency, but is never linked to the wrong start.
        Programs::Tracepoint(_) => {
            let mut attached = AttachedPrograms::default();
            for (category, event) in TRACEPOINTS {
                go_on(timing)?;
                let program = attach_tracepoint(programs, category, event)?;
                attached.measured.push(program);
                timing.ended(format!("load and attach {event}"));
            }
            Ok(attached)
        }
    }
}

/// Selects the end of a function at which a program is attached.
type Attaching = fn(BtfType) -> AttachedTo;

/// Programs on functions of the NFS client, in the order of [`CallPrograms::OfNfs`].
const CALLS: [(&str, Attaching); 5] = [
    ("app_read", AttachedTo::Return),
    ("app_write", AttachedTo::Return),
    ("app_splice_read", AttachedTo::Return),
    ("app_direct_read", AttachedTo::Entry),
    ("app_direct_write", AttachedTo::Entry),
];
/// The first of these are timed, if calls are.
const TIMED_CALLS: usize = 3;
/// The program on the begins of these functions, used if calls are timed.
const TIMED_BEGIN: &str = "app_begin";
/// Programs that probe the begins of functions of the NFS client, then programs that probe their ends. The last of each list is for splicing.
const PROBED_BEGINS: [(&str, &[&str]); 2] = [
    ("app_probed_begin", &["nfs_file_read", "nfs_file_write"]),
    ("app_probed_splice_begin", &["nfs_file_splice_read"]),
];
const PROBED_ENDS: [(&str, &[&str]); 3] = [
    ("app_probed_read", &["nfs_file_read"]),
    ("app_probed_write", &["nfs_file_write"]),
    ("app_probed_splice_read", &["nfs_file_splice_read"]),
];
/// Programs on functions of the kernel proper, in the order of [`CallPrograms::Generic`].
const GENERIC_CALLS: [&str; 2] = ["app_generic_read", "app_generic_write"];
/// Programs that are used with those, and the functions of the NFS client that they probe.
const PROBED_CALLS: [(&str, &str); 2] = [
    ("app_probed_direct_read", "nfs_file_direct_read"),
    ("app_probed_direct_write", "nfs_file_direct_write"),
];

/// A program on functions that counts the calls of applications.
pub struct LoadedCall {
    name: &'static str,
    program: OwnedFd,
    /// The functions that it probes, if any, and whether at their ends.
    probes: Option<(&'static [&'static str], bool)>,
}

impl LoadedCall {
    /// Whether calls are missed when the kernel skips it. Without [`TIMED_BEGIN`] they only lack a duration.
    fn counts(&self) -> bool {
        self.name != TIMED_BEGIN
    }
}

/// Loads the programs that count the calls of applications, if the plan has them.
pub fn load_calls(
    plan: &Plan,
    programs: &Ebpf,
    timing: &mut StartTiming,
) -> Result<Vec<LoadedCall>, EngineError> {
    let Programs::Direct {
        offsets,
        levels,
        switches,
        calls: Some(calls),
        ..
    } = &plan.programs
    else {
        return Ok(Vec::new());
    };
    let begins = |functions: &[Option<BtfType>]| {
        let functions = functions.iter().flatten().filter(|_| plan.times_calls());
        let begin = |of: &BtfType| (TIMED_BEGIN, AttachedTo::Entry(*of), None);
        functions.map(begin).collect::<Vec<_>>()
    };
    let used: Vec<(&'static str, AttachedTo, _)> = match calls {
        CallPrograms::OfNfs(functions) => {
            let used = CALLS.into_iter().zip(functions);
            used.filter_map(|((name, on), of)| Some((name, on((*of)?), None)))
                .chain(begins(&functions[..TIMED_CALLS]))
                .collect()
        }
        CallPrograms::Probed { splices } => {
            let left_out = usize::from(!splices);
            let ends = &PROBED_ENDS[..PROBED_ENDS.len() - left_out];
            let begins = &PROBED_BEGINS[..PROBED_BEGINS.len() - left_out];
            // Ends first, so that every call whose begin is probed also has its end probed.
            let used = ends.iter().map(|(name, functions)| (name, functions, true));
            let begins = begins
                .iter()
                .map(|(name, functions)| (name, functions, false));
            used.chain(begins)
                .map(|(name, functions, at_end)| {
                    (*name, AttachedTo::Probe, Some((*functions, at_end)))
                })
                .collect()
        }
        CallPrograms::Generic(functions) => {
            let used = GENERIC_CALLS.into_iter().zip(functions);
            used.map(|(name, of)| (name, AttachedTo::Return(*of), None))
                .chain(begins(&functions.map(Some)))
                .collect()
        }
    };
    let names: Vec<_> = used.iter().map(|(name, ..)| *name).collect();
    let types: Vec<_> = used.iter().filter_map(|(_, on, _)| on.of()).collect();
    // Loading the programs on completions has already checked that the offsets fit.
    let offsets = switches.applied_to(offsets, *levels);
    let object = relocations::complete(OBJECT, None, &offsets.words());
    let object = object.ok_or(EngineError::Object("app_read"))?;
    let cannot = |event| move |source| EngineError::AttachTyped { event, source };
    let linked = CastPrograms::link(&object, &names, programs, None, &types);
    let linked = linked.map_err(cannot("nfs_file_read"))?;
    timing.ended("link the programs of calls");
    let load = |(name, on, probes)| {
        go_on(timing)?;
        let log = timing.verifier_log(name);
        let program = linked.load(name, Some(on), log).map_err(cannot(name))?;
        timing.ended(format!("load {name}"));
        Ok(LoadedCall {
            name,
            program,
            probes,
        })
    };
    used.into_iter().map(load).collect()
}

/// Attaches the programs that count the calls of applications: those in `loaded`, and probes.
fn attach_calls(
    programs: &mut Ebpf,
    plan: &Plan,
    loaded: Vec<LoadedCall>,
    attached: &mut AttachedPrograms,
    timing: &mut StartTiming,
) -> Result<(), EngineError> {
    for call in loaded {
        let link = match call.probes {
            None => btf_tracepoints::attach(call.program.as_fd(), None),
            Some((functions, at_end)) => {
                btf_tracepoints::attach_probe(call.program.as_fd(), functions, at_end)
            }
        };
        let event = call.name;
        let link = link.map_err(|source| EngineError::AttachTyped { event, source })?;
        let measured = MeasuredProgram::new(call.name, &call.program);
        attached
            .measured
            .push(measured.map_err(EngineError::Missed)?);
        let kept = match call.counts() {
            true => &mut attached.counted.of_calls,
            false => &mut attached.links,
        };
        kept.push(call.program);
        attached.links.push(link);
    }
    timing.ended("attach the programs of calls");
    if let Programs::Direct {
        calls: Some(CallPrograms::Generic(_) | CallPrograms::Probed { .. }),
        ..
    } = &plan.programs
    {
        for (name, function) in PROBED_CALLS {
            let cannot = |source| EngineError::Attach {
                event: function,
                source,
            };
            let program = programs
                .program_mut(name)
                .ok_or(EngineError::Object(name))?;
            let program: &mut KProbe = program.try_into().map_err(cannot)?;
            program.load().map_err(cannot)?;
            program.attach(function, 0).map_err(cannot)?;
            attached.measured.push(measured(name, program.fd())?);
            timing.ended(format!("load and attach {name}"));
        }
    }
    Ok(())
}

/// A program that the loader owns.
fn measured(
    name: &'static str,
    program: Result<&ProgramFd, ProgramError>,
) -> Result<MeasuredProgram, EngineError> {
    let cannot = |source| EngineError::Attach {
        event: name,
        source,
    };
    let program = program.map_err(cannot)?.as_fd().try_clone_to_owned();
    program
        .and_then(|program| MeasuredProgram::new(name, &program))
        .map_err(EngineError::Missed)
}

fn attach_tracepoint(
    programs: &mut Ebpf,
    category: &str,
    event: &'static str,
) -> Result<MeasuredProgram, EngineError> {
    let attach_error = |source| EngineError::Attach { event, source };
    let program = programs
        .program_mut(event)
        .ok_or(EngineError::Object(event))?;
    let program: &mut TracePoint = program.try_into().map_err(attach_error)?;
    program.load().map_err(attach_error)?;
    program.attach(category, event).map_err(attach_error)?;
    measured(event, program.fd())
}

/// Attaches the direct engine's programs: those in `by_cast`, or else those that call a helper
/// for each read.
fn attach_direct(
    programs: &mut Ebpf,
    plan: &Plan,
    recovers: bool,
    by_cast: Option<LoadedByCast>,
    timing: &mut StartTiming,
) -> Result<AttachedPrograms, EngineError> {
    let used = used_programs(plan);
    let mut all = AttachedPrograms::default();
    let mut attached = Vec::new();
    if let Some(by_cast) = by_cast {
        let mut attach = |name, program: &OwnedFd, event, event_name| {
            let link = btf_tracepoints::attach(program.as_fd(), event_name);
            let link = link.map_err(|source| EngineError::AttachTyped { event, source })?;
            all.keep_link(name, program, event_name, link)
        };
        for (used, program) in used.iter().zip(&by_cast.programs) {
            attach(used.by_cast, program, used.event, None)?;
        }
        if let Some(released) = &by_cast.released {
            for event in RELEASE_EVENTS {
                attach(RELEASED_BY_CAST, released, event, Some(event))?;
            }
        }
        timing.ended("attach");
        attached = by_cast.programs;
    } else {
        for used in &used {
            go_on(timing)?;
            let program = attach_raw(programs, used.by_probe, &[used.event])?;
            attached.push(all.keep(used.by_probe, program)?);
            timing.ended(format!("load and attach {}", used.by_probe));
        }
        if recovers {
            let released = attach_raw(programs, RELEASED_BY_PROBE, &RELEASE_EVENTS)?;
            all.keep(RELEASED_BY_PROBE, released)?;
            timing.ended(format!("load and attach {RELEASED_BY_PROBE}"));
        }
    }
    let of_operations = attached.split_off(attached.len() - usize::from(plan.has_operations()));
    let of_cache = if plan.levels().cache { CACHE.len() } else { 0 };
    let of_requests = attached.split_off(used_syscalls(plan).len() + of_cache);
    all.counted = CountedPrograms {
        of_requests,
        of_operations,
        // Page cache changes are added up like calls, so they are missed like calls.
        of_calls: attached,
    };
    Ok(all)
}

fn attach_raw(
    programs: &mut Ebpf,
    name: &'static str,
    events: &[&'static str],
) -> Result<AttachedByName, EngineError> {
    let event = events.first().copied().unwrap_or(name);
    let attach_error = |source| EngineError::Attach { event, source };
    let program = programs
        .program_mut(name)
        .ok_or(EngineError::Object(name))?;
    let program: &mut RawTracePoint = program.try_into().map_err(attach_error)?;
    program.load().map_err(attach_error)?;
    let program = program.fd().map_err(attach_error)?.as_fd();
    let link = |event: &&'static str| {
        let link = btf_tracepoints::attach(program, Some(event));
        let link = link.map_err(|source| EngineError::AttachTyped { event, source })?;
        Ok((*event, link))
    };
    let links = events.iter().map(link);
    Ok(AttachedByName {
        links: links.collect::<Result<_, EngineError>>()?,
        program: program.try_clone_to_owned().map_err(EngineError::Missed)?,
    })
}

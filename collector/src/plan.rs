//! Decides from kernel facts which programs to load. A pure function, so tests can plan for kernels that
//! are not running.

mod block_offsets;
mod cache_offsets;
mod direct_offsets;
mod levels;
mod local_offsets;
pub(crate) mod members;
mod switches;
mod syscall_offsets;
mod tracepoint_offsets;
mod unsupported;

use trackiops_schemas::ebpf::app_sums::AppOffsets;
use trackiops_schemas::ebpf::file_op_sums::FileOpOffsets;
use trackiops_schemas::ebpf::op_sums::OpOffsets;
use trackiops_schemas::ebpf::ring::{
    DirectOffsets, NameOffsets, ReleaseOffsets, TracepointOffsets,
};

use crate::btf::{BtfType, CastBtfIds};
use crate::facts::{KernelFacts, Lockdown};
use crate::plan::block_offsets::add_block_offsets;
use crate::plan::cache_offsets::add_cache_offsets;
use crate::plan::direct_offsets::{REGISTERS, direct_offsets};
pub use crate::plan::levels::{Levels, RecordedLevel};
use crate::plan::local_offsets::add_local_offsets;
pub use crate::plan::switches::Switches;
use crate::plan::syscall_offsets::add_syscall_offsets;
pub(crate) use crate::plan::syscall_offsets::syscall_kinds;
use crate::plan::tracepoint_offsets::tracepoint_offsets;
pub use crate::plan::unsupported::Unsupported;

/// How requests are observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The direct engine if the kernel supports it, else the tracepoint engine.
    #[default]
    Auto,
    /// From the request's own structures, when it completes.
    Direct,
    /// By following the request through classic tracepoints.
    Tracepoint,
}

/// Which programs to load, and the facts that they need about this kernel.
#[expect(clippy::large_enum_variant, reason = "a recorder has one")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programs {
    /// The direct engine.
    Direct {
        /// Offsets of the members that the programs read.
        offsets: Box<DirectOffsets>,
        /// The levels that they record.
        levels: Levels,
        /// What they record in addition to requests.
        switches: Switches,
        /// The tracepoint on dirtied pages.
        dirty_event: &'static str,
        /// The tracepoint on the submission of an io_uring request, if it names the request.
        ring_submission: Option<&'static str>,
        /// Whether programs at the release of an RPC recover what the kernel skips the others for.
        recovers: bool,
        /// Type numbers that programs need to read kernel memory by plain loads. Without them they call a
        /// helper for each read.
        cast: Option<CastBtfIds>,
        /// The programs that count the calls of applications, if they are counted.
        calls: Option<CallPrograms>,
    },
    /// The tracepoint engine.
    Tracepoint(TracepointOffsets),
}

/// Which programs count the calls of applications, and where they are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPrograms {
    /// Programs on functions of the NFS client: reading, writing, splicing, and direct I/O. Linux before 6.5
    /// splices by reading.
    OfNfs([Option<BtfType>; 5]),
    /// Probes of these functions, for kernels that may preempt and then skip other programs.
    Probed {
        /// Whether the function for splicing exists.
        splices: bool,
    },
    /// Programs on functions of the kernel proper, for kernels that do not describe the NFS client: reading and writing. Direct I/O
    /// is probed.
    Generic([BtfType; 2]),
}

/// Whether the calls of applications are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppView {
    /// No.
    #[default]
    No,
    /// Yes.
    Counted,
    /// Yes, and how long they take.
    Timed,
}

/// The effect of preemptible programs on the calls of applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreemptedCalls {
    /// The kernel skips the programs for some calls.
    MissesSome,
    /// Probes that the kernel does not preempt see the calls, and cost more.
    CostsMore,
}

/// The instructions for the loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The programs to load.
    pub programs: Programs,
    /// Why [`EngineChoice::Auto`] did not choose the direct engine.
    pub fallback: Option<Unsupported>,
    /// The effect on calls of applications, if the kernel may preempt programs.
    pub preempted_calls: Option<PreemptedCalls>,
}

impl Programs {
    /// The engine's name.
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Direct { .. } => "direct",
            Self::Tracepoint(_) => "tracepoint",
        }
    }
}

impl Plan {
    /// The recorded levels.
    pub fn levels(&self) -> Levels {
        match &self.programs {
            Programs::Direct { levels, .. } => *levels,
            Programs::Tracepoint(_) => Levels::WIRE,
        }
    }

    /// What is recorded in addition to requests: nothing by the tracepoint engine.
    fn switches(&self) -> Switches {
        match &self.programs {
            Programs::Direct { switches, .. } => *switches,
            Programs::Tracepoint(_) => Switches::default(),
        }
    }

    /// The switches of the direct engine.
    fn switches_mut(&mut self) -> Option<&mut Switches> {
        match &mut self.programs {
            Programs::Direct { switches, .. } => Some(switches),
            Programs::Tracepoint(_) => None,
        }
    }

    /// Whether operations are recorded, not only requests for files.
    pub fn has_operations(&self) -> bool {
        self.switches().rpcs
    }

    /// Whether all recorded levels with operations record them: the NFS client, or without the wire local files.
    pub fn covers_operations(&self) -> bool {
        match self.levels().wire {
            true => self.switches().rpcs,
            false => self.switches().opens_and_syncs,
        }
    }

    /// Whether the kernel side reports the paths of files. Otherwise `/proc` is searched for
    /// them.
    pub fn has_paths(&self) -> bool {
        match &self.programs {
            Programs::Direct { offsets, .. } => offsets.name != NameOffsets::default(),
            Programs::Tracepoint(_) => false,
        }
    }

    /// Whether calls of applications are counted, on any files.
    pub fn counts_calls(&self) -> bool {
        self.has_calls() || self.levels().app
    }

    /// Whether calls of applications on NFS files are counted.
    pub fn has_calls(&self) -> bool {
        matches!(&self.programs, Programs::Direct { calls: Some(_), .. })
    }

    /// Whether calls of applications or page cache changes are counted: both use the same sums.
    pub fn has_sums_of_files(&self) -> bool {
        self.counts_calls() || self.levels().cache
    }

    /// Whether calls of applications are timed as well.
    pub fn times_calls(&self) -> bool {
        self.switches().call_times
    }

    /// Whether single calls of applications are handed over as well.
    pub fn keeps_calls(&self) -> bool {
        self.switches().single_calls
    }

    /// Whether functions of programs can be followed.
    pub fn may_follow_functions(&self) -> bool {
        matches!(self.programs, Programs::Direct { .. })
    }

    /// The same plan, with timed single calls if the level of applications is recorded.
    pub fn keeping_calls(mut self) -> Self {
        if self.levels().app
            && let Some(switches) = self.switches_mut()
        {
            switches.call_times = true;
            switches.single_calls = true;
        }
        self
    }

    /// The same plan with or without the calls of applications.
    pub fn with_app_view(mut self, wanted: AppView) -> Self {
        if let Programs::Direct {
            calls,
            levels,
            switches,
            ..
        } = &mut self.programs
        {
            if wanted == AppView::No {
                *calls = None;
            }
            let has_any = calls.is_some() || levels.app;
            switches.call_times = wanted == AppView::Timed && has_any;
        }
        self
    }

    /// The same plan without operations, on any files.
    pub fn without_operations(mut self) -> Self {
        if let Some(switches) = self.switches_mut() {
            switches.opens_and_syncs = false;
        }
        self.without_rpcs()
    }

    /// The same plan without operations of the NFS client.
    pub fn without_rpcs(mut self) -> Self {
        if let Some(switches) = self.switches_mut() {
            switches.rpcs = false;
        }
        self
    }
}

/// Decides what to load, or returns the first missing thing that the user can act on. Without `levels`, records the wire if the NFS
/// client is loaded or an engine for it is named, else the block level.
pub fn plan(
    facts: &KernelFacts,
    choice: EngineChoice,
    levels: Option<Levels>,
) -> Result<Plan, Unsupported> {
    if !facts.may_use_bpf {
        return Err(Unsupported::Privileges);
    }
    if !facts.ring_buffer {
        return Err(Unsupported::NoRingBuffer(facts.release.clone()));
    }
    if facts.lockdown == Lockdown::Confidentiality {
        return Err(Unsupported::LockedDown);
    }
    let levels = match levels {
        Some(levels) => levels,
        None if facts.nfs_client || choice == EngineChoice::Tracepoint => Levels::WIRE,
        None => {
            let alone = plan(facts, choice, Some(Levels::BLOCK));
            return alone.map_err(|why| Unsupported::NeitherLevel(Box::new(why)));
        }
    };
    if !levels.wire && !levels.has_local() {
        return Err(Unsupported::CacheAlone);
    }
    if levels.wire && !facts.nfs_client {
        return Err(Unsupported::NfsNotLoaded);
    }
    let (programs, fallback) = match choice {
        EngineChoice::Tracepoint if levels != Levels::WIRE => {
            return Err(Unsupported::WireByTracepoint);
        }
        EngineChoice::Tracepoint => (Programs::Tracepoint(tracepoint_offsets(facts)?), None),
        EngineChoice::Auto if levels == Levels::WIRE => match direct_programs(facts, levels) {
            Ok(programs) => (programs, None),
            Err(why) => (Programs::Tracepoint(tracepoint_offsets(facts)?), Some(why)),
        },
        EngineChoice::Direct | EngineChoice::Auto => (direct_programs(facts, levels)?, None),
    };
    let preempted_calls = match &programs {
        _ if !facts.preempts => None,
        Programs::Direct {
            calls: Some(CallPrograms::Probed { .. }),
            ..
        } => Some(PreemptedCalls::CostsMore),
        _ => Some(PreemptedCalls::MissesSome),
    };
    Ok(Plan {
        programs,
        fallback,
        preempted_calls,
    })
}

fn direct_programs(facts: &KernelFacts, levels: Levels) -> Result<Programs, Unsupported> {
    let mut offsets = match levels.wire {
        true => direct_offsets(facts)?,
        false => DirectOffsets::default(),
    };
    let calls = call_programs(facts, &offsets);
    if levels.has_local() {
        let level = if levels.block { "block" } else { "app" };
        add_local_offsets(&mut offsets, facts, level)?;
    }
    if levels.block {
        add_block_offsets(&mut offsets, facts)?;
    }
    if levels.app {
        add_syscall_offsets(&mut offsets, facts)?;
    }
    if levels.cache {
        add_cache_offsets(&mut offsets, facts)?;
    }
    // Functions of programs may be followed at any level.
    offsets.app.registers = REGISTERS;
    // All programs hand over their records in the same way, so all must read in the same way.
    let cast = facts.cast.filter(|cast| {
        (!levels.wire || cast.events.is_some())
            && (!levels.block || cast.block.is_some())
            && (!levels.cache || cast.cache.is_some())
            && (!levels.app || cast.syscalls.is_some())
    });
    // If the kernel's BTF describes its tracepoints, it describes all of them.
    let has_releases = cast.is_none_or(|cast| cast.has_releases);
    Ok(Programs::Direct {
        levels,
        switches: Switches {
            rpcs: offsets.operation != OpOffsets::default(),
            opens_and_syncs: levels.app,
            ..Switches::default()
        },
        dirty_event: facts.dirty_event,
        ring_submission: facts.ring_submission,
        recovers: levels.wire
            && tracepoints_may_be_preempted(&facts.release)
            && offsets.release != ReleaseOffsets::default()
            && has_releases,
        calls,
        offsets: Box::new(offsets),
        cast,
    })
}

/// The programs that count the calls of applications, if their functions and offsets are known. Their files are found like the files of operations.
fn call_programs(facts: &KernelFacts, offsets: &DirectOffsets) -> Option<CallPrograms> {
    if offsets.app == AppOffsets::default() || offsets.file_operation == FileOpOffsets::default() {
        return None;
    }
    let calls = &facts.calls;
    let [read, write, splice_read, direct_read, direct_write] = calls.of_nfs;
    if [read, write, direct_read, direct_write]
        .iter()
        .all(Option::is_some)
    {
        return Some(match facts.preempts && calls.has_fprobes {
            true => CallPrograms::Probed {
                splices: splice_read.is_some(),
            },
            false => CallPrograms::OfNfs(calls.of_nfs),
        });
    }
    let [read, write] = calls.generic;
    Some(CallPrograms::Generic([read?, write?]))
}

/// From Linux 6.19 on tracepoints are guarded by SRCU instead of by disabling preemption.
fn tracepoints_may_be_preempted(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6_u32, 19_u32),
        // An unneeded program costs little; a missing one costs requests.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::facts::Tracefs;

    #[test]
    fn what_is_missing_is_said_with_the_next_step() {
        let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/6.12");
        let facts = KernelFacts::read_in(&kernel);
        let said = |change: &dyn Fn(&mut KernelFacts)| {
            let mut f = facts.clone();
            change(&mut f);
            plan(&f, EngineChoice::Tracepoint, None)
                .unwrap_err()
                .to_string()
        };
        assert!(said(&|f| f.may_use_bpf = false).contains("sudo"));
        assert!(said(&|f| f.ring_buffer = false).contains("Linux 5.8 or newer"));
        assert!(said(&|f| f.tracefs = Tracefs::NotMounted).contains("mount -t tracefs"));
        assert!(said(&|f| f.tracefs = Tracefs::NotBuilt).contains("CONFIG_FTRACE"));
        assert!(said(&|f| f.tracefs = Tracefs::Denied("/t".into())).contains("root"));
        assert!(said(&|f| f.lockdown = Lockdown::Confidentiality).contains("lockdown=integrity"));
        let not_loaded = said(&|f| {
            f.nfs_client = false;
            f.formats.clear();
        });
        assert!(not_loaded.contains("modprobe nfs") && not_loaded.contains("--wait"));
        let without = said(&|f| drop(f.formats.remove("rpc_task_end")));
        assert!(without.contains("sunrpc:rpc_task_end") && without.contains(&facts.release));
    }
}

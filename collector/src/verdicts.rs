//! What a kernel offers, and what it lacks, in words.

use trackiops_schemas::ebpf::file_op_sums::FileOpOffsets;
use trackiops_schemas::ebpf::ring::CgroupOffsets;

use crate::facts::{KernelFacts, Lockdown, Tracefs};
use crate::plan::{Plan, PreemptedCalls, Programs, Unsupported};
use crate::stalls::rpc_tasks::RpcTasks;

/// A plan, or why there is none.
pub type Planned = Result<Plan, Unsupported>;

/// Each fact, whether it is good, and its value.
pub fn fact_states(facts: &KernelFacts) -> [(&'static str, bool, String); 8] {
    let yes_or = |yes: bool, no: &str| if yes { "yes" } else { no }.to_owned();
    [
        (
            "may use BPF",
            facts.may_use_bpf,
            yes_or(
                facts.may_use_bpf,
                "no: not root, and not CAP_BPF and CAP_PERFMON",
            ),
        ),
        ("BPF ring buffer", facts.ring_buffer, yes_or(facts.ring_buffer, "no")),
        (
            "lockdown",
            facts.lockdown != Lockdown::Confidentiality,
            match facts.lockdown {
                Lockdown::None => "none".to_owned(),
                Lockdown::Integrity => "integrity: no obstacle".to_owned(),
                Lockdown::Confidentiality => "confidentiality".to_owned(),
            },
        ),
        ("NFS client", facts.nfs_client, yes_or(facts.nfs_client, "not loaded")),
        (
            "tracefs",
            matches!(facts.tracefs, Tracefs::At(_)),
            match &facts.tracefs {
                Tracefs::At(path) => format!("at {}", path.display()),
                Tracefs::Denied(path) => format!("at {}, closed to this user", path.display()),
                Tracefs::NotMounted => "not mounted".to_owned(),
                Tracefs::NotBuilt => "not in this kernel".to_owned(),
            },
        ),
        (
            "BTF",
            facts.members.is_ok(),
            match &facts.members {
                Ok(_) => "readable".to_owned(),
                Err(why) => why.to_string(),
            },
        ),
        (
            "hung servers",
            matches!(facts.rpc_tasks, RpcTasks::At(_)),
            match &facts.rpc_tasks {
                RpcTasks::At(path) => format!("seen in {}", path.display()),
                RpcTasks::Denied => "not seen: debugfs is closed to this user".to_owned(),
                RpcTasks::NoDebugfs => "not seen: debugfs is not mounted; where the kernel has it, \
                    `mount -t debugfs debugfs /sys/kernel/debug` makes them visible, at once"
                    .to_owned(),
                RpcTasks::NotThere => {
                    "not seen: debugfs lists no RPC clients: sunrpc is not loaded, or built without CONFIG_SUNRPC_DEBUG"
                        .to_owned()
                }
            },
        ),
        (
            "mountstats",
            facts.mountstats,
            yes_or(
                facts.mountstats,
                "closed to this user: what is recorded cannot be compared with the kernel's counters",
            ),
        ),
    ]
}

/// What the block level offers.
pub fn block_verdict(planned: &Planned) -> String {
    let (offsets, cast) = match planned {
        Ok(Plan {
            programs: Programs::Direct { offsets, cast, .. },
            ..
        }) => (offsets, cast),
        Ok(_) => return "not possible".to_owned(),
        Err(why) => return format!("not possible: {why}"),
    };
    format!(
        "possible: one program per completed request; {}; {}; {}",
        match cast {
            Some(_) => "reads by loads",
            None => "reads by helper calls: no `bpf_rdonly_cast` (Linux 6.2) in the BTF",
        },
        match offsets.local.has_groups {
            0 =>
                "reports no cgroups: the kernel does not charge I/O to those that distinguish users",
            _ => "reports cgroups",
        },
        match planned.as_ref().is_ok_and(Plan::has_paths) {
            true => "gets the paths of files",
            false => "reports files by number: the BTF does not lead to their paths",
        },
    )
}

/// What the calls of applications offer.
pub fn app_verdict(planned: &Planned) -> String {
    let offsets = match planned {
        Ok(Plan {
            programs: Programs::Direct { offsets, .. },
            ..
        }) => offsets,
        Ok(_) => return "not possible".to_owned(),
        Err(why) => return format!("not possible: {why}"),
    };
    format!(
        "possible: one program per system call; {}; {}",
        match offsets.syscalls.ring_form {
            0 =>
                "does not see io_uring: the kernel does not report whose request completes (Linux 5.19)",
            _ => "sees io_uring",
        },
        match planned {
            Ok(Plan {
                preempted_calls: Some(_),
                ..
            }) => "counts those that it misses: this kernel preempts threads that run in it",
            _ => "each is counted once; what the kernel skips is in the health rows as missed",
        },
    )
}

/// What an engine offers.
pub fn engine_verdict(planned: &Planned) -> String {
    match planned {
        Ok(plan) => match &plan.programs {
            Programs::Direct {
                offsets,
                recovers,
                cast,
                ..
            } => format!(
                "possible: {}; {}; {}; {}; {}; {}",
                if *recovers {
                    "one program per completed request, and one at its release, because tracepoints can be preempted here"
                } else {
                    "one program per completed request"
                },
                if cast.is_some() {
                    "reads by loads"
                } else {
                    "reads by helper calls: no `bpf_rdonly_cast` (Linux 6.2) or types of tracepoints in the BTF"
                },
                if offsets.cgroup == CgroupOffsets::default() {
                    "reports users, but not cgroups: the BTF does not lead to them"
                } else {
                    "reports users and cgroups"
                },
                if plan.has_paths() {
                    "gets the paths of files"
                } else {
                    "looks for paths in /proc: the BTF does not lead to them"
                },
                match (plan.has_operations(), &offsets.file_operation) {
                    (false, _) =>
                        "records no operations but READ and WRITE: the BTF does not lead to them",
                    (true, FileOpOffsets { is_known: 0, .. }) =>
                        "records every operation, but not of which file it is: the BTF does not lead to it",
                    (true, _) => "records every operation, with its file",
                },
                match (plan.has_calls(), plan.preempted_calls) {
                    (false, _) =>
                        "counts no calls of applications: the BTF does not lead to them",
                    (true, Some(PreemptedCalls::MissesSome)) =>
                        "counts calls of applications with --app-view: the kernel would skip the programs for some",
                    (true, Some(PreemptedCalls::CostsMore)) =>
                        "counts calls of applications with --app-view: by probes, which cost more, because it preempts",
                    (true, None) => "counts calls of applications with --app-view",
                },
            ),
            Programs::Tracepoint(_) => {
                "possible: four programs per request; looks for paths in /proc; records no operations but READ and WRITE"
                    .to_owned()
            }
        },
        Err(why) => format!("not possible: {why}"),
    }
}

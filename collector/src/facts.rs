//! Gathers facts about this kernel and this process. It decides nothing: [`crate::plan`] does.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aya::maps::MapType;
use rustix::thread::{CapabilitySet, capabilities};

use crate::btf::{
    self, BtfError, CallFunctions, CastBtfIds, ForeignModule, KernelTypes, Members, RingCompletion,
};
use crate::names::mountinfo::io_cgroups_have_names;
use crate::plan::members::MEMBERS;
use crate::stalls::rpc_tasks::RpcTasks;

/// The tracepoints that the tracepoint engine attaches to: category and event.
pub const TRACEPOINTS: [(&str, &str); 6] = [
    ("nfs", "nfs_initiate_read"),
    ("nfs", "nfs_initiate_write"),
    ("sunrpc", "rpc_task_begin"),
    ("sunrpc", "rpc_task_end"),
    ("nfs", "nfs_readpage_done"),
    ("nfs", "nfs_writeback_done"),
];

/// Where tracefs is mounted, below the root: directly, or by debugfs.
const TRACEFS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// The state of tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracefs {
    /// Mounted and readable.
    At(PathBuf),
    /// Mounted, but this process may not read it.
    Denied(PathBuf),
    /// The kernel has it, but it is not mounted.
    NotMounted,
    /// The kernel has none.
    NotBuilt,
}

/// The lockdown mode of the kernel, which restricts even root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// No lockdown, or unknown: securityfs is not mounted everywhere.
    None,
    /// The kernel may be read, but not changed.
    Integrity,
    /// The kernel may not be read either.
    Confidentiality,
}

/// The facts that planning needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// `uname -r`.
    pub release: String,
    /// `CAP_BPF` and `CAP_PERFMON`, or `CAP_SYS_ADMIN`.
    pub may_use_bpf: bool,
    /// The tracefs that describes the tracepoints.
    pub tracefs: Tracefs,
    /// Whether a BPF ring buffer can be made (Linux 5.8).
    pub ring_buffer: bool,
    /// The lockdown mode.
    pub lockdown: Lockdown,
    /// Whether the NFS client is loaded or built in.
    pub nfs_client: bool,
    /// Contents of the `format` files of those [`TRACEPOINTS`] that exist, by event.
    pub formats: BTreeMap<String, Vec<u8>>,
    /// The [`MEMBERS`] that the kernel's BTF describes.
    pub members: Result<Members, BtfError>,
    /// Type numbers that programs need to read kernel memory by plain loads, if the kernel has them.
    pub cast: Option<CastBtfIds>,
    /// The functions by which applications read and write, if BTF describes them.
    pub calls: CallFunctions,
    /// The tracepoint on dirtied pages.
    pub dirty_event: &'static str,
    /// How the kernel reports the completion of an io_uring request, if it names the request.
    pub ring_completion: Option<RingCompletion>,
    /// The tracepoint on the submission of an io_uring request, if it names the request.
    pub ring_submission: Option<&'static str>,
    /// The bit in a page's flags that marks the first of several pages, if BTF describes it.
    pub page_head_bit: Option<u32>,
    /// A module of the NFS client whose structures are unknown.
    pub foreign: Option<ForeignModule>,
    /// Whether the kernel may preempt a program; it then skips the program for other events on that CPU.
    pub preempts: bool,
    /// Where the kernel lists requests that have not completed.
    pub rpc_tasks: RpcTasks,
    /// Whether the kernel's counters of NFS mounts may be read.
    pub mountstats: bool,
    /// Whether I/O is charged to the cgroups that distinguish users: not if version 1 has the controller of I/O or memory.
    pub io_cgroups: bool,
}

impl KernelFacts {
    /// Looks at the running kernel.
    pub fn gather() -> Self {
        let may_use_bpf = may_use_bpf();
        Self {
            may_use_bpf,
            // If the probe itself fails, loading will show the problem.
            ring_buffer: !may_use_bpf
                || aya::sys::is_map_supported(MapType::RingBuf).unwrap_or(true),
            ..Self::read_in(Path::new("/"))
        }
    }

    /// The same facts, but with the BTF of a file instead of the kernel's own.
    pub fn with_btf(self, file: &Path) -> Result<Self, BtfError> {
        let members = btf::read_file(file, &MEMBERS)?;
        Ok(Self {
            members: Ok(members),
            cast: None,
            calls: CallFunctions::default(),
            ring_completion: None,
            ring_submission: None,
            foreign: None,
            ..self
        })
    }

    /// Reads the kernel's files below `root`: "/" for the running kernel, or a directory with the
    /// saved files of another one. Capabilities and map types are in no file, and are assumed to be
    /// available.
    pub fn read_in(root: &Path) -> Self {
        let tracefs = find_tracefs(root);
        let formats = match &tracefs {
            Tracefs::At(path) => read_formats(path),
            _ => BTreeMap::new(),
        };
        let types = btf::read_kernel(root, &MEMBERS);
        let (types, unknown) = match types {
            Ok(types) => (types, None),
            Err(why) => (KernelTypes::default(), Some(why)),
        };
        Self {
            release: read_release(root),
            may_use_bpf: true,
            tracefs,
            ring_buffer: true,
            lockdown: read_lockdown(root),
            nfs_client: knows_file_system(root, "nfs"),
            formats,
            members: unknown.map_or(Ok(types.members), Err),
            cast: types.cast,
            calls: types.calls,
            dirty_event: types.dirty_event,
            ring_completion: types.ring_completion,
            ring_submission: types.ring_submission,
            page_head_bit: types.page_head_bit,
            foreign: types.foreign,
            preempts: preempts(root),
            rpc_tasks: RpcTasks::find(root),
            mountstats: File::open(root.join("proc/self/mountstats")).is_ok(),
            io_cgroups: io_cgroups_have_names(
                &fs::read(root.join("proc/self/mountinfo")).unwrap_or_default(),
            ),
        }
    }

    /// Whether the NFS client is loaded or built in. Cheap enough to call ten times a second.
    pub fn nfs_client_is_loaded() -> bool {
        knows_file_system(Path::new("/"), "nfs")
    }
}

/// `uname -r`, from its file.
fn read_release(root: &Path) -> String {
    fs::read_to_string(root.join("proc/sys/kernel/osrelease"))
        .map_or_else(|_| "of unknown release".into(), |text| text.trim().into())
}

/// Whether the kernel preempts threads that run in it: by its build, unless the command line or
/// a later setting changes that.
fn preempts(root: &Path) -> bool {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    // `none voluntary (full) lazy`: the one in force is in parentheses.
    let now = read("sys/kernel/debug/sched/preempt");
    let now = now.split(['(', ')']).nth(1);
    let booted = read("proc/cmdline");
    let booted = booted.split_whitespace();
    let booted = booted
        .filter_map(|word| word.strip_prefix("preempt="))
        .next_back();
    if let Some(model) = now.or(booted) {
        return !matches!(model, "none" | "voluntary");
    }
    let version = read("proc/sys/kernel/version");
    let mut built = version
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("PREEMPT"));
    match built.next() {
        None => false,
        // Before Linux 7.0, distributions built it for voluntary preemption.
        Some("_DYNAMIC") => {
            let release = read_release(root);
            let major = release
                .split('.')
                .next()
                .and_then(|major| major.parse().ok());
            major.is_none_or(|major: u32| major >= 7)
        }
        Some(_) => true,
    }
}

fn may_use_bpf() -> bool {
    capabilities(None).is_ok_and(|sets| {
        let held = sets.effective;
        held.contains(CapabilitySet::SYS_ADMIN)
            || held.contains(CapabilitySet::BPF | CapabilitySet::PERFMON)
    })
}

fn find_tracefs(root: &Path) -> Tracefs {
    let mut denied = None;
    for path in TRACEFS.map(|path| root.join(path)) {
        match fs::read_dir(path.join("events")) {
            Ok(_) => return Tracefs::At(path),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => denied = denied.or(Some(path)),
            Err(_) => {}
        }
    }
    match denied {
        Some(path) => Tracefs::Denied(path),
        None if knows_file_system(root, "tracefs") => Tracefs::NotMounted,
        None => Tracefs::NotBuilt,
    }
}

/// Whether a file system of this type can be mounted without loading a module.
fn knows_file_system(root: &Path, name: &str) -> bool {
    // `nodev\tnfs`, or without the first word.
    fs::read_to_string(root.join("proc/filesystems"))
        .unwrap_or_default()
        .lines()
        .any(|line| line.split_whitespace().next_back() == Some(name))
}

/// Reads `none [integrity] confidentiality`: the one in force is in brackets.
fn read_lockdown(root: &Path) -> Lockdown {
    let text = fs::read_to_string(root.join("sys/kernel/security/lockdown")).unwrap_or_default();
    if text.contains("[confidentiality]") {
        Lockdown::Confidentiality
    } else if text.contains("[integrity]") {
        Lockdown::Integrity
    } else {
        Lockdown::None
    }
}

fn read_formats(tracefs: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |(category, event): (&str, &str)| {
        let path = tracefs
            .join("events")
            .join(category)
            .join(event)
            .join("format");
        fs::read(path).ok().map(|text| (event.to_owned(), text))
    };
    TRACEPOINTS.into_iter().filter_map(read).collect()
}

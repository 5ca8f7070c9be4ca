//! What this kernel and this process can do. Gathering facts decides nothing: [`crate::plan`] does.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use aya::maps::MapType;
use rustix::thread::{CapabilitySet, capabilities};

/// The tracepoints that the tracepoint engine attaches to: category and event.
pub const TRACEPOINTS: [(&str, &str); 6] = [
    ("nfs", "nfs_initiate_read"),
    ("nfs", "nfs_initiate_write"),
    ("sunrpc", "rpc_task_begin"),
    ("sunrpc", "rpc_task_end"),
    ("nfs", "nfs_readpage_done"),
    ("nfs", "nfs_writeback_done"),
];

/// Where tracefs is mounted: directly, or by debugfs.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// What could be seen of tracefs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tracefs {
    /// Mounted and readable.
    At(PathBuf),
    /// There, but not for this process.
    Denied(PathBuf),
    /// The kernel has it, but it is not mounted.
    NotMounted,
    /// The kernel has none.
    NotBuilt,
}

/// How far the kernel keeps even root from its inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockdown {
    /// Not at all, or not known: securityfs is not mounted everywhere.
    None,
    /// It may be looked at, but not changed.
    Integrity,
    /// Nor looked at.
    Confidentiality,
}

/// What planning needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// `uname -r`.
    pub release: String,
    /// `CAP_BPF` and `CAP_PERFMON`, or `CAP_SYS_ADMIN`.
    pub may_use_bpf: bool,
    /// Where the tracepoints are described.
    pub tracefs: Tracefs,
    /// Whether a BPF ring buffer can be made (Linux 5.8).
    pub ring_buffer: bool,
    /// What `lockdown` says.
    pub lockdown: Lockdown,
    /// Whether the NFS client is loaded or built in.
    pub nfs_client: bool,
    /// Contents of the `format` files of those [`TRACEPOINTS`] that exist, by event.
    pub formats: BTreeMap<String, Vec<u8>>,
}

impl KernelFacts {
    /// Looks at the running kernel.
    pub fn gather() -> Self {
        let may_use_bpf = may_use_bpf();
        let tracefs = find_tracefs();
        let formats = match &tracefs {
            Tracefs::At(root) => read_formats(root),
            _ => BTreeMap::new(),
        };
        Self {
            release: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            may_use_bpf,
            tracefs,
            // A probe that fails otherwise than by saying no leaves the answer to loading.
            ring_buffer: !may_use_bpf
                || aya::sys::is_map_supported(MapType::RingBuf).unwrap_or(true),
            lockdown: lockdown(),
            nfs_client: Self::nfs_client_is_loaded(),
            formats,
        }
    }

    /// Whether the NFS client is loaded or built in. Cheap enough to be asked ten times a second.
    pub fn nfs_client_is_loaded() -> bool {
        knows_file_system("nfs")
    }
}

fn may_use_bpf() -> bool {
    capabilities(None).is_ok_and(|sets| {
        let held = sets.effective;
        held.contains(CapabilitySet::SYS_ADMIN)
            || held.contains(CapabilitySet::BPF | CapabilitySet::PERFMON)
    })
}

fn find_tracefs() -> Tracefs {
    let mut denied = None;
    for root in TRACEFS {
        match fs::read_dir(Path::new(root).join("events")) {
            Ok(_) => return Tracefs::At(root.into()),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => denied = denied.or(Some(root)),
            Err(_) => {}
        }
    }
    match denied {
        Some(root) => Tracefs::Denied(root.into()),
        None if knows_file_system("tracefs") => Tracefs::NotMounted,
        None => Tracefs::NotBuilt,
    }
}

/// Whether a file system of this type can be mounted without loading a module.
fn knows_file_system(name: &str) -> bool {
    // `nodev\tnfs`, or without the first word.
    fs::read_to_string("/proc/filesystems")
        .unwrap_or_default()
        .lines()
        .any(|line| line.split_whitespace().next_back() == Some(name))
}

/// Reads `none [integrity] confidentiality`: the one in force stands in brackets.
fn lockdown() -> Lockdown {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if text.contains("[confidentiality]") {
        Lockdown::Confidentiality
    } else if text.contains("[integrity]") {
        Lockdown::Integrity
    } else {
        Lockdown::None
    }
}

fn read_formats(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |(category, event): (&str, &str)| {
        let path = root
            .join("events")
            .join(category)
            .join(event)
            .join("format");
        fs::read(path).ok().map(|text| (event.to_owned(), text))
    };
    TRACEPOINTS.into_iter().filter_map(read).collect()
}

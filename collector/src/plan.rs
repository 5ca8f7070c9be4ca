//! From kernel facts to what will be loaded: a pure function, so that it can be tested with the
//! facts of kernels that are not running.

use std::path::PathBuf;

use trackiops_schemas::ring::{DoneOffsets, InitiateOffsets, TaskOffsets, TracepointOffsets};

use crate::facts::{KernelFacts, Lockdown, TRACEPOINTS, Tracefs};
use crate::format::Format;

/// What the loader executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where the programs find the tracepoints' fields.
    pub offsets: TracepointOffsets,
}

/// Why this kernel or this process cannot record, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// Neither root nor the capabilities.
    #[error(
        "recording needs root (or the capabilities CAP_BPF and CAP_PERFMON, and read access to tracefs): \
         run it with sudo"
    )]
    Privileges,
    /// Locked down so far that not even root may look into the kernel.
    #[error(
        "the kernel is locked down (lockdown=confidentiality), which forbids BPF to read its memory: \
         boot it with lockdown=integrity or without lockdown"
    )]
    LockedDown,
    /// tracefs is there, but closed.
    #[error("tracefs at {} may not be read by this user: run trackiops as root", .0.display())]
    TracefsDenied(PathBuf),
    /// tracefs is not mounted.
    #[error("tracefs is not mounted: run `mount -t tracefs tracefs /sys/kernel/tracing`")]
    NoTracefs,
    /// There is no tracefs to mount.
    #[error(
        "Linux {0} was built without event tracing (CONFIG_FTRACE), which trackiops needs: \
         boot a kernel that has it"
    )]
    NoTracing(String),
    /// The NFS client is not there. The only thing that can be waited for.
    #[error(
        "the NFS client is not loaded: mount an NFS file system, run `modprobe nfs`, \
         or let trackiops wait for it with --wait"
    )]
    NfsNotLoaded,
    /// The NFS client is there without its tracepoints.
    #[error(
        "Linux {release} has no tracepoint `{category}:{event}`, which trackiops needs: \
         boot a kernel that has it (Linux 5.8 or newer with event tracing)"
    )]
    NoTracepoint {
        /// `uname -r`.
        release: String,
        /// The tracepoint's category.
        category: &'static str,
        /// The tracepoint.
        event: &'static str,
    },
    /// The kernel is older than 5.8.
    #[error("Linux {0} has no BPF ring buffer: trackiops needs Linux 5.8 or newer")]
    NoRingBuffer(String),
    /// A tracepoint lacks a field.
    #[error(
        "Linux {release} describes the tracepoint `{event}` without a usable field `{field}` of {size} bytes"
    )]
    Field {
        /// `uname -r`.
        release: String,
        /// The tracepoint.
        event: &'static str,
        /// The missing field.
        field: &'static str,
        /// The size that it should have.
        size: u32,
    },
}

/// Decides what to load, or says what is missing: the first thing that a user has to act on.
pub fn plan(facts: &KernelFacts) -> Result<Plan, Unsupported> {
    if !facts.may_use_bpf {
        return Err(Unsupported::Privileges);
    }
    if !facts.ring_buffer {
        return Err(Unsupported::NoRingBuffer(facts.release.clone()));
    }
    if facts.lockdown == Lockdown::Confidentiality {
        return Err(Unsupported::LockedDown);
    }
    match &facts.tracefs {
        Tracefs::At(_) => {}
        Tracefs::Denied(path) => return Err(Unsupported::TracefsDenied(path.clone())),
        Tracefs::NotMounted => return Err(Unsupported::NoTracefs),
        Tracefs::NotBuilt => return Err(Unsupported::NoTracing(facts.release.clone())),
    }
    if !facts.nfs_client {
        return Err(Unsupported::NfsNotLoaded);
    }
    for (category, event) in TRACEPOINTS {
        if !facts.formats.contains_key(event) {
            return Err(Unsupported::NoTracepoint {
                release: facts.release.clone(),
                category,
                event,
            });
        }
    }
    let offsets = TracepointOffsets {
        initiate_read: initiate(facts, "nfs_initiate_read")?,
        initiate_write: initiate(facts, "nfs_initiate_write")?,
        task_begin: task(facts, "rpc_task_begin")?,
        task_end: task(facts, "rpc_task_end")?,
        read_done: done(facts, "nfs_readpage_done", true)?,
        write_done: done(facts, "nfs_writeback_done", false)?,
    };
    Ok(Plan { offsets })
}

/// One tracepoint's fields, with what an error has to say.
struct Event<'a> {
    release: &'a str,
    event: &'static str,
    format: Format,
}

impl<'a> Event<'a> {
    fn of(facts: &'a KernelFacts, event: &'static str) -> Self {
        let text = facts.formats.get(event).map_or(&[][..], Vec::as_slice);
        Self {
            release: &facts.release,
            event,
            format: Format::parse(text),
        }
    }

    /// The offset of the first of `names` that exists. Another size than the programs read would
    /// be misread, so it counts as missing.
    fn offset(&self, names: &[&'static str], size: u32) -> Result<u32, Unsupported> {
        let found = names.iter().find_map(|name| self.format.field(name));
        match found {
            Some(field) if field.size == size => Ok(field.offset),
            _ => Err(Unsupported::Field {
                release: self.release.to_owned(),
                event: self.event,
                field: names.first().copied().unwrap_or_default(),
                size,
            }),
        }
    }
}

fn initiate(facts: &KernelFacts, event: &'static str) -> Result<InitiateOffsets, Unsupported> {
    let event = Event::of(facts, event);
    Ok(InitiateOffsets {
        dev: event.offset(&["dev"], 4)?,
        fileid: event.offset(&["fileid"], 8)?,
    })
}

fn task(facts: &KernelFacts, event: &'static str) -> Result<TaskOffsets, Unsupported> {
    let event = Event::of(facts, event);
    Ok(TaskOffsets {
        task_id: event.offset(&["task_id"], 4)?,
        client_id: event.offset(&["client_id"], 4)?,
    })
}

fn done(
    facts: &KernelFacts,
    event: &'static str,
    has_eof: bool,
) -> Result<DoneOffsets, Unsupported> {
    let event = Event::of(facts, event);
    Ok(DoneOffsets {
        dev: event.offset(&["dev"], 4)?,
        fhandle: event.offset(&["fhandle"], 4)?,
        fileid: event.offset(&["fileid"], 8)?,
        offset: event.offset(&["offset"], 8)?,
        arg_count: event.offset(&["arg_count"], 4)?,
        res_count: event.offset(&["res_count"], 4)?,
        // Renamed from `status` in 5.15.
        error: event.offset(&["error", "status"], 4)?,
        eof: if has_eof {
            event.offset(&["eof"], 1)?
        } else {
            0
        },
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_missing_is_said_with_the_next_step() {
        let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels/6.12");
        let facts = KernelFacts::read_in(&kernel);
        let said = |change: &dyn Fn(&mut KernelFacts)| {
            let mut f = facts.clone();
            change(&mut f);
            plan(&f).unwrap_err().to_string()
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

//! Offsets of the tracepoint fields that the tracepoint engine reads.

use trackiops_schemas::ebpf::ring::{DoneOffsets, InitiateOffsets, TaskOffsets, TracepointOffsets};

use crate::facts::{KernelFacts, TRACEPOINTS, Tracefs};
use crate::plan::unsupported::Unsupported;
use crate::tracefs::TracepointFormat;

/// The offsets in this kernel, or which field is missing.
pub fn tracepoint_offsets(facts: &KernelFacts) -> Result<TracepointOffsets, Unsupported> {
    match &facts.tracefs {
        Tracefs::At(_) => {}
        Tracefs::Denied(path) => return Err(Unsupported::TracefsDenied(path.clone())),
        Tracefs::NotMounted => return Err(Unsupported::NoTracefs),
        Tracefs::NotBuilt => return Err(Unsupported::NoTracing(facts.release.clone())),
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
    Ok(TracepointOffsets {
        initiate_read: initiate(facts, "nfs_initiate_read")?,
        initiate_write: initiate(facts, "nfs_initiate_write")?,
        task_begin: task(facts, "rpc_task_begin")?,
        task_end: task(facts, "rpc_task_end")?,
        read_done: done(facts, "nfs_readpage_done", true)?,
        write_done: done(facts, "nfs_writeback_done", false)?,
    })
}

/// One tracepoint's fields, with what errors about them need.
struct TracepointFields<'a> {
    release: &'a str,
    event: &'static str,
    format: TracepointFormat,
}

impl<'a> TracepointFields<'a> {
    fn of(facts: &'a KernelFacts, event: &'static str) -> Self {
        let text = facts.formats.get(event).map_or(&[][..], Vec::as_slice);
        Self {
            release: &facts.release,
            event,
            format: TracepointFormat::parse(text),
        }
    }

    /// The offset of the first of `names` that exists. A field of another size than the programs
    /// read counts as missing.
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
    let event = TracepointFields::of(facts, event);
    Ok(InitiateOffsets {
        dev: event.offset(&["dev"], 4)?,
        fileid: event.offset(&["fileid"], 8)?,
    })
}

fn task(facts: &KernelFacts, event: &'static str) -> Result<TaskOffsets, Unsupported> {
    let event = TracepointFields::of(facts, event);
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
    let event = TracepointFields::of(facts, event);
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

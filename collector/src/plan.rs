//! From kernel facts to what will be loaded: a pure function, so that it can be tested with the
//! facts of kernels that are not running.

use std::path::PathBuf;

use trackiops_schemas::file_op_sums::FileOpOffsets;
use trackiops_schemas::op_sums::{OpOffsets, op_flags};
use trackiops_schemas::ring::{
    CgroupOffsets, DirectOffsets, DoneOffsets, InitiateOffsets, NameOffsets, TaskOffsets,
    TracepointOffsets, TreeOffsets, cgroups,
};

use crate::btf::{BtfError, Cast, Members};
use crate::facts::{KernelFacts, Lockdown, TRACEPOINTS, Tracefs};
use crate::tracefs::Format;

/// Texts that describe a connection (`enum rpc_display_format_t`, include/linux/sunrpc/xprt.h).
const ADDRESS_STRINGS: u32 = 6;
/// Which of them is the protocol (`RPC_DISPLAY_PROTO`); the first is the address of the server.
const PROTOCOL_STRING: u32 = 2;

/// How requests are observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Directly if the kernel has what it takes, else by tracepoints.
    #[default]
    Auto,
    /// From the request's own structures, when it completes.
    Direct,
    /// By following the request through classic tracepoints.
    Tracepoint,
}

/// Which programs to load, and what they have to know of this kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programs {
    /// The direct engine.
    Direct {
        /// Where the members stand.
        offsets: Box<DirectOffsets>,
        /// Whether a second program makes up for runs of the first that the kernel skips.
        tandem: bool,
        /// How programs load from the kernel's memory; without it they call a helper for each read.
        cast: Option<Cast>,
    },
    /// The tracepoint engine.
    Tracepoint(TracepointOffsets),
}

/// What the loader executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to load.
    pub programs: Programs,
    /// Why the direct engine was not taken, where it was left open.
    pub fallback: Option<Unsupported>,
}

impl Plan {
    /// Whether operations are recorded, not only requests for files.
    pub fn has_operations(&self) -> bool {
        match &self.programs {
            Programs::Direct { offsets, .. } => offsets.operation != OpOffsets::default(),
            Programs::Tracepoint(_) => false,
        }
    }

    /// Whether the kernel tells the paths of files, which are looked for in `/proc` else.
    pub fn has_paths(&self) -> bool {
        match &self.programs {
            Programs::Direct { offsets, .. } => offsets.name != NameOffsets::default(),
            Programs::Tracepoint(_) => false,
        }
    }

    /// Leaves operations out.
    pub fn without_operations(mut self) -> Self {
        if let Programs::Direct { offsets, .. } = &mut self.programs {
            offsets.operation = OpOffsets::default();
            offsets.file_operation = FileOpOffsets::default();
        }
        self
    }
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
    /// Nothing describes the kernel's types.
    #[error(
        "{0}, and the direct engine needs it: \
         name a file that has this kernel's BTF with --btf, or use --engine tracepoint"
    )]
    NoBtf(BtfError),
    /// A type is in no BTF.
    #[error(
        "no BTF of Linux {release} has `struct {structure}`, which the direct engine needs: \
         name a file that has it with --btf, or use --engine tracepoint"
    )]
    NoType {
        /// `uname -r`.
        release: String,
        /// The structure.
        structure: &'static str,
    },
    /// A type lacks a member.
    #[error(
        "Linux {release} has a `struct {structure}` without a usable member `{member}`, \
         which the direct engine needs: use --engine tracepoint"
    )]
    NoMember {
        /// `uname -r`.
        release: String,
        /// The structure.
        structure: &'static str,
        /// The member.
        member: &'static str,
    },
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
pub fn plan(facts: &KernelFacts, choice: Choice) -> Result<Plan, Unsupported> {
    if !facts.may_use_bpf {
        return Err(Unsupported::Privileges);
    }
    if !facts.ring_buffer {
        return Err(Unsupported::NoRingBuffer(facts.release.clone()));
    }
    if facts.lockdown == Lockdown::Confidentiality {
        return Err(Unsupported::LockedDown);
    }
    if !facts.nfs_client {
        return Err(Unsupported::NfsNotLoaded);
    }
    let (programs, fallback) = match choice {
        Choice::Direct => (direct(facts)?, None),
        Choice::Tracepoint => (Programs::Tracepoint(tracepoints(facts)?), None),
        Choice::Auto => match direct(facts) {
            Ok(programs) => (programs, None),
            Err(why) => (Programs::Tracepoint(tracepoints(facts)?), Some(why)),
        },
    };
    Ok(Plan { programs, fallback })
}

fn direct(facts: &KernelFacts) -> Result<Programs, Unsupported> {
    let members = facts.members.as_ref();
    let members = members.map_err(|why| Unsupported::NoBtf(why.clone()))?;
    let offset = |structure: &'static str, member: &'static str, sizes: &[u32]| {
        let release = facts.release.clone();
        match members.get(&(structure, member)) {
            Some(found) if sizes.contains(&found.size) => Ok(found.offset),
            None if !members.keys().any(|(known, _)| *known == structure) => {
                Err(Unsupported::NoType { release, structure })
            }
            _ => Err(Unsupported::NoMember {
                release,
                structure,
                member,
            }),
        }
    };
    let task_start = offset("rpc_task", "tk_start", &[8])?;
    let header_handle = offset("nfs_pgio_header", "args.fh", &[8])?;
    let header_done = offset("nfs_pgio_header", "res.count", &[4, 8])?;
    let inode_superblock = offset("inode", "i_sb", &[8])?;
    let transmission_rtt = offset("rpc_rqst", "rq_rtt", &[8])?;
    let inode_number = offset("inode", "i_ino", &[8])?;
    let offsets = DirectOffsets {
        task_window: task_start,
        task_start,
        task_owner: offset("rpc_task", "tk_owner", &[4])?,
        header_inode: offset("nfs_pgio_header", "inode", &[8])?,
        header_status: offset("nfs_pgio_header", "task.tk_status", &[4])?,
        arguments_window: header_handle,
        result_window: header_done,
        header_handle,
        header_offset: offset("nfs_pgio_header", "args.offset", &[8])?,
        header_asked: offset("nfs_pgio_header", "args.count", &[4])?,
        header_done,
        header_eof: offset("nfs_pgio_header", "res.eof", &[1, 4])?,
        inode_window: inode_superblock.min(inode_number),
        inode_superblock,
        inode_number,
        superblock_dev: offset("super_block", "s_dev", &[4])?,
        header_cred: offset("nfs_pgio_header", "cred", &[8])?,
        cred_uid: offset("cred", "fsuid", &[4])?,
        header_direct: offset("nfs_pgio_header", "dreq", &[8])?,
        header_stable: offset("nfs_pgio_header", "args.stable", &[4])?,
        task_transmission: offset("rpc_task", "tk_rqstp", &[8])?,
        transmission_window: transmission_rtt,
        transmission_rtt,
        transmission_sent: offset("rpc_rqst", "rq_xtime", &[8])?,
        transmission_count: offset("rpc_rqst", "rq_ntrans", &[4])?,
        transmission_xid: offset("rpc_rqst", "rq_xid", &[4])?,
        tree: tree(members).unwrap_or_default(),
        cgroup: cgroup(members).unwrap_or_default(),
        operation: operation(members).unwrap_or_default(),
        file_operation: file_operation(members).unwrap_or_default(),
        name: name(members).unwrap_or_default(),
    };
    Ok(Programs::Direct {
        offsets: Box::new(offsets),
        tandem: tracepoints_may_be_preempted(&facts.release),
        cast: facts.cast,
    })
}

/// The way to a file's directories, if all of it is known.
fn tree(members: &Members) -> Option<TreeOffsets> {
    Some(TreeOffsets {
        header_context: pointer(members, "nfs_pgio_header", "args.context")?,
        context_entry: pointer(members, "nfs_open_context", "dentry")?,
        entry_parent: pointer(members, "dentry", "d_parent")?,
        entry_inode: pointer(members, "dentry", "d_inode")?,
    })
}

/// What a name consists of, if all of it and the way to the directories are known.
fn name(members: &Members) -> Option<NameOffsets> {
    tree(members)?;
    Some(NameOffsets {
        entry_hash: pointer(members, "dentry", "d_name.hash_len")?,
        entry_name: pointer(members, "dentry", "d_name.name")?,
        entry_data: pointer(members, "dentry", "d_fsdata")?,
    })
}

/// The offset of a member of 8 bytes.
fn pointer(members: &Members, structure: &'static str, member: &'static str) -> Option<u32> {
    let found = members.get(&(structure, member))?;
    (found.size == 8).then_some(found.offset)
}

/// The way to a request's cgroup, if all of it is known.
fn cgroup(members: &Members) -> Option<CgroupOffsets> {
    let offset = |structure, member| pointer(members, structure, member);
    let head = offset("page", "compound_head").or_else(|| offset("page", "compound_info"));
    // With this member came that all pages are charged through it.
    let by_object = members.contains_key(&("obj_cgroup", "is_root"));
    Some(CgroupOffsets {
        way: cgroups::KNOWN | if by_object { cgroups::BY_OBJECT } else { 0 },
        header_request: offset("nfs_pgio_header", "req")?,
        request_page: offset("nfs_page", "wb_page")?,
        page_head: head?,
        page_owner: offset("page", "memcg_data")?,
        object_owner: offset("obj_cgroup", "memcg")?,
        owner_cgroup: offset("mem_cgroup", "css.cgroup")?,
        cgroup_node: offset("cgroup", "kn")?,
        node_id: offset("kernfs_node", "id")?,
    })
}

/// What an RPC consists of, if all of it is known.
fn operation(members: &Members) -> Option<OpOffsets> {
    let offset = |structure, member, size| {
        let found = members.get(&(structure, member))?;
        (found.size == size).then_some(found.offset)
    };
    let procedure = offset("rpc_task", "tk_msg.rpc_proc", 8)?;
    let sent = offset("rpc_rqst", "rq_xmit_bytes_sent", 8)?;
    let received = offset("rpc_rqst", "rq_reply_bytes_recvd", 8)?;
    let number = offset("rpc_xprt", "id", 4);
    let texts = offset("rpc_xprt", "address_strings", 8 * ADDRESS_STRINGS)?;
    Some(OpOffsets {
        flags: op_flags::KNOWN | number.map_or(0, |_| op_flags::NUMBERED),
        task_window: procedure,
        task_procedure: procedure,
        task_client: offset("rpc_task", "tk_client", 8)?,
        task_transport: offset("rpc_task", "tk_xprt", 8)?,
        task_status: offset("rpc_task", "tk_status", 4)?,
        bytes_window: sent.min(received),
        sent_bytes: sent,
        received_bytes: received,
        client_number: offset("rpc_clnt", "cl_clid", 4)?,
        client_program: offset("rpc_clnt", "cl_prog", 4)?,
        client_version: offset("rpc_clnt", "cl_vers", 4)?,
        procedure_index: offset("rpc_procinfo", "p_statidx", 4)?,
        procedure_name: offset("rpc_procinfo", "p_name", 8)?,
        transport_number: number.unwrap_or(0),
        transport_address: texts,
        transport_protocol: texts + 8 * PROTOCOL_STRING,
    })
}

/// What leads from an RPC to the file that it is about, if it is known. How far an inode is from its handle may be left to be learned, as
/// kernels without BTF of their modules do not tell it, and the user to be told for some RPCs only.
fn file_operation(members: &Members) -> Option<FileOpOffsets> {
    let at = |structure, member| Some(members.get(&(structure, member))?.offset);
    let of = |structure, member| pointer(members, structure, member);
    let cred = of("rpc_rqst", "rq_cred").zip(of("rpc_cred", "cr_cred"));
    let (transmission_cred, rpc_cred_owner) = cred.unwrap_or_default();
    let arguments = at("nfs_pgio_header", "args")?;
    let inode = at("nfs_inode", "vfs_inode").zip(at("nfs_inode", "fh"));
    let flags = members.get(&("rpc_task", "tk_flags"))?;
    let (inode_mode, inode_entries, entry_alias) = directory(members).unwrap_or_default();
    Some(FileOpOffsets {
        is_known: 1,
        task_arguments: of("rpc_task", "tk_msg.rpc_argp")?,
        task_cred: of("rpc_task", "tk_msg.rpc_cred")?,
        task_flags: (flags.size == 2).then_some(flags.offset)?,
        transmission_cred,
        rpc_cred_owner,
        arguments_handle: of("nfs_pgio_header", "args.fh")?.checked_sub(arguments)?,
        handle_inode: match inode {
            Some((inode, handle)) => inode.checked_sub(handle)?,
            None => 0,
        },
        inode_host: of("inode", "i_data.host")?,
        superblock_magic: of("super_block", "s_magic")?,
        inode_mode,
        inode_entries,
        entry_alias,
    })
}

/// What tells that an inode is a directory and leads to its only name, if the rest of its path can be read as well.
fn directory(members: &Members) -> Option<(u32, u32, u32)> {
    name(members)?;
    let at = |member| Some(members.get(&("dentry", member))?.offset);
    let mode = members.get(&("inode", "i_mode"))?;
    Some((
        (mode.size == 2).then_some(mode.offset)?,
        pointer(members, "inode", "i_dentry.first")?,
        // Its union has no name since Linux 7.0.
        at("d_alias").or_else(|| at("d_u.d_alias"))?,
    ))
}

/// From Linux 6.19 on tracepoints are guarded by SRCU instead of by disabling preemption.
fn tracepoints_may_be_preempted(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (6_u32, 19_u32),
        // A second program too many costs little, one too few costs requests.
        _ => true,
    }
}

fn tracepoints(facts: &KernelFacts) -> Result<TracepointOffsets, Unsupported> {
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
            plan(&f, Choice::Tracepoint).unwrap_err().to_string()
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

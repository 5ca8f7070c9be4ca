//! Offsets of the structure members that the direct engine reads.

use trackiops_schemas::ebpf::app_sums::{AppOffsets, registers};
use trackiops_schemas::ebpf::block::BlockOffsets;
use trackiops_schemas::ebpf::cache::CacheOffsets;
use trackiops_schemas::ebpf::file_op_sums::FileOpOffsets;
use trackiops_schemas::ebpf::local::LocalOffsets;
use trackiops_schemas::ebpf::op_sums::{OpOffsets, op_flags};
use trackiops_schemas::ebpf::ring::{
    CgroupOffsets, DirectOffsets, NameOffsets, ReleaseOffsets, ThreadOffsets, TreeOffsets, cgroups,
};
use trackiops_schemas::ebpf::syscalls::SyscallOffsets;

use crate::btf::Members;
use crate::facts::KernelFacts;
use crate::plan::members::{find, find_held};
use crate::plan::unsupported::Unsupported;

/// Number of texts that describe a connection (`enum rpc_display_format_t`,
/// include/linux/sunrpc/xprt.h).
const ADDRESS_STRINGS: u32 = 6;
/// Index of the protocol among them (`RPC_DISPLAY_PROTO`). The first one is the server's address.
const PROTOCOL_STRING: u32 = 2;

/// The registers that hold the parameters of a function on this architecture, as bits of [`registers`].
pub const REGISTERS: u32 = if cfg!(target_arch = "x86_64") {
    registers::X86_64
} else {
    0
};

/// The offsets in this kernel, or which member is missing. Members for directories, cgroups,
/// operations and names are optional.
pub fn direct_offsets(facts: &KernelFacts) -> Result<DirectOffsets, Unsupported> {
    let members = facts.members.as_ref();
    let members = members.map_err(|why| Unsupported::NoBtf(why.clone()))?;
    if let Some(module) = &facts.foreign {
        return Err(Unsupported::ForeignModule(module.clone()));
    }
    let lacks = |structure: &'static str, member: &'static str| {
        let release = facts.release.clone();
        match members.keys().any(|(known, _)| *known == structure) {
            false => Unsupported::NoType { release, structure },
            true => Unsupported::NoMember {
                release,
                structure,
                member,
            },
        }
    };
    let offset = |structure, member, size| {
        let found = find(members, structure, member).filter(|found| found.size == size);
        found
            .map(|found| found.offset)
            .ok_or_else(|| lacks(structure, member))
    };
    let held = |structure, member, sizes: &[u32]| {
        find_held(members, structure, member, sizes).ok_or_else(|| lacks(structure, member))
    };
    let task_start = held("rpc_task", "tk_start", &[8])?;
    let header_handle = held("nfs_pgio_header", "args.fh", &[8])?;
    let header_done = held("nfs_pgio_header", "res.count", &[4, 8])?;
    let inode_superblock = offset("inode", "i_sb", 8)?;
    let transmission_rtt = offset("rpc_rqst", "rq_rtt", 8)?;
    let inode_number = offset("inode", "i_ino", 8)?;
    Ok(DirectOffsets {
        task_window: task_start.offset(),
        task_start,
        task_owner: held("rpc_task", "tk_owner", &[4])?,
        header_inode: held("nfs_pgio_header", "inode", &[8])?,
        header_status: held("nfs_pgio_header", "task.tk_status", &[4])?,
        arguments_window: header_handle.offset(),
        result_window: header_done.offset(),
        header_handle,
        header_offset: held("nfs_pgio_header", "args.offset", &[8])?,
        header_asked: held("nfs_pgio_header", "args.count", &[4])?,
        header_done,
        header_eof: held("nfs_pgio_header", "res.eof", &[1, 4])?,
        inode_window: inode_superblock.min(inode_number),
        inode_superblock,
        inode_number,
        superblock_dev: offset("super_block", "s_dev", 4)?,
        header_cred: held("nfs_pgio_header", "cred", &[8])?,
        cred_uid: held("cred", "fsuid", &[4])?,
        header_direct: held("nfs_pgio_header", "dreq", &[8])?,
        header_stable: held("nfs_pgio_header", "args.stable", &[4])?,
        task_transmission: held("rpc_task", "tk_rqstp", &[8])?,
        transmission_window: transmission_rtt,
        transmission_rtt,
        transmission_sent: offset("rpc_rqst", "rq_xtime", 8)?,
        transmission_count: offset("rpc_rqst", "rq_ntrans", 4)?,
        transmission_xid: offset("rpc_rqst", "rq_xid", 4)?,
        tree: tree(members).unwrap_or_default(),
        cgroup: cgroup(members).unwrap_or_default(),
        operation: operation(members).unwrap_or_default(),
        file_operation: file_operation(members).unwrap_or_default(),
        name: name(members).unwrap_or_default(),
        release: release(members).unwrap_or_default(),
        thread: thread(members).unwrap_or_default(),
        app: app(members).unwrap_or_default(),
        // Belong to other levels.
        block: BlockOffsets::default(),
        cache: CacheOffsets::default(),
        local: LocalOffsets::default(),
        syscalls: SyscallOffsets::default(),
    })
}

/// The way to a file's directories, if all of these members are known.
fn tree(members: &Members) -> Option<TreeOffsets> {
    Some(TreeOffsets {
        header_context: find_held(members, "nfs_pgio_header", "args.context", &[8])?,
        context_entry: pointer(members, "nfs_open_context", "dentry")?,
        entry_parent: pointer(members, "dentry", "d_parent")?,
        entry_inode: pointer(members, "dentry", "d_inode")?,
    })
}

/// The parts of a name, if all of these members and the members of [`tree`] are known.
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
    let found = find(members, structure, member)?;
    (found.size == 8).then_some(found.offset)
}

/// The way to a request's cgroup, if all of these members are known.
fn cgroup(members: &Members) -> Option<CgroupOffsets> {
    let offset = |structure, member| pointer(members, structure, member);
    let held = |structure, member| find_held(members, structure, member, &[8]);
    let head = offset("page", "compound_head").or_else(|| offset("page", "compound_info"));
    // Kernels with this member charge all pages through an `obj_cgroup`.
    let by_object = find(members, "obj_cgroup", "is_root").is_some();
    Some(CgroupOffsets {
        way: cgroups::KNOWN | if by_object { cgroups::BY_OBJECT } else { 0 },
        header_request: held("nfs_pgio_header", "req")?,
        request_page: offset("nfs_page", "wb_page")?,
        page_head: head?,
        page_owner: offset("page", "memcg_data")?,
        object_owner: offset("obj_cgroup", "memcg")?,
        owner_cgroup: offset("mem_cgroup", "css.cgroup")?,
        cgroup_node: held("cgroup", "kn")?,
        node_id: held("kernfs_node", "id")?,
    })
}

/// The way to a thread's user, if it is known. The way to its cgroup is optional.
pub fn thread(members: &Members) -> Option<ThreadOffsets> {
    let held = |structure, member| find_held(members, structure, member, &[8]);
    let task_cred = held("task_struct", "cred")?;
    let with_cgroup = || {
        Some(ThreadOffsets {
            task_cred,
            task_cgroups: held("task_struct", "cgroups")?,
            cgroups_own: held("css_set", "dfl_cgrp")?,
        })
    };
    Some(with_cgroup().unwrap_or(ThreadOffsets {
        task_cred,
        ..ThreadOffsets::default()
    }))
}

/// The members of an RPC that operations need, if all are known.
fn operation(members: &Members) -> Option<OpOffsets> {
    let offset = |structure, member, size| {
        let found = find(members, structure, member)?;
        (found.size == size).then_some(found.offset)
    };
    let held = |member, size| find_held(members, "rpc_task", member, &[size]);
    let procedure = held("tk_msg.rpc_proc", 8)?;
    let sent = offset("rpc_rqst", "rq_xmit_bytes_sent", 8)?;
    let received = offset("rpc_rqst", "rq_reply_bytes_recvd", 8)?;
    let number = offset("rpc_xprt", "id", 4);
    let texts = offset("rpc_xprt", "address_strings", 8 * ADDRESS_STRINGS)?;
    Some(OpOffsets {
        flags: op_flags::KNOWN | number.map_or(0, |_| op_flags::NUMBERED),
        task_window: procedure.offset(),
        task_procedure: procedure,
        task_client: held("tk_client", 8)?,
        task_transport: held("tk_xprt", 8)?,
        task_status: held("tk_status", 4)?,
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

/// The members that identify a READ or a WRITE when its RPC is released, if all are known.
fn release(members: &Members) -> Option<ReleaseOffsets> {
    let of = |structure, member| pointer(members, structure, member);
    let at = |structure, member| Some(find(members, structure, member)?.offset);
    let mode = find(members, "nfs_pgio_header", "rw_mode")?;
    let header_task = at("nfs_pgio_header", "task")?;
    // The task of a COMMIT is inside its data as well: an equal offset would make the two indistinguishable.
    if at("nfs_commit_data", "task") == Some(header_task) {
        return None;
    }
    Some(ReleaseOffsets {
        is_known: 1,
        task_action: of("rpc_task", "tk_action")?,
        task_data: of("rpc_task", "tk_calldata")?,
        task_arguments: of("rpc_task", "tk_msg.rpc_argp")?,
        header_task,
        header_arguments: at("nfs_pgio_header", "args")?,
        header_mode: (mode.size == 4).then_some(mode.offset)?,
        header_flags: of("nfs_pgio_header", "flags")?,
    })
}

/// The way from an RPC to its file, if it is known. Two members are optional. Kernels without
/// BTF of their modules do not describe `nfs_inode`: the programs then learn how far an inode is
/// from its handle. Without `rq_cred` and `cr_cred` only some RPCs have a user.
fn file_operation(members: &Members) -> Option<FileOpOffsets> {
    let at = |structure, member| Some(find(members, structure, member)?.offset);
    let of = |structure, member| pointer(members, structure, member);
    let cred = of("rpc_rqst", "rq_cred").zip(of("rpc_cred", "cr_cred"));
    let (transmission_cred, rpc_cred_owner) = cred.unwrap_or_default();
    let arguments = at("nfs_pgio_header", "args")?;
    let inode = at("nfs_inode", "vfs_inode").zip(at("nfs_inode", "fh"));
    let held = |member, size| find_held(members, "rpc_task", member, &[size]);
    let (inode_mode, inode_entries, entry_alias) = directory(members).unwrap_or_default();
    Some(FileOpOffsets {
        is_known: 1,
        task_arguments: held("tk_msg.rpc_argp", 8)?,
        task_cred: of("rpc_task", "tk_msg.rpc_cred")?,
        task_flags: held("tk_flags", 2)?,
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

/// The members that calls of applications need, if they are known. Their files are found like those
/// of operations.
pub fn app(members: &Members) -> Option<AppOffsets> {
    let of = |structure, member| pointer(members, structure, member);
    let flags = find(members, "kiocb", "ki_flags")?;
    Some(AppOffsets {
        is_known: 1,
        call_file: of("kiocb", "ki_filp")?,
        call_flags: (flags.size == 4).then_some(flags.offset)?,
        iterator_count: of("iov_iter", "count")?,
        file_inode: of("file", "f_inode")?,
        file_cred: of("file", "f_cred")?,
        file_entry: of("file", "f_path.dentry").unwrap_or(0),
        // Not members: the plan sets them.
        registers: 0,
        is_timed: 0,
    })
}

/// The members that identify a directory and lead to its only name, if [`name`] is known as
/// well.
fn directory(members: &Members) -> Option<(u32, u32, u32)> {
    name(members)?;
    let at = |member| Some(find(members, "dentry", member)?.offset);
    let mode = find(members, "inode", "i_mode")?;
    Some((
        (mode.size == 2).then_some(mode.offset)?,
        pointer(members, "inode", "i_dentry.first")?,
        // Its union has no name since Linux 7.0.
        at("d_alias").or_else(|| at("d_u.d_alias"))?,
    ))
}

//! The members of kernel structures that the direct engine reads. To read another one, add it to
//! [`MEMBERS`]; `direct_offsets` makes offsets of them.

use trackiops_schemas::ebpf::offsets::Held;

use crate::btf::{Member, MemberName, Members};
use crate::facts::KernelFacts;
use crate::plan::unsupported::Unsupported;

/// A structure and one of its members. Those from `args.context` on are optional: members for a
/// file's directories and name, a request's cgroup, operations and their files, the release of
/// RPCs, calls of applications, requests to block devices and pages of the cache. `direct_offsets`
/// and the modules of the levels say which of them are used together.
pub const MEMBERS: [MemberName; 148] = [
    ("rpc_task", "tk_start"),
    ("rpc_task", "tk_owner"),
    ("nfs_pgio_header", "inode"),
    ("nfs_pgio_header", "task.tk_status"),
    ("nfs_pgio_header", "args.fh"),
    ("nfs_pgio_header", "args.offset"),
    ("nfs_pgio_header", "args.count"),
    ("nfs_pgio_header", "res.count"),
    ("nfs_pgio_header", "res.eof"),
    ("inode", "i_sb"),
    ("inode", "i_ino"),
    ("super_block", "s_dev"),
    ("nfs_pgio_header", "cred"),
    ("cred", "fsuid"),
    ("nfs_pgio_header", "dreq"),
    ("nfs_pgio_header", "args.stable"),
    ("rpc_task", "tk_rqstp"),
    ("rpc_rqst", "rq_rtt"),
    ("rpc_rqst", "rq_xtime"),
    ("rpc_rqst", "rq_ntrans"),
    ("rpc_rqst", "rq_xid"),
    ("nfs_pgio_header", "args.context"),
    ("nfs_open_context", "dentry"),
    ("dentry", "d_parent"),
    ("dentry", "d_inode"),
    ("dentry", "d_name.hash_len"),
    ("dentry", "d_name.name"),
    ("dentry", "d_fsdata"),
    ("dentry", "d_alias"),
    ("dentry", "d_u.d_alias"),
    ("inode", "i_mode"),
    ("inode", "i_dentry.first"),
    ("nfs_pgio_header", "req"),
    ("nfs_page", "wb_page"),
    ("page", "compound_head"),
    ("page", "compound_info"),
    ("page", "memcg_data"),
    ("obj_cgroup", "memcg"),
    ("obj_cgroup", "is_root"),
    ("mem_cgroup", "css.cgroup"),
    ("cgroup", "kn"),
    ("kernfs_node", "id"),
    ("rpc_task", "tk_msg.rpc_proc"),
    ("rpc_task", "tk_client"),
    ("rpc_task", "tk_xprt"),
    ("rpc_task", "tk_status"),
    ("rpc_rqst", "rq_xmit_bytes_sent"),
    ("rpc_rqst", "rq_reply_bytes_recvd"),
    ("rpc_clnt", "cl_clid"),
    ("rpc_clnt", "cl_prog"),
    ("rpc_clnt", "cl_vers"),
    ("rpc_procinfo", "p_statidx"),
    ("rpc_procinfo", "p_name"),
    ("rpc_xprt", "address_strings"),
    ("rpc_xprt", "id"),
    ("rpc_task", "tk_msg.rpc_argp"),
    ("rpc_task", "tk_msg.rpc_cred"),
    ("rpc_task", "tk_flags"),
    ("rpc_rqst", "rq_cred"),
    ("rpc_cred", "cr_cred"),
    ("nfs_pgio_header", "args"),
    ("nfs_inode", "fh"),
    ("nfs_inode", "vfs_inode"),
    ("inode", "i_data.host"),
    ("super_block", "s_magic"),
    ("rpc_task", "tk_action"),
    ("rpc_task", "tk_calldata"),
    ("nfs_pgio_header", "task"),
    ("nfs_pgio_header", "rw_mode"),
    ("nfs_pgio_header", "flags"),
    ("nfs_commit_data", "task"),
    ("kiocb", "ki_filp"),
    ("kiocb", "ki_pos"),
    ("kiocb", "ki_flags"),
    ("iov_iter", "count"),
    ("file", "f_inode"),
    ("file", "f_cred"),
    ("file", "f_path.dentry"),
    ("request", "cmd_flags"),
    ("request", "part"),
    ("request", "__data_len"),
    ("request", "end_io"),
    ("request", "start_time_ns"),
    ("request", "io_start_time_ns"),
    ("request", "bio"),
    ("block_device", "bd_dev"),
    ("hd_struct", "__dev.devt"),
    ("request", "rq_disk"),
    ("block_device", "bd_disk"),
    ("super_block", "s_bdev"),
    ("gendisk", "queue"),
    ("gendisk", "disk_name"),
    ("request_queue", "mq_ops"),
    ("bio", "bi_next"),
    ("bio", "bi_iter.bi_size"),
    ("bio", "bi_iter.bi_idx"),
    ("bio", "bi_iter.bi_sector"),
    ("bio", "bi_flags"),
    ("bio", "bi_io_vec"),
    ("bio", "bi_private"),
    ("bio", "bi_blkg"),
    ("bio_vec", "bv_page"),
    ("bio_vec", "bv_offset"),
    ("page", "mapping"),
    ("address_space", "host"),
    ("inode", "i_generation"),
    ("super_block", "s_root"),
    ("iomap_dio", "iocb"),
    ("blkcg_gq", "blkcg"),
    ("blkcg", "css.cgroup"),
    ("page", "flags"),
    ("folio", "_nr_pages"),
    ("folio", "_folio_nr_pages"),
    ("inode", "i_rdev"),
    ("super_block", "s_type"),
    ("file_system_type", "fs_flags"),
    ("pt_regs", "orig_ax"),
    ("pt_regs", "di"),
    ("pt_regs", "r10"),
    ("pt_regs", "si"),
    ("pt_regs", "dx"),
    ("pt_regs", "syscallno"),
    ("pt_regs", "orig_x0"),
    ("pt_regs", "regs"),
    ("task_struct", "thread_info.status"),
    ("task_struct", "thread_info.flags"),
    ("task_struct", "files"),
    ("task_struct", "cred"),
    ("task_struct", "cgroups"),
    ("css_set", "dfl_cgrp"),
    ("files_struct", "fdt"),
    ("fdtable", "max_fds"),
    ("fdtable", "fd"),
    ("file", "f_flags"),
    ("file", "f_pos"),
    ("io_kiocb", "opcode"),
    ("io_kiocb", "file"),
    ("io_uring_cqe", "res"),
    // Structures themselves, for their sizes.
    ("rpc_task", ""),
    ("nfs_pgio_header", ""),
    ("request", ""),
    ("page", ""),
    ("pt_regs", ""),
    ("task_struct", ""),
    ("cred", ""),
    ("css_set", ""),
    ("cgroup", ""),
    ("kernfs_node", ""),
];

/// A structure whose members programs load without a fault handler, because the verifier trusts the pointer to it.
#[derive(Clone, Copy, Debug)]
pub struct HeldStructure {
    /// The verifier's name for it.
    pub name: &'static str,
    /// The structure that is certainly allocated at its address, which limits the valid loads.
    pub layout: &'static str,
    /// Why it is allocated while the program runs.
    pub why: &'static str,
    /// The members of the layout that are loaded.
    pub members: &'static [&'static str],
}

/// All such structures. Any other member, and any member of another structure, is loaded by a load that may fault.
///
/// The last four are reached from the thread: the verifier trusts pointers to them because RCU protects them (`BTF_TYPE_SAFE_RCU`,
/// kernel/bpf/verifier.c).
#[rustfmt::skip]
pub const HELD: [HeldStructure; 10] = [
    HeldStructure {
        name: "rpc_task",
        layout: "rpc_task",
        why: "argument of tracepoints that are called before the task is released",
        members: &[
            "tk_start", "tk_owner", "tk_rqstp", "tk_msg.rpc_proc", "tk_client", "tk_xprt", "tk_status", "tk_msg.rpc_argp", "tk_flags",
        ],
    },
    HeldStructure {
        name: "nfs_pgio_header",
        layout: "nfs_pgio_header",
        why: "argument of tracepoints that are called before the request is released",
        members: &[
            "inode", "task.tk_status", "args.fh", "args.offset", "args.count", "args.stable", "args.context", "res.count", "res.eof", "cred",
            "dreq", "req",
        ],
    },
    HeldStructure {
        name: "request",
        layout: "request",
        why: "argument of block_rq_complete, which is called before the request is freed",
        members: &["cmd_flags", "part", "__data_len", "end_io", "start_time_ns", "io_start_time_ns", "bio", "rq_disk"],
    },
    HeldStructure {
        name: "folio",
        layout: "page",
        why: "argument of tracepoints on the page cache, whose caller holds it; only its first struct page is there for certain",
        members: &["flags", "mapping"],
    },
    HeldStructure {
        name: "pt_regs",
        layout: "pt_regs",
        why: "argument of sys_exit: on the stack of the thread that runs",
        members: &["orig_ax", "di", "si", "dx", "syscallno", "orig_x0", "regs"],
    },
    HeldStructure {
        name: "task_struct",
        layout: "task_struct",
        why: "the thread that runs",
        members: &["cred", "cgroups", "files", "thread_info.status", "thread_info.flags"],
    },
    HeldStructure {
        name: "cred",
        layout: "cred",
        why: "freed after a grace period of RCU; a thread always has one",
        members: &["fsuid"],
    },
    HeldStructure {
        name: "css_set",
        layout: "css_set",
        why: "freed after a grace period of RCU; a thread always has one",
        members: &["dfl_cgrp"],
    },
    HeldStructure {
        name: "cgroup",
        layout: "cgroup",
        why: "freed after a grace period of RCU; a css_set holds it",
        members: &["kn"],
    },
    HeldStructure {
        name: "kernfs_node",
        layout: "kernfs_node",
        why: "freed after a grace period of RCU; a cgroup holds it",
        members: &["id"],
    },
];

/// The offset of a member of one of the [`HELD`] structures, if this kernel has it with one of these sizes.
pub fn find_held(
    members: &Members,
    structure: &'static str,
    member: &'static str,
    sizes: &[u32],
) -> Option<Held> {
    debug_assert!(
        HELD.iter()
            .any(|held| held.layout == structure && held.members.contains(&member)),
        "add `{member}` of `struct {structure}` to HELD"
    );
    let allocated = find(members, structure, "")?.size;
    let found = find(members, structure, member).filter(|found| sizes.contains(&found.size))?;
    let end = found.offset.checked_add(found.size)?;
    (end <= allocated).then_some(Held::at(found.offset))
}

/// A member in this kernel. BTF is searched for [`MEMBERS`] alone: any other member would seem to
/// be missing from every kernel, so asking for one is a bug.
pub fn find<'m>(
    members: &'m Members,
    structure: &'static str,
    member: &'static str,
) -> Option<&'m Member> {
    debug_assert!(
        MEMBERS.contains(&(structure, member)),
        "add `{member}` of `struct {structure}` to MEMBERS"
    );
    members.get(&(structure, member))
}

/// The members that a level requires.
pub struct LevelMembers<'f> {
    level: &'static str,
    release: &'f str,
    members: &'f Members,
}

impl<'f> LevelMembers<'f> {
    /// The members of this kernel, if its BTF is available.
    pub fn new(facts: &'f KernelFacts, level: &'static str) -> Result<Self, Unsupported> {
        let members = facts.members.as_ref();
        let members = members.map_err(|cause| Unsupported::NoLevelBtf {
            level,
            cause: cause.clone(),
        })?;
        Ok(Self {
            level,
            release: &facts.release,
            members,
        })
    }

    /// All members.
    pub fn all(&self) -> &'f Members {
        self.members
    }

    /// The offset of a member of this size in one of the [`HELD`] structures.
    pub fn held(
        &self,
        structure: &'static str,
        member: &'static str,
        size: u32,
    ) -> Result<Held, Unsupported> {
        find_held(self.members, structure, member, &[size])
            .ok_or_else(|| self.lacks(structure, member))
    }

    /// The offset of a member of this size.
    pub fn offset(
        &self,
        structure: &'static str,
        member: &'static str,
        size: u32,
    ) -> Result<u32, Unsupported> {
        let found = find(self.members, structure, member);
        let found = found.filter(|found| found.size == size);
        found
            .map(|found| found.offset)
            .ok_or_else(|| self.lacks(structure, member))
    }

    /// The error for a missing member.
    pub fn lacks(&self, structure: &'static str, member: &'static str) -> Unsupported {
        Unsupported::NoLevelMember {
            release: self.release.to_owned(),
            level: self.level,
            structure,
            member,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(debug_assertions)]
    #[test]
    fn the_documentation_lists_what_is_held() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/internals/kernel.md");
        let page = std::fs::read_to_string(page).unwrap();
        for held in HELD {
            let members: Vec<_> = held.members.iter().map(|m| format!("`{m}`")).collect();
            let layout = match held.layout == held.name {
                true => format!("`{}`", held.name),
                false => format!("`{}`, as far as `struct {}`", held.name, held.layout),
            };
            let row = format!("| {layout} | {} | {} |", members.join(", "), held.why);
            assert!(
                page.contains(&row),
                "docs/internals/kernel.md lacks:\n{row}"
            );
        }
    }

    #[test]
    #[should_panic(expected = "add `i_size` of `struct inode` to MEMBERS")]
    fn to_ask_for_a_member_that_is_not_listed_is_an_error_of_the_program() {
        find(&Members::new(), "inode", "i_size");
    }
}

//! Offsets of the structures and tracepoint fields that the programs read in the running kernel.

use crate::ebpf::app_sums::AppOffsets;
use crate::ebpf::block::BlockOffsets;
use crate::ebpf::cache::CacheOffsets;
use crate::ebpf::file_op_sums::FileOpOffsets;
use crate::ebpf::local::LocalOffsets;
use crate::ebpf::offsets::{Held, offsets};
use crate::ebpf::op_sums::OpOffsets;
use crate::ebpf::syscalls::SyscallOffsets;

offsets! {
    /// Byte offsets of the fields of the `nfs_readpage_done` / `nfs_writeback_done` tracepoints.
    pub struct DoneOffsets {
        /// `dev_t dev`, 4 bytes.
        pub dev: u32,
        /// `u32 fhandle`.
        pub fhandle: u32,
        /// `u64 fileid`.
        pub fileid: u32,
        /// `loff_t offset`.
        pub offset: u32,
        /// `u32 arg_count`.
        pub arg_count: u32,
        /// `u32 res_count`.
        pub res_count: u32,
        /// `int error` (`status` on 5.10).
        pub error: u32,
        /// `bool eof`, one byte; READ only.
        pub eof: u32,
    }
}

offsets! {
    /// Byte offsets of the fields of `nfs_initiate_read` / `nfs_initiate_write`.
    pub struct InitiateOffsets {
        /// `dev_t dev`, 4 bytes.
        pub dev: u32,
        /// `u64 fileid`.
        pub fileid: u32,
    }
}

offsets! {
    /// Byte offsets of the fields of `rpc_task_begin` / `rpc_task_end`.
    pub struct TaskOffsets {
        /// `unsigned int task_id`.
        pub task_id: u32,
        /// `unsigned int client_id`.
        pub client_id: u32,
    }
}

offsets! {
    /// All offsets that the tracepoint engine needs, read from tracefs at start.
    ///
    /// Userspace sets the global [`OFFSETS_GLOBAL`](super::OFFSETS_GLOBAL) to it before loading the programs.
    pub struct TracepointOffsets {
        /// `nfs_initiate_read`.
        pub initiate_read: InitiateOffsets,
        /// `nfs_initiate_write`.
        pub initiate_write: InitiateOffsets,
        /// `rpc_task_begin`.
        pub task_begin: TaskOffsets,
        /// `rpc_task_end`.
        pub task_end: TaskOffsets,
        /// `nfs_readpage_done`.
        pub read_done: DoneOffsets,
        /// `nfs_writeback_done`; its `eof` is unused.
        pub write_done: DoneOffsets,
    }
}

/// Number of words in [`TracepointOffsets`].
pub const TRACEPOINT_WORDS: usize = size_of::<TracepointOffsets>() / 4;

offsets! {
    /// All offsets that the direct engine needs, read from BTF at start.
    ///
    /// Offsets are in bytes from the begin of the structure that a name begins with: `header` is `struct
    /// nfs_pgio_header`, `task` is `struct rpc_task`. A `window` is the begin of a part that is copied in one piece.
    ///
    /// Userspace sets the global [`DIRECT_GLOBAL`](super::DIRECT_GLOBAL) to it before loading the programs.
    pub struct DirectOffsets {
        /// Begin of the window for `tk_start` and `tk_owner`.
        pub task_window: u32,
        /// `ktime_t tk_start`.
        pub task_start: Held,
        /// `pid_t tk_owner`.
        pub task_owner: Held,
        /// `struct inode *inode`.
        pub header_inode: Held,
        /// `int task.tk_status`.
        pub header_status: Held,
        /// Begin of the window for `args`.
        pub arguments_window: u32,
        /// Begin of the window for `res`.
        pub result_window: u32,
        /// `struct nfs_fh *args.fh`.
        pub header_handle: Held,
        /// `__u64 args.offset`.
        pub header_offset: Held,
        /// `__u32 args.count`.
        pub header_asked: Held,
        /// `__u32 res.count`.
        pub header_done: Held,
        /// The lowest byte of `res.eof`.
        pub header_eof: Held,
        /// Begin of the window for `i_sb` and `i_ino`.
        pub inode_window: u32,
        /// `struct super_block *i_sb`.
        pub inode_superblock: u32,
        /// `unsigned long i_ino`.
        pub inode_number: u32,
        /// `dev_t s_dev` of `struct super_block`.
        pub superblock_dev: u32,
        /// `const struct cred *cred`.
        pub header_cred: Held,
        /// `kuid_t fsuid` of `struct cred`.
        pub cred_uid: Held,
        /// `struct nfs_direct_req *dreq`.
        pub header_direct: Held,
        /// `enum nfs3_stable_how args.stable`.
        pub header_stable: Held,
        /// `struct rpc_rqst *tk_rqstp`.
        pub task_transmission: Held,
        /// Begin of the window for the members of `struct rpc_rqst`.
        pub transmission_window: u32,
        /// `ktime_t rq_rtt`.
        pub transmission_rtt: u32,
        /// `ktime_t rq_xtime`.
        pub transmission_sent: u32,
        /// `int rq_ntrans`.
        pub transmission_count: u32,
        /// `__be32 rq_xid`.
        pub transmission_xid: u32,
        /// The way to the directories.
        pub tree: TreeOffsets,
        /// The way to the cgroup.
        pub cgroup: CgroupOffsets,
        /// The members of an RPC of any procedure.
        pub operation: OpOffsets,
        /// The way from an RPC to its file.
        pub file_operation: FileOpOffsets,
        /// The members of a name.
        pub name: NameOffsets,
        /// Members that identify an RPC when it is released.
        pub release: ReleaseOffsets,
        /// The user and cgroup of a thread.
        pub thread: ThreadOffsets,
        /// The file and arguments of an application's call.
        pub app: AppOffsets,
        /// The members of a request to a block device.
        pub block: BlockOffsets,
        /// The members of a page of the cache.
        pub cache: CacheOffsets,
        /// The members of a file that is not on NFS.
        pub local: LocalOffsets,
        /// The arguments of a system call.
        pub syscalls: SyscallOffsets,
    }
}

offsets! {
    /// How the program at the release of an RPC (`xprt_release`, net/sunrpc/xprt.c) finds the RPC's READ or WRITE.
    pub struct ReleaseOffsets {
        /// 1 if the offsets are known.
        pub is_known: u32,
        /// `tk_action` of `struct rpc_task`: its next step, or NULL.
        pub task_action: u32,
        /// `void *tk_calldata` of `struct rpc_task`.
        pub task_data: u32,
        /// `void *tk_msg.rpc_argp` of `struct rpc_task`.
        pub task_arguments: u32,
        /// `struct rpc_task task` of `struct nfs_pgio_header`.
        pub header_task: u32,
        /// `struct nfs_pgio_args args` of `struct nfs_pgio_header`.
        pub header_arguments: u32,
        /// `fmode_t rw_mode` of `struct nfs_pgio_header`.
        pub header_mode: u32,
        /// `unsigned long flags` of `struct nfs_pgio_header`.
        pub header_flags: u32,
    }
}

offsets! {
    /// Members of each directory entry on a file's path (`struct dentry`), in addition to [`TreeOffsets`].
    pub struct NameOffsets {
        /// `u64 d_name.hash_len`; 0 if paths cannot be read.
        pub entry_hash: u32,
        /// `const unsigned char *d_name.name`.
        pub entry_name: u32,
        /// `void *d_fsdata`: at the root of a mount, `server:/export`.
        pub entry_data: u32,
    }
}

offsets! {
    /// The way from a request to the directories of its file, by the path that opened it.
    pub struct TreeOffsets {
        /// `struct nfs_open_context *args.context` of `struct nfs_pgio_header`; 0 if the way is not known.
        pub header_context: Held,
        /// `struct dentry *dentry` of `struct nfs_open_context`.
        pub context_entry: u32,
        /// `struct dentry *d_parent` of `struct dentry`.
        pub entry_parent: u32,
        /// `struct inode *d_inode` of `struct dentry`.
        pub entry_inode: u32,
    }
}

offsets! {
    /// The way from a request to the cgroup that its data is charged to, pointer by pointer.
    pub struct CgroupOffsets {
        /// Bits of [`cgroups`]; 0 if the way is not known.
        pub way: u32,
        /// `struct nfs_page *req` of `struct nfs_pgio_header`.
        pub header_request: Held,
        /// `struct page *wb_page` of `struct nfs_page`.
        pub request_page: u32,
        /// `unsigned long compound_head` (`compound_info` from Linux 7.0 on) of `struct page`.
        pub page_head: u32,
        /// `unsigned long memcg_data` of `struct page`.
        pub page_owner: u32,
        /// `struct mem_cgroup *memcg` of `struct obj_cgroup`.
        pub object_owner: u32,
        /// `struct cgroup *css.cgroup` of `struct mem_cgroup`.
        pub owner_cgroup: u32,
        /// `struct kernfs_node *kn` of `struct cgroup`.
        pub cgroup_node: Held,
        /// `u64 id` of `struct kernfs_node`.
        pub node_id: Held,
    }
}

offsets! {
    /// The user and cgroup of a thread, using the offsets of cgroup nodes in [`CgroupOffsets`].
    pub struct ThreadOffsets {
        /// `const struct cred *cred` of `struct task_struct`.
        pub task_cred: Held,
        /// `struct css_set *cgroups` of `struct task_struct`; 0 if any offset on the way to the cgroup is unknown.
        pub task_cgroups: Held,
        /// `struct cgroup *dfl_cgrp` of `struct css_set`.
        pub cgroups_own: Held,
    }
}

/// Bits of [`CgroupOffsets::way`].
pub mod cgroups {
    /// The way is known.
    pub const KNOWN: u32 = 1 << 0;
    /// Every page is charged to a `struct obj_cgroup`, not only pages of the kernel's own objects.
    pub const BY_OBJECT: u32 = 1 << 1;
}

/// Number of words in [`DirectOffsets`].
pub const DIRECT_WORDS: usize = size_of::<DirectOffsets>() / 4;

/// A placeholder for the kernel function `bpf_rdonly_cast`: programs call a helper of this number, which does not
/// exist. Each kernel numbers the function differently, so userspace patches the call.
pub const CAST_CALL: u32 = 0x6361_7374;
/// A placeholder for the BTF type id that the function casts an address to.
pub const CAST_TYPE: u32 = 0x7479_7065;
/// A placeholder for the BTF type id of `struct file`, whose members then have known types, too.
pub const CAST_FILE: u32 = CAST_TYPE + 1;
/// A load in such a program from `CAST_OFFSETS + 8 * n` stands for a load from the offset in word `n` of
/// [`DirectOffsets`].
pub const CAST_OFFSETS: i16 = 0x7800;

const _: () = assert!(CAST_OFFSETS as usize + 8 * DIRECT_WORDS <= i16::MAX as usize);

//! What the kernel side adds up of RPCs by the file that they are about, and how it finds that file: a part of the boundary, as
//! [`crate::ebpf::ring`] and [`crate::ebpf::op_sums`] are.

use core::mem::{offset_of, size_of, zeroed};

use crate::ebpf::offsets::{Held, offsets};
use crate::ebpf::op_sums::OP_NAME_BYTES;

/// What RPCs have in common that are added up by file.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOpKey {
    /// NFS fileid (inode number) of the file or directory; 0 in sums of what had no room.
    pub fileid: u64,
    /// Address of the kernel's description of the procedure (`struct rpc_procinfo`).
    pub procedure: u64,
    /// Id of the cgroup of the process that waits for it. 0 when not known, as for what nobody waits for in its own thread.
    pub cgroup: u64,
    /// In which window they completed: UTC in ns, divided by the length of a window.
    pub window: u64,
    /// Device of the superblock in the kernel's encoding: `major << 20 | minor`.
    pub dev: u32,
    /// The kernel's CRC32 of the file handle (`nfs_fhandle_hash`); 0 in sums of what had no room.
    pub handle_hash: u32,
    /// The user (`fsuid`) in whose name they were made; [`crate::ebpf::ring::NO_USER`] when not known.
    pub uid: u32,
    /// Nothing.
    pub padding: u32,
}

/// What they add up to.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOpValue {
    /// Those that completed, each attempt of one that was repeated.
    pub requests: u64,
    /// Those that ended with an error.
    pub errors: u64,
    /// Sum of the times until they were sent, ns.
    pub queue_ns_sum: u64,
    /// Sum of the times from there to the answer, ns.
    pub rtt_ns_sum: u64,
    /// Sum of the times from start to completion, ns.
    pub latency_ns_sum: u64,
    /// The longest of these, ns.
    pub latency_ns_max: u64,
    /// Name of the procedure, ended by a zero.
    pub name: [u8; OP_NAME_BYTES],
    /// Process (tgid) that made the first of them.
    pub pid: u32,
    /// 1 while it is of a directory whose path is still to be told, because the program that began the sum could not tell it.
    pub is_untold: u32,
}

/// [`FileOpKey`] in words, as maps hold it.
pub const FILE_OP_KEY_WORDS: usize = 6;
/// [`FileOpValue`] in words, as maps hold it.
pub const FILE_OP_VALUE_WORDS: usize = 10;

const _: () = {
    assert!(size_of::<FileOpKey>() == 8 * FILE_OP_KEY_WORDS);
    assert!(offset_of!(FileOpKey, dev) == 32);
    assert!(size_of::<FileOpValue>() == 8 * FILE_OP_VALUE_WORDS);
    assert!(offset_of!(FileOpValue, name) == 48);
};

impl FileOpValue {
    /// Nothing yet.
    // SAFETY: it is all integers.
    pub const ZERO: Self = unsafe { zeroed() };
}

offsets! {
    /// Where the kernel keeps what leads from an RPC to its file: offsets in bytes. A part of [`crate::ebpf::ring::DirectOffsets`].
    pub struct FileOpOffsets {
        /// 1 where the way is known and wanted.
        pub is_known: u32,
        /// `void *tk_msg.rpc_argp` of `struct rpc_task`.
        pub task_arguments: Held,
        /// `const struct cred *tk_msg.rpc_cred` of `struct rpc_task`.
        pub task_cred: u32,
        /// `unsigned short tk_flags` of `struct rpc_task`.
        pub task_flags: Held,
        /// `struct rpc_cred *rq_cred` of `struct rpc_rqst`; 0 where that or the next one is not known.
        pub transmission_cred: u32,
        /// `const struct cred *cr_cred` of `struct rpc_cred`.
        pub rpc_cred_owner: u32,
        /// `struct nfs_fh *fh` of the arguments that begin with a `struct nfs4_sequence_args`: those of all procedures of NFSv4, and of some
        /// of NFSv3.
        pub arguments_handle: u32,
        /// From the handle in a `struct nfs_inode` to its `vfs_inode`; 0 where that is to be learned.
        pub handle_inode: u32,
        /// `struct inode *i_data.host` of `struct inode`: the inode itself.
        pub inode_host: u32,
        /// `unsigned long s_magic` of `struct super_block`.
        pub superblock_magic: u32,
        /// `umode_t i_mode` of `struct inode`.
        pub inode_mode: u32,
        /// `struct hlist_node *i_dentry.first` of `struct inode`; 0 where the names of directories cannot be found.
        pub inode_entries: u32,
        /// `struct hlist_node d_alias` of `struct dentry`, which the one before leads to.
        pub entry_alias: u32,
    }
}

/// `s_magic` of NFS (`NFS_SUPER_MAGIC`, include/uapi/linux/magic.h).
pub const NFS_SUPER_MAGIC: u64 = 0x6969;

/// Bits of [`crate::ebpf::op_sums::OpValue::handle`]: where the arguments of a procedure have the handle of the file that it is about. 0
/// where RPCs are not counted by file.
pub mod handles {
    /// They are the handle.
    pub const ITSELF: u32 = 1 << 0;
    /// They have its address.
    pub const ADDRESS: u32 = 1 << 1;
    /// The procedure is COMMIT.
    pub const COMMIT: u32 = 1 << 2;
    /// It is READ or WRITE: it only tells how far an inode is from the handle in it.
    pub const TEACHES: u32 = 1 << 3;
    /// The bits from this one on are the offset of [`ADDRESS`].
    pub const OFFSET_SHIFT: u32 = 8;
}

/// `dir_fh` of `struct nfs4_create_arg`, the arguments of CREATE and SYMLINK, which no BTF has before the module nfsv4 is there. What stands
/// there is held to be a file's handle only if the inode around it says so.
pub const CREATE_HANDLE: u32 = 64;

/// Name of the array of the hash maps, from [`FileOpKey`] to [`FileOpValue`].
pub const FILE_OPS_MAP: &str = "FILE_OPS";
/// Element of that array: sums by file.
pub const FILE_OPS_BY_FILE: u32 = 0;
/// Element of that array: sums of COMMITs by file. Of their own, so that they have room while somebody looks through a tree.
pub const FILE_OPS_OF_COMMITS: u32 = 1;
/// Element of that array: sums of the files for which there was no room, with 0 for their fileid and handle hash.
pub const FILE_OPS_BY_MOUNT: u32 = 2;
/// Elements of that array.
pub const FILE_OPS_MAPS: usize = 3;
/// Name of the array that counts, for each of them, how often a sum was begun there; userspace may `mmap` it.
pub const FILE_OPS_BEGUN_MAP: &str = "FILE_OPS_BEGUN";
/// Entries of each of the two maps by file: 128 bytes each and 16 for its bucket, 0.6 MiB, twice.
pub const FILE_OP_ENTRIES: u32 = 4096;
/// Entries of the map by mount: 0.15 MiB, twice.
pub const FILE_OP_MOUNT_ENTRIES: u32 = 1024;

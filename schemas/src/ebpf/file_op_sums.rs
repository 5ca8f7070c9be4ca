//! Sums of RPCs by file, and how the kernel side finds that file. Part of the kernel boundary, like
//! [`crate::ebpf::ring`] and [`crate::ebpf::op_sums`].

use core::mem::{offset_of, size_of, zeroed};

use crate::ebpf::offsets::{Held, offsets};
use crate::ebpf::op_sums::OP_NAME_BYTES;

/// The key of a sum of RPCs by file.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOpKey {
    /// NFS fileid (inode number) of the file or directory; 0 in sums by mount.
    pub fileid: u64,
    /// Address of the kernel's description of the procedure (`struct rpc_procinfo`).
    pub procedure: u64,
    /// Id of the cgroup of the process that waits for the RPC; 0 if unknown, or if no process waits in its own thread.
    pub cgroup: u64,
    /// The window in which they completed: UTC in ns, divided by the length of a window.
    pub window: u64,
    /// Device of the superblock in the kernel's encoding: `major << 20 | minor`.
    pub dev: u32,
    /// The kernel's CRC32 of the file handle (`nfs_fhandle_hash`); 0 in sums by mount.
    pub handle_hash: u32,
    /// The user (`fsuid`) of the RPCs; [`crate::ebpf::ring::NO_USER`] when not known.
    pub uid: u32,
    /// Unused.
    pub padding: u32,
}

/// A sum of RPCs.
#[repr(C)]
#[cfg_attr(feature = "std", derive(zerocopy::FromBytes))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOpValue {
    /// RPCs that completed. Each attempt of a repeated RPC counts.
    pub requests: u64,
    /// RPCs that ended with an error.
    pub errors: u64,
    /// Sum of the times until transmission, ns.
    pub queue_ns_sum: u64,
    /// Sum of the times from transmission to the reply, ns.
    pub rtt_ns_sum: u64,
    /// Sum of the times from start to completion, ns.
    pub latency_ns_sum: u64,
    /// The longest time from start to completion, ns.
    pub latency_ns_max: u64,
    /// Name of the procedure, zero-terminated.
    pub name: [u8; OP_NAME_BYTES],
    /// Process (tgid) that made the first RPC.
    pub pid: u32,
    /// 1 for a directory whose path the first program could not report. The next program reports it.
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
    /// An empty sum.
    // SAFETY: all fields are integers, for which zero bytes are valid.
    pub const ZERO: Self = unsafe { zeroed() };
}

offsets! {
    /// Byte offsets on the way from an RPC to its file. Part of [`crate::ebpf::ring::DirectOffsets`].
    pub struct FileOpOffsets {
        /// 1 if the way is known and wanted.
        pub is_known: u32,
        /// `void *tk_msg.rpc_argp` of `struct rpc_task`.
        pub task_arguments: Held,
        /// `const struct cred *tk_msg.rpc_cred` of `struct rpc_task`.
        pub task_cred: u32,
        /// `unsigned short tk_flags` of `struct rpc_task`.
        pub task_flags: Held,
        /// `struct rpc_cred *rq_cred` of `struct rpc_rqst`; 0 if this or the next offset is not known.
        pub transmission_cred: u32,
        /// `const struct cred *cr_cred` of `struct rpc_cred`.
        pub rpc_cred_owner: u32,
        /// `struct nfs_fh *fh` of arguments that begin with a `struct nfs4_sequence_args`: all procedures of NFSv4, and
        /// some of NFSv3.
        pub arguments_handle: u32,
        /// Distance from the handle in a `struct nfs_inode` to its `vfs_inode`; 0 if the programs must learn it.
        pub handle_inode: u32,
        /// `struct inode *i_data.host` of `struct inode`: the inode itself.
        pub inode_host: u32,
        /// `unsigned long s_magic` of `struct super_block`.
        pub superblock_magic: u32,
        /// `umode_t i_mode` of `struct inode`.
        pub inode_mode: u32,
        /// `struct hlist_node *i_dentry.first` of `struct inode`; 0 if the names of directories cannot be found.
        pub inode_entries: u32,
        /// `struct hlist_node d_alias` of `struct dentry`, to which the previous member points.
        pub entry_alias: u32,
    }
}

/// `s_magic` of NFS (`NFS_SUPER_MAGIC`, include/uapi/linux/magic.h).
pub const NFS_SUPER_MAGIC: u64 = 0x6969;

/// Bits of [`crate::ebpf::op_sums::OpValue::handle`]: where a procedure's arguments hold the handle of its file. 0 if
/// RPCs are not counted by file.
pub mod handles {
    /// The arguments are the handle.
    pub const ITSELF: u32 = 1 << 0;
    /// The arguments hold the handle's address.
    pub const ADDRESS: u32 = 1 << 1;
    /// The procedure is COMMIT.
    pub const COMMIT: u32 = 1 << 2;
    /// The procedure is READ or WRITE: used only to learn the distance between an inode and its handle.
    pub const TEACHES: u32 = 1 << 3;
    /// The bits from here on are the offset for [`ADDRESS`].
    pub const OFFSET_SHIFT: u32 = 8;
}

/// `dir_fh` of `struct nfs4_create_arg`, the arguments of CREATE and SYMLINK. Without the module nfsv4 no BTF describes
/// it. The programs accept it as a handle only if the inode around it confirms that.
pub const CREATE_HANDLE: u32 = 64;

/// Name of the array of the hash maps, from [`FileOpKey`] to [`FileOpValue`].
pub const FILE_OPS_MAP: &str = "FILE_OPS";
/// Element of that array: sums by file.
pub const FILE_OPS_BY_FILE: u32 = 0;
/// Element of that array: sums of COMMITs by file. They are separate, so that lookups through a large tree leave room
/// for them.
pub const FILE_OPS_OF_COMMITS: u32 = 1;
/// Element of that array: sums by mount, for files without room, with 0 for their fileid and handle hash.
pub const FILE_OPS_BY_MOUNT: u32 = 2;
/// Number of elements of that array.
pub const FILE_OPS_MAPS: usize = 3;
/// Name of the array that counts, for each element, how many sums were begun in it; userspace may `mmap` it.
pub const FILE_OPS_BEGUN_MAP: &str = "FILE_OPS_BEGUN";
/// Entries of each of the two maps by file: 128 bytes each and 16 for its bucket, 0.6 MiB, twice.
pub const FILE_OP_ENTRIES: u32 = 4096;
/// Entries of the map by mount: 0.15 MiB, twice.
pub const FILE_OP_MOUNT_ENTRIES: u32 = 1024;

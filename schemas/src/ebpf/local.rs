//! What the kernel side has to know about files of local file systems: of any but NFS.

use crate::ebpf::offsets::offsets;

offsets! {
    /// What tells which file an inode is: offsets in bytes. A part of [`crate::ebpf::ring::DirectOffsets`], with which it shares those of
    /// inodes and superblocks.
    pub struct LocalOffsets {
        /// `umode_t i_mode` of `struct inode`.
        pub inode_mode: u32,
        /// `dev_t i_rdev` of `struct inode`.
        pub inode_device: u32,
        /// `__u32 i_generation` of `struct inode`.
        pub inode_generation: u32,
        /// `struct dentry *s_root` of `struct super_block`.
        pub superblock_root: u32,
        /// `unsigned long s_magic` of `struct super_block`.
        pub superblock_magic: u32,
        /// `struct file_system_type *s_type` of `struct super_block`.
        pub superblock_type: u32,
        /// `int fs_flags` of `struct file_system_type`.
        pub type_flags: u32,
        /// 1 where the way from a request to its cgroup is known: only then do rows of threads have theirs, so that rows do not split.
        pub has_groups: u32,
    }
}

/// In place of the generation of a file: what no file has. It belongs to the file system itself, or to who uses its device without it.
pub const FILE_SYSTEM_HASH: u32 = 2;

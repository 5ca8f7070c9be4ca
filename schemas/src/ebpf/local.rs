//! Offsets that the kernel side needs for files of local file systems: all but NFS.

use crate::ebpf::offsets::offsets;

offsets! {
    /// Byte offsets that identify the file of an inode. Part of [`crate::ebpf::ring::DirectOffsets`], whose offsets of
    /// inodes and superblocks are used, too.
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
        /// 1 if the way from a request to its cgroup is known. Otherwise rows of threads have no cgroup either, so that
        /// rows do not split.
        pub has_groups: u32,
    }
}

/// Replaces the generation of a file: no file has it. Such rows belong to the file system itself, or to programs that
/// use its device directly.
pub const FILE_SYSTEM_HASH: u32 = 2;

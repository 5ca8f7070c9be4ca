//! Files of local file systems: all but NFS.

use trackiops_schemas::ebpf::app_sums::{AppKey, FILE_SYSTEM, LOCAL};

use crate::{
    globals::DIRECT,
    kernel_memory::{Address, Memory},
};

/// `S_IFMT`, `S_IFBLK` and `S_IFREG`.
const KIND: u16 = 0o170_000;
const BLOCK_DEVICE: u16 = 0o060_000;
const REGULAR: u16 = 0o100_000;
/// `BTRFS_SUPER_MAGIC` (include/uapi/linux/magic.h), and the inode of its metadata (`BTRFS_BTREE_INODE_OBJECTID`).
const BTRFS: u64 = 0x9123_683e;
const BTRFS_METADATA: u64 = 1;
/// `FS_REQUIRES_DEV` (include/linux/fs.h).
const REQUIRES_DEVICE: u32 = 1;

/// Whether an inode of this mode is a block device.
#[inline(always)]
pub fn is_device(mode: u16) -> bool {
    mode & KIND == BLOCK_DEVICE
}

/// Whether an inode of this mode is a regular file.
#[inline(always)]
pub fn is_regular(mode: u16) -> bool {
    mode & KIND == REGULAR
}

/// Whether an inode number, on a superblock with this magic number, holds the file system's own metadata.
#[inline(always)]
pub fn is_metadata(magic: impl FnOnce() -> u64, number: u64) -> bool {
    number == BTRFS_METADATA && magic() == BTRFS
}

/// Whether a file system of this superblock is on a block device.
#[inline(always)]
pub fn has_device<M: Memory>(superblock: Address<M>) -> Option<bool> {
    let own = &DIRECT.local;
    let kind = Address::<M>::new(superblock.field(&own.superblock_type)?);
    Some(kind.field::<u32>(&own.type_flags)? & REQUIRES_DEVICE != 0)
}

/// Completes the key of a sum for an inode: that of the file, or of the file system itself.
#[inline(always)]
pub fn describe<M: Memory>(
    key: &mut AppKey,
    inode: Address<M>,
    superblock: Address<M>,
    magic: u64,
) -> Option<()> {
    let own = &DIRECT.local;
    key.direction |= LOCAL;
    key.fileid = inode.field(&DIRECT.inode_number)?;
    key.dev = superblock.field(&DIRECT.superblock_dev)?;
    if is_device(inode.field(&own.inode_mode)?) {
        key.dev = inode.field(&own.inode_device)?;
        key.direction |= FILE_SYSTEM;
    } else if is_metadata(|| magic, key.fileid) {
        key.direction |= FILE_SYSTEM;
    } else {
        key.handle_hash = inode.field(&own.inode_generation)?;
    }
    Some(())
}

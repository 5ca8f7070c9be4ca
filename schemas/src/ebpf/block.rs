//! Offsets that the kernel side needs for requests to block devices.

use crate::ebpf::offsets::{Held, offsets};

offsets! {
    /// Byte offsets to the members of a request to a block device. Part of [`crate::ebpf::ring::DirectOffsets`], whose
    /// offsets of inodes, superblocks, page heads and cgroup nodes are used, too.
    pub struct BlockOffsets {
        /// 1 if the offsets are known.
        pub is_known: u32,
        /// `unsigned int cmd_flags` of `struct request`.
        pub request_operation: Held,
        /// `struct block_device *part` of `struct request` (`struct hd_struct *` before Linux 5.11).
        pub request_part: Held,
        /// `unsigned int __data_len` of `struct request`.
        pub request_left: Held,
        /// `rq_end_io_fn *end_io` of `struct request`.
        pub request_end: Held,
        /// `u64 start_time_ns` of `struct request`.
        pub request_start: Held,
        /// `u64 io_start_time_ns` of `struct request`.
        pub request_issued: Held,
        /// `struct bio *bio` of `struct request`.
        pub request_bio: Held,
        /// `dev_t bd_dev` of `struct block_device` (`__dev.devt` of `struct hd_struct`).
        pub part_dev: u32,
        /// `struct gendisk *rq_disk` of `struct request`, before Linux 5.11.
        pub request_disk: Held,
        /// `struct gendisk *bd_disk` of `struct block_device`.
        pub device_disk: u32,
        /// `struct block_device *s_bdev` of `struct super_block`.
        pub superblock_device: u32,
        /// `struct request_queue *queue` of `struct gendisk`.
        pub disk_queue: u32,
        /// `char disk_name[32]` of `struct gendisk`.
        pub disk_name: u32,
        /// `const struct blk_mq_ops *mq_ops` of `struct request_queue`.
        pub queue_operations: u32,
        /// `struct bio *bi_next` of `struct bio`.
        pub bio_next: u32,
        /// `unsigned int bi_iter.bi_size` of `struct bio`.
        pub bio_bytes: u32,
        /// `unsigned int bi_iter.bi_idx` of `struct bio`.
        pub bio_index: u32,
        /// `sector_t bi_iter.bi_sector` of `struct bio`.
        pub bio_sector: u32,
        /// `unsigned short bi_flags` of `struct bio`.
        pub bio_flags: u32,
        /// `struct bio_vec *bi_io_vec` of `struct bio`.
        pub bio_vectors: u32,
        /// `void *bi_private` of `struct bio`.
        pub bio_private: u32,
        /// `struct page *bv_page` of `struct bio_vec`.
        pub vector_page: u32,
        /// `struct address_space *mapping` of `struct page`.
        pub page_mapping: u32,
        /// `struct inode *host` of `struct address_space`.
        pub mapping_host: u32,
        /// `struct inode *i_data.host` of `struct inode`.
        pub inode_host: u32,
        /// `struct kiocb *iocb` of `struct iomap_dio`.
        pub direct_call: u32,
        /// `struct file *ki_filp` of `struct kiocb`.
        pub call_file: u32,
        /// `struct inode *f_inode` of `struct file`.
        pub file_inode: u32,
        /// `struct blkcg_gq *bi_blkg` of `struct bio`.
        pub bio_group: u32,
        /// `struct blkcg *blkcg` of `struct blkcg_gq`.
        pub group_owner: u32,
        /// `struct cgroup *css.cgroup` of `struct blkcg`.
        pub owner_cgroup: u32,
    }
}

/// Number of request statuses (`blk_status_t`) that are distinguished.
pub const BLOCK_STATUSES: usize = 17;

/// The error of each status, by number (`blk_errors`, block/blk-core.c). The last one stands for all later statuses.
pub const BLOCK_STATUS_ERRNOS: [i32; BLOCK_STATUSES] = [
    0,   // BLK_STS_OK
    95,  // BLK_STS_NOTSUPP: EOPNOTSUPP
    110, // BLK_STS_TIMEOUT: ETIMEDOUT
    28,  // BLK_STS_NOSPC: ENOSPC
    67,  // BLK_STS_TRANSPORT: ENOLINK
    121, // BLK_STS_TARGET: EREMOTEIO
    52,  // BLK_STS_RESV_CONFLICT: EBADE
    61,  // BLK_STS_MEDIUM: ENODATA
    84,  // BLK_STS_PROTECTION: EILSEQ
    12,  // BLK_STS_RESOURCE: ENOMEM
    5,   // BLK_STS_IOERR: EIO
    78,  // BLK_STS_DM_REQUEUE: EREMCHG
    11,  // BLK_STS_AGAIN: EAGAIN
    16,  // BLK_STS_DEV_RESOURCE: EBUSY
    5,   // 14 and 15 belong to zones, and differ between kernels.
    5, 5,
];

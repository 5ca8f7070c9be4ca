//! Offsets of the structure members that the program on requests to block devices reads.

use trackiops_schemas::ebpf::block::BlockOffsets;
use trackiops_schemas::ebpf::offsets::Held;
use trackiops_schemas::ebpf::ring::DirectOffsets;

use crate::facts::KernelFacts;
use crate::plan::local_offsets::groups;
use crate::plan::members::LevelMembers;
use crate::plan::unsupported::Unsupported;

/// Adds the offsets in this kernel to `offsets`, or returns which member is missing. Members for cgroups are optional.
pub fn add_block_offsets(
    offsets: &mut DirectOffsets,
    facts: &KernelFacts,
) -> Result<(), Unsupported> {
    let members = LevelMembers::new(facts, "block")?;
    let offset = |structure, member, size| members.offset(structure, member, size);
    let held = |structure, member, size| members.held(structure, member, size);
    // Before Linux 5.11 a partition was a separate structure, which does not lead to its disk.
    let (part_dev, request_disk) = match offset("hd_struct", "__dev.devt", 4) {
        Ok(part_dev) => (part_dev, held("request", "rq_disk", 8)?),
        Err(_) => (offset("block_device", "bd_dev", 4)?, Held::default()),
    };
    // The programs step from one vector to the next by its size.
    let vector_page = offset("bio_vec", "bv_page", 8)?;
    if (vector_page, offset("bio_vec", "bv_offset", 4)?) != (0, 12) {
        return Err(members.lacks("bio_vec", "bv_offset"));
    }
    let page_head =
        offset("page", "compound_head", 8).or_else(|_| offset("page", "compound_info", 8))?;
    let groups = groups(members.all(), facts.io_cgroups).unwrap_or_default();
    offsets.block = BlockOffsets {
        is_known: 1,
        request_operation: held("request", "cmd_flags", 4)?,
        request_part: held("request", "part", 8)?,
        request_left: held("request", "__data_len", 4)?,
        request_end: held("request", "end_io", 8)?,
        request_start: held("request", "start_time_ns", 8)?,
        request_issued: held("request", "io_start_time_ns", 8)?,
        request_bio: held("request", "bio", 8)?,
        part_dev,
        request_disk,
        device_disk: offset("block_device", "bd_disk", 8)?,
        superblock_device: offset("super_block", "s_bdev", 8)?,
        disk_queue: offset("gendisk", "queue", 8)?,
        disk_name: offset("gendisk", "disk_name", 32)?,
        queue_operations: offset("request_queue", "mq_ops", 8)?,
        bio_next: offset("bio", "bi_next", 8)?,
        bio_bytes: offset("bio", "bi_iter.bi_size", 4)?,
        bio_index: offset("bio", "bi_iter.bi_idx", 4)?,
        bio_sector: offset("bio", "bi_iter.bi_sector", 8)?,
        bio_flags: offset("bio", "bi_flags", 2)?,
        bio_vectors: offset("bio", "bi_io_vec", 8)?,
        bio_private: offset("bio", "bi_private", 8)?,
        vector_page,
        page_mapping: offset("page", "mapping", 8)?,
        mapping_host: offset("address_space", "host", 8)?,
        inode_host: offset("inode", "i_data.host", 8)?,
        direct_call: offset("iomap_dio", "iocb", 8)?,
        call_file: offset("kiocb", "ki_filp", 8)?,
        file_inode: offset("file", "f_inode", 8)?,
        bio_group: groups.bio_group,
        group_owner: groups.group_owner,
        owner_cgroup: groups.owner_cgroup,
    };
    offsets.cgroup.page_head = page_head;
    Ok(())
}

//! Offsets of what the program on requests to block devices reads in the kernel's structures.

use trackiops_schemas::ebpf::block::BlockOffsets;
use trackiops_schemas::ebpf::ring::{DirectOffsets, NameOffsets};

use crate::btf::Members;
use crate::facts::KernelFacts;
use crate::plan::members::find;
use crate::plan::unsupported::Unsupported;

/// Adds the offsets in this kernel to those that are there, or says which member is missing. Members for cgroups and names are optional.
pub fn add_block_offsets(
    offsets: &mut DirectOffsets,
    facts: &KernelFacts,
) -> Result<(), Unsupported> {
    let members = facts.members.as_ref();
    let members = members.map_err(|why| Unsupported::NoBlockBtf(why.clone()))?;
    let offset = |structure: &'static str, member: &'static str, size: u32| {
        let found = find(members, structure, member).filter(|found| found.size == size);
        let release = facts.release.clone();
        found
            .map(|found| found.offset)
            .ok_or(Unsupported::NoBlockMember {
                release,
                structure,
                member,
            })
    };
    // Before Linux 5.11 a partition was a structure of its own.
    let part_dev =
        offset("hd_struct", "__dev.devt", 4).or_else(|_| offset("block_device", "bd_dev", 4))?;
    // The programs step from one vector to the next by its size.
    let vector_page = offset("bio_vec", "bv_page", 8)?;
    if (vector_page, offset("bio_vec", "bv_offset", 4)?) != (0, 12) {
        return Err(Unsupported::NoBlockMember {
            release: facts.release.clone(),
            structure: "bio_vec",
            member: "bv_offset",
        });
    }
    let page_head =
        offset("page", "compound_head", 8).or_else(|_| offset("page", "compound_info", 8))?;
    let groups = groups(members, facts.io_cgroups);
    let (bio_group, group_owner, owner_cgroup, cgroup_node, node_id) = groups.unwrap_or_default();
    offsets.block = BlockOffsets {
        is_known: 1,
        request_operation: offset("request", "cmd_flags", 4)?,
        request_part: offset("request", "part", 8)?,
        request_left: offset("request", "__data_len", 4)?,
        request_end: offset("request", "end_io", 8)?,
        request_start: offset("request", "start_time_ns", 8)?,
        request_issued: offset("request", "io_start_time_ns", 8)?,
        request_bio: offset("request", "bio", 8)?,
        part_dev,
        bio_next: offset("bio", "bi_next", 8)?,
        bio_bytes: offset("bio", "bi_iter.bi_size", 4)?,
        bio_index: offset("bio", "bi_iter.bi_idx", 4)?,
        bio_sector: offset("bio", "bi_iter.bi_sector", 8)?,
        bio_vectors: offset("bio", "bi_io_vec", 8)?,
        bio_private: offset("bio", "bi_private", 8)?,
        vector_page,
        page_mapping: offset("page", "mapping", 8)?,
        mapping_host: offset("address_space", "host", 8)?,
        inode_host: offset("inode", "i_data.host", 8)?,
        inode_mode: offset("inode", "i_mode", 2)?,
        inode_generation: offset("inode", "i_generation", 4)?,
        superblock_root: offset("super_block", "s_root", 8)?,
        superblock_magic: offset("super_block", "s_magic", 8)?,
        direct_call: offset("iomap_dio", "iocb", 8)?,
        call_file: offset("kiocb", "ki_filp", 8)?,
        file_inode: offset("file", "f_inode", 8)?,
        has_groups: u32::from(groups.is_some()),
        bio_group,
        group_owner,
        owner_cgroup,
    };
    // The same as those of the wire, if these are there.
    offsets.inode_superblock = offset("inode", "i_sb", 8)?;
    offsets.inode_number = offset("inode", "i_ino", 8)?;
    offsets.superblock_dev = offset("super_block", "s_dev", 4)?;
    offsets.cgroup.page_head = page_head;
    if groups.is_some() {
        offsets.cgroup.cgroup_node = cgroup_node;
        offsets.cgroup.node_id = node_id;
    }
    if let Some(names) = names(members) {
        names.add_to(offsets);
    }
    Ok(())
}

/// What leads from an inode to its path.
struct Names {
    entry_parent: u32,
    entry_inode: u32,
    name: NameOffsets,
    inode_entries: u32,
    entry_alias: u32,
}

fn names(members: &Members) -> Option<Names> {
    let pointer = |structure, member| {
        let found = find(members, structure, member)?;
        (found.size == 8).then_some(found.offset)
    };
    let alias = |member| Some(find(members, "dentry", member)?.offset);
    Some(Names {
        entry_parent: pointer("dentry", "d_parent")?,
        entry_inode: pointer("dentry", "d_inode")?,
        name: NameOffsets {
            entry_hash: pointer("dentry", "d_name.hash_len")?,
            entry_name: pointer("dentry", "d_name.name")?,
            entry_data: pointer("dentry", "d_fsdata")?,
        },
        inode_entries: pointer("inode", "i_dentry.first")?,
        entry_alias: alias("d_alias").or_else(|| alias("d_u.d_alias"))?,
    })
}

impl Names {
    /// Unless the wire is recorded, too, and its paths are not known: one global switches both.
    fn add_to(self, offsets: &mut DirectOffsets) {
        let has_wire = offsets.header_inode != 0;
        if has_wire && offsets.name == NameOffsets::default() {
            return;
        }
        offsets.tree.entry_parent = self.entry_parent;
        offsets.tree.entry_inode = self.entry_inode;
        offsets.name = self.name;
        offsets.file_operation.inode_entries = self.inode_entries;
        offsets.file_operation.entry_alias = self.entry_alias;
    }
}

/// What leads from a bio to its cgroup, if all of it is known and cgroups of I/O are those that distinguish users.
fn groups(members: &Members, io_cgroups: bool) -> Option<(u32, u32, u32, u32, u32)> {
    let offset = |structure, member| {
        let found = find(members, structure, member)?;
        (found.size == 8).then_some(found.offset)
    };
    let known = (
        offset("bio", "bi_blkg")?,
        offset("blkcg_gq", "blkcg")?,
        offset("blkcg", "css.cgroup")?,
        offset("cgroup", "kn")?,
        offset("kernfs_node", "id")?,
    );
    io_cgroups.then_some(known)
}

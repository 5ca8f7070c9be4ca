//! Offsets of the structure members that all levels of local file systems read.

use trackiops_schemas::ebpf::local::LocalOffsets;
use trackiops_schemas::ebpf::offsets::Held;
use trackiops_schemas::ebpf::ring::{DirectOffsets, NameOffsets};

use crate::btf::Members;
use crate::facts::KernelFacts;
use crate::plan::direct_offsets::thread;
use crate::plan::members::{LevelMembers, find, find_held};
use crate::plan::unsupported::Unsupported;

/// Adds the offsets in this kernel to `offsets`, or returns which member is missing. `level` is the requested level. Members for
/// cgroups and names are optional.
pub fn add_local_offsets(
    offsets: &mut DirectOffsets,
    facts: &KernelFacts,
    level: &'static str,
) -> Result<(), Unsupported> {
    let members = LevelMembers::new(facts, level)?;
    let offset = |structure, member, size| members.offset(structure, member, size);
    let groups = groups(members.all(), facts.io_cgroups);
    offsets.local = LocalOffsets {
        inode_mode: offset("inode", "i_mode", 2)?,
        inode_device: offset("inode", "i_rdev", 4)?,
        inode_generation: offset("inode", "i_generation", 4)?,
        superblock_root: offset("super_block", "s_root", 8)?,
        superblock_magic: offset("super_block", "s_magic", 8)?,
        superblock_type: offset("super_block", "s_type", 8)?,
        type_flags: offset("file_system_type", "fs_flags", 4)?,
        has_groups: u32::from(groups.is_some()),
    };
    if let Some(groups) = groups {
        offsets.cgroup.cgroup_node = groups.cgroup_node;
        offsets.cgroup.node_id = groups.node_id;
    }
    // Equal to the offsets of the wire, if it is recorded.
    offsets.inode_superblock = offset("inode", "i_sb", 8)?;
    offsets.inode_number = offset("inode", "i_ino", 8)?;
    offsets.superblock_dev = offset("super_block", "s_dev", 4)?;
    offsets.cred_uid = members.held("cred", "fsuid", 4)?;
    offsets.thread = thread(members.all()).ok_or_else(|| members.lacks("task_struct", "cred"))?;
    if let Some(names) = names(members.all()) {
        names.add_to(offsets);
    }
    Ok(())
}

/// The way from an inode to its path.
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
    /// Unless the wire is recorded as well and its paths are unknown: one global switches both.
    fn add_to(self, offsets: &mut DirectOffsets) {
        let has_wire = offsets.header_inode.offset() != 0;
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

/// The way from a bio to its cgroup, pointer by pointer.
#[derive(Default)]
pub struct GroupOffsets {
    /// `struct blkcg_gq *bi_blkg` of `struct bio`.
    pub bio_group: u32,
    /// `struct blkcg *blkcg` of `struct blkcg_gq`.
    pub group_owner: u32,
    /// `struct cgroup *css.cgroup` of `struct blkcg`.
    pub owner_cgroup: u32,
    /// `struct kernfs_node *kn` of `struct cgroup`.
    pub cgroup_node: Held,
    /// `u64 id` of `struct kernfs_node`.
    pub node_id: Held,
}

/// The way from a bio to its cgroup, if all of it is known and cgroups of I/O are those that distinguish users.
pub fn groups(members: &Members, io_cgroups: bool) -> Option<GroupOffsets> {
    let offset = |structure, member| {
        let found = find(members, structure, member)?;
        (found.size == 8).then_some(found.offset)
    };
    let known = GroupOffsets {
        bio_group: offset("bio", "bi_blkg")?,
        group_owner: offset("blkcg_gq", "blkcg")?,
        owner_cgroup: offset("blkcg", "css.cgroup")?,
        cgroup_node: find_held(members, "cgroup", "kn", &[8])?,
        node_id: find_held(members, "kernfs_node", "id", &[8])?,
    };
    io_cgroups.then_some(known)
}

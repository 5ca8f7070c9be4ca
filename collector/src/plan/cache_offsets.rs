//! Offsets of what the programs on the page cache read in the kernel's structures.

use trackiops_schemas::ebpf::cache::CacheOffsets;
use trackiops_schemas::ebpf::ring::DirectOffsets;

use crate::facts::KernelFacts;
use crate::plan::Levels;
use crate::plan::members::find;
use crate::plan::unsupported::Unsupported;

/// Adds the offsets in this kernel to those of the levels that are there, or says which member is missing.
pub fn add_cache_offsets(
    offsets: &mut DirectOffsets,
    facts: &KernelFacts,
    levels: Levels,
) -> Result<(), Unsupported> {
    let members = facts.members.as_ref();
    let members = members.map_err(|why| Unsupported::NoBlockBtf(why.clone()))?;
    let offset = |structure: &'static str, member: &'static str, size: u32| {
        let found = find(members, structure, member).filter(|found| found.size == size);
        found
            .map(|found| found.offset)
            .ok_or(Unsupported::NoCacheMember {
                release: facts.release.clone(),
                structure,
                member,
            })
    };
    // Folios of several pages, which file systems have since Linux 5.18, say how many they are since 6.1.
    let head = offset("folio", "_head_1", 8).or_else(|_| offset("folio", "__head", 8));
    let pages = offset("folio", "_nr_pages", 4).or_else(|_| offset("folio", "_folio_nr_pages", 4));
    let (folio_head, folio_pages) = head.and_then(|head| Ok((head, pages?))).unwrap_or_default();
    offsets.cache = CacheOffsets {
        is_known: 1,
        has_wire: u32::from(levels.wire),
        has_block: u32::from(levels.block),
        page_bytes: u32::try_from(rustix::param::page_size()).unwrap_or(u32::MAX),
        folio_mapping: offset("page", "mapping", 8)?,
        folio_head,
        folio_pages,
        mapping_host: offset("address_space", "host", 8)?,
        inode_mode: offset("inode", "i_mode", 2)?,
        inode_device: offset("inode", "i_rdev", 4)?,
        inode_generation: offset("inode", "i_generation", 4)?,
        superblock_magic: offset("super_block", "s_magic", 8)?,
        superblock_type: offset("super_block", "s_type", 8)?,
        type_flags: offset("file_system_type", "fs_flags", 4)?,
    };
    Ok(())
}

//! Offsets of the structure members that the programs on the page cache read.

use trackiops_schemas::ebpf::cache::CacheOffsets;
use trackiops_schemas::ebpf::ring::DirectOffsets;

use crate::facts::KernelFacts;
use crate::plan::members::LevelMembers;
use crate::plan::unsupported::Unsupported;

/// Adds the offsets in this kernel to the offsets of the other levels, or returns which member is missing.
pub fn add_cache_offsets(
    offsets: &mut DirectOffsets,
    facts: &KernelFacts,
) -> Result<(), Unsupported> {
    let members = LevelMembers::new(facts, "cache")?;
    let offset = |structure, member, size| members.offset(structure, member, size);
    // File systems use folios of several pages since Linux 5.18; the number of pages is a member since 6.1.
    let pages = offset("folio", "_nr_pages", 4).or_else(|_| offset("folio", "_folio_nr_pages", 4));
    let folio_pages = pages.unwrap_or_default();
    let head_bit = match folio_pages {
        0 => 0,
        _ => facts
            .page_head_bit
            .ok_or_else(|| members.lacks("page", "flags"))?,
    };
    offsets.cache = CacheOffsets {
        is_known: 1,
        page_bytes: u32::try_from(rustix::param::page_size()).unwrap_or(u32::MAX),
        folio_mapping: members.held("page", "mapping", 8)?,
        folio_flags: members.held("page", "flags", 8)?,
        head_bit,
        folio_pages,
        mapping_host: offset("address_space", "host", 8)?,
        // Not members: the levels say whose pages are counted.
        has_wire: 0,
        has_local: 0,
    };
    Ok(())
}

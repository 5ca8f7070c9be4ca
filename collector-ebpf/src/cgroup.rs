//! Whose memory the data of a request is in.

use trackiops_schemas::ring::{CgroupOffsets, cgroups};

use crate::kernel::{Address, global};

/// In a page's `memcg_data`: it is a `struct obj_cgroup` that the page is charged to
/// (`MEMCG_DATA_KMEM`, include/linux/memcontrol.h).
const BY_OBJECT: u64 = 1 << 1;
/// All bits of `memcg_data` that do not belong to the address.
const BITS: u64 = 7;

/// The id of the cgroup that the first page of an NFS request is charged to; `None` if to none.
///
/// The page holds a reference to what it is charged to, and the request to the page.
#[inline(always)]
pub fn of_request(request: Address, offsets: &'static CgroupOffsets) -> Option<u64> {
    let way = global(&offsets.way);
    if way & cgroups::KNOWN == 0 {
        return None;
    }
    let page = Address(request.field(&offsets.request_page)?);
    let page = head(page, page.field(&offsets.page_head)?);
    let owner: u64 = page.field(&offsets.page_owner)?;
    let mut group = Address(owner & !BITS);
    if way & cgroups::BY_OBJECT != 0 || owner & BY_OBJECT != 0 {
        group = Address(group.field(&offsets.object_owner)?);
    }
    let cgroup = Address(group.field(&offsets.owner_cgroup)?);
    let node = Address(cgroup.field(&offsets.cgroup_node)?);
    node.field(&offsets.node_id)
}

/// The page that speaks for all pages of its folio.
///
/// Bit 0 marks the others. They hold the head's address, or, on kernels that share the memory of
/// equal page structures, a mask that leads to it (`_compound_head`, include/linux/page-flags.h).
#[inline(always)]
fn head(page: Address, info: u64) -> Address {
    if info & 1 == 0 {
        page
    } else if info >> 32 == u64::from(u32::MAX) {
        Address(page.0 & info)
    } else {
        Address(info - 1)
    }
}

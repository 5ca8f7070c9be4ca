//! The cgroup that a request's data is charged to, and the cgroup of the calling thread.

use aya_ebpf::helpers::bpf_get_current_cgroup_id;
use trackiops_schemas::ebpf::ring::{CgroupOffsets, cgroups};

use crate::{
    globals::DIRECT,
    kernel_memory::{Address, Memory, Window, global},
};

/// In a page's `memcg_data`: the page is charged to a `struct obj_cgroup`
/// (`MEMCG_DATA_KMEM`, include/linux/memcontrol.h).
const BY_OBJECT: u64 = 1 << 1;
/// All bits of `memcg_data` that do not belong to the address.
const BITS: u64 = 7;

/// The id of the cgroup that the first page of an NFS request is charged to; `None` if there is none.
///
/// The request holds a reference to the page, and the page to the group that it is charged to.
#[inline(always)]
pub fn of_request<M: Memory>(request: Address<M>, offsets: &'static CgroupOffsets) -> Option<u64> {
    let way = global(&offsets.way);
    if way == 0 {
        return None;
    }
    let owner = owner(
        Address::<M>::new(request.field(&offsets.request_page)?),
        offsets,
    )?;
    let mut group = Address::<M>::new(owner & !BITS);
    if way & cgroups::BY_OBJECT != 0 || owner & BY_OBJECT != 0 {
        group = Address::new(group.field(&offsets.object_owner)?);
    }
    let cgroup = Address::<M>::new(group.field(&offsets.owner_cgroup)?);
    let node = Address::<M>::new(cgroup.held(&offsets.cgroup_node)?);
    node.held(&offsets.node_id)
}

/// The id of the current thread's cgroup; 0 where the cgroup of data is unknown, so that rows do not split.
#[inline(always)]
pub fn of_thread<M: Memory>(thread: impl FnOnce() -> Address<M::Trusted>) -> u64 {
    match global(&DIRECT.cgroup.way) & cgroups::KNOWN {
        0 => 0,
        _ => own::<M>(thread),
    }
}

/// [`of_thread`] for local file systems.
#[inline(always)]
pub fn of_local_thread<M: Memory>(thread: impl FnOnce() -> Address<M::Trusted>) -> u64 {
    match global(&DIRECT.local.has_groups) {
        0 => of_thread::<M>(thread),
        _ => own::<M>(thread),
    }
}

#[inline(always)]
fn own<M: Memory>(thread: impl FnOnce() -> Address<M::Trusted>) -> u64 {
    let own = &DIRECT.thread;
    // Plain loads, where possible, take a tenth of the helper's time.
    if !M::SINCE_6_2 || global(own.task_cgroups.word()) == 0 {
        // SAFETY: the helper takes no arguments.
        return unsafe { bpf_get_current_cgroup_id() };
    }
    let cgroup = thread().follow(&own.task_cgroups).follow(&own.cgroups_own);
    let node = cgroup.follow(&DIRECT.cgroup.cgroup_node);
    node.held_or_zero(&DIRECT.cgroup.node_id)
}

/// The `memcg_data` of a page.
#[inline(always)]
fn owner<M: Memory>(page: Address<M>, offsets: &'static CgroupOffsets) -> Option<u64> {
    let mut window = Window::<7>::EMPTY;
    let view = window.fill(page, Some(&offsets.page_head))?;
    match head(page, view.field(&offsets.page_head)?) {
        Some(head) => head.field(&offsets.page_owner),
        None => view.field(&offsets.page_owner),
    }
}

/// The head page of a page's folio, if that is another page.
///
/// Bit 0 marks tail pages. They hold the head's address, or, on kernels that share the memory of
/// equal page structures, a mask that leads to it (`_compound_head`, include/linux/page-flags.h).
#[inline(always)]
fn head<M: Memory>(page: Address<M>, info: u64) -> Option<Address<M>> {
    if info & 1 == 0 {
        None
    } else if info >> 32 == u64::from(u32::MAX) {
        Some(Address::new(page.0 & info))
    } else {
        Some(Address::new(info - 1))
    }
}

//! The page cache: pages that are added, evicted or dirtied are added up like calls of applications, by file, user, cgroup and
//! window.

use core::ptr::NonNull;

use aya_ebpf::helpers::bpf_get_current_pid_tgid;
use trackiops_schemas::ebpf::{
    app_sums::{
        AppKey, AppPlaces, AppValue, FILE_SYSTEM, PAGES_ADDED, PAGES_DIRTIED, PAGES_EVICTED,
    },
    ceiling::shed,
    file_op_sums::NFS_SUPER_MAGIC,
    ring::NO_USER,
};

use crate::{
    application::{self, File, Program},
    block,
    ceiling::is_shed,
    cgroup,
    filter::{self, Who},
    globals::{DIRECT, FILTER, PATHS},
    kernel_memory::{Address, Memory, add, cpu, global, now_ns},
    local,
    maps::APP_PLACES,
    paths, window,
};

/// Bits in a page's `mapping` that mark a value that is not a mapping.
const NO_MAPPING: u32 = block::NO_MAPPING as u32;

/// A page, or a folio of several, is added, evicted or dirtied.
#[inline(always)]
pub fn changed<M: Memory>(program: Program, folio: u64) {
    // It is never 0, but the verifier requires the check.
    if folio != 0 && !is_shed::<M>(shed::PAGE_CACHE) {
        let _ = count::<M>(program, Address::new(folio));
    }
}

#[inline(always)]
fn count<M: Memory>(program: Program, folio: Address<M::Trusted>) -> Option<()> {
    let own = &DIRECT.cache;
    let mapping = folio.follow(&own.folio_mapping);
    if mapping.0 == 0 || mapping.low_half() & NO_MAPPING != 0 {
        return None;
    }
    let inode: u64 = mapping.field(&own.mapping_host)?;
    if inode == 0 {
        return None;
    }
    let inode = Address::<M::Typed>::new(inode);
    let file = file_of(inode);
    let who = who::<M>(program == Program::PagesEvicted);
    let (uid, cgroup) = who;
    let caller = Who::calling(|| uid, || cgroup);
    if global(&FILTER) != 0 && filter::is_left_out(program as u32, file, caller) {
        return None;
    }
    let bytes = bytes::<M>(folio);
    let now_ns = now_ns();
    let places = APP_PLACES.get_ptr_mut(cpu())?;
    let nth = application::number(program as u32, inode)?;
    let sum = match application::begun_before(places, nth, file, who, now_ns) {
        Some(place) => application::value_of(place.as_ptr()),
        None => begin::<M>(places, nth, inode.0, now_ns)?.as_ptr(),
    };
    // SAFETY: a map value, which stays in place while the program runs; every CPU adds atomically.
    unsafe {
        add!(AppValue, sum.calls, 1);
        add!(AppValue, sum.bytes, bytes);
    }
    Some(())
}

/// The file of an inode. If only NFS is recorded, the offset of an inode's generation is not set.
#[inline(always)]
fn file_of<M: Memory>(inode: Address<M>) -> File {
    let own = &DIRECT.cache;
    match (global(&own.has_wire), global(&own.has_local)) {
        (_, 0) => File::of_nfs(inode),
        (0, _) => File::of_local(inode),
        _ => File::of(inode),
    }
}

/// Bytes of a folio.
///
/// `struct folio` is as long as several `struct page`, but only the first is sure to exist: that of a one-page folio may be the last one before a
/// hole in physical memory. So the first page's flags are checked for more pages, and later members are loaded with a fault handler.
#[inline(always)]
fn bytes<M: Memory>(folio: Address<M::Trusted>) -> u64 {
    let own = &DIRECT.cache;
    let page = u64::from(global(&own.page_bytes));
    if global(&own.folio_pages) == 0 {
        return page;
    }
    let flags: u64 = folio.held_or_zero(&own.folio_flags);
    if flags >> global(&own.head_bit) & 1 == 0 {
        return page;
    }
    let pages: u32 = Address::<M>::new(folio.0).field_or_zero(&own.folio_pages);
    page * u64::from(pages.max(1))
}

/// The user and cgroup that add or dirty pages. Evictions have neither: the thread that needs the memory is unrelated to the file.
#[inline(always)]
fn who<M: Memory>(is_evicted: bool) -> (u32, u64) {
    if is_evicted {
        return (NO_USER, 0);
    }
    let thread = M::thread();
    let cred = thread.follow(&DIRECT.thread.task_cred);
    // It is never 0. The verifier requires the check for a type whose objects may be freed.
    let uid = match cred.0 {
        0 => NO_USER,
        _ => cred.held_or_zero(&DIRECT.cred_uid),
    };
    (uid, cgroup::of_local_thread::<M>(|| thread))
}

/// Finds or begins the sum in its place or in a map.
#[inline(never)]
fn begin<M: Memory>(
    places: *mut AppPlaces,
    nth: u64,
    inode: u64,
    now_ns: u64,
) -> Option<NonNull<AppValue>> {
    let own = &DIRECT.cache;
    let object = Address::<M>::new(inode);
    let superblock = Address::<M>::new(object.field(&DIRECT.inode_superblock)?);
    let (window, begin_ns) = window::begin_of_holding::<M>(now_ns)?;
    let program = application::program_of(nth);
    let direction = if program == Program::PagesAdded as u32 {
        PAGES_ADDED
    } else if program == Program::PagesEvicted as u32 {
        PAGES_EVICTED
    } else {
        PAGES_DIRTIED
    };
    let (uid, cgroup) = who::<M>(direction == PAGES_EVICTED);
    let mut key = AppKey {
        fileid: object.field(&DIRECT.inode_number)?,
        cgroup,
        window,
        dev: superblock.field(&DIRECT.superblock_dev)?,
        handle_hash: 0,
        uid,
        direction,
    };
    let magic: u64 = superblock.field(&DIRECT.local.superblock_magic)?;
    let pid = bpf_get_current_pid_tgid() >> 32;
    if magic == NFS_SUPER_MAGIC {
        if global(&own.has_wire) == 0 {
            return None;
        }
        let hash = application::hash(inode);
        match hash <= u64::from(u32::MAX) {
            true => key.handle_hash = hash as u32,
            false => key.fileid = 0,
        }
    } else {
        if global(&own.has_local) == 0 {
            return None;
        }
        local::describe(&mut key, object, superblock, magic)?;
        if key.direction & FILE_SYSTEM == 0 && !local::has_device(superblock)? {
            return None;
        }
    }
    let has_path =
        magic != NFS_SUPER_MAGIC && key.direction & FILE_SYSTEM == 0 && direction != PAGES_EVICTED;
    if global(&FILTER) != 0 && !filter::admits_pages(&key, pid as u32, inode) {
        filter::leave_out(program, file_of(object), Who::calling(|| uid, || cgroup));
        return None;
    }
    let sum = application::claim(places, nth, file_of(object), &mut key, pid, begin_ns)?;
    // SAFETY: a map value, which stays in place while the program runs; `calls` is an aligned word.
    let is_first = unsafe { (&raw const (*sum.as_ptr()).calls).read_volatile() == 0 };
    if has_path && is_first && global(&PATHS) != 0 {
        paths::name_cached(inode, now_ns);
    }
    Some(sum)
}

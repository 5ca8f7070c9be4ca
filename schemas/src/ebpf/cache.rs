//! Offsets that the kernel side needs for the page cache.

use crate::ebpf::offsets::{Held, offsets};

offsets! {
    /// Byte offsets to the members of a page of the cache. Part of [`crate::ebpf::ring::DirectOffsets`], whose offsets
    /// of inodes and superblocks are used, too.
    pub struct CacheOffsets {
        /// 1 if the offsets are known and pages are counted.
        pub is_known: u32,
        /// 1 if pages of NFS files are counted.
        pub has_wire: u32,
        /// 1 if pages of files on block devices are counted.
        pub has_local: u32,
        /// Bytes of a page.
        pub page_bytes: u32,
        /// `struct address_space *mapping` of `struct folio`, or of `struct page`.
        pub folio_mapping: Held,
        /// `unsigned long flags` of `struct folio`, or of `struct page`.
        pub folio_flags: Held,
        /// The bit of these flags for a folio of several pages (`PG_head`).
        pub head_bit: u32,
        /// `unsigned int _nr_pages` of `struct folio`, in the second `struct page` of a folio of several pages; 0 if
        /// all folios have one page.
        pub folio_pages: u32,
        /// `struct inode *host` of `struct address_space`.
        pub mapping_host: u32,
    }
}

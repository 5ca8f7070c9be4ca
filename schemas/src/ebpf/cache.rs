//! What the kernel side has to know about the page cache.

use crate::ebpf::offsets::{Held, offsets};

offsets! {
    /// Where the kernel keeps what a page of the cache is: offsets in bytes. A part of [`crate::ebpf::ring::DirectOffsets`], with which it
    /// shares those of inodes and superblocks.
    pub struct CacheOffsets {
        /// 1 where they are known, and pages are counted.
        pub is_known: u32,
        /// 1 where files of NFS are counted.
        pub has_wire: u32,
        /// 1 where files of file systems on block devices are.
        pub has_local: u32,
        /// Bytes of a page.
        pub page_bytes: u32,
        /// `struct address_space *mapping` of `struct folio`, or of `struct page`.
        pub folio_mapping: Held,
        /// `unsigned long flags` of `struct folio`, or of `struct page`.
        pub folio_flags: Held,
        /// The bit of these flags that says that a folio has several pages (`PG_head`).
        pub head_bit: u32,
        /// `unsigned int _nr_pages` of `struct folio`, in the second `struct page` of a folio of several pages; 0 where each has one.
        pub folio_pages: u32,
        /// `struct inode *host` of `struct address_space`.
        pub mapping_host: u32,
    }
}

//! One ring buffer of the kernel (kernel/bpf/ringbuf.c), read in place.
//!
//! The BPF loader's own reader takes twice as many instructions for a record, and cannot show a
//! record without consuming it.

use std::io;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::param::page_size;
use trackiops_schemas::ebpf::ring::{RECORD_BYTES, RequestRecord, flags};

/// The header before each entry. Its lower half is the length.
const HEADER_BYTES: usize = 8;
/// Bit of the length: the entry is still being written (`BPF_RINGBUF_BUSY_BIT`).
const BUSY: u32 = 1 << 31;
/// Bit of the length: the writer discarded the entry (`BPF_RINGBUF_DISCARD_BIT`).
const DISCARDED: u32 = 1 << 30;

/// A ring, and its read position.
pub struct RingBuffer {
    /// A page with the read position, for the kernel.
    consumer: Mapping,
    /// A page with the write position, followed by the data. The kernel offers a second copy of the data
    /// behind it, so that each entry is in one piece. That copy is not mapped, because it would count as
    /// memory of this process once more.
    producer: Mapping,
    data: NonNull<u8>,
    /// Bytes of the data, minus 1.
    mask: usize,
    /// In bytes since the ring was made, like the other positions: multiples of 8, modulo 2^64.
    read: usize,
    written: usize,
    /// The record at `read`, if one was found there.
    head: Option<NonNull<RequestRecord>>,
    /// Buffer for a record that wraps around to the start of the data. Owned like a box, but
    /// a pointer, because `head` may point to it.
    whole: NonNull<RequestRecord>,
}

impl RingBuffer {
    /// Maps the ring whose descriptor `map` is, with `bytes` of data: a power of two, and of pages.
    pub fn map(map: impl AsFd, bytes: u32) -> io::Result<Self> {
        let (page, bytes) = (page_size(), bytes as usize);
        let consumer = Mapping::new(&map, page, ProtFlags::READ | ProtFlags::WRITE, 0)?;
        let producer = Mapping::new(&map, page + bytes, ProtFlags::READ, page)?;
        // SAFETY: the mapping is longer than a page.
        let data = unsafe { producer.base.add(page) };
        let read = consumer.position().load(Ordering::Acquire);
        Ok(Self {
            consumer,
            producer,
            data,
            mask: bytes - 1,
            read,
            written: read,
            head: None,
            whole: NonNull::from(Box::leak(Box::default())),
        })
    }

    /// Updates the write position.
    pub fn look(&mut self) {
        // Acquire, to see the headers that the kernel wrote before it.
        self.written = self.producer.position().load(Ordering::Acquire);
        self.head = None;
    }

    /// Records between the read position and the write position of the last [`Self::look`].
    pub fn used(&self) -> u64 {
        (self.written.wrapping_sub(self.read) / (HEADER_BYTES + RECORD_BYTES)) as u64
    }

    /// Records for which there is room.
    pub fn capacity(&self) -> u64 {
        ((self.mask + 1) / (HEADER_BYTES + RECORD_BYTES)) as u64
    }

    /// The record that [`Self::find`] has found and that was not passed, if any.
    #[inline]
    pub fn records(&self) -> &[RequestRecord] {
        // SAFETY: `find` sets it to an aligned record in the mapping or in `whole`. Nothing
        // writes to it before it is passed, for which this borrow must end.
        let head = self.head.map(|head| unsafe { head.as_ref() });
        head.map_or(&[], slice::from_ref)
    }

    /// Frees the first `count` of [`Self::records`] for the kernel.
    #[inline]
    pub fn pass(&mut self, count: usize) {
        if count > 0 && self.head.take().is_some() {
            self.skip(RECORD_BYTES);
        }
    }

    /// Finds the oldest record that had arrived at the last [`Self::look`] and was not passed, if it completed by `until_ns`. Skips
    /// entries that are not valid records: the books show the difference to the records read.
    #[inline]
    pub fn find(&mut self, until_ns: u64) {
        self.head = None;
        while self.read != self.written {
            let at = self.read & self.mask;
            // SAFETY: a multiple of 8 that is less than the length of the data, which is aligned to
            // pages.
            let length = unsafe { self.data.add(at).cast::<AtomicU32>().as_ref() };
            // The kernel clears the busy bit when the entry is written.
            let length = length.load(Ordering::Acquire);
            if length == RECORD_BYTES as u32 {
                let record = self.record((at + HEADER_BYTES) & self.mask);
                // SAFETY: the record is in the mapping or in `whole`, aligned, and no longer written to. It
                // consists of integers.
                let RequestRecord { flags, end_ns, .. } = unsafe { record.as_ref() };
                if flags & !flags::OF_REQUESTS == 0 {
                    self.head = Some(record).filter(|_| *end_ns <= until_ns);
                    return;
                }
            } else if length & BUSY != 0 {
                return;
            }
            self.skip((length & !DISCARDED) as usize);
        }
    }

    /// The record that begins at the offset `at`, a multiple of 8 that is less than the length of
    /// the data.
    #[inline]
    fn record(&mut self, at: usize) -> NonNull<RequestRecord> {
        if at + RECORD_BYTES > self.mask + 1 {
            return self.put_together(at);
        }
        // SAFETY: the record ends before the end of the data.
        unsafe { self.data.add(at).cast() }
    }

    #[cold]
    fn put_together(&mut self, at: usize) -> NonNull<RequestRecord> {
        let first = self.mask + 1 - at;
        let whole = self.whole.cast::<u8>();
        // SAFETY: copies one record, from the end of the data and from its start. The kernel
        // no longer writes to it, and `&mut self` excludes a borrow of `head`.
        unsafe {
            self.data.add(at).copy_to_nonoverlapping(whole, first);
            self.data
                .copy_to_nonoverlapping(whole.add(first), RECORD_BYTES - first);
        }
        self.whole
    }

    fn skip(&mut self, length: usize) {
        let entry = (HEADER_BYTES + length).next_multiple_of(8);
        self.read = self.read.wrapping_add(entry);
        // Release: the kernel writes to these bytes only after it has seen this position.
        self.consumer.position().store(self.read, Ordering::Release);
    }
}

impl Drop for RingBuffer {
    fn drop(&mut self) {
        // SAFETY: `map` made the pointer from a box, and no reference outlives `self`.
        drop(unsafe { Box::from_raw(self.whole.as_ptr()) });
    }
}

/// Memory that is shared with the kernel, and begins with a position.
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(map: impl AsFd, bytes: usize, protection: ProtFlags, at: usize) -> io::Result<Self> {
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let base = unsafe {
            mmap(
                null_mut(),
                bytes,
                protection,
                MapFlags::SHARED,
                map,
                at as u64,
            )?
        };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { base, bytes })
    }

    fn position(&self) -> &AtomicUsize {
        // SAFETY: mapped until `self` is dropped, aligned to a page, and only accessed as an
        // atomic.
        unsafe { self.base.cast().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped these bytes, and no reference outlives `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
pub mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use rustix::fs::{MemfdFlags, memfd_create};
    use zerocopy::IntoBytes as _;

    use super::*;

    /// Simulates the kernel: writes a ring into a file.
    pub struct Kernel {
        file: File,
        bytes: u32,
        written: u64,
    }

    impl Kernel {
        /// A ring with `bytes` of data, whose positions start at `begin`.
        pub fn ring(bytes: u32, begin: u64) -> (Self, RingBuffer) {
            let file = File::from(memfd_create("ring", MemfdFlags::CLOEXEC).unwrap());
            let page = page_size() as u64;
            file.set_len(2 * page + u64::from(bytes)).unwrap();
            let written = begin;
            for position in [0, page] {
                file.write_all_at(&begin.to_ne_bytes(), position).unwrap();
            }
            let ring = RingBuffer::map(&file, bytes).unwrap();
            (
                Self {
                    file,
                    bytes,
                    written,
                },
                ring,
            )
        }

        fn write(&self, at: u64, word: [u8; 8]) {
            let (page, bytes) = (page_size() as u64, u64::from(self.bytes));
            self.file
                .write_all_at(&word, 2 * page + at % bytes)
                .unwrap();
        }

        /// Writes an entry of that length into the ring, and returns its offset.
        fn entry(&mut self, length: u32, data: &[u8]) -> u64 {
            let page = page_size() as u64;
            let mut consumed = [0; 8];
            self.file.read_exact_at(&mut consumed, 0).unwrap();
            let at = self.written;
            let next = at + 8 + (data.len() as u64).next_multiple_of(8);
            assert!(
                next - u64::from_ne_bytes(consumed) <= u64::from(self.bytes),
                "full"
            );
            self.write(at, u64::from(length).to_ne_bytes());
            for (n, part) in data.chunks(8).enumerate() {
                let mut word = [0; 8];
                word[..part.len()].copy_from_slice(part);
                self.write(at + 8 + 8 * n as u64, word);
            }
            self.written = next;
            self.file.write_all_at(&next.to_ne_bytes(), page).unwrap();
            at
        }

        /// Writes an empty entry.
        pub fn ring_bell(&mut self) {
            self.entry(DISCARDED, &[]);
        }

        pub fn put(&mut self, record: &RequestRecord) {
            self.entry(RECORD_BYTES as u32, record.as_bytes());
        }
    }

    pub fn record(end_ns: u64, fileid: u64) -> RequestRecord {
        RequestRecord {
            end_ns,
            latency_ns: 1,
            fileid,
            offset: 2,
            asked_bytes: 3,
            done_bytes: 4,
            dev: 5,
            handle_hash: 6,
            error: -7,
            pid: 8,
            flags: flags::WRITE,
            uid: 9,
            cgroup: 10,
            ..RequestRecord::default()
        }
    }

    fn take(ring: &mut RingBuffer) -> Vec<RequestRecord> {
        let mut taken = Vec::new();
        loop {
            ring.find(u64::MAX);
            let Some(record) = ring.records().first() else {
                return taken;
            };
            taken.push(*record);
            ring.pass(1);
        }
    }

    #[test]
    fn every_record_is_read_once_all_around_the_ring() {
        // Positions wrap at 2^64. Only a test gets there.
        const ENTRY: usize = HEADER_BYTES + RECORD_BYTES;
        const ROOM: u64 = (4096 / ENTRY) as u64;
        let (mut kernel, mut ring) = Kernel::ring(4096, ENTRY as u64 * ROOM);
        let mut number = 0;
        for round in 0..200_u64 {
            let records: Vec<_> = (0..round % (ROOM + 1))
                .map(|n| record(number + n, round))
                .collect();
            number += round % (ROOM + 1);
            // These fit only if earlier records were freed.
            records.iter().for_each(|record| kernel.put(record));
            assert_eq!(take(&mut ring), [], "not looked yet");
            ring.look();
            assert_eq!(take(&mut ring), records);
        }
    }

    #[test]
    fn what_is_no_record_is_left_out_and_what_is_not_written_yet_waits() {
        let (mut kernel, mut ring) = Kernel::ring(4096, 0);
        let unknown = RequestRecord {
            flags: !flags::OF_REQUESTS,
            ..record(1, 1)
        };
        kernel.put(&unknown);
        kernel.put(&record(2, 2));
        kernel.entry(RECORD_BYTES as u32 | DISCARDED, record(3, 3).as_bytes());
        kernel.entry(13, &[0; 13]);
        kernel.put(&record(4, 4));
        let busy = kernel.entry(RECORD_BYTES as u32 | BUSY, record(5, 5).as_bytes());
        kernel.put(&record(6, 6));
        ring.look();
        ring.find(1);
        assert_eq!(ring.records(), [], "it completed later");
        assert_eq!(take(&mut ring), [record(2, 2), record(4, 4)]);
        kernel.write(busy, (RECORD_BYTES as u64).to_ne_bytes());
        ring.look();
        assert_eq!(take(&mut ring), [record(5, 5), record(6, 6)]);
    }
}

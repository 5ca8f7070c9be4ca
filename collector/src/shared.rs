//! What userspace and the programs tell each other through shared memory: their books, the time, and the epoch of paths.
//!
//! Not by bpf(2): its map operations keep programs on classic tracepoints off the caller's CPU
//! (`bpf_disable_instrumentation` in kernel/bpf/syscall.c), on a preemptible kernel for as long as the caller
//! is preempted in them: on Linux 7.2 such calls in a tight loop cost runs of the tracepoint engine's programs.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::slice;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use trackiops_schemas::ring::{BOOKS_SLOTS, Books};

/// One [`Books`] as words that the kernel side adds to.
type Slot = [AtomicU64; size_of::<Books>() / 8];

/// The array of [`Books`] that the programs count in.
pub struct SharedBooks {
    slots: &'static [Slot],
}

impl SharedBooks {
    /// Maps the array whose descriptor `map` is, as far as that many CPUs use it.
    pub fn map(map: impl AsFd, cpus: u32) -> io::Result<Self> {
        let count = cpus.min(BOOKS_SLOTS) as usize;
        // SAFETY: a new mapping, at an address that the kernel chooses, until `self` is dropped. Its
        // words are aligned, and written by atomic instructions only.
        let slots = unsafe {
            let bytes = count * size_of::<Slot>();
            let base = mmap(null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, map, 0)?;
            slice::from_raw_parts(base.cast(), count)
        };
        Ok(Self { slots })
    }

    /// The sum of all slots. The order of reading keeps `recorded + folded + lost <= seen`.
    pub fn read(&self) -> Books {
        let sum = |offset: usize| {
            let counters = self.slots.iter().map(|slot| &slot[offset / 8]);
            counters.map(|c| c.load(Ordering::Acquire)).sum()
        };
        let recorded = sum(offset_of!(Books, recorded));
        let folded = sum(offset_of!(Books, folded));
        let lost = sum(offset_of!(Books, lost));
        let seen = sum(offset_of!(Books, seen));
        Books {
            seen,
            recorded,
            folded,
            lost,
        }
    }
}

/// A word that the programs read.
pub struct SharedWord {
    word: &'static AtomicI64,
}

impl SharedWord {
    /// Maps the array whose descriptor `map` is.
    pub fn map(map: impl AsFd) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as for the books; the programs only read.
        let word = unsafe {
            let bytes = size_of::<AtomicI64>();
            let base = mmap(null_mut(), bytes, protection, MapFlags::SHARED, map, 0)?;
            &*base.cast::<AtomicI64>()
        };
        Ok(Self { word })
    }

    /// Tells the programs.
    pub fn set(&self, value: i64) {
        self.word.store(value, Ordering::Relaxed);
    }

    /// Tells the programs another value than before.
    pub fn raise(&self) {
        self.word.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for SharedWord {
    fn drop(&mut self) {
        // SAFETY: as for the books.
        let _ = unsafe { munmap(self.word.as_ptr().cast(), size_of_val(self.word)) };
    }
}

impl Drop for SharedBooks {
    fn drop(&mut self) {
        // SAFETY: what `map` mapped; the slice never left `self`.
        let _ = unsafe {
            munmap(
                self.slots.as_ptr().cast_mut().cast(),
                size_of_val(self.slots),
            )
        };
    }
}

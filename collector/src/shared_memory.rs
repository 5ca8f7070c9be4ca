//! Memory that userspace and the programs share: counters, the time, and the epoch of paths.
//!
//! It is used instead of bpf(2), whose map operations keep programs on classic tracepoints from
//! running on the caller's CPU (`bpf_disable_instrumentation` in kernel/bpf/syscall.c). On a
//! preemptible kernel that lasts while the caller is preempted. On Linux 7.2, such calls in a tight
//! loop cost runs of the tracepoint engine's programs.

use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::ptr::null_mut;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use trackiops_schemas::ebpf::ceiling::Ceiling;
use trackiops_schemas::ebpf::ring::{BOOKS_SLOTS, Books};
use trackiops_schemas::shed::Details;

use crate::clock::MonotonicNs;

/// Words of an array map, which the programs may read and write at any time.
pub struct SharedWords {
    words: &'static [AtomicU64],
}

impl SharedWords {
    /// Maps the first `count` words of the array whose descriptor `map` is.
    pub fn map(map: impl AsFd, count: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses, valid until `self` is dropped.
        // Its words are aligned, and the programs write them by instructions that write a whole
        // word.
        let words = unsafe {
            let bytes = count * size_of::<AtomicU64>();
            let base = mmap(null_mut(), bytes, protection, MapFlags::SHARED, map, 0)?;
            slice::from_raw_parts(base.cast(), count)
        };
        Ok(Self { words })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        self.words
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        let base = self.words.as_ptr().cast_mut().cast();
        // SAFETY: `map` mapped these words, and the slice never left `self`.
        let _ = unsafe { munmap(base, size_of_val(self.words)) };
    }
}

/// Words of one [`Books`].
const BOOKS_WORDS: usize = size_of::<Books>() / 8;

/// The array of [`Books`] that the programs count in.
pub struct SharedBooks {
    words: SharedWords,
}

impl SharedBooks {
    /// Maps the array whose descriptor `map` is, for that many CPUs.
    pub fn map(map: impl AsFd, cpus: u32) -> io::Result<Self> {
        let slots = cpus.min(BOOKS_SLOTS) as usize;
        let words = SharedWords::map(map, slots * BOOKS_WORDS)?;
        Ok(Self { words })
    }

    /// The sum of all slots. The order of reading keeps `recorded + folded + lost <= seen`.
    pub fn read(&self) -> Books {
        let sum = |offset: usize| {
            let counters = self.words.words().iter().skip(offset / 8);
            let counters = counters.step_by(BOOKS_WORDS);
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

/// The details that the programs leave out.
pub struct SharedCeiling {
    words: SharedWords,
}

impl SharedCeiling {
    /// Wraps the words of a [`Ceiling`].
    pub fn new(words: SharedWords) -> Self {
        Self { words }
    }

    /// Makes the programs leave out these details from now on. Begins of calls from before are void.
    pub fn shed(&self, details: Details, now: MonotonicNs) {
        let set = |offset: usize, value| {
            for word in self.words.words().iter().skip(offset / 8).take(1) {
                word.store(value, Ordering::Release);
            }
        };
        // First, so that no program uses an older begin when it resumes a detail.
        set(offset_of!(Ceiling, since_ns), now.0);
        set(offset_of!(Ceiling, shed), details.bits());
    }
}

/// A word that the programs read.
pub struct SharedWord {
    word: SharedWords,
}

impl SharedWord {
    /// Maps the array whose descriptor `map` is.
    pub fn map(map: impl AsFd) -> io::Result<Self> {
        SharedWords::map(map, 1).map(|word| Self { word })
    }

    /// Sets the word for the programs.
    pub fn set(&self, value: i64) {
        for word in self.word.words() {
            word.store(value.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// Changes the value that the programs read.
    pub fn increment(&self) {
        for word in self.word.words() {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }
}

//! Limits of an execution, and panics that are allowed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// libFuzzer checks touched memory once a second; this limits allocations.
const MOST_BYTES: usize = 512 << 20;

/// The system's allocator, which ends the process if too much is allocated at once.
pub struct Limited;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

fn count(bytes: usize) {
    if ALLOCATED.fetch_add(bytes, Relaxed) + bytes > MOST_BYTES {
        ALLOCATED.store(0, Relaxed);
        panic::set_hook(Box::new(|_| {}));
        eprintln!(
            "more than {MOST_BYTES} bytes are allocated, of which {bytes} at once, by:\n{}",
            Backtrace::force_capture()
        );
        std::process::abort();
    }
}

// SAFETY: it calls the system's allocator, and only counts in addition.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        count(size);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Caught panics in external crates are not bugs: Parquet's reader panics on some damage, and the code that reads segments catches that.
/// Uncaught panics still end the process. `TRACKIOPS_FUZZ_PANICS=1` shows their places.
pub fn forgive_other_crates() {
    let abort = panic::take_hook();
    let show = std::env::var_os("TRACKIOPS_FUZZ_PANICS").is_some();
    panic::set_hook(Box::new(move |info| {
        let file = info.location().map_or("", |location| location.file());
        if !file.contains("/registry/") && !file.starts_with("/rustc/") {
            abort(info);
        } else if show {
            eprintln!("{info}\n{}", Backtrace::force_capture());
        }
    }));
}

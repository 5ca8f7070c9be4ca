//! Makes the allocator return freed memory to the system.
//!
//! Sealing and merging briefly take many times the memory of recording. glibc would keep that memory, so the recorder
//! would stay as large as its largest merge.

/// Returns large blocks to the system as soon as they are freed.
///
/// By default, glibc raises the threshold for this to the size of each such block that is freed. It
/// takes smaller blocks from the end of the thread's arena. [`give_back`] does not reach that end,
/// and up to twice the threshold of free memory stays there.
pub(crate) fn give_back_large() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `mallopt` takes two integers and accesses no memory of ours.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BYTES);
    }
}

/// Larger than most blocks that are allocated repeatedly.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 1 << 20;

/// Returns freed memory to the system, except at the ends of arenas: see [`give_back_large`].
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` only touches memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::fs;
    use std::hint::black_box;
    use std::thread;

    use super::*;

    fn resident_bytes() -> Option<i64> {
        let pages = fs::read_to_string("/proc/self/statm").ok()?;
        let pages: i64 = pages.split(' ').nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size().cast_signed() as i64)
    }

    #[test]
    fn what_a_thread_has_freed_is_given_back() {
        let kept = thread::spawn(|| {
            give_back_large();
            let before = resident_bytes().unwrap();
            let touched = |mib: usize| black_box(vec![1_u8; mib << 20]);
            // Without the call above, freeing this would raise the threshold, and glibc would keep
            // the rest.
            drop(touched(31));
            drop((touched(25), touched(25)));
            give_back();
            (resident_bytes().unwrap() - before) >> 20
        });
        let kept = kept.join().unwrap();
        assert!(kept < 25, "{kept} MiB");
    }
}

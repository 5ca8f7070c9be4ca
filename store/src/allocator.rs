//! Has the allocator give back memory that is no longer needed.
//!
//! Sealing and merging take many times the memory of recording for a moment. glibc would keep it, so that a recorder's memory
//! grew to what the largest of them took.

/// Lets what is large be given back as soon as it is freed.
///
/// glibc raises the size from which on it does that to that of whatever was freed. What is smaller it takes from, and frees to, the end
/// of the thread's arena, which [`give_back`] does not reach, and lets up to twice that size gather there.
pub(crate) fn give_back_large() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets numbers of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BYTES);
    }
}

/// Larger than most that is allocated again and again.
#[cfg(target_env = "gnu")]
const LARGE_BYTES: libc::c_int = 1 << 20;

/// Gives back what was freed, but for the ends of arenas: see [`give_back_large`].
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches only memory that is free.
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
            // Freeing this would let glibc keep what is smaller.
            drop(touched(31));
            drop((touched(25), touched(25)));
            give_back();
            (resident_bytes().unwrap() - before) >> 20
        });
        let kept = kept.join().unwrap();
        assert!(kept < 25, "{kept} MiB");
    }
}

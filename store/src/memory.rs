//! Memory that is no longer needed.

/// Gives back to the system what was freed. Sealing and merging take many times the memory of recording for a moment; glibc would
/// keep it, so that a recorder's memory grew to what the largest of them took.
pub(crate) fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

//! Limit on the memory for reading a file from outside the store.

use std::sync::atomic::{AtomicU64, Ordering};

/// The limit unless [`limit_read_memory`] was called.
const DEFAULT_READ_MEMORY: u64 = 1 << 30;

static MOST_BYTES: AtomicU64 = AtomicU64::new(DEFAULT_READ_MEMORY);

/// Limits the memory for reading a file in this process from now on.
pub fn limit_read_memory(bytes: u64) {
    MOST_BYTES.store(bytes, Ordering::Relaxed);
}

/// The limit.
pub fn read_memory() -> u64 {
    MOST_BYTES.load(Ordering::Relaxed)
}

/// Memory that decoded values of a file may take. Buffers grow by doubling, and callers convert values once more.
pub fn most_decoded_bytes() -> u64 {
    read_memory() / 4
}

/// The end of an error message: the limit, and how to raise it.
pub fn beyond_limit() -> String {
    let mib = read_memory() >> 20;
    format!("more than --max-read-memory ({mib} MiB) allows; raise it if you trust the file")
}

//! Reports panics of libraries that decode files as damage.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Decodes Parquet or Arrow. An error says why that failed, also for a panic of their readers.
pub fn caught<T, E: ToString>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(_) => Err("it cannot be decoded".to_owned()),
    }
}

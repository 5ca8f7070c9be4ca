//! Panics of the libraries that decode files: they are reported as damage.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What comes of decoding Parquet, or Arrow, or why nothing does: their readers may panic.
pub fn caught<T, E: ToString>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(decoded) => decoded.map_err(|error| error.to_string()),
        Err(_) => Err("it cannot be decoded".to_owned()),
    }
}

//! Values of flags that count something.

use std::num::NonZeroUsize;

/// Parses a whole number from 1 on.
pub fn from_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a count: write a whole number from 1 on, such as 20"))
}

/// Parses a whole number.
pub fn from_zero(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a count: write a whole number, such as 2"))
}

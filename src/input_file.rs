//! Files with what a user wants: rules, prices, coefficients.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

/// Most bytes of such a file.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a file; `what` names it in errors, such as the option that does.
pub fn read_file(what: &str, path: &Path) -> anyhow::Result<String> {
    let named = || format!("{what}: cannot read {}", path.display());
    let bytes = fs::metadata(path).with_context(named)?.len();
    if bytes > MOST_BYTES {
        bail!(
            "{what}: {} has {bytes} bytes; at most {MOST_BYTES} are read",
            path.display()
        );
    }
    fs::read_to_string(path).with_context(named)
}

//! Files with a user's input: rules, prices, coefficients.

use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, bail};
use trackiops_schemas::regular_file::open_regular;

/// Most bytes of such a file.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a file. `what` names it in errors, for example by its option.
pub fn read_file(what: &str, path: &Path) -> anyhow::Result<String> {
    let text = read(path).with_context(|| format!("{what}: cannot read {}", path.display()))?;
    if text.len() as u64 > MOST_BYTES {
        bail!(
            "{what}: {} has more than {} MiB, and no more is read",
            path.display(),
            MOST_BYTES >> 20
        );
    }
    Ok(text)
}

/// Reads one byte more than [`MOST_BYTES`] at most, whatever the length of the file.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = open_regular(path)?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    Ok(text)
}

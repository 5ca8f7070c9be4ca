//! File system images made from directories, without mounting anything.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::host;

/// Makes a compact ext4 image of a directory, to be mounted read-only: no journal, no reserve.
pub fn ext4(dir: &Path, image: &Path) -> Result<()> {
    let usage = usage(dir)?;
    let inodes = usage.files + 64;
    // Data, inode tables (256 bytes each), and room for directories, extents and group descriptors.
    let kib = usage.bytes / 1024 + inodes / 4 + usage.bytes / 1024 / 32 + 8192;
    let mut command = host::as_root("mke2fs");
    command.args([
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^has_journal,^resize_inode,^metadata_csum",
        "-m",
        "0",
        "-b",
        "4096",
    ]);
    command
        .arg("-N")
        .arg(inodes.to_string())
        .arg("-d")
        .arg(dir)
        .arg(image)
        .arg(format!("{kib}k"));
    host::output(&mut command).with_context(|| format!("cannot make {}", image.display()))?;
    Ok(())
}

#[derive(Default)]
struct Usage {
    files: u64,
    /// In whole blocks of 4 KiB.
    bytes: u64,
}

fn usage(dir: &Path) -> Result<Usage> {
    let mut usage = Usage::default();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
            let entry = entry?;
            let metadata = entry.path().symlink_metadata()?;
            usage.files += 1;
            usage.bytes += metadata.size().next_multiple_of(4096);
            if metadata.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    Ok(usage)
}

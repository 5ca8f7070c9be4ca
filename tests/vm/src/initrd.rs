//! The initial RAM disk: a static busybox, a few modules, one script; as a newc cpio archive.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::built::Built;
use crate::cache::Cache;
use crate::host;

const INIT: &str = include_str!("../guest/init");

const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;

/// The initrd for a kernel, from the cache or made now (takes milliseconds).
pub fn get(cache: &Cache, kernel: &Built, busybox: &Path) -> Result<PathBuf> {
    let bytes = make(kernel, busybox)?;
    let key = host::sha256(&bytes)?;
    let dir = match cache.get("initrd", &key) {
        Some(dir) => dir,
        None => {
            let _lock = cache.lock()?;
            // Another process may have made it meanwhile.
            match cache.get("initrd", &key) {
                Some(dir) => dir,
                None => cache.build("initrd", &key, |dir| {
                    Ok(fs::write(dir.join("initrd"), &bytes)?)
                })?,
            }
        }
    };
    Ok(dir.join("initrd"))
}

fn make(kernel: &Built, busybox: &Path) -> Result<Vec<u8>> {
    let mut cpio = Cpio::default();
    for dir in ["bin", "dev", "image", "modules", "newroot", "proc"] {
        cpio.directory(dir);
    }
    cpio.file("init", 0o755, INIT.as_bytes());
    cpio.file(
        "bin/busybox",
        0o755,
        &fs::read(busybox).context("cannot read busybox")?,
    );
    for module in &kernel.early_modules {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        let bytes =
            fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
        cpio.file(&format!("modules/{name}"), 0o644, &bytes);
    }
    Ok(cpio.finish())
}

/// A newc archive (kernel: Documentation/driver-api/early-userspace/buffer-format.rst).
#[derive(Default)]
struct Cpio {
    bytes: Vec<u8>,
    inode: u32,
}

impl Cpio {
    fn directory(&mut self, name: &str) {
        self.entry(name, S_IFDIR | 0o755, &[]);
    }

    fn file(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.entry(name, S_IFREG | mode, data);
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.inode += 1;
        let size = data.len();
        // inode, mode, uid, gid, links, mtime, size, device, special device, name with its NUL, checksum
        let fields = [
            self.inode as usize,
            mode as usize,
            0,
            0,
            1,
            0,
            size,
            0,
            0,
            0,
            0,
            name.len() + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(data);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.inode = 0;
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_the_newc_layout() {
        let mut cpio = Cpio::default();
        cpio.file("bin/a", 0o755, b"hello");
        let bytes = cpio.finish();
        assert_eq!(&bytes[..6], b"070701");
        let field = |n: usize| {
            let text = std::str::from_utf8(&bytes[6 + 8 * n..14 + 8 * n]).unwrap();
            u32::from_str_radix(text, 16).unwrap()
        };
        assert_eq!(field(1), 0o100_755);
        assert_eq!((field(6), field(11)), (5, 6));
        assert_eq!(&bytes[110..116], b"bin/a\0");
        assert_eq!(&bytes[116..121], b"hello");
        // The next header starts on a multiple of four.
        assert_eq!(&bytes[124..130], b"070701");
        assert!(bytes.len() % 4 == 0 && bytes.windows(10).any(|w| w == b"TRAILER!!!"));
    }
}

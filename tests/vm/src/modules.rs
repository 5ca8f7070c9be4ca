//! A kernel's module tree: pruning, decompression, and the order of loading.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::host;

/// Prefixes of modules that are not needed here: nine tenths of the tree.
pub const DROPPED: &[&str] = &[
    "drivers/accel",
    "drivers/bluetooth",
    "drivers/comedi",
    "drivers/crypto",
    "drivers/edac",
    "drivers/firewire",
    "drivers/gpu",
    "drivers/hid",
    "drivers/hwmon",
    "drivers/i2c",
    "drivers/iio",
    "drivers/infiniband/hw",
    "drivers/infiniband/sw/rdmavt",
    "drivers/infiniband/sw/siw",
    "drivers/infiniband/ulp",
    "drivers/input",
    "drivers/isdn",
    "drivers/leds",
    "drivers/media",
    "drivers/memstick",
    "drivers/mfd",
    "drivers/misc",
    "drivers/mmc",
    "drivers/mtd",
    "drivers/net/can",
    "drivers/net/dsa",
    "drivers/net/ethernet",
    "drivers/net/fddi",
    "drivers/net/ieee802154",
    "drivers/net/phy",
    "drivers/net/usb",
    "drivers/net/wan",
    "drivers/net/wireless",
    "drivers/net/wwan",
    "drivers/pcmcia",
    "drivers/platform",
    "drivers/power",
    "drivers/scsi/",
    "drivers/staging",
    "drivers/thunderbolt",
    "drivers/usb",
    "drivers/video",
    "drivers/watchdog",
    "drivers/xen",
    "net/bluetooth",
    "net/can",
    "net/mac80211",
    "net/nfc",
    "net/wireless",
    "sound",
];

/// Removes the dropped modules below a release's directory.
pub fn prune(base: &Path) -> Result<()> {
    for prefix in DROPPED {
        drop_prefix(&base.join("kernel").join(prefix))?;
    }
    Ok(())
}

/// Removes a directory; with a trailing slash, keeps the files directly in it (shared cores of a subsystem).
fn drop_prefix(path: &Path) -> Result<()> {
    if !path.is_dir() {
        return Ok(());
    }
    if !path.as_os_str().to_string_lossy().ends_with('/') {
        return Ok(fs::remove_dir_all(path)?);
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Decompresses modules once on the host, because emulation is slow.
pub fn decompress(base: &Path) -> Result<()> {
    for (extension, program) in [("xz", "xz"), ("zst", "zstd")] {
        let script = format!(
            "find . -name '*.ko.{extension}' -print0 | xargs -0 -r -n 64 -P 4 {program} -d -q {}",
            if program == "zstd" { "--rm" } else { "" }
        );
        host::run(
            host::with_sbin("sh")
                .args(["-c", &script])
                .current_dir(base),
        )
        .context("cannot decompress the modules")?;
    }
    Ok(())
}

/// Files of the named modules and their dependencies, dependencies first, from `modules.dep`. Modules in `modules.builtin` have no file. A
/// module in neither list does not exist.
pub fn load_order<'a>(
    dependencies: &'a str,
    built_in: &str,
    names: &[&str],
) -> Result<Vec<&'a str>> {
    let lines: Vec<(&str, Vec<&str>)> = dependencies
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needs)| (file, needs.split_whitespace().collect()))
        .collect();
    let mut order: Vec<&str> = Vec::new();
    for name in names {
        let Some((file, needs)) = lines.iter().find(|(file, _)| module_name(file) == *name) else {
            if built_in.lines().any(|file| module_name(file) == *name) {
                continue;
            }
            bail!("it has no module {name}");
        };
        // depmod lists dependencies in reverse order.
        for module in needs.iter().rev().chain([file]) {
            if !order.contains(module) {
                order.push(module);
            }
        }
    }
    Ok(order)
}

/// The name that `lsmod` shows for a module file.
fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_load_after_what_they_need() {
        let dep = "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko kernel/fs/mbcache.ko\n\
                   kernel/fs/jbd2/jbd2.ko:\nkernel/drivers/block/virtio-blk.ko: kernel/lib/crc16.ko\n";
        let built_in = "kernel/drivers/char/virtio-console.ko\n";
        assert_eq!(
            load_order(dep, built_in, &["virtio_blk", "virtio_console", "ext4"]).unwrap(),
            [
                "kernel/lib/crc16.ko",
                "kernel/drivers/block/virtio-blk.ko",
                "kernel/fs/mbcache.ko",
                "kernel/fs/jbd2/jbd2.ko",
                "kernel/fs/ext4/ext4.ko"
            ]
        );
    }

    #[test]
    fn a_module_that_is_nowhere_is_named() {
        let error = load_order("kernel/fs/nfs/nfs.ko:\n", "", &["nfs", "nfsd"]).unwrap_err();
        assert_eq!(format!("{error}"), "it has no module nfsd");
    }

    #[test]
    fn a_trailing_slash_keeps_the_core_of_a_subsystem() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("scsi/vendor")).unwrap();
        fs::write(dir.path().join("scsi/core.ko"), "").unwrap();
        drop_prefix(&dir.path().join("scsi/")).unwrap();
        assert!(
            dir.path().join("scsi/core.ko").exists() && !dir.path().join("scsi/vendor").exists()
        );
        drop_prefix(&dir.path().join("scsi")).unwrap();
        assert!(!dir.path().join("scsi").exists());
    }
}

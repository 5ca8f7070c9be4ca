//! The kernels: where each comes from, and its boot image and modules.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::apt::Suite;
use crate::cache::Cache;
use crate::host;
use crate::image;
use crate::lock::{Lock, Package};
use crate::packages::{self, Source};

/// Raised when the way a kernel entry is made changes.
const RECIPE: u32 = 2;

/// A kernel that can be asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Name on the command line.
    pub name: &'static str,
    pub suite: Suite,
}

/// Every kernel: the default one of a Debian release each.
pub const KERNELS: &[Kernel] = &[
    Kernel {
        name: "5.10",
        suite: Suite {
            name: "bullseye",
            security: true,
            frozen: true,
        },
    },
    Kernel {
        name: "6.1",
        suite: Suite {
            name: "bookworm",
            security: true,
            frozen: false,
        },
    },
    Kernel {
        name: "6.12",
        suite: Suite {
            name: "trixie",
            security: true,
            frozen: false,
        },
    },
    Kernel {
        name: "newest",
        suite: Suite {
            name: "sid",
            security: false,
            frozen: false,
        },
    },
];

/// Depends on the image (and modules, where they are apart) of the suite's default kernel.
const META_PACKAGE: &str = "linux-image-amd64";

/// Modules that nothing here can need, by prefix: they are nine tenths of the tree.
const DROPPED: &[&str] = &[
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
    "drivers/infiniband",
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

/// A kernel ready to boot.
#[derive(Clone, Debug)]
pub struct Built {
    /// Full release, for example `6.12.107+deb13-amd64`.
    pub release: String,
    pub vmlinuz: PathBuf,
    /// squashfs image to mount at /usr/lib/modules.
    pub modules_image: PathBuf,
    /// Module files needed before the root can be mounted, in order of loading.
    pub early_modules: Vec<PathBuf>,
}

/// Loaded by the initrd: the disks, the file systems on them, the channels to the host.
const EARLY: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "squashfs",
    "overlay",
    "virtio_console",
];

impl Kernel {
    pub fn by_name(name: &str) -> Result<&'static Self> {
        KERNELS.iter().find(|k| k.name == name).with_context(|| {
            let known: Vec<&str> = KERNELS.iter().map(|k| k.name).collect();
            format!("unknown kernel `{name}`; known: {}", known.join(", "))
        })
    }

    pub fn section(&self) -> String {
        format!("kernel-{}", self.name)
    }

    /// The kernel's packages in their current version.
    pub fn resolve(&self, source: &Source) -> Result<Vec<Package>> {
        let mut packages = source
            .apt(self.suite)?
            .resolve(&[META_PACKAGE.to_string()])?;
        packages.retain(|p| {
            p.name != META_PACKAGE
                && (p.name.starts_with("linux-image-")
                    || p.name.starts_with("linux-modules-")
                    || p.name.starts_with("linux-binary-"))
        });
        if packages.is_empty() {
            bail!("{} has no kernel in {META_PACKAGE}", self.suite.name);
        }
        Ok(packages)
    }

    fn key(&self, lock: &Lock) -> Result<String> {
        let packages = lock.section(&self.section())?;
        let hashes: Vec<&str> = packages.iter().map(|p| p.sha256.as_str()).collect();
        host::sha256(format!("kernel {RECIPE} {hashes:?} {DROPPED:?} {EARLY:?}").as_bytes())
    }

    /// The cached entry, if it is complete.
    pub fn cached(&self, cache: &Cache, lock: &Lock) -> Result<Option<Built>> {
        let key = self.key(lock)?;
        cache.get("kernel", &key).map(|dir| built(&dir)).transpose()
    }

    /// Downloads and builds. The caller holds the cache's lock.
    pub fn build(&self, source: &Source, lock: &Lock) -> Result<Built> {
        let key = self.key(lock)?;
        let debs = source.debs(lock.section(&self.section())?, || self.resolve(source))?;
        host::say(format_args!("building the kernel {} ...", self.name));
        let dir = source.cache.build("kernel", &key, |dir| {
            let tree = tempfile::Builder::new()
                .prefix(".building-")
                .tempdir_in(source.cache.dir("images"))?;
            packages::extract(&debs, tree.path())?;
            fill(tree.path(), dir)
        })?;
        built(&dir)
    }
}

fn built(dir: &Path) -> Result<Built> {
    let list =
        fs::read_to_string(dir.join("early")).context("cannot read the list of early modules")?;
    let mut lines = list.lines();
    let release = lines
        .next()
        .context("an empty list of early modules")?
        .to_string();
    let early_modules = lines.map(|name| dir.join(name)).collect();
    Ok(Built {
        release,
        vmlinuz: dir.join("vmlinuz"),
        modules_image: dir.join("modules.img"),
        early_modules,
    })
}

/// Turns an unpacked kernel package into boot image, modules image and early modules.
fn fill(tree: &Path, dir: &Path) -> Result<()> {
    let modules = ["usr/lib/modules", "lib/modules"]
        .iter()
        .map(|p| tree.join(p))
        .find(|p| p.is_dir())
        .context("the kernel package has no modules")?;
    let release = only_entry(&modules)?;
    let vmlinuz = [
        tree.join(format!("boot/vmlinuz-{release}")),
        modules.join(&release).join("vmlinuz"),
    ];
    let vmlinuz = vmlinuz
        .iter()
        .find(|p| p.is_file())
        .context("the kernel package has no vmlinuz")?;
    fs::copy(vmlinuz, dir.join("vmlinuz"))?;

    let base = modules.join(&release);
    for prefix in DROPPED {
        drop_prefix(&base.join("kernel").join(prefix))?;
    }
    decompress(&base)?;
    // depmod looks below <base>/lib/modules.
    let depmod_base = tree.join("depmod");
    fs::create_dir(&depmod_base)?;
    fs::create_dir(depmod_base.join("usr"))?;
    fs::create_dir(depmod_base.join("usr/lib"))?;
    std::os::unix::fs::symlink("usr/lib", depmod_base.join("lib"))?;
    fs::rename(&modules, depmod_base.join("usr/lib/modules"))?;
    let modules = depmod_base.join("usr/lib/modules");
    host::output(
        host::with_sbin("depmod")
            .arg("-b")
            .arg(&depmod_base)
            .arg(&release),
    )?;

    let base = modules.join(&release);
    let dependencies =
        fs::read_to_string(base.join("modules.dep")).context("cannot read modules.dep")?;
    let mut list = format!("{release}\n");
    for (number, module) in load_order(&dependencies, EARLY).iter().enumerate() {
        let name = format!(
            "{number:02}-{}",
            module.rsplit('/').next().unwrap_or(module)
        );
        fs::copy(base.join(module), dir.join(&name))?;
        list.push_str(&name);
        list.push('\n');
    }
    fs::write(dir.join("early"), list)?;
    image::squashfs(&modules, &dir.join("modules.img"))
}

fn only_entry(dir: &Path) -> Result<String> {
    let names: Vec<String> = fs::read_dir(dir)?
        .map(|e| Ok(e?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    match &names[..] {
        [name] => Ok(name.clone()),
        _ => bail!("expected one kernel in {}, found {names:?}", dir.display()),
    }
}

/// Removes a directory; a trailing slash keeps the files directly in it (shared cores of a subsystem).
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

/// Decompresses modules here, where it is done once and not under emulation.
fn decompress(base: &Path) -> Result<()> {
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

/// Files of the named modules and of what they depend on, dependencies first. A module that does not
/// exist is built into the kernel.
fn load_order<'a>(dependencies: &'a str, names: &[&str]) -> Vec<&'a str> {
    let lines: Vec<(&str, Vec<&str>)> = dependencies
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(file, needs)| (file, needs.split_whitespace().collect()))
        .collect();
    let stem = |file: &str| {
        let name = file.rsplit('/').next().unwrap_or(file);
        name.split('.').next().unwrap_or(name).replace('-', "_")
    };
    let mut order: Vec<&str> = Vec::new();
    for name in names {
        let Some((file, needs)) = lines.iter().find(|(file, _)| stem(file) == *name) else {
            continue;
        };
        // depmod lists what is needed last first.
        for module in needs.iter().rev().chain([file]) {
            if !order.contains(module) {
                order.push(module);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_load_after_what_they_need() {
        let dep = "kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc16.ko kernel/fs/mbcache.ko\n\
                   kernel/fs/jbd2/jbd2.ko:\nkernel/drivers/block/virtio-blk.ko: kernel/lib/crc16.ko\n";
        assert_eq!(
            load_order(dep, &["virtio_blk", "builtin", "ext4"]),
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
    fn an_unknown_kernel_is_told_with_the_known_ones() {
        let text = format!("{:#}", Kernel::by_name("6.13").unwrap_err());
        assert!(
            text.contains("6.13") && text.contains("6.12") && text.contains("newest"),
            "{text}"
        );
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

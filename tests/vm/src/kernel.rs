//! The kernels: where each comes from, and its boot image and modules.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::apt::Suite;
use crate::cache::Cache;
use crate::host;
use crate::image;
use crate::lock::{Lock, Package};
use crate::modules;
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
        host::sha256(
            format!(
                "kernel {RECIPE} {hashes:?} {:?} {EARLY:?}",
                modules::DROPPED
            )
            .as_bytes(),
        )
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
    modules::prune(&base)?;
    modules::decompress(&base)?;
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
    for (number, module) in modules::load_order(&dependencies, EARLY).iter().enumerate() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_kernel_is_told_with_the_known_ones() {
        let text = format!("{:#}", Kernel::by_name("6.13").unwrap_err());
        assert!(
            text.contains("6.13") && text.contains("6.12") && text.contains("newest"),
            "{text}"
        );
    }
}

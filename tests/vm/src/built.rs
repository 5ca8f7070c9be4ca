//! A kernel that is ready to boot: its boot image, its modules as an image, and the modules to load first.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cache::Cache;
use crate::host;
use crate::image;
use crate::lock::{Lock, Package};
use crate::modules;

/// Increment when the way to make a kernel entry changes.
const RECIPE: u32 = 3;

/// Kind of the cache's entries.
const KIND: &str = "kernel";

/// Modules that the initrd loads: disks, their file systems, channels to the host.
const EARLY: &[&str] = &[
    "virtio_pci",
    "virtio_blk",
    "squashfs",
    "overlay",
    "virtio_console",
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
    /// Its packages, as a lock of only this kernel.
    pub origin: Lock,
}

/// The name of the entry for these packages.
pub fn key(packages: &[Package]) -> Result<String> {
    let mut hashes: Vec<&str> = packages.iter().map(|p| p.sha256.as_str()).collect();
    hashes.sort_unstable();
    host::sha256(
        format!(
            "kernel {RECIPE} {hashes:?} {:?} {EARLY:?}",
            modules::DROPPED
        )
        .as_bytes(),
    )
}

impl Built {
    /// The entry of this key, if it is complete.
    pub fn cached(cache: &Cache, key: &str) -> Result<Option<Self>> {
        cache.get(KIND, key).map(|dir| Self::open(&dir)).transpose()
    }

    /// The most recently used entry of this kernel, of any version.
    pub fn last(cache: &Cache, kernel: &str) -> Option<Self> {
        cache
            .latest(KIND)
            .iter()
            .filter_map(|dir| Self::open(dir).ok())
            .find(|built| built.origin.kernel(kernel).is_some())
    }

    /// Makes an entry from a directory of unpacked packages. The caller holds the cache's lock.
    pub fn make(cache: &Cache, key: &str, tree: &Path, origin: &Lock) -> Result<Self> {
        let dir = cache.build(KIND, key, |dir| {
            fs::write(dir.join(record()), origin.format())?;
            fill(tree, dir)
        })?;
        Self::open(&dir)
    }

    /// Whether it was made from these packages, in any order.
    pub fn is_made_from(&self, packages: &[Package]) -> bool {
        let all = self.origin.sections.values().flatten();
        all.clone().count() == packages.len() && all.into_iter().all(|p| packages.contains(p))
    }

    fn open(dir: &Path) -> Result<Self> {
        let read = |name: &str| {
            fs::read_to_string(dir.join(name))
                .with_context(|| format!("cannot read {name} in {}", dir.display()))
        };
        let list = read("early")?;
        let mut lines = list.lines();
        Ok(Self {
            release: lines
                .next()
                .context("an empty list of early modules")?
                .to_string(),
            early_modules: lines.map(|name| dir.join(name)).collect(),
            vmlinuz: dir.join("vmlinuz"),
            modules_image: dir.join("modules.img"),
            origin: Lock::parse(&read(&record())?)?,
        })
    }
}

/// The file with the origin. An entry of another recipe lacks a file of this name, and is not opened.
fn record() -> String {
    format!("origin-{RECIPE}")
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
    let read = |name: &str| {
        fs::read_to_string(base.join(name))
            .with_context(|| format!("cannot read {name} of {release}"))
    };
    let (dependencies, built_in) = (read("modules.dep")?, read("modules.builtin")?);
    let early = modules::load_order(&dependencies, &built_in, EARLY)
        .with_context(|| format!("{release} cannot boot as a guest"))?;
    let mut list = format!("{release}\n");
    for (number, module) in early.iter().enumerate() {
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

//! Gets package files: by path from the lock, or in apt's current version if they have left the archive.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::apt::{self, Apt, Download, Suite};
use crate::cache::Cache;
use crate::host;
use crate::lock::{Lock, Package};
use crate::mirror::Mirror;

/// Section of the lock with the guest's programs.
pub const GUEST_SECTION: &str = "guest";

/// Packages of the guest; apt adds their dependencies.
pub const GUEST_PACKAGES: &[&str] = &[
    "bash",
    "bsdextrautils",
    "busybox-static",
    "coreutils",
    "dash",
    "diffutils",
    "e2fsprogs",
    "findutils",
    "fio",
    "grep",
    "gzip",
    "hostname",
    "iproute2",
    "kmod",
    "libc-bin",
    "libcap2-bin",
    "mawk",
    "mount",
    "netbase",
    "nfs-common",
    "nfs-kernel-server",
    "procps",
    "psmisc",
    "python3-minimal",
    "rpcbind",
    "sed",
    "tar",
    "util-linux",
];

/// Whether a text is a Debian package name; nothing else may reach apt's command line.
pub fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    text.len() >= 2 && starts && text.chars().all(allowed)
}

/// A package file on disk.
#[derive(Clone, Debug)]
pub struct Deb {
    pub name: String,
    pub file: PathBuf,
}

/// The source of packages, and their cache.
pub struct Source<'a> {
    pub cache: &'a Cache,
    mirror: Mirror,
    /// Suites whose index was read already.
    opened: RefCell<HashMap<&'static str, Apt>>,
}

impl<'a> Source<'a> {
    pub fn new(cache: &'a Cache, mirror: Mirror) -> Self {
        Self {
            cache,
            mirror,
            opened: RefCell::default(),
        }
    }

    /// Gets every package of a list. If the archive no longer has all of them, gets those that `current` returns. Returns the list that it
    /// got.
    pub fn take(
        &self,
        packages: &[Package],
        current: impl Fn() -> Result<Vec<Package>>,
    ) -> Result<Vec<Package>> {
        let Err(error) = self.fetch(packages) else {
            return Ok(packages.to_vec());
        };
        host::say(format_args!("warning: {error:#}"));
        let current =
            current().context("cannot get what debian.lock names, nor what replaces it")?;
        host::say(
            "warning: the archive no longer has what debian.lock names; taking its current versions",
        );
        self.fetch(&current)?;
        Ok(current)
    }

    /// The files of fetched packages.
    pub fn debs(&self, packages: &[Package]) -> Vec<Deb> {
        packages.iter().map(|p| self.deb(p)).collect()
    }

    fn deb(&self, package: &Package) -> Deb {
        Deb {
            name: package.name.clone(),
            file: self.cache.dir("debs").join(package.cache_name()),
        }
    }

    /// Brings every package into the cache; verifies existing files again.
    pub fn fetch(&self, packages: &[Package]) -> Result<()> {
        let mut missing = Vec::new();
        for package in packages {
            let file = self.deb(package).file;
            if file.is_file() && host::sha256_file(&file)? != package.sha256 {
                fs::remove_file(&file)?;
            }
            if !file.is_file() {
                missing.push(package);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let bytes: u64 = missing.iter().map(|p| p.bytes).sum();
        host::say(format_args!(
            "downloading {} packages, {} MB ...",
            missing.len(),
            bytes.div_ceil(1_000_000)
        ));
        let temporary = tempfile::Builder::new()
            .prefix(".getting-")
            .tempdir_in(self.cache.dir("debs"))?;
        let downloads: Vec<Download> = missing
            .iter()
            .map(|p| Download {
                address: self.mirror.address(&p.path, p.is_security()),
                sha256: p.sha256.clone(),
                target: temporary.path().join(p.cache_name()),
            })
            .collect();
        let result = apt::download(&downloads);
        // Files that arrived were verified, and need not be fetched again.
        for download in downloads.iter().filter(|d| d.target.is_file()) {
            if let Some(name) = download.target.file_name() {
                fs::rename(&download.target, self.cache.dir("debs").join(name))?;
            }
        }
        result.context("cannot get all packages")
    }

    /// A suite's apt. Reads its index once.
    pub fn apt(&self, suite: Suite) -> Result<Apt> {
        if let Some(apt) = self.opened.borrow().get(suite.name) {
            return Ok(apt.clone());
        }
        let apt = Apt::open(self.cache, &self.mirror, suite)?;
        self.opened.borrow_mut().insert(suite.name, apt.clone());
        Ok(apt)
    }
}

/// The guest's packages: the locked ones, and the further dependencies of extra packages.
pub fn guest(source: &Source, lock: &Lock, extra: &[String]) -> Result<Vec<Deb>> {
    let locked = lock.section(GUEST_SECTION)?;
    let base: Vec<String> = GUEST_PACKAGES.iter().map(|s| s.to_string()).collect();
    let wanted: Vec<String> = base.iter().chain(extra).cloned().collect();
    if extra.is_empty() {
        let taken = source.take(locked, || source.apt(apt::GUEST)?.resolve(&wanted))?;
        return Ok(source.debs(&taken));
    }
    let resolved = source.apt(apt::GUEST)?.resolve(&wanted)?;
    let have: HashSet<&str> = locked.iter().map(|p| p.name.as_str()).collect();
    let mut all = locked.to_vec();
    all.extend(
        resolved
            .iter()
            .filter(|p| !have.contains(p.name.as_str()))
            .cloned(),
    );
    let taken = source.take(&all, || Ok(resolved.clone()))?;
    Ok(source.debs(&taken))
}

/// Unpacks package files into a directory, without running their scripts.
pub fn extract(debs: &[Deb], dir: &Path) -> Result<()> {
    for deb in debs {
        host::run(
            host::with_sbin("dpkg-deb")
                .arg("-x")
                .arg(&deb.file)
                .arg(dir),
        )
        .with_context(|| format!("cannot unpack {}", deb.name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive on disk with one package in it, and a cache.
    struct Archive {
        _dir: tempfile::TempDir,
        cache: Cache,
        mirror: Mirror,
        current: Package,
    }

    impl Archive {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("pool")).unwrap();
            fs::write(dir.path().join("pool/new.deb"), "abc").unwrap();
            let base = format!("copy:{}", dir.path().display());
            Self {
                cache: Cache::at(dir.path().join("cache")).unwrap(),
                mirror: Mirror {
                    main: base.clone(),
                    security: base,
                },
                current: Package {
                    name: "new".into(),
                    version: "2".into(),
                    architecture: "all".into(),
                    path: "pool/new.deb".into(),
                    bytes: 3,
                    sha256: host::sha256(b"abc").unwrap(),
                },
                _dir: dir,
            }
        }

        /// The result for a locked package.
        fn take(&self, locked: Package) -> Result<Vec<Package>> {
            let source = Source::new(&self.cache, self.mirror.clone());
            let taken = source.take(std::slice::from_ref(&locked), || {
                Ok(vec![self.current.clone()])
            })?;
            assert!(source.debs(&taken).iter().all(|deb| deb.file.is_file()));
            Ok(taken)
        }
    }

    #[test]
    fn what_is_locked_is_taken_when_the_archive_has_it() {
        let archive = Archive::new();
        let mut locked = archive.current.clone();
        locked.version = "1".into();
        assert_eq!(archive.take(locked.clone()).unwrap(), [locked]);
    }

    #[test]
    fn what_left_the_archive_or_has_another_hash_is_replaced_by_what_is_current() {
        let archive = Archive::new();
        let gone = Package {
            path: "pool/old.deb".into(),
            sha256: "ab".repeat(32),
            ..archive.current.clone()
        };
        let changed = Package {
            sha256: "cd".repeat(32),
            ..archive.current.clone()
        };
        for locked in [gone, changed] {
            let taken = archive.take(locked).unwrap();
            assert_eq!(taken, std::slice::from_ref(&archive.current));
        }
    }

    #[test]
    fn without_a_replacement_both_causes_are_told() {
        let archive = Archive::new();
        let gone = Package {
            path: "pool/old.deb".into(),
            sha256: "ab".repeat(32),
            ..archive.current.clone()
        };
        let source = Source::new(&archive.cache, archive.mirror.clone());
        let error = source
            .take(&[gone], || anyhow::bail!("no archive"))
            .unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.contains("debian.lock") && text.contains("no archive"),
            "{text}"
        );
    }
}

//! The lock file: the Debian packages of the guest, by version and hash.
//!
//! One line per package, in sections and sorted, so that a version bump is readable in a diff:
//!
//! ```text
//! [guest]
//! bash 5.2.37-2 amd64 pool/main/b/bash/bash_5.2.37-2_amd64.deb 6463408 9f3c...
//! ```
//!
//! One section is for the guest's programs. Each kernel has its own: `kernel-` and its name on the command line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Variable with the path of another lock file.
const OVERRIDE: &str = "TRACKIOPS_DEBIAN_LOCK";

/// Prefix of sections of kernels.
const KERNEL: &str = "kernel-";

const HEADER: &str = "\
# Debian packages of the test guest. `cargo vm update` rewrites this file.
# name  version  architecture  path in the archive  bytes  sha256
";

/// One package file in the archive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub architecture: String,
    /// Path below the archive's base, for example `pool/main/b/bash/bash_5.2_amd64.deb`.
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
}

impl Package {
    /// Only the security archive keeps its files under `pool/updates`.
    pub fn is_security(&self) -> bool {
        self.path.starts_with("pool/updates/")
    }

    /// Name in the download cache. It begins with the hash, so that files cannot be confused.
    pub fn cache_name(&self) -> String {
        format!("{}-{}.deb", self.sha256, self.name)
    }

    fn parse(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, version, architecture, path, bytes, sha256] = fields[..] else {
            bail!("expected 6 fields, found {}", fields.len());
        };
        if sha256.len() != 64 || !sha256.bytes().all(|b| b.is_ascii_hexdigit()) {
            bail!("`{sha256}` is not a sha256");
        }
        if path.starts_with('/') || path.contains("..") || path.contains("://") {
            bail!("`{path}` is not a path relative to the archive");
        }
        Ok(Self {
            name: name.into(),
            version: version.into(),
            architecture: architecture.into(),
            path: path.into(),
            bytes: bytes
                .parse()
                .with_context(|| format!("`{bytes}` is not a size"))?,
            sha256: sha256.into(),
        })
    }
}

/// The parsed lock file: section name to packages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    pub sections: BTreeMap<String, Vec<Package>>,
}

impl Lock {
    /// The lock file of the source tree, or the one that the environment names.
    pub fn path() -> PathBuf {
        match std::env::var_os(OVERRIDE).filter(|v| !v.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => Path::new(env!("CARGO_MANIFEST_DIR")).join("debian.lock"),
        }
    }

    /// A lock of only one kernel.
    pub fn of_kernel(name: &str, packages: Vec<Package>) -> Self {
        Self {
            sections: [(Self::kernel_section(name), packages)].into(),
        }
    }

    pub fn read() -> Result<Self> {
        let path = Self::path();
        let text = std::fs::read_to_string(&path).with_context(|| {
            format!(
                "cannot read {}; `cargo vm update` writes it",
                path.display()
            )
        })?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    pub fn write(&self) -> Result<()> {
        let path = Self::path();
        std::fs::write(&path, self.format())
            .with_context(|| format!("cannot write {}", path.display()))
    }

    pub fn parse(text: &str) -> Result<Self> {
        let mut lock = Self::default();
        let mut section = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                section = Some(lock.sections.entry(name.to_string()).or_default());
                continue;
            }
            let package = Package::parse(line).with_context(|| format!("line {}", number + 1))?;
            match &mut section {
                Some(packages) => packages.push(package),
                None => bail!("line {}: a package before the first [section]", number + 1),
            }
        }
        Ok(lock)
    }

    pub fn format(&self) -> String {
        let mut text = String::from(HEADER);
        for (name, packages) in &self.sections {
            let mut packages = packages.clone();
            packages.sort();
            let _ = write!(text, "\n[{name}]\n");
            for p in packages {
                let _ = writeln!(
                    text,
                    "{} {} {} {} {} {}",
                    p.name, p.version, p.architecture, p.path, p.bytes, p.sha256
                );
            }
        }
        text
    }

    /// The section of a kernel by its name on the command line.
    pub fn kernel_section(name: &str) -> String {
        format!("{KERNEL}{name}")
    }

    /// Names of the locked kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.sections.keys().filter_map(|s| s.strip_prefix(KERNEL))
    }

    /// A kernel's packages: its own section, or the kernel that has a package of exactly this name.
    pub fn kernel(&self, name: &str) -> Option<&[Package]> {
        let own = self.sections.get(&Self::kernel_section(name));
        let packages = own.or_else(|| {
            self.kernels()
                .filter_map(|kernel| self.sections.get(&Self::kernel_section(kernel)))
                .find(|packages| packages.iter().any(|p| p.name == name))
        })?;
        (!packages.is_empty()).then_some(packages)
    }

    pub fn section(&self, name: &str) -> Result<&[Package]> {
        match self.sections.get(name) {
            Some(packages) if !packages.is_empty() => Ok(packages),
            _ => bail!(
                "{} has no packages in [{name}]; run `cargo vm update`",
                Self::path().display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str) -> Package {
        Package {
            name: name.into(),
            version: "1:2.8.3-1".into(),
            architecture: "amd64".into(),
            path: format!("pool/main/x/{name}_2.8.3-1_amd64.deb"),
            bytes: 17,
            sha256: "ab".repeat(32),
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut lock = Lock::default();
        lock.sections
            .insert("guest".into(), vec![package("a"), package("b")]);
        lock.sections
            .insert("kernel-6.12".into(), vec![package("linux")]);
        assert_eq!(Lock::parse(&lock.format()).unwrap(), lock);
    }

    #[test]
    fn packages_are_written_in_order() {
        let mut lock = Lock::default();
        lock.sections
            .insert("guest".into(), vec![package("b"), package("a")]);
        let text = lock.format();
        assert!(text.find("\na ").unwrap() < text.find("\nb ").unwrap());
    }

    #[test]
    fn bad_lines_are_named() {
        let hash = "ab".repeat(32);
        for (line, cause) in [
            ("a 1 amd64 pool/x.deb 1".to_string(), "expected 6 fields"),
            ("a 1 amd64 pool/x.deb 1 zz".to_string(), "not a sha256"),
            (format!("a 1 amd64 pool/x.deb many {hash}"), "not a size"),
            (
                format!("a 1 amd64 ../x.deb 1 {hash}"),
                "not a path relative",
            ),
            (
                format!("a 1 amd64 http://h/x.deb 1 {hash}"),
                "not a path relative",
            ),
        ] {
            let error = Lock::parse(&format!("[guest]\n{line}\n")).unwrap_err();
            let text = format!("{error:#}");
            assert!(text.contains("line 2") && text.contains(cause), "{text}");
        }
        assert!(Lock::parse(&format!("a 1 amd64 pool/x.deb 1 {hash}")).is_err());
    }

    #[test]
    fn the_committed_lock_parses_and_is_in_canonical_form() {
        let text = include_str!("../debian.lock");
        let lock = Lock::parse(text).unwrap();
        assert_eq!(lock.format(), text);
        assert!(!lock.section("guest").unwrap().is_empty());
    }

    #[test]
    fn a_kernel_is_found_by_its_own_name_and_by_that_of_its_package() {
        let mut lock = Lock::default();
        for (kernel, image) in [
            ("6.12", "linux-image-6.12.117+deb13-amd64"),
            (
                "linux-image-rt-amd64",
                "linux-image-6.12.117+deb13-rt-amd64",
            ),
            (
                "linux-image-rt-amd64/bookworm",
                "linux-image-6.1.0-56-rt-amd64",
            ),
        ] {
            lock.sections
                .insert(Lock::kernel_section(kernel), vec![package(image)]);
            let found = lock.kernel(kernel).map(<[Package]>::to_vec);
            assert_eq!(found, Some(vec![package(image)]), "{kernel}");
            assert_eq!(lock.kernel(image), lock.kernel(kernel));
        }
        lock.sections
            .insert("guest".into(), vec![package("linux-image-cloud-amd64")]);
        for missing in [
            "linux-image-rt-amd64/sid",
            "linux-image-cloud-amd64",
            "linux-image-6.1.0-56-amd64",
        ] {
            assert_eq!(lock.kernel(missing), None, "{missing}");
        }
        assert!(lock.kernels().eq([
            "6.12",
            "linux-image-rt-amd64",
            "linux-image-rt-amd64/bookworm"
        ]));
    }

    #[test]
    fn the_security_archive_is_known_by_its_pool() {
        let mut p = package("a");
        assert!(!p.is_security());
        p.path = "pool/updates/main/a/a_1_amd64.deb".into();
        assert!(p.is_security());
    }
}

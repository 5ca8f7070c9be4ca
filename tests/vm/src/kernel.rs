//! The available kernels: their names, their packages, and how to get them.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::apt::{BOOKWORM, BULLSEYE, SID, Suite, TRIXIE};
use crate::built::{self, Built};
use crate::cache::Cache;
use crate::host;
use crate::lock::{Lock, Package};
use crate::packages::{self, Source};

/// The default kernel of each Debian release.
const DEFAULTS: &[(&str, Suite)] = &[
    ("5.10", BULLSEYE),
    ("6.1", BOOKWORM),
    ("6.12", TRIXIE),
    ("newest", SID),
];

/// Its dependency is the suite's default kernel.
const META_PACKAGE: &str = "linux-image-amd64";

/// The order in which suites are searched if none is named: the guest's own first. A meta package exists in all of them, a versioned name
/// in one.
const SUITES: &[Suite] = &[TRIXIE, BOOKWORM, BULLSEYE, SID];

/// A kernel to boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Name on the command line and in the lock.
    pub name: String,
    package: String,
    suites: Vec<Suite>,
}

/// No suite has such a kernel.
#[derive(Debug)]
pub struct Unknown(Kernel);

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suites: Vec<&str> = self.0.suites.iter().map(|s| s.name).collect();
        write!(
            f,
            "no package `{}` in Debian {}; the archive drops old versions: for a current kernel ask for \
             linux-image-amd64, linux-image-cloud-amd64 or linux-image-rt-amd64",
            self.0.package,
            suites.join(", ")
        )
    }
}

impl std::error::Error for Unknown {}

impl FromStr for Kernel {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let kernel = |package: &str, suites: &[Suite]| Self {
            name: name.into(),
            package: package.into(),
            suites: suites.into(),
        };
        if let Some((_, suite)) = DEFAULTS.iter().find(|(known, _)| *known == name) {
            return Ok(kernel(META_PACKAGE, &[*suite]));
        }
        // In apt's notation.
        let (package, suite) = match name.split_once('/') {
            Some((package, suite)) => (package, Some(suite)),
            None => (name, None),
        };
        if !package.starts_with("linux-image-") || !packages::is_name(package) {
            let known: Vec<&str> = DEFAULTS.iter().map(|(name, _)| *name).collect();
            bail!(
                "unknown kernel `{name}`; known: {}, and Debian's kernel packages (linux-image-cloud-amd64)",
                known.join(", ")
            );
        }
        if package.ends_with("-dbg") {
            bail!("`{package}` has a kernel's debugging symbols, not the kernel");
        }
        match suite.map(|suite| SUITES.iter().find(|s| s.name == suite)) {
            None => Ok(kernel(package, SUITES)),
            Some(Some(suite)) => Ok(kernel(package, &[*suite])),
            Some(None) => {
                let known: Vec<&str> = SUITES.iter().map(|s| s.name).collect();
                bail!("unknown suite in `{name}`; known: {}", known.join(", "))
            }
        }
    }
}

impl Kernel {
    /// The four kernels with short names.
    pub fn defaults() -> Result<Vec<Self>> {
        DEFAULTS.iter().map(|(name, _)| name.parse()).collect()
    }

    /// The kernel's packages in their current version, from the first suite that has them. Fails with [`Unknown`] if no suite does.
    pub fn resolve(&self, source: &Source) -> Result<Vec<Package>> {
        for suite in &self.suites {
            let apt = source.apt(*suite)?;
            if apt.has(&self.package)? {
                let needed = apt.resolve(std::slice::from_ref(&self.package))?;
                let mut packages = of_kernel(needed, &self.package);
                packages.sort();
                return Ok(packages);
            }
        }
        Err(Unknown(self.clone()).into())
    }

    /// The built kernel for the lock, if it is in the cache. Prints a message if it was made from other packages, because the archive no
    /// longer had the locked ones.
    pub fn cached(&self, cache: &Cache, lock: &Lock) -> Result<Option<Built>> {
        let Some(locked) = lock.kernel(&self.name) else {
            return Ok(None);
        };
        let built = Built::cached(cache, &built::key(locked)?)?;
        if let Some(built) = &built
            && !built.is_made_from(locked)
        {
            let locked = describe(locked);
            self.warn_of_replacement(built, format_args!("the archive no longer had {locked}"));
        }
        Ok(built)
    }

    /// The built kernel, from the cache or from the archive. The caller holds the cache's lock.
    pub fn get(&self, source: &Source, lock: &Lock) -> Result<Built> {
        // Another process may have built it meanwhile.
        if let Some(built) = self.cached(source.cache, lock)? {
            return Ok(built);
        }
        let (key, packages) = match self.take(source, lock) {
            Ok(taken) => taken,
            Err(error) => {
                let Some(built) = Built::last(source.cache, &self.name) else {
                    return Err(error);
                };
                self.warn_of_replacement(&built, format_args!("{error:#}"));
                return Ok(built);
            }
        };
        if let Some(built) = Built::cached(source.cache, &key)? {
            return Ok(built);
        }
        host::say(format_args!("building the kernel {} ...", self.name));
        let tree = tempfile::Builder::new()
            .prefix(".building-")
            .tempdir_in(source.cache.dir("images"))?;
        packages::extract(&source.debs(&packages), tree.path())?;
        let origin = Lock::of_kernel(&self.name, packages);
        Built::make(source.cache, &key, tree.path(), &origin)
            .with_context(|| format!("cannot use the kernel {}", self.name))
    }

    /// Downloads the locked packages. If the archive no longer has them, or nothing is locked, downloads the current ones. Returns the
    /// packages and the key for the entry: the key of the lock, so that a replacement is searched only once.
    fn take(&self, source: &Source, lock: &Lock) -> Result<(String, Vec<Package>)> {
        if let Some(locked) = lock.kernel(&self.name) {
            let packages = source.take(locked, || self.resolve(source))?;
            return Ok((built::key(locked)?, packages));
        }
        let current = self.resolve(source)?;
        host::say(format_args!(
            "{} is not in debian.lock; taking {}; `cargo vm update {}` locks it",
            self.name,
            describe(&current),
            self.name
        ));
        source.fetch(&current)?;
        Ok((built::key(&current)?, current))
    }

    fn warn_of_replacement(&self, built: &Built, cause: impl fmt::Display) {
        host::say(format_args!("warning: {cause}"));
        host::say(format_args!(
            "warning: {} is {} from the cache; `cargo vm update {}` moves the lock",
            self.name, built.release, self.name
        ));
    }
}

/// The image package with its version, for a person.
pub fn describe(packages: &[Package]) -> String {
    packages
        .iter()
        .find(|p| p.name.starts_with("linux-image-"))
        .map_or_else(String::new, |p| format!("{} {}", p.name, p.version))
}

/// The packages of the kernel itself, among the dependencies. A meta package depends on the image. Its name ends in the release, like the
/// names of the packages into which unstable splits it.
fn of_kernel(mut packages: Vec<Package>, asked: &str) -> Vec<Package> {
    let release = |p: &Package| p.name.strip_prefix("linux-image-").map(str::to_string);
    let image = packages
        .iter()
        .filter(|p| p.name != asked)
        .find_map(release);
    if let Some(release) = image.or_else(|| packages.iter().find_map(release)) {
        packages
            .retain(|p| p.name.starts_with("linux-") && p.name.ends_with(&format!("-{release}")));
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(name: &str) -> Kernel {
        name.parse().unwrap()
    }

    fn suites(name: &str) -> Vec<&'static str> {
        kernel(name).suites.iter().map(|s| s.name).collect()
    }

    #[test]
    fn the_four_are_the_default_kernels_of_their_releases() {
        for (name, suite) in [
            ("5.10", "bullseye"),
            ("6.1", "bookworm"),
            ("6.12", "trixie"),
            ("newest", "sid"),
        ] {
            assert_eq!(kernel(name).package, "linux-image-amd64");
            assert_eq!(suites(name), [suite]);
        }
    }

    #[test]
    fn a_package_is_looked_for_everywhere_or_in_the_suite_it_names() {
        let versioned = "linux-image-6.12.117+deb13-cloud-amd64";
        assert_eq!(kernel(versioned).package, versioned);
        assert_eq!(suites(versioned), ["trixie", "bookworm", "bullseye", "sid"]);
        let rt = kernel("linux-image-rt-amd64/bookworm");
        assert_eq!(rt.package, "linux-image-rt-amd64");
        assert_eq!(suites(&rt.name), ["bookworm"]);
    }

    #[test]
    fn what_cannot_be_a_kernel_is_refused_with_the_reason() {
        for (name, reason) in [
            ("6.13", "known: 5.10, 6.1, 6.12, newest"),
            ("bash", "unknown kernel `bash`"),
            ("linux-image-$(id)", "unknown kernel"),
            ("linux-image-rt-amd64/stable", "known: trixie, bookworm"),
            ("linux-image-rt-amd64/", "unknown suite"),
            ("linux-image-amd64-dbg", "debugging symbols"),
        ] {
            let error = format!("{:#}", name.parse::<Kernel>().unwrap_err());
            assert!(error.contains(reason) && error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_kernel_in_no_suite_is_named_with_the_suites() {
        let text = Unknown(kernel("linux-image-6.12.1-rt-amd64")).to_string();
        assert!(
            text.contains("`linux-image-6.12.1-rt-amd64`")
                && text.contains("trixie, bookworm, bullseye, sid"),
            "{text}"
        );
    }

    fn package(name: &str) -> Package {
        Package {
            name: name.into(),
            version: "1".into(),
            architecture: "amd64".into(),
            path: format!("pool/{name}.deb"),
            bytes: 1,
            sha256: "ab".repeat(32),
        }
    }

    #[test]
    fn of_what_a_kernel_needs_its_own_packages_are_kept() {
        let kept = |asked: &str, names: &[&str]| -> Vec<String> {
            let packages = names.iter().map(|name| package(name)).collect();
            of_kernel(packages, asked)
                .into_iter()
                .map(|p| p.name)
                .collect()
        };
        let trixie = ["kmod", "linux-base", "linux-image-6.12.1+deb13-rt-amd64"];
        assert_eq!(kept(trixie[2], &trixie), [trixie[2]]);
        let meta = "linux-image-rt-amd64";
        assert_eq!(kept(meta, &[trixie[0], trixie[2], meta]), [trixie[2]]);
        let sid = [
            "linux-base",
            "linux-base-7.2.1+deb14-amd64",
            "linux-binary-7.2.1+deb14-amd64",
            "linux-modules-7.2.1+deb14-amd64",
            "linux-image-7.2.1+deb14-amd64",
            "linux-base-amd64",
            "linux-image-amd64",
        ];
        assert_eq!(kept("linux-image-amd64", &sid), sid[1..5]);
        assert_eq!(kept(sid[4], &sid[..5]), sid[1..5]);
    }
}

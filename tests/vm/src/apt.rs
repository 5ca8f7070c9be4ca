//! apt with a separate root: resolves packages of any Debian suite, whatever the host runs.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Error, Result, anyhow, bail};

use crate::cache::Cache;
use crate::host;
use crate::lock::Package;
use crate::mirror::Mirror;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A Debian suite as a package source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    pub name: &'static str,
    /// Unstable has no security archive.
    pub security: bool,
    /// A suite that is no longer updated; its release file has expired.
    pub frozen: bool,
}

pub const BULLSEYE: Suite = Suite {
    name: "bullseye",
    security: true,
    frozen: true,
};
pub const BOOKWORM: Suite = Suite {
    name: "bookworm",
    security: true,
    frozen: false,
};
pub const TRIXIE: Suite = Suite {
    name: "trixie",
    security: true,
    frozen: false,
};
pub const SID: Suite = Suite {
    name: "sid",
    security: false,
    frozen: false,
};

/// The suite of the guest's programs. Its glibc is newer than that of the hosts we build on.
pub const GUEST: Suite = TRIXIE;

/// A private apt root for one suite.
#[derive(Clone, Debug)]
pub struct Apt {
    root: PathBuf,
    suite: Suite,
}

impl Apt {
    /// Writes the source list and fetches the indexes. The caller holds the cache's lock.
    pub fn open(cache: &Cache, mirror: &Mirror, suite: Suite) -> Result<Self> {
        let root = cache.dir("apt").join(suite.name);
        for dir in ["lists/partial", "cache/archives/partial", "state"] {
            fs::create_dir_all(root.join(dir))
                .with_context(|| format!("cannot create {}", root.display()))?;
        }
        let options = if suite.frozen {
            " check-valid-until=no"
        } else {
            ""
        };
        let source = |base: &str, suite: &str| {
            format!("deb [arch=amd64 signed-by={KEYRING}{options}] {base} {suite} main\n")
        };
        let mut sources = source(&mirror.main, suite.name);
        if suite.security {
            sources += &source(&mirror.security, &format!("{}-security", suite.name));
        }
        fs::write(root.join("sources.list"), sources)?;
        fs::write(root.join("status"), "")?;
        let apt = Self { root, suite };
        host::say(format_args!(
            "reading the package index of {} ...",
            suite.name
        ));
        host::output(apt.command("apt-get").args(["-qq", "update"]))
            .map_err(|error| reasons(&error).map_or(error, Error::msg))
            .with_context(|| format!("cannot read the package index of {}", suite.name))?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = host::with_sbin(program);
        for (option, path) in [
            ("Dir::Etc::SourceList", "sources.list"),
            ("Dir::State", "state"),
            ("Dir::State::Lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
        ] {
            command
                .arg("-o")
                .arg(format!("{option}={}", self.root.join(path).display()));
        }
        for option in [
            "Dir::Etc::SourceParts=/dev/null",
            "Dir::Etc::Preferences=/dev/null",
            "Dir::Etc::PreferencesParts=/dev/null",
            "APT::Architecture=amd64",
            "APT::Architectures=amd64",
            "APT::Default-Release=",
            "APT::Install-Recommends=0",
            "APT::Install-Suggests=0",
            // Otherwise an unreachable archive looks like an empty one.
            "APT::Update::Error-Mode=any",
            // The cache lies in a home directory, which apt's own user cannot enter.
            "APT::Sandbox::User=root",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=0",
        ] {
            command.args(["-o", option]);
        }
        command.env("LC_ALL", "C");
        command
    }

    /// Whether the suite has a package of exactly this name.
    pub fn has(&self, name: &str) -> Result<bool> {
        let names = host::output(self.command("apt-cache").args(["pkgnames", "--", name]))
            .with_context(|| format!("cannot search {}", self.suite.name))?;
        Ok(names.lines().any(|line| line == name))
    }

    /// The packages and all their dependencies, in the suite's current versions.
    pub fn resolve(&self, names: &[String]) -> Result<Vec<Package>> {
        let mut command = self.command("apt-get");
        command.args(["install", "-s", "-qq", "--"]).args(names);
        let simulated =
            host::output(&mut command).map_err(|error| match unknown_package(&error) {
                Some(name) => anyhow!("Debian {} has no package `{name}`", self.suite.name),
                None => error.context(format!("cannot resolve packages in {}", self.suite.name)),
            })?;
        let selected = parse_simulation(&simulated);
        let shown = host::output(
            self.command("apt-cache").arg("show").args(
                selected
                    .iter()
                    .map(|(name, version)| format!("{name}={version}")),
            ),
        )?;
        let mut stanzas = parse_stanzas(&shown)?;
        selected
            .into_iter()
            .map(|(name, version)| {
                stanzas
                    .remove(&(name.clone(), version.clone()))
                    .with_context(|| format!("apt describes no {name} {version}"))
            })
            .collect()
    }
}

/// A file to download.
pub struct Download {
    pub address: String,
    pub sha256: String,
    pub target: PathBuf,
}

/// Downloads files with apt's own helper, which checks the hashes. A single process keeps its connections open.
pub fn download(files: &[Download]) -> Result<()> {
    let mut command = Command::new("/usr/lib/apt/apt-helper");
    command.args([
        "-qq",
        "-o",
        "APT::Sandbox::User=root",
        "-o",
        "Acquire::Retries=2",
        "download-file",
    ]);
    for file in files {
        command
            .arg(&file.address)
            .arg(&file.target)
            .arg(format!("SHA256:{}", file.sha256));
    }
    if let Err(error) = host::output(&mut command) {
        return Err(reasons(&error).map_or(error, Error::msg));
    }
    match files.iter().find(|file| !file.target.is_file()) {
        Some(file) => bail!("{} was not downloaded", file.address),
        None => Ok(()),
    }
}

/// The errors that apt reported, without the command and its many arguments.
fn reasons(error: &Error) -> Option<String> {
    let text = format!("{error:#}");
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("E: "))
        .filter(|line| *line != "Download Failed" && !line.starts_with("Some index files"))
        .collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// The package that apt could not find, from its message.
fn unknown_package(error: &Error) -> Option<String> {
    let text = format!("{error:#}");
    let (_, rest) = text.split_once("Unable to locate package ")?;
    rest.split_whitespace().next().map(str::to_string)
}

/// Names and versions in the output of a simulated installation.
fn parse_simulation(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| {
            let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
            let version = rest.split_once('(')?.1.split([' ', ')']).next()?;
            let name = name.split(':').next()?;
            Some((name.to_string(), version.to_string()))
        })
        .collect()
}

/// `apt-cache show`: one stanza per package and version.
fn parse_stanzas(text: &str) -> Result<HashMap<(String, String), Package>> {
    let mut packages = HashMap::new();
    for stanza in text.split("\n\n").filter(|s| !s.trim().is_empty()) {
        let field = |name: &str| {
            stanza
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .map(str::to_string)
                .with_context(|| format!("a package description without {name}"))
        };
        let package = Package {
            name: field("Package")?,
            version: field("Version")?,
            architecture: field("Architecture")?,
            path: field("Filename")?,
            bytes: field("Size")?.parse()?,
            sha256: field("SHA256")?,
        };
        packages.insert((package.name.clone(), package.version.clone()), package);
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_installations_are_understood() {
        let text = "NOTE: x\nInst libc6 (2.41-12+deb13u4 Debian:13.7/stable [amd64]) []\n\
                    Inst old [1.0] (1.1 Debian:13/stable [amd64])\nConf libc6 (2.41 Debian:13 [amd64])\n";
        let found = parse_simulation(text);
        assert_eq!(
            found,
            [
                ("libc6".into(), "2.41-12+deb13u4".into()),
                ("old".into(), "1.1".into())
            ]
        );
    }

    #[test]
    fn the_reasons_are_taken_from_what_apt_says() {
        let error = anyhow!(
            "apt-helper -qq x failed: exit status: 100\nW: later\n\
             E: Failed to fetch http://m.example/x.deb  404  Not Found\nE: Download Failed"
        );
        assert_eq!(
            reasons(&error).unwrap(),
            "Failed to fetch http://m.example/x.deb  404  Not Found"
        );
        assert_eq!(reasons(&anyhow!("cannot run apt-helper")), None);
    }

    #[test]
    fn descriptions_are_understood() {
        let text = "Package: a\nVersion: 1:2-3\nArchitecture: all\nSize: 9\nFilename: pool/a.deb\nSHA256: ff\n\n\
                    Package: b\nVersion: 1\nArchitecture: amd64\nSize: 1\nFilename: pool/b.deb\nSHA256: ee\n";
        let packages = parse_stanzas(text).unwrap();
        let a = &packages[&("a".to_string(), "1:2-3".to_string())];
        assert_eq!(
            (a.architecture.as_str(), a.bytes, a.path.as_str()),
            ("all", 9, "pool/a.deb")
        );
        assert_eq!(packages.len(), 2);
        assert!(parse_stanzas("Package: a\nVersion: 1\n").is_err());
    }
}

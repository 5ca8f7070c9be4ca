//! Finds the Debian archive by this machine's configuration; its address is not in the source.

use std::fs;

use anyhow::{Context, Result};

use crate::host;

const MAIN: &str = "TRACKIOPS_DEBIAN_MIRROR";
const SECURITY: &str = "TRACKIOPS_DEBIAN_SECURITY_MIRROR";

/// Base addresses, without a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    pub main: String,
    pub security: String,
}

impl Mirror {
    /// The environment first, then this machine's apt, then debootstrap's default.
    pub fn find() -> Result<Self> {
        let main = env(MAIN);
        let security = env(SECURITY);
        let known = match (&main, &security) {
            (Some(_), _) => Vec::new(),
            _ => known_to_apt(),
        };
        let main = match main.or_else(|| pick(&known, "debian")) {
            Some(main) => main,
            None => debootstrap_default()?,
        };
        let security = security
            .or_else(|| pick(&known, "debian-security"))
            .unwrap_or_else(|| format!("{main}-security"));
        Ok(Self { main, security })
    }

    /// The address of a path in the lock file. Escapes the same characters as apt.
    pub fn address(&self, path: &str, security: bool) -> String {
        let base = if security { &self.security } else { &self.main };
        format!("{base}/{}", path.replace('%', "%25").replace('+', "%2b"))
    }
}

fn env(name: &str) -> Option<String> {
    std::env::var(name)
        .ok()
        .map(|v| v.trim_end_matches('/').to_string())
        .filter(|v| !v.is_empty())
}

/// The repositories in apt's sources, including `mirror+file:` lists.
fn known_to_apt() -> Vec<String> {
    let mut command = host::with_sbin("apt-get");
    let listed =
        host::output(command.args(["indextargets", "--format", "$(REPO_URI)"])).unwrap_or_default();
    listed
        .lines()
        .flat_map(|uri| match uri.strip_prefix("mirror+file:") {
            Some(path) => fs::read_to_string(path.trim_end_matches('/'))
                .unwrap_or_default()
                .split_whitespace()
                .filter(|word| word.contains("://"))
                .map(str::to_string)
                .collect(),
            None => vec![uri.to_string()],
        })
        .collect()
}

/// The first repository whose last path component is `name`: Debian's mirrors keep that name.
fn pick(known: &[String], name: &str) -> Option<String> {
    known
        .iter()
        .map(|uri| uri.trim_end_matches('/'))
        .find(|uri| uri.rsplit('/').next() == Some(name))
        .map(str::to_string)
}

/// The default mirror of Debian's own debootstrap.
fn debootstrap_default() -> Result<String> {
    const PROGRAM: &str = "/usr/sbin/debootstrap";
    let hint = || {
        format!("no Debian archive known to this machine; set {MAIN} to the base address of one")
    };
    if !std::path::Path::new(PROGRAM).exists() {
        host::install(&["debootstrap"]).with_context(hint)?;
    }
    let program = fs::read_to_string(PROGRAM).with_context(hint)?;
    let mut texts = vec![program];
    for script in ["sid", "debian-common"] {
        texts.extend(fs::read_to_string(format!(
            "/usr/share/debootstrap/scripts/{script}"
        )));
    }
    texts
        .iter()
        .find_map(|text| default_mirror(text))
        .with_context(hint)
}

fn default_mirror(script: &str) -> Option<String> {
    script.lines().find_map(|line| {
        let line = line.trim();
        let value = line
            .strip_prefix("DEF_MIRROR=")
            .or_else(|| line.strip_prefix("default_mirror "))?;
        let value = value.trim_matches(['"', '\'', ' ']).trim_end_matches('/');
        (value.contains("://") && value.ends_with("/debian")).then(|| value.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_and_the_security_archive_are_told_apart() {
        let known = [
            "http://u.example/ubuntu/",
            "http://m.example/debian-security/",
            "http://m.example/debian/",
        ];
        let known: Vec<String> = known.iter().map(|s| s.to_string()).collect();
        assert_eq!(pick(&known, "debian").unwrap(), "http://m.example/debian");
        assert_eq!(
            pick(&known, "debian-security").unwrap(),
            "http://m.example/debian-security"
        );
        assert_eq!(pick(&known[..1], "debian"), None);
    }

    #[test]
    fn debootstrap_is_understood_in_both_of_its_spellings() {
        let expected = Some("http://m.example/debian".to_string());
        assert_eq!(
            default_mirror("X=1\nDEF_MIRROR=\"http://m.example/debian\"\n"),
            expected
        );
        assert_eq!(
            default_mirror("case $A in\n\tdefault_mirror http://m.example/debian/\n"),
            expected
        );
        assert_eq!(
            default_mirror("default_mirror http://m.example/debian-ports\n"),
            None
        );
    }

    #[test]
    fn addresses_are_escaped_as_apt_does() {
        let mirror = Mirror {
            main: "http://m.example/debian".into(),
            security: "http://s.example/s".into(),
        };
        assert_eq!(
            mirror.address("pool/g/g++_1.deb", false),
            "http://m.example/debian/pool/g/g%2b%2b_1.deb"
        );
        assert_eq!(
            mirror.address("pool/updates/x", true),
            "http://s.example/s/pool/updates/x"
        );
    }
}

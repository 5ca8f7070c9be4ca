//! The host: its programs, how they are run, and how missing ones are installed.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Requirements on the host: a path that proves presence, and Debian's package for it.
const NEEDED: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("mksquashfs", "squashfs-tools"),
    ("dpkg-deb", "dpkg"),
    ("depmod", "kmod"),
    ("xz", "xz-utils"),
    ("zstd", "zstd"),
    ("setpriv", "util-linux"),
    ("sha256sum", "coreutils"),
    (
        "/usr/share/keyrings/debian-archive-keyring.gpg",
        "debian-archive-keyring",
    ),
];

/// Says one short line about progress.
pub fn say(message: impl std::fmt::Display) {
    eprintln!("vm: {message}");
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a program is in PATH or in sbin, or a path exists. Not every user's PATH has sbin.
fn present(what: &str) -> bool {
    if what.starts_with('/') {
        return Path::new(what).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .any(|dir| Path::new(dir).join(what).is_file())
}

/// Installs missing tools with apt, after a message.
pub fn ensure_tools() -> Result<()> {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(what, _)| !present(what))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        install(&missing)
    }
}

pub fn install(packages: &[&str]) -> Result<()> {
    let list = packages.join(" ");
    if !present("apt-get") {
        bail!("{list} missing and this machine has no apt; install the equivalents by hand");
    }
    if !is_root() {
        bail!(
            "{list} missing; install with `apt-get install --no-install-recommends {list}` as root"
        );
    }
    say(format_args!("installing {list} ..."));
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").args([
            "-qq",
            "-o",
            "DPkg::Lock::Timeout=300",
        ]);
        command
    };
    let attempt = |quiet: bool| {
        let mut command = apt();
        command
            .args(["install", "-y", "--no-install-recommends"])
            .args(packages);
        if quiet {
            command.stderr(Stdio::null());
        }
        run(command.stdout(Stdio::null()))
    };
    // Fetch the package lists only if they are absent or old.
    if attempt(true).is_err() {
        run(apt().arg("update").stdout(Stdio::null()))?;
        attempt(false).with_context(|| format!("cannot install {list}"))?;
    }
    Ok(())
}

/// A command that runs as root: directly if this process is root, otherwise in a user namespace.
pub fn as_root(program: &str) -> Command {
    if is_root() {
        return with_sbin(program);
    }
    let mut command = with_sbin("unshare");
    command.args(["--map-root-user", program]);
    command
}

/// A command whose PATH includes sbin.
pub fn with_sbin(program: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null());
    command
}

/// Runs to the end; an error names the command.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", name(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", line(command));
    }
    Ok(())
}

/// Runs to the end and returns standard output; an error contains standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", name(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} failed: {}\n{}",
            line(command),
            output.status,
            stderr.trim_end()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// SHA-256 of a file, by coreutils: an unoptimised build would take seconds for a kernel package.
pub fn sha256_file(path: &Path) -> Result<String> {
    let text = output(with_sbin("sha256sum").arg("--").arg(path))?;
    // coreutils marks a name that it had to escape with a leading backslash.
    let hash = text
        .trim_start_matches('\\')
        .split_whitespace()
        .next()
        .unwrap_or_default();
    Ok(hash.to_string())
}

/// SHA-256 of bytes.
pub fn sha256(bytes: &[u8]) -> Result<String> {
    let mut child = with_sbin("sha256sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run sha256sum")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(bytes)?;
    }
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.split_whitespace().next() {
        Some(hash) if output.status.success() => Ok(hash.to_string()),
        _ => bail!("sha256sum failed: {}", output.status),
    }
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// The command without options of the form `-o NAME=VALUE`, shortened to a line or two.
fn line(command: &Command) -> String {
    let mut words = vec![name(command)];
    let mut args = command.get_args().map(|arg| arg.to_string_lossy());
    while let Some(arg) = args.next() {
        if arg == "-o" {
            args.next();
        } else {
            words.push(arg.into_owned());
        }
    }
    if words.len() > 12 {
        words.truncate(12);
        words.push("...".into());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_agree_with_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc").unwrap(), abc);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a\\b");
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(sha256_file(&file).unwrap(), abc);
    }

    #[test]
    fn a_failing_command_is_named_with_its_cause() {
        let error = output(Command::new("sh").args(["-c", "echo cause >&2; exit 3"])).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("sh -c") && text.contains("cause"), "{text}");
    }
}

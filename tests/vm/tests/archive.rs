//! Kernels that have left the archive, and an unreachable archive: real downloads, real builds.
#![allow(clippy::expect_used, clippy::unwrap_used)] // Helpers of tests, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An address without a listener.
const UNREACHABLE: &str = "http://127.0.0.1:1/debian";

/// A separate cache and lock file. Package files come from the user's cache, and stay there.
struct Setup {
    dir: tempfile::TempDir,
    lock: PathBuf,
}

impl Setup {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("trackiops/vm");
        fs::create_dir_all(&cache).unwrap();
        let debs = user_cache().join("trackiops/vm/debs");
        fs::create_dir_all(&debs).unwrap();
        std::os::unix::fs::symlink(debs, cache.join("debs")).unwrap();
        let lock = dir.path().join("debian.lock");
        fs::copy(
            Path::new(env!("CARGO_MANIFEST_DIR")).join("debian.lock"),
            &lock,
        )
        .unwrap();
        Self { dir, lock }
    }

    /// Makes the lock name a kernel package that no archive has: another name, another file.
    fn outdate(&self, kernel: &str, number: u32) {
        let name = format!("linux-image-7.0.{number}+gone-amd64");
        let package =
            format!("{name} 1 amd64 pool/main/l/linux/{name}_1_amd64.deb 9 {number:064x}\n");
        let text = fs::read_to_string(&self.lock).unwrap();
        let header = format!("[kernel-{kernel}]\n");
        let (before, after) = text.split_once(&header).unwrap_or((&text, ""));
        let rest = after.find("\n[").map_or("", |end| &after[end..]);
        fs::write(&self.lock, format!("{before}{header}{package}{rest}")).unwrap();
    }

    fn vm(&self, args: &[&str], reachable: bool) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops-vm"));
        command
            .args(args)
            .env("XDG_CACHE_HOME", self.dir.path())
            .env("TRACKIOPS_DEBIAN_LOCK", &self.lock);
        if !reachable {
            command
                .env("TRACKIOPS_DEBIAN_MIRROR", UNREACHABLE)
                .env("TRACKIOPS_DEBIAN_SECURITY_MIRROR", UNREACHABLE);
        }
        let output = command.output().unwrap();
        eprintln!(
            "--- {args:?}, archive reachable: {reachable}: {}",
            output.status
        );
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        output
    }

    fn kernels(&self) -> usize {
        fs::read_dir(self.dir.path().join("trackiops/vm/images"))
            .unwrap()
            .filter(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                name.to_string_lossy().starts_with("kernel-")
            })
            .count()
    }
}

fn user_cache() -> PathBuf {
    std::env::var_os("XDG_CACHE_HOME").map_or_else(
        || Path::new(&std::env::var_os("HOME").unwrap()).join(".cache"),
        PathBuf::from,
    )
}

fn complaints(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "needs the Debian archive: downloads and builds for a minute or more"]
fn archive_a_kernel_that_left_is_replaced_with_a_warning() {
    let setup = Setup::new();
    let fetch = ["fetch", "--kernel", "newest"];
    setup.outdate("newest", 1);
    let replaced = setup.vm(&fetch, true);
    assert!(replaced.status.success());
    assert!(complaints(&replaced).contains("warning: the archive no longer has"));

    // The replacement is searched only once; the warning stays.
    let again = setup.vm(&fetch, false);
    assert!(again.status.success());
    let text = complaints(&again);
    assert!(text.contains("warning: newest is ") && !text.contains("downloading"));

    // The lock has moved on, and the archive is unreachable.
    setup.outdate("newest", 2);
    let last = setup.vm(&fetch, false);
    assert!(last.status.success());
    assert!(complaints(&last).contains("warning: newest is "));
    assert_eq!(setup.kernels(), 1);

    // A kernel never replaces one of another name.
    setup.outdate("5.10", 3);
    let none = setup.vm(&["fetch", "--kernel", "5.10"], false);
    assert_eq!(none.status.code(), Some(125));
}

#[test]
#[ignore = "needs the Debian archive: reads its package indexes"]
fn archive_update_adds_moves_and_drops_kernels() {
    let setup = Setup::new();
    let locked = || fs::read_to_string(&setup.lock).unwrap();
    let guest = |text: &str| text.split_once("[kernel-").unwrap().0.to_string();
    let before = locked();
    setup.outdate("newest", 1);

    // With one kernel, the rest stays unchanged.
    let one = setup.vm(&["update", "newest"], true);
    assert!(one.status.success());
    assert!(!locked().contains("gone"));
    assert_eq!(guest(&locked()), guest(&before));

    // A version that has left the archive is removed from the lock; a kernel with a lasting name is renewed.
    setup.outdate("linux-image-7.0.2+gone-amd64", 2);
    setup.outdate("linux-image-cloud-amd64", 3);
    let all = setup.vm(&["update"], true);
    assert!(all.status.success());
    assert!(!locked().contains("gone"), "{}", locked());
    assert!(locked().contains("[kernel-linux-image-cloud-amd64]\nlinux-image-"));

    let unknown = setup.vm(&["update", "linux-image-nothing-amd64"], true);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(complaints(&unknown).contains("trixie, bookworm, bullseye, sid"));
}

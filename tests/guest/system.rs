//! Debian systems with systemd, which guests boot from a disk.

use std::path::Path;
use std::process::Command;

/// Writes the system of a Debian suite, with further packages, to `disk`, for one guest.
pub fn disk(suite: &str, packages: &[&str], disk: &Path) {
    let made = Command::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/vm/debian-root.sh"
    ))
    .arg(suite)
    .args(packages)
    .output()
    .expect("debian-root.sh can be started");
    let said = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{said}");
    let image = String::from_utf8(made.stdout).expect("a path");
    let mut copy = Command::new("cp");
    copy.arg("--sparse=always").arg(image.trim()).arg(disk);
    assert!(copy.status().expect("cp can be started").success());
}

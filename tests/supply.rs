//! What is checked of the program's dependencies.
#![allow(clippy::expect_used, clippy::unwrap_used)] // helpers of tests are tests

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs scripts/deny.sh with a `cargo` that ends so for these words: whether it succeeded, what it said, and what it ran.
fn deny(fails: &str) -> (bool, String, String) {
    let cache = tempfile::tempdir().unwrap();
    let bin = cache.path().join("trackiops/tools/bin");
    fs::create_dir_all(&bin).unwrap();
    let log = cache.path().join("log");
    let cargo = format!(
        "#!/bin/sh\necho \"$*\" >>{log}\ncase \"$*\" in *'{fails}'*) echo no such host >&2; exit 1;; esac\n",
        log = log.display()
    );
    for name in ["cargo", "cargo-deny"] {
        fs::write(bin.join(name), &cargo).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new(Path::new(ROOT).join("scripts/deny.sh"))
        .env("XDG_CACHE_HOME", cache.path())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let ran = fs::read_to_string(log).unwrap();
    (output.status.success(), said, ran)
}

#[test]
fn advisories_are_checked_where_their_database_can_be_reached() {
    let (ok, said, ran) = deny("nothing");
    assert!(
        ok && ran.contains("deny --offline check advisories"),
        "{ran}"
    );
    assert!(!said.contains("skipped"), "{said}");
    let (ok, said, ran) = deny("fetch db");
    assert!(ok && !ran.contains("check advisories"), "{ran}");
    assert!(ran.contains("check licenses bans sources"), "{ran}");
    let skipped = "advisories: skipped, the database cannot be reached";
    assert!(
        said.contains("no such host") && said.contains(skipped),
        "{said}"
    );
    for fails in ["check advisories", "check licenses bans sources"] {
        assert!(!deny(fails).0, "{fails}");
    }
}

//! Checks of the program's dependencies, and statements about them and its security.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs scripts/deny.sh with a `cargo` that fails for these words. Returns whether it succeeded, its output, and the commands that it ran.
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

/// The external crates in Cargo.lock.
fn locked() -> BTreeSet<String> {
    let lock = fs::read_to_string(Path::new(ROOT).join("Cargo.lock")).unwrap();
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]\n").skip(1);
    let foreign = packages.filter(|package| value(package, "source = ").is_some());
    foreign
        .map(|package| {
            let [name, version] = ["name = ", "version = "].map(|key| value(package, key).unwrap());
            format!("{name} {version}")
        })
        .collect()
}

#[test]
fn the_notices_have_the_crates_of_the_program_and_of_its_kernel_object() {
    let output = Command::new(Path::new(ROOT).join("scripts/third-party.py"))
        .args(["notices", env!("CARGO_BIN_EXE_trackiops")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let notices = String::from_utf8(output.stdout).unwrap();
    let table = notices.lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix("| ")?.split(" | ").collect();
        (cells.len() == 4 && cells[0] != "crate").then(|| format!("{} {}", cells[0], cells[1]))
    });
    let released: BTreeSet<String> = table.collect();
    let locked = locked();
    let unknown: Vec<_> = released.difference(&locked).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    for name in [
        "aya ",
        "aya-ebpf ",
        "parquet ",
        "libsqlite3-sys ",
        "inferno ",
    ] {
        assert!(released.iter().any(|of| of.starts_with(name)), "{name}");
    }
    assert!(!released.iter().any(|of| of.starts_with("proptest ")));
    // The texts of licences, and of the page.
    assert!(notices.contains("Permission is hereby granted") && notices.contains("* preact "));
}

#[test]
fn what_security_md_promises_is_tested_where_it_says() {
    let text = fs::read_to_string(Path::new(ROOT).join(".github/SECURITY.md")).unwrap();
    let promises = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'));
    let named = promises.filter_map(|line| line.trim_end_matches("` |").rsplit('`').next());
    let named: Vec<_> = named.collect();
    assert!(named.len() > 5, "{named:?}");
    for path in named {
        assert!(Path::new(ROOT).join(path).is_file(), "{path}");
    }
}

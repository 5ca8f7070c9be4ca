//! The crates that `cargo install trackiops` takes from a registry: what they depend on and what they hold. `scripts/crates.sh` packs them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn cargo(words: &[&str]) -> String {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(ROOT).args(words);
    let output = cargo.args(["--locked", "--offline"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The packages of the workspace without `publish = false`.
fn published() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let published: Vec<_> = packages.filter(|of| of["publish"].is_null()).collect();
    assert!(published.len() > 10, "{}", published.len());
    published.into_iter().cloned().collect()
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_default()
}

#[test]
fn published_crates_need_published_crates_of_the_same_version() {
    let published = published();
    let names: BTreeSet<_> = published.iter().map(|of| text(of, "name")).collect();
    assert!(names.contains("trackiops"), "{names:?}");
    for package in &published {
        let name = text(package, "name");
        for key in ["description", "license"] {
            assert!(!text(package, key).is_empty(), "{name} has no {key}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            // What only tests need is not packed.
            if dependency["path"].is_null() || dependency["kind"] == "dev" {
                continue;
            }
            let of = text(dependency, "name");
            assert!(names.contains(of), "{name} needs {of}");
            let version = concat!("=", env!("CARGO_PKG_VERSION"));
            assert_eq!(text(dependency, "req"), version, "{name} needs {of}");
        }
    }
}

/// The path without `..`, and with the links in it.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// The files that a source includes, outside its tests.
fn included(source: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(source).unwrap();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let calls = code.split("include_").skip(1);
    let calls = calls.filter_map(|call| call.split_once("!(\""));
    let calls = calls.filter(|(name, _)| ["str", "bytes", "bytes_aligned"].contains(name));
    let named = calls.filter_map(|(_, rest)| rest.split('"').next());
    let from = source.parent().unwrap();
    named.map(|path| plain(&from.join(path))).collect()
}

#[test]
fn packed_crates_hold_what_they_include() {
    let mut includes = 0;
    for package in published() {
        let name = text(&package, "name");
        let directory = Path::new(text(&package, "manifest_path")).parent().unwrap();
        let listed = cargo(&["package", "--list", "--allow-dirty", "--package", name]);
        let listed: BTreeSet<_> = listed.lines().map(|path| directory.join(path)).collect();
        let sources = listed
            .iter()
            .filter(|path| path.extension().is_some_and(|of| of == "rs"));
        for path in sources.flat_map(|source| included(source)) {
            assert!(listed.contains(&path), "{name}: {}", path.display());
            includes += 1;
        }
        for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
            let packed = directory.join(licence);
            assert!(listed.contains(&packed), "{name} has no {licence}");
            let text = fs::read(Path::new(ROOT).join(licence)).unwrap();
            assert!(fs::read(&packed).unwrap() == text, "{}", packed.display());
        }
    }
    assert!(includes > 5, "{includes}");
    let [packed, built] = ["collector", "collector-ebpf"]
        .map(|of| fs::read(Path::new(ROOT).join(of).join("trackiops.bpf.o")).unwrap());
    assert!(packed == built, "collector/trackiops.bpf.o is a link");
}

//! What `make` installs before it builds: `scripts/setup.sh` and `scripts/rust.sh`, on machines that `setup/fake.sh` plays.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Programs of this machine that the scripts use.
const REAL: [&str; 16] = [
    "awk",
    "bash",
    "cat",
    "chmod",
    "cp",
    "cut",
    "dirname",
    "grep",
    "head",
    "mkdir",
    "mktemp",
    "rm",
    "sed",
    "sha256sum",
    "sort",
    "touch",
];

fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    let mut found = std::env::split_paths(&path).map(|directory| directory.join(name));
    found
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("no {name} in PATH"))
}

/// A machine, and what became of it.
struct Machine {
    directory: TempDir,
    works: bool,
    said: String,
    ran: Vec<String>,
}

/// Runs a script of `scripts/` on a machine that has these fake commands beside a few real ones. Words with `=` are files of it, and those in
/// capitals variables of the environment.
fn run(script: &str, machine: &str) -> Machine {
    let directory = tempfile::tempdir().unwrap();
    let [bin, fake, home] = ["bin", "fake", "home"].map(|name| directory.path().join(name));
    for directory in [&bin, &fake, &home] {
        fs::create_dir(directory).unwrap();
    }
    for name in REAL {
        symlink(program(name), bin.join(name)).unwrap();
    }
    let mut variables = BTreeMap::new();
    for word in format!("uid=0 machine=x86_64 id uname {machine}").split_whitespace() {
        match word.split_once('=') {
            Some((name, value)) if name.starts_with(char::is_uppercase) => {
                variables.insert(name.to_owned(), value.to_owned());
            }
            Some((name, value)) => fs::write(fake.join(name), value).unwrap(),
            None => {
                let _ = fs::remove_file(bin.join(word));
                symlink(Path::new(ROOT).join("tests/setup/fake.sh"), bin.join(word)).unwrap();
            }
        }
    }
    let mut command = Command::new(Path::new(ROOT).join("scripts").join(script));
    command.env_clear().envs(variables);
    command.env("PATH", &bin).env("HOME", &home);
    let output = command.env("FAKE", &fake).output().unwrap();
    let log = fs::read_to_string(fake.join("log")).unwrap_or_default();
    Machine {
        directory,
        works: output.status.success(),
        said: String::from_utf8(output.stderr).unwrap(),
        ran: log.lines().map(str::to_owned).collect(),
    }
}

const BY_RUSTUP: &str =
    "rustup toolchain install @RUST --profile minimal --component rustfmt,clippy --no-self-update";
const BY_INSTALLER: &str = "rustup-init -y --no-modify-path --profile minimal --default-toolchain @RUST --component rustfmt,clippy";
const DOWNLOAD: &str =
    "curl https://static.rust-lang.org/rustup/archive/@RUSTUP/x86_64-unknown-linux-gnu/rustup-init";

/// A machine, what runs on it, and what is said. `@RUST` and `@RUSTUP` are what scripts/rust.sh installs, `@LEAST` is what Cargo.toml allows.
type Way = (&'static str, &'static [&'static str], &'static str);

const WAYS: [Way; 13] = [
    // Nothing to do.
    ("cargo rustc rust=@LEAST.0 components=", &[], ""),
    ("cargo rustc rust=1.200.0-nightly components=", &[], ""),
    // rustup: a default of the user stays.
    (
        "rustup",
        &["rustup default", BY_RUSTUP, "rustup default @RUST"],
        "Rust is missing: rustup installs Rust @RUST",
    ),
    (
        "rustup default= cargo rustc rust=1.80.1 components=",
        &["rustup default", BY_RUSTUP, "rustup override set @RUST"],
        "Rust 1.80.1 is too old: rustup installs Rust @RUST",
    ),
    (
        "rustup default= cargo rustc rust=1.200.0",
        &["rustup component add rustfmt clippy"],
        "cargo fmt is missing: rustup adds rustfmt and clippy",
    ),
    // Debian 13.
    (
        "apt-get apt-cache rustup=1.27.1-3 rustc=1.85.1+dfsg1-1",
        &[
            "apt-get update",
            "apt-get update",
            "apt-get rustup",
            "rustup default",
            BY_RUSTUP,
            "rustup default @RUST",
        ],
        "Rust is missing: the distribution has rustup",
    ),
    (
        "apt-get apt-cache rustc=1.200.0+dfsg1-1",
        &["apt-get update", "apt-get update", "apt-get rust-clippy"],
        "Rust is missing: the distribution has a Rust that is new enough",
    ),
    // Debian 12.
    (
        "apt-get apt-cache curl sha256sum rustc=1.63.0+dfsg1-2",
        &["apt-get update", DOWNLOAD, BY_INSTALLER],
        "Rust is missing: rustup's installer puts Rust @RUST into @HOME/.cargo and @HOME/.rustup",
    ),
    (
        "apt-get apt-cache curl sha256sum cargo rustc rust=1.63.0",
        &["apt-get update", DOWNLOAD, BY_INSTALLER],
        "Rust 1.63.0 is too old: rustup's installer puts",
    ),
    // A rustup that would remove the distribution's Rust.
    (
        "apt-get apt-cache curl sha256sum rustup=1.27.1-3 conflicts=",
        &[
            "apt-get update",
            "apt-get update",
            "apt-get rustup",
            DOWNLOAD,
            BY_INSTALLER,
        ],
        "Rust is missing: rustup's installer puts",
    ),
    // Without root, and without apt.
    (
        "apt-get apt-cache curl sha256sum rustup=1.27.1-3 uid=1000",
        &[DOWNLOAD, BY_INSTALLER],
        "Rust is missing: rustup's installer puts",
    ),
    (
        "curl sha256sum",
        &[DOWNLOAD, BY_INSTALLER],
        "Rust is missing: rustup's installer puts",
    ),
    (
        "curl sha256sum RUSTUP_UPDATE_ROOT=https://mirror.example/rustup",
        &[
            "curl https://mirror.example/rustup/archive/@RUSTUP/x86_64-unknown-linux-gnu/rustup-init",
            BY_INSTALLER,
        ],
        "rustup's installer puts",
    ),
];

/// A machine on which Rust cannot be had, what runs on it, and the reason that is given.
const DEAD_ENDS: [Way; 8] = [
    (
        "TRACKIOPS_NO_INSTALL=1 rustup apt-get apt-cache curl rustup=1.27.1-3",
        &[],
        "error: Rust is missing; install Rust @LEAST or newer",
    ),
    (
        "TRACKIOPS_NO_INSTALL=1 rustup cargo rustc rust=1.80.1",
        &[],
        "error: Rust 1.80.1 is too old; install Rust @LEAST or newer",
    ),
    // The real sha256sum.
    ("curl", &[DOWNLOAD], "has another checksum than"),
    ("curl no-curl=", &[DOWNLOAD], "curl: refused"),
    (
        "curl sha256sum machine=riscv64",
        &[],
        "no checksum of rustup's installer for riscv64",
    ),
    ("", &[], "missing: curl ca-certificates; install them"),
    (
        "rustup no-rustup=",
        &["rustup default", BY_RUSTUP],
        "error: rustup failed",
    ),
    (
        "rustup default= cargo rustc rust=1.80.1 RUSTUP_TOOLCHAIN=1.80",
        &["rustup default", BY_RUSTUP, "rustup override set @RUST"],
        "error: Rust 1.80.1 is too old still",
    ),
];

fn check(way: Way, works: bool) {
    let script = fs::read_to_string(Path::new(ROOT).join("scripts/rust.sh")).unwrap();
    let pinned = |name: &str| {
        let mut lines = script.lines();
        lines.find_map(|line| line.strip_prefix(name)).unwrap()
    };
    let named = |text: &str| {
        text.replace("@LEAST", env!("CARGO_PKG_RUST_VERSION"))
            .replace("@RUSTUP", pinned("rustup="))
            .replace("@RUST", pinned("rust="))
    };
    let (machine, ran, said) = way;
    let is = run("rust.sh", &named(machine));
    assert_eq!(is.works, works, "{machine}: {}", is.said);
    let ran: Vec<String> = ran.iter().map(|command| named(command)).collect();
    assert_eq!(is.ran, ran, "{machine}: {}", is.said);
    let home = is.directory.path().join("home");
    let said = named(said).replace("@HOME", home.to_str().unwrap());
    assert!(is.said.contains(&said), "{machine}: {}", is.said);
    assert_eq!(
        is.said.is_empty(),
        said.is_empty(),
        "{machine}: {}",
        is.said
    );
}

#[test]
fn rust_is_installed_where_it_is_missing_or_too_old() {
    for way in WAYS {
        check(way, true);
    }
}

#[test]
fn why_rust_cannot_be_installed_is_said_with_what_to_do() {
    for way in DEAD_ENDS {
        check(way, false);
    }
}

#[test]
fn all_that_is_missing_is_named_at_once() {
    let is = run("setup.sh", "TRACKIOPS_NO_INSTALL=1 apt-get");
    assert!(!is.works && is.ran.is_empty(), "{:?}", is.ran);
    for words in [
        "missing: build-essential git openssl python3-venv; TRACKIOPS_NO_INSTALL is set",
        "Rust is missing",
    ] {
        assert!(is.said.contains(words), "{words}: {}", is.said);
    }
}

/// What `make` prints, with further directories in PATH, and without what a `make` around this test adds.
fn make(directories: &str, words: &[&str]) -> String {
    let mut command = Command::new("make");
    command.current_dir(ROOT).args(words);
    for variable in ["MAKEFLAGS", "MAKELEVEL", "CARGO_HOME", "TRACKIOPS_BIN"] {
        command.env_remove(variable);
    }
    let path = format!("{}{directories}", std::env::var("PATH").unwrap());
    command.env("PATH", path).env("HOME", "/home/of");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn make_finds_the_rust_that_was_installed() {
    let path = |directories| make(directories, &["--eval=path: ; @echo $$PATH", "path"]);
    assert!(path("").starts_with("/home/of/.cargo/bin:"), "{}", path(""));
    // The user's own order.
    let own = path(":/home/of/.cargo/bin");
    assert!(!own.starts_with("/home/of/.cargo/bin"), "{own}");
}

#[test]
fn a_demo_of_a_given_program_needs_no_rust() {
    for target in ["demo", "tutorial"] {
        let builds = make("", &["--dry-run", target]);
        assert!(builds.contains("scripts/setup.sh"), "{builds}");
        let given = make("", &["--dry-run", target, "TRACKIOPS_BIN=/bin/true"]);
        let script = format!("scripts/{target}.sh");
        assert!(given.contains(&script), "{given}");
        assert!(!given.contains("scripts/setup.sh"), "{given}");
    }
}

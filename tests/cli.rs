//! What the program says and with which status it ends, where no kernel is needed.
#![allow(clippy::expect_used, clippy::unwrap_used)] // Helpers of tests, too.

use std::env;
use std::process::{Command, Output};

fn trackiops(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_trackiops");
    // Where another architecture is emulated, what the tests start has to be, too.
    let mut command = match env::var_os("TRACKIOPS_TEST_EMULATOR") {
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(program);
            command
        }
        None => Command::new(program),
    };
    command
        .args(args)
        .output()
        .expect("trackiops can be started")
}

fn assert_fails_with(args: &[&str], words: &[&str]) {
    let output = trackiops(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(
        output.stdout.is_empty(),
        "no output that looks like an answer"
    );
    for word in words {
        assert!(said.contains(word), "{args:?}: `{word}` in: {said}");
    }
}

#[test]
fn a_file_that_is_no_btf_is_named() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert_fails_with(&["record", "--store", "x", "--btf", file], &["BTF", file]);
    let nowhere = "/nowhere/vmlinux";
    assert_fails_with(&["record", "--store", "x", "--btf", nowhere], &[nowhere]);
}

#[test]
fn bad_flags_are_named() {
    assert_fails_with(&["record"], &["--store"]);
    assert_fails_with(
        &["record", "--store", "x", "--granularity", "7s"],
        &["--granularity", "7"],
    );
    assert_fails_with(
        &["record", "--store", "x", "--granularity", "2s,5s"],
        &["5s is not a whole number of 2s"],
    );
    assert_fails_with(
        &["record", "--store", "x", "--duration", "5"],
        &["--duration", "90s"],
    );
    assert_fails_with(
        &["record", "--store", "x", "--stdout", "xml"],
        &["--stdout", "paper"],
    );
    assert_fails_with(&["frobnicate"], &["frobnicate"]);
}

#[test]
fn a_query_of_what_is_no_store_says_so() {
    let empty = tempfile::tempdir().expect("a directory");
    let path = empty.path().to_str().expect("a readable name");
    assert_fails_with(&["query", "--store", path], &[path]);
    assert_fails_with(
        &["query", "--store", "/nonexistent/store"],
        &["/nonexistent/store"],
    );
    assert_fails_with(
        &["query", "--store", path, "--by", "colour"],
        &["--by", "file, tenant, op or transport"],
    );
}

#[test]
fn help_and_version_are_answers() {
    for args in [
        &["--help"][..],
        &["record", "--help"],
        &["query", "--help"],
        &["--version"],
    ] {
        assert_eq!(trackiops(args).status.code(), Some(0), "{args:?}");
    }
}

//! A store that cannot be written can be read, and stays unchanged.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use trackiops_store::{Snapshot, Writer};
use trackiops_testkit::content::Content;
use trackiops_testkit::stores::{self, options};
use trackiops_testkit::windows::{granularity, windows};

const STORE: &str = "READ_ONLY_STORE";
const WINDOWS: i64 = 5;

fn record(store: &Path) {
    let mut writer = Writer::open(store, options("h")).unwrap();
    for window in windows(WINDOWS) {
        writer.append(&window).unwrap();
    }
    writer.finish().unwrap();
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

fn set_mode(store: &Path, mode: u32) {
    for path in files(store).iter().chain([&store.to_owned()]) {
        if path.is_dir() {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
}

/// Runs [`reader`] on a read-only store. Modes do not bind root, so root gets a read-only mount.
fn read_as_read_only(store: &Path) {
    let mut reader = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        let script =
            "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && shift && exec \"$@\"";
        command.args([
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-ec",
            script,
            "sh",
        ]);
        command.arg(store).arg(env::current_exe().unwrap());
        command
    } else {
        set_mode(store, 0o555);
        Command::new(env::current_exe().unwrap())
    };
    reader.args(["--exact", "reader", "--ignored", "--nocapture"]);
    let read = reader.env(STORE, store).output().unwrap();
    let said = String::from_utf8_lossy(&read.stderr);
    let told = String::from_utf8_lossy(&read.stdout);
    if !rustix::process::geteuid().is_root() {
        set_mode(store, 0o755);
    }
    assert!(
        read.status.success() && told.contains("1 passed"),
        "{told}{said}"
    );
}

#[test]
#[ignore = "run by the others, where the store cannot be written"]
fn reader() {
    let store = PathBuf::from(env::var_os(STORE).unwrap());
    let probe = fs::write(store.join("probe"), "");
    assert!(probe.is_err(), "the store can be written");
    let snapshot = Snapshot::open(&store).unwrap();
    assert!(snapshot.span().is_some());
    let content = Content::stored(&store, granularity("1s"));
    assert_eq!(content, Content::of(&windows(WINDOWS), granularity("1s")));
}

#[test]
fn a_store_on_read_only_media_is_read_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path());
    let before = files(dir.path());
    read_as_read_only(dir.path());
    assert_eq!(files(dir.path()), before);
}

#[test]
fn a_store_that_is_recorded_into_is_read_where_it_is_mounted_read_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    for window in windows(WINDOWS) {
        writer.append(&window).unwrap();
    }
    // The writer publishes catalogs meanwhile, each first under a separate name.
    let there = || -> Vec<PathBuf> {
        let there = files(dir.path()).into_iter();
        there
            .filter(|path| !path.ends_with(".catalog.db.tmp"))
            .collect()
    };
    let before = there();
    read_as_read_only(dir.path());
    assert_eq!(there(), before);
    writer.finish().unwrap();
}

#[test]
fn a_copy_of_a_store_in_use_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    for window in windows(WINDOWS) {
        writer.append(&window).unwrap();
    }
    stores::copy(dir.path(), copy.path());
    let before = files(copy.path());
    read_as_read_only(copy.path());
    assert_eq!(files(copy.path()), before);
}

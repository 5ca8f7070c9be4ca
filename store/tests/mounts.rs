//! The store keeps mount points, beside all other data.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::Path;

use trackiops_schemas::identity::Dev;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Seen, Snapshot, Writer, check, rebuild_catalog};

use trackiops_testkit::stores::options;
use trackiops_testkit::windows::{T0, windows};

fn mount(dev: u32, path: &str, options: &str) -> MountPoint {
    MountPoint {
        dev: Dev(dev),
        mount: "s:/e".into(),
        source: "s:/e/part".into(),
        path: path.into(),
        version: Some("4.2".into()),
        options: options.into(),
        is_foreign: false,
        volume: None,
        claim: None,
    }
}

fn at(ms: i64) -> UtcMs {
    UtcMs(T0 + ms)
}

fn stored(store: &Path) -> Vec<(MountPoint, Seen)> {
    let mounts = Snapshot::open(store).unwrap().mounts().unwrap();
    assert!(mounts.iter().all(|seen| seen.host == "web-1"));
    mounts
        .into_iter()
        .map(|seen| (seen.mount, seen.seen))
        .collect()
}

#[test]
fn a_mount_is_known_at_once_and_for_as_long_as_it_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let mut writer = Writer::open(store, options("web-1")).unwrap();
    assert_eq!(stored(store), []);
    let [a, b] = [mount(49, "/mnt/a", "rw"), mount(50, "/mnt/b", "rw")];
    writer.mounted(at(0), &[a.clone(), b.clone()]).unwrap();
    assert_eq!(
        stored(store),
        [(a.clone(), (at(0), at(0))), (b.clone(), (at(0), at(0)))]
    );
    // One mount goes, and the other one is mounted with other options.
    let other = mount(49, "/mnt/a", "ro");
    writer
        .mounted(at(700), std::slice::from_ref(&other))
        .unwrap();
    for window in windows(5) {
        writer.append(&window).unwrap();
    }
    writer.finish().unwrap();
    let until_700 = (at(0), at(700));
    let first = [
        (a, until_700),
        (b, until_700),
        (other.clone(), (at(700), at(5000))),
    ];
    assert_eq!(stored(store), first);
    // Mounts in the meantime are unknown.
    let mut writer = Writer::open(store, options("web-1")).unwrap();
    writer
        .mounted(at(9000), std::slice::from_ref(&other))
        .unwrap();
    drop(writer);
    assert_eq!(stored(store)[3], (other, (at(9000), at(9000))));
    assert_eq!(stored(store)[..3], first);
    // Segments do not have mount points, so a new catalog copies them from the old one.
    rebuild_catalog(store).unwrap();
    assert_eq!(stored(store)[..3], first);
    assert_eq!(check(store).unwrap().findings, []);
}

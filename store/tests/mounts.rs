//! The store keeps mount points, beside all other data.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::path::Path;

use trackiops_schemas::identity::Dev;
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{
    MountSeen, Options, RetentionPolicy, Seen, Snapshot, Writer, check, rebuild_catalog,
};

use trackiops_testkit::stores::{options, options_of, record};
use trackiops_testkit::windows::{T0, mount_point, window, windows};

fn mount(dev: u32, path: &str, options: &str) -> MountPoint {
    MountPoint {
        source: "s:/e/part".into(),
        options: options.into(),
        ..mount_point(Dev(dev), "s:/e", path)
    }
}

fn at(ms: i64) -> UtcMs {
    UtcMs(T0 + ms)
}

fn stored(store: &Path) -> Vec<(MountPoint, Seen)> {
    with_times(Snapshot::open(store).unwrap().mounts().unwrap())
}

/// The mounts with the times that journals add.
fn history(store: &Path) -> Vec<(MountPoint, Seen)> {
    with_times(Snapshot::open(store).unwrap().mount_history().unwrap())
}

fn with_times(mounts: Vec<MountSeen>) -> Vec<(MountPoint, Seen)> {
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
    let before_700 = (at(0), at(699));
    let first = [
        (a, before_700),
        (b, before_700),
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

#[test]
fn mounts_that_a_rebuilt_catalog_lacks_are_unknown_until_their_data_has_expired() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let all = windows(130);
    let keeping = |retention: &str| Options {
        keep: RetentionPolicy {
            retention: retention.parse().unwrap(),
            now: || at(130_000),
            ..RetentionPolicy::default()
        },
        ..options_of("web-1", "1s,10s", "10s")
    };
    let is_unknown = || Snapshot::open(store).unwrap().may_lack_mounts().unwrap();
    record(store, keeping("10s=forever"), &all[..30]);
    assert!(!is_unknown());
    rebuild_catalog(store).unwrap();
    assert!(!is_unknown(), "the old catalog has them");
    fs::remove_file(store.join("catalog.db")).unwrap();
    // What is unknown stays unknown, however often the catalog is rebuilt.
    for _ in 0..2 {
        rebuild_catalog(store).unwrap();
        assert!(is_unknown());
    }
    record(store, keeping("10s=forever"), &all[30..]);
    assert!(is_unknown(), "the data of that time is still there");
    for _ in 0..8 {
        record(store, keeping("10s=20s"), &[]);
    }
    let (start, _) = Snapshot::open(store).unwrap().span().unwrap();
    assert!(start > at(30_000), "{start:?}");
    assert!(!is_unknown());
}

#[test]
fn a_mount_is_there_until_the_last_window_whether_sealed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path();
    let [a, b, c] = ["a", "b", "c"].map(|name| mount(49, &format!("/mnt/{name}"), "rw"));
    let all = windows(9);
    let mut writer = Writer::open(store, options("web-1")).unwrap();
    writer.mounted(at(0), &[a.clone(), b.clone()]).unwrap();
    for window in &all[..5] {
        writer.append(window).unwrap();
    }
    let until = |seconds: i64| (at(0), at(1000 * seconds));
    assert_eq!(
        history(store),
        [(a.clone(), until(5)), (b.clone(), until(5))]
    );
    // One mount goes, and another one comes.
    writer.mounted(at(5300), &[a.clone(), c.clone()]).unwrap();
    for window in &all[5..7] {
        writer.append(window).unwrap();
    }
    let b_went = (b, (at(0), at(5299)));
    let expected = [
        (a.clone(), until(7)),
        b_went.clone(),
        (c.clone(), (at(5300), at(7000))),
    ];
    assert_eq!(history(store), expected);
    // One goes, and none comes.
    writer.mounted(at(7100), std::slice::from_ref(&a)).unwrap();
    for window in &all[7..] {
        writer.append(window).unwrap();
    }
    let first = [(a.clone(), until(9)), b_went, (c, (at(5300), at(7099)))];
    assert_eq!(history(store), first);
    // The recorder is killed, and another one seals what it left.
    drop(writer);
    let mut writer = Writer::open(store, options("web-1")).unwrap();
    writer
        .mounted(at(60_000), std::slice::from_ref(&a))
        .unwrap();
    writer.append(&window(T0 + 60_000, Vec::new())).unwrap();
    let again = (a, (at(60_000), at(61_000)));
    let expected = [&first[..], std::slice::from_ref(&again)].concat();
    assert_eq!(history(store), expected);
    // The last mount goes, and the recording goes on.
    writer.mounted(at(61_500), &[]).unwrap();
    writer.append(&window(T0 + 61_000, Vec::new())).unwrap();
    writer.append(&window(T0 + 62_000, Vec::new())).unwrap();
    let gone = (again.0, (at(60_000), at(61_499)));
    let expected = [&first[..], &[gone]].concat();
    assert_eq!(history(store), expected);
    writer.finish().unwrap();
    assert_eq!(history(store), expected);
}

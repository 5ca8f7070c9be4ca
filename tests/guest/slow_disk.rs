//! A store on a disk that takes seconds to sync: nothing is lost, and windows are on it some syncs later.

use std::sync::LazyLock;

use crate::run::{Run, sum};

static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("slow_disk", &["--deb", "dmsetup"]));

/// A sync of the disk takes 3 s, and a sync of a file up to three of these. Windows that close meanwhile wait for the next sync.
const OLDEST_S: i64 = 30;
/// Twice the memory of a recorder whose 24 MiB of waiting windows are full.
const MOST_MEMORY_KIB: u64 = 128 << 10;

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_disk_that_takes_seconds_to_sync_costs_no_request() {
    let sync_ms: u64 = RUN.text("sync_ms").trim().parse().unwrap();
    assert!(sync_ms >= 3000, "the disk is not slow: {sync_ms} ms");
    let truth = RUN.mountstats("before", "after");
    let truth = &truth.mounts["/mnt/nfs"].1;
    let all = RUN.query(&["--step", "all"]);
    let bytes = ["read_bytes", "write_bytes"].map(|column| sum(&all, column));
    assert_eq!(bytes, [truth.server_read_bytes, truth.server_written_bytes]);
    let said = RUN.text("record.err");
    assert!(!said.contains("cannot be written"), "{said}");
    let output = RUN.query_output(&["--step", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr);
    // The second of the start and the second of the stop.
    assert!(said.matches("not recorded").count() <= 2, "{said}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_on_a_slow_disk_windows_do_not_pile_up() {
    let newest = crate::run::answers(&RUN.text("while_slow"))
        .iter()
        .map(|answer| {
            let time = answer["time"].as_str().expect("a time");
            chrono::DateTime::parse_from_rfc3339(time)
                .unwrap()
                .timestamp()
        })
        .max()
        .expect("windows");
    let asked: i64 = RUN.text("asked").trim().parse().unwrap();
    let peak_kib: u64 = RUN.text("peak_kib").trim().parse().unwrap();
    println!(
        "the newest window was {} s old, the recorder took {} MiB",
        asked - newest,
        peak_kib / 1024
    );
    assert!(asked - newest <= OLDEST_S);
    assert!(peak_kib <= MOST_MEMORY_KIB);
}

//! SIGHUP while recording.

use std::sync::LazyLock;

use crate::run::{Run, sum};

static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("reload", &[]));

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_files_in_etc_are_what_a_recorder_does() {
    let said = RUN.text("check.out");
    assert_eq!(said, "checked the environment and 2 files: no errors\n");
    let shown = RUN.text("show.out");
    let line = shown
        .lines()
        .find(|line| line.starts_with("rotate = \"4s\""));
    let line = line.expect("the key of a file");
    assert!(
        line.ends_with("# /etc/trackiops/conf.d/windows.toml:3"),
        "{line}"
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_sighup_changes_what_is_kept() {
    // The script has waited until the oldest windows of 1 s expired.
    assert!(RUN.text("oldest.1s").ends_with("Z\n"), "there were some");
    assert_eq!(RUN.text("oldest.1m"), RUN.text("oldest.1m.after"));
    let said = RUN.text("record.err");
    for line in [
        "reloaded: retain was \"1s=2d,1m=forever\" and is \"1s=5s,1m=forever\" (/etc/trackiops/trackiops.toml:2)",
        "not reloaded: uid stays []; restart the recorder to make it [\"4242\"] (/etc/trackiops/trackiops.toml:3)",
        "/etc/trackiops/trackiops.toml:2: unknown key retian in [record]; did you mean retain?",
        "the configuration is not reloaded: recording goes on as before",
    ] {
        assert!(said.contains(line), "`{line}` in: {said}");
    }
    for name in ["status.out", "again.out"] {
        let retention = &RUN.json(name)["recorder"]["retention"];
        assert_eq!(retention, "1s=5000ms,1m=forever", "{name}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_service_manager_is_told_how_the_recorder_is() {
    let told = RUN.text("notified");
    let told: Vec<_> = told.lines().collect();
    // Three windows of a second exceed its watchdog.
    assert_eq!(
        told[..2],
        [
            "WATCHDOG_USEC=3000000 WATCHDOG=1",
            "READY=1 STATUS=recording WATCHDOG=1"
        ]
    );
    let windows = |line: &&&str| line.contains(" requests/s ") && line.ends_with(" WATCHDOG=1");
    assert!(told.iter().filter(windows).count() > 25, "{told:?}");
    let reloading = |line: &&str| line.starts_with("RELOADING=1 MONOTONIC_USEC=");
    let at = told.iter().position(reloading).expect("a reload");
    assert_eq!(told[at + 1], "READY=1");
    assert_eq!(
        told.last(),
        Some(&"STOPPING=1 STATUS=writing what was recorded EXTEND_TIMEOUT_USEC=30000000")
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_no_request_is_lost_by_sighup() {
    let (_, truth) = &RUN.mountstats("before", "after").mounts["/mnt/nfs"];
    let all = RUN.query(&["--step", "all"]);
    let recorded = ["write_requests", "write_bytes"].map(|column| sum(&all, column));
    let [_, requests, _, bytes] = truth.transfers();
    assert_eq!(recorded, [requests, bytes]);
    assert!(requests > 100, "{requests}");
}

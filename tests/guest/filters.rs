//! Requests that pass a filter are recorded completely, and no others are counted.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::run::{Run, kernel, number};

static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("filters", &["--timeout", "900"]));

/// Requests of a piece of work in each direction, and their size.
const TIMES: u64 = 8;
const BYTES: u64 = 64 << 10;

/// Mounts; each numbers its files independently.
const MOUNTS: [(&str, &str); 3] = [
    ("127.0.0.1:/exp", "/mnt/nfs/"),
    ("127.0.0.1:/exp2", "/mnt/two/"),
    ("127.0.0.1:/exp3", "/mnt/late/"),
];

/// Pieces of work that were read, and pieces that were written.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Work {
    read: u64,
    written: u64,
}

const BOTH: Work = Work {
    read: 1,
    written: 1,
};
const WRITTEN: Work = Work {
    read: 0,
    written: 1,
};
const READ: Work = Work {
    read: 1,
    written: 0,
};

/// Whether calls of applications are counted by default.
fn counts_calls() -> bool {
    RUN.text("doctor")
        .trim_end()
        .contains("; counts calls of applications\n")
}

/// Asserts that exactly this was recorded in the case and seen by the programs.
fn assert_recorded(case: &str, expected: &[(&str, Work)]) {
    let files = RUN.text(&format!("files.{case}"));
    let paths: BTreeMap<(u64, &str), &str> = files
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, '\t');
            let fileid = fields.next()?.parse().ok()?;
            let path = fields.nth(1)?;
            let mount = MOUNTS.iter().find(|(_, at)| path.starts_with(at))?;
            Some(((fileid, mount.0), path))
        })
        .collect();
    let mut recorded = Vec::new();
    let mut requests = 0;
    for answer in Run::query_store(&RUN.out.join(case), &["--step", "all"]) {
        let of = |name: &str| number(&answer, name) as u64;
        let mount = answer["mount"].as_str().unwrap_or_default();
        // On Linux 5.10, the first request reveals how to find a call's file.
        let misses = u64::from(kernel() == "5.10");
        if of("fileid") == 0 {
            let calls = of("app_read_calls") + of("app_write_calls");
            assert!(
                calls <= misses,
                "{case}: {calls} calls of nobody knows which file"
            );
            continue;
        }
        let path = paths.get(&(of("fileid"), mount)).copied();
        let path = path.unwrap_or_else(|| panic!("{case}: nobody has worked on {answer:?}"));
        let work = Work {
            read: of("read_bytes") / (TIMES * BYTES),
            written: of("write_bytes") / (TIMES * BYTES),
        };
        assert_eq!(of("read_requests"), work.read * TIMES, "{case}: {answer:?}");
        assert_eq!(
            of("write_requests"),
            work.written * TIMES,
            "{case}: {answer:?}"
        );
        // All work uses O_DIRECT, so each request is a call.
        if counts_calls() && !case.ends_with("tracepoint") {
            let [calls, bytes] = ["calls", "direct_bytes"].map(|what| {
                ["read", "write"].map(|direction| of(&format!("app_{direction}_{what}")))
            });
            let of_work = [work.read, work.written].map(|n| n * TIMES);
            for (calls, of_work) in calls.into_iter().zip(of_work) {
                let is_right = calls <= of_work && calls + misses >= of_work;
                assert!(is_right, "{case}: {path}: {calls} calls");
            }
            assert_eq!(bytes, calls.map(|n| n * BYTES), "{case}: {path}");
        }
        requests += of("read_requests") + of("write_requests");
        recorded.push((path, work));
    }
    recorded.sort_by_key(|(path, _)| *path);
    let mut expected = expected.to_vec();
    expected.sort_by_key(|(path, _)| *path);
    assert_eq!(recorded, expected, "{case}");
    let said = RUN.text(&format!("{case}.err"));
    let seen = format!("stopped: {requests} requests seen, {requests} recorded");
    assert!(said.contains(&seen), "{case}: `{seen}` in:\n{said}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_mounts_are_wanted_by_source_and_place_also_those_that_come_later() {
    let expected = [("/mnt/two/two.bin", BOTH), ("/mnt/late/late.bin", BOTH)];
    assert_recorded("mount", &expected);
    assert_recorded("mount_tracepoint", &expected);
    let said = RUN.text("mount.err");
    assert!(said.contains("`/mnt/late` is not mounted"), "{said}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_status_names_the_mounts_that_are_recorded() {
    for (case, expected) in [
        ("mount", vec!["/mnt/late", "/mnt/two"]),
        ("dir", vec!["/mnt/nfs"]),
        ("file", vec!["/mnt/nfs", "/mnt/two"]),
        ("uid", vec!["/mnt/late", "/mnt/nfs", "/mnt/two"]),
    ] {
        let status = RUN.text(&format!("{case}.status_json"));
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        let mounts = status["mounts"].as_array().unwrap().iter();
        let mut paths: Vec<_> = mounts.map(|m| m["path"].as_str().unwrap()).collect();
        paths.sort_unstable();
        assert_eq!(paths, expected, "{case}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_directories_are_wanted_with_what_is_below_them_and_what_comes_into_them() {
    let expected = [
        ("/mnt/nfs/a/b/c/deep.bin", BOTH),
        ("/mnt/nfs/a/first.bin", BOTH),
        ("/mnt/nfs/a/user.bin", BOTH),
        ("/mnt/nfs/a/moved.bin", BOTH),
    ];
    assert_recorded("dir", &expected);
    let expected = [
        ("/mnt/nfs/a/b/c/deep.bin", BOTH),
        ("/mnt/nfs/a/second.bin", BOTH),
        ("/mnt/nfs/a/user.bin", BOTH),
    ];
    assert_recorded("calls", &expected);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_files_users_and_processes_are_wanted_by_both_engines() {
    let files = [("/mnt/nfs/outside.bin", BOTH), ("/mnt/two/two.bin", BOTH)];
    let users = [("/mnt/nfs/user.bin", BOTH), ("/mnt/nfs/a/user.bin", BOTH)];
    for engine in ["", "_tracepoint"] {
        assert_recorded(&format!("file{engine}"), &files);
        assert_recorded(&format!("uid{engine}"), &users);
        assert_recorded(&format!("pid{engine}"), &[("/mnt/nfs/pid.bin", WRITTEN)]);
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_what_has_to_pass_several_filters_passes_each() {
    assert_recorded("ops", &[("/mnt/two/two.bin", WRITTEN)]);
    assert_recorded("ops_tracepoint", &[("/mnt/two/two.bin", READ)]);
    assert_recorded("several", &[("/mnt/nfs/a/user.bin", READ)]);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_cgroups_are_wanted_with_those_below_them() {
    if !RUN.text("doctor").contains("users and cgroups") {
        println!("this kernel does not tell cgroups");
        return;
    }
    let expected = [("/mnt/nfs/inner.bin", BOTH), ("/mnt/nfs/cgroup.bin", BOTH)];
    assert_recorded("cgroup", &expected);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_queries_tell_what_was_left_out() {
    let output = Run::query_store_output(&RUN.out.join("several"), &["--step", "all"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let filter = "only --dir /mnt/nfs/a --uid 1000 --ops read was recorded";
    assert!(said.contains(filter), "{said}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_filter_that_cannot_be_is_refused_by_name() {
    for (case, words) in [
        ("nowhere", ["/etc/hostname", "is not on NFS"]),
        ("missing", ["/mnt/nfs/missing", "No such file"]),
        ("no_directories", ["tracepoint engine", "--engine direct"]),
    ] {
        let said = RUN.text(&format!("{case}.err"));
        assert_eq!(RUN.text(&format!("{case}.status")).trim(), "2", "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
}

//! Operations equal the kernel's own count, procedure by procedure, over every version of NFS.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::mountstats::MountCounters;
use crate::run::{Answer, Run, answers, number};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let add = [
        "--add",
        "tests/guest/scripts/metadata.py",
        "--timeout",
        "600",
    ];
    Run::script("ops", &add)
});

const MOUNT: &str = "127.0.0.1:/exp";
const VERSIONS: [&str; 4] = ["v3", "v4.0", "v4.1", "v4.2"];

/// Operations that each version has to show, or the work was not done.
fn expected(version: &str) -> &'static [&'static str] {
    match version {
        "v3" => &[
            "GETATTR",
            "SETATTR",
            "LOOKUP",
            "ACCESS",
            "READLINK",
            "READ",
            "WRITE",
            "CREATE",
            "MKDIR",
            "SYMLINK",
            "MKNOD",
            "REMOVE",
            "RMDIR",
            "RENAME",
            "LINK",
            "READDIRPLUS",
            "FSSTAT",
            "COMMIT",
        ],
        "v4.0" => &[
            "GETATTR", "SETATTR", "LOOKUP", "READLINK", "READ", "WRITE", "CREATE", "SYMLINK",
            "REMOVE", "RENAME", "LINK", "READDIR", "STATFS", "COMMIT", "OPEN", "CLOSE", "LOCK",
            "LOCKU",
        ],
        // Who holds a delegation opens, locks and closes by himself.
        _ => &[
            "GETATTR", "SETATTR", "LOOKUP", "READLINK", "WRITE", "CREATE", "SYMLINK", "REMOVE",
            "RENAME", "LINK", "READDIR", "STATFS", "COMMIT", "OPEN",
        ],
    }
}

/// What a recording says, by `--by op` or `--by transport`.
fn recorded(name: &str, by: &str, step: &str) -> Vec<Answer> {
    Run::query_store(&RUN.out.join(name), &["--by", by, "--step", step])
}

/// What the kernel counted while the recording was sure to be going on.
fn truth(name: &str, mount_point: &str) -> MountCounters {
    between(name, mount_point, ["before", "after"])
}

fn between(name: &str, mount_point: &str, [from, to]: [&str; 2]) -> MountCounters {
    let stats = RUN.mountstats(&format!("{name}.{from}"), &format!("{name}.{to}"));
    stats.mounts[mount_point].1.clone()
}

/// With them a client renews its lease, whatever else happens.
const RENEWALS: [&str; 2] = ["RENEW", "SEQUENCE"];

/// All counts are those of the kernel; of renewals there may be more, as far as they came between starting the
/// recorder or stopping it and looking.
fn assert_counts(mut recorded: Counts, name: &str, mount_point: &str) {
    let mut truth = counts_of(&truth(name, mount_point));
    let most = counts_of(&between(name, mount_point, ["earliest", "latest"]));
    for op in RENEWALS {
        let [least, recorded, most] = [&mut truth, &mut recorded, &mut most.clone()]
            .map(|counts| counts.remove(op).unwrap_or_default());
        let within = |i: usize| (least[i]..=most[i]).contains(&recorded[i]);
        assert!(
            (0..4).all(within),
            "{name}: {op} {least:?} {recorded:?} {most:?}"
        );
    }
    assert_eq!(recorded, truth, "{name}: {mount_point}");
}

/// Requests, errors, bytes sent and bytes received by operation.
type Counts = BTreeMap<String, [u64; 4]>;

fn counts<'a>(rows: impl IntoIterator<Item = &'a Answer>) -> Counts {
    let mut counts = Counts::new();
    for row in rows {
        let sums = counts.entry(text(row, "op").to_owned()).or_default();
        let columns = ["requests", "errors", "sent_bytes", "received_bytes"];
        for (sum, column) in sums.iter_mut().zip(columns) {
            *sum += number(row, column) as u64;
        }
    }
    counts
}

/// The same, of procedures that were used.
fn counts_of(truth: &MountCounters) -> Counts {
    let used = truth.ops.iter().filter(|(_, numbers)| numbers[0] > 0);
    used.map(|(op, n)| (op.clone(), [n[0], n[8], n[3], n[4]]))
        .collect()
}

fn text<'a>(row: &'a Answer, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_default()
}

#[test]
#[ignore = "boots a guest: make test"]
fn guest_every_operation_equals_mountstats_over_every_version() {
    for version in VERSIONS {
        let truth = truth(version, "/mnt/nfs");
        let rows = recorded(version, "op", "all");
        assert_counts(counts(&rows), version, "/mnt/nfs");
        for op in expected(version) {
            assert!(truth.count(op) > 0, "{version}: {op} was not used");
        }
        let failed: u64 = rows.iter().map(|row| number(row, "errors") as u64).sum();
        assert!(failed > 0, "{version}: nothing failed");
        for row in &rows {
            assert_eq!(text(row, "mount"), MOUNT, "{version}: {row:?}");
            if !RENEWALS.contains(&text(row, "op")) {
                assert_times(row, &truth.ops[text(row, "op")], version);
            }
        }
        println!(
            "{version}: {} operations, {} requests, {failed} failed",
            rows.len(),
            total(&rows)
        );
    }
}

fn total(rows: &[Answer]) -> u64 {
    counts(rows).values().map(|counts| counts[0]).sum()
}

/// The sums are those of mountstats, which shows whole ms, and the histogram holds every request.
fn assert_times(row: &Answer, numbers: &[u64], version: &str) {
    let columns = ["queue_us_sum", "rtt_us_sum", "execute_us_sum"];
    for (column, ms) in columns.into_iter().zip(&numbers[5..8]) {
        let recorded_ms = number(row, column) / 1000.0;
        let apart = (recorded_ms - *ms as f64).abs();
        assert!(apart < 1.1, "{version}: {column} of {ms} ms in {row:?}");
    }
    let requests = number(row, "requests");
    let buckets = row["execute_hist"].as_array().expect("a histogram");
    let counted: u64 = buckets.iter().filter_map(|b| b["count"].as_u64()).sum();
    assert_eq!(counted as f64, requests, "{version}: {row:?}");
    let (sum, max) = (number(row, "execute_us_sum"), number(row, "execute_us_max"));
    assert!(
        max > 0.0 && max <= sum + 1.0 && max * requests >= sum * 0.99,
        "{row:?}"
    );
    let last = buckets
        .last()
        .and_then(|b| b["bucket"].as_i64())
        .expect("a bucket");
    let bounds = [last, last + 1].map(|bucket| (bucket as f64 / 32.0).exp2());
    assert!(
        max >= bounds[0] - 1.0 && max <= bounds[1] + 1.0,
        "{version}: {row:?}"
    );
}

#[test]
#[ignore = "boots a guest: make test"]
fn guest_operations_are_the_same_at_every_granularity_and_before_they_are_sealed() {
    for version in VERSIONS {
        let all = counts(&recorded(version, "op", "all"));
        for step in ["1s", "10s"] {
            assert_eq!(
                counts(&recorded(version, "op", step)),
                all,
                "{version}, {step}"
            );
        }
        let live = answers(&RUN.text(&format!("{version}.live.json")));
        assert!(!live.is_empty(), "{version}");
        for (op, live) in counts(&live) {
            let [requests, ..] = all[&op];
            assert!(live[0] <= requests && live[0] > 0, "{version}: {op}");
        }
        // But for the last window, which was open.
        let live = counts(&live).values().map(|counts| counts[0]).sum::<u64>();
        let all = all.values().map(|counts| counts[0]).sum::<u64>();
        assert!(live * 2 > all, "{version}: {live} of {all}");
    }
}

#[test]
#[ignore = "boots a guest: make test"]
fn guest_commits_are_told_by_file() {
    for version in VERSIONS {
        let rows = recorded(version, "op", "all");
        let all = rows.iter().find(|row| text(row, "op") == "COMMIT");
        let all = all.expect("COMMITs");
        let store = RUN.out.join(version);
        let files = Run::query_store(&store, &["--step", "all"]);
        let sum = |column: &str| -> f64 { files.iter().map(|file| number(file, column)).sum() };
        assert_eq!(sum("commit_requests"), number(all, "requests"), "{version}");
        assert_eq!(sum("commit_errors"), number(all, "errors"), "{version}");
        for (of_files, of_all) in [
            ("commit_queue_us_sum", "queue_us_sum"),
            ("commit_rtt_us_sum", "rtt_us_sum"),
        ] {
            let apart = (sum(of_files) - number(all, of_all)).abs();
            assert!(apart < 1_000.0, "{version}: {of_files} {apart} us apart");
        }
        // A little more happens before the file is known than before the kernel's statistics.
        let longer = sum("commit_latency_us_sum") - number(all, "execute_us_sum");
        let most = 20_000.0 * number(all, "requests");
        assert!((0.0..most).contains(&longer), "{version}: {longer} us");

        let committed = |file: &&Answer| number(file, "commit_requests") > 0.0;
        let file = files.iter().find(committed).expect("a file with COMMITs");
        assert!(number(file, "write_requests") > 0.0, "{version}: {file:?}");
        let id = format!("{}:{}", text(file, "dev"), number(file, "fileid"));
        let own = Run::query_store(&store, &["--step", "all", "--by", "op", "--file", &id]);
        let own = counts(&own);
        for (op, column) in [("WRITE", "write_requests"), ("COMMIT", "commit_requests")] {
            assert_eq!(own[op][0] as f64, number(file, column), "{version}: {op}");
        }
        println!("{version}: {} COMMITs", sum("commit_requests"));
    }
}

#[test]
#[ignore = "boots a guest: make test"]
fn guest_connections_are_told_apart() {
    let truth = truth("nconnect", "/mnt/nfs");
    assert_eq!(truth.sent.len(), 3, "connections");
    let rows = recorded("nconnect", "transport", "all");
    let transports: BTreeSet<&str> = rows.iter().map(|row| text(row, "transport")).collect();
    assert_eq!(transports.len(), 3, "{transports:?}");
    for transport in &transports {
        assert!(transport.starts_with("tcp-"), "{transport}");
    }
    assert_counts(counts(&rows), "nconnect", "/mnt/nfs");
    let of_one = |transport: &str| {
        let own = rows
            .iter()
            .filter(|row| text(row, "transport") == transport);
        own.map(|row| number(row, "requests") as u64).sum::<u64>()
    };
    let renewals: u64 = RENEWALS.iter().map(|op| truth.count(op) + 2).sum();
    let mut recorded: Vec<u64> = transports.into_iter().map(of_one).collect();
    let mut sent = truth.sent.clone();
    recorded.sort_unstable();
    sent.sort_unstable();
    for (recorded, sent) in recorded.into_iter().zip(sent) {
        assert!(
            recorded.abs_diff(sent) <= renewals,
            "{recorded} over a connection, {sent} sent"
        );
    }
    assert_counts(
        counts(&self::recorded("nconnect", "op", "all")),
        "nconnect",
        "/mnt/nfs",
    );
}

/// A mount's line of mountstats adds up its own RPC client and those above it, which other mounts may share.
#[test]
#[ignore = "boots a guest: make test"]
fn guest_mounts_of_one_server_are_told_apart_where_the_kernel_says_which_is_which() {
    let rows = recorded("two", "op", "all");
    let of = |mount: Option<&str>| counts(rows.iter().filter(|row| row["mount"].as_str() == mount));
    let linked = RUN.text("sysfs.txt").contains("clnt-");
    let shared = of(None);
    if !linked {
        println!("this kernel does not link mounts and RPC clients: no mount is expected");
        assert_eq!(counts(&rows), shared);
        // What is not done for both in common is in one of the two.
        let truths = ["/mnt/nfs", "/mnt/nfs2"].map(|at| counts_of(&truth("two", at)));
        for op in ["OPEN", "WRITE", "READDIR", "COMMIT", "RENAME"] {
            let sum: u64 = truths.iter().map(|truth| truth[op][0]).sum();
            assert_eq!(shared[op][0], sum, "{op}");
        }
        return;
    }
    for (mount, mount_point) in [(MOUNT, "/mnt/nfs"), ("127.0.0.1:/exp2", "/mnt/nfs2")] {
        let mut own = of(Some(mount));
        assert!(own["OPEN"][0] > 0, "{mount}");
        for (op, common) in &shared {
            let sums = own.entry(op.clone()).or_default();
            sums.iter_mut().zip(common).for_each(|(sum, n)| *sum += n);
        }
        assert_counts(own, "two", mount_point);
    }
}

#[test]
#[ignore = "boots a guest: make test"]
fn guest_operations_left_out_cost_no_program_and_are_told() {
    let programs = |name: &str| -> u32 {
        let count = RUN.text(&format!("{name}.programs"));
        count.trim().parse().expect("a number")
    };
    // READ and WRITE, and renaming; as many as for the first two for COMMIT and any RPC.
    let for_requests = programs("without") - 1;
    assert!(for_requests > 0);
    assert_eq!(programs("with") - programs("without"), for_requests);
    let store = RUN.out.join("left-out");
    let written: f64 = Run::query_store(&store, &["--step", "all"])
        .iter()
        .map(|row| number(row, "write_requests"))
        .sum();
    assert!(written > 0.0, "the files are recorded all the same");
    let answer = Run::query_store_output(&store, &["--by", "op", "--step", "all"]);
    let said = String::from_utf8_lossy(&answer.stderr);
    assert!(said.contains("recorded without operations"), "{said}");
}

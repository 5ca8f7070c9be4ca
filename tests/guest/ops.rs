//! Operations match the kernel's own count, by procedure, in every version of NFS.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use crate::mountstats::MountCounters;
use crate::run::{self, Answer, Run, answers, number};

static RUN: LazyLock<Run> = LazyLock::new(|| {
    let add = [
        "--add",
        "tests/guest/scripts/metadata.py",
        "--add",
        "tests/guest/scripts/told.py",
        "--timeout",
        "600",
    ];
    let files = if run::long() { "10" } else { "5" };
    Run::on(&run::kernel(), "ops", &add, &[files])
});

const MOUNT: &str = "127.0.0.1:/exp";
const VERSIONS: [&str; 4] = ["v3", "v4.0", "v4.1", "v4.2"];

/// Operations that each version must show; otherwise the work was not done.
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
        // With a delegation, the client opens, locks and closes without the server.
        _ => &[
            "GETATTR", "SETATTR", "LOOKUP", "READLINK", "WRITE", "CREATE", "SYMLINK", "REMOVE",
            "RENAME", "LINK", "READDIR", "STATFS", "COMMIT", "OPEN",
        ],
    }
}

/// The answers for `--by op` or `--by transport`.
fn recorded(name: &str, by: &str, step: &str) -> Vec<Answer> {
    Run::query_store(&RUN.out.join(name), &["--by", by, "--step", step])
}

/// The kernel's counts while the recording certainly ran.
fn truth(name: &str, mount_point: &str) -> MountCounters {
    between(name, mount_point, ["before", "after"])
}

fn between(name: &str, mount_point: &str, [from, to]: [&str; 2]) -> MountCounters {
    let stats = RUN.mountstats(&format!("{name}.{from}"), &format!("{name}.{to}"));
    stats.mounts[mount_point].1.clone()
}

/// Operations by which a client renews its lease and returns delegations, at any time.
const BY_ITSELF: [&str; 3] = ["RENEW", "SEQUENCE", "DELEGRETURN"];

/// Checks that all counts match the kernel's. Operations that the client sends by itself may be more, if they came between the snapshots
/// and the recorder's start or stop.
fn assert_counts(mut recorded: Counts, name: &str, mount_point: &str) {
    let mut truth = counts_of(&truth(name, mount_point));
    let most = counts_of(&between(name, mount_point, ["earliest", "latest"]));
    for op in BY_ITSELF {
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

/// The kernel's counts of procedures that were used.
fn counts_of(truth: &MountCounters) -> Counts {
    let used = truth.ops.iter().filter(|(_, numbers)| numbers[0] > 0);
    used.map(|(op, n)| (op.clone(), [n[0], n[8], n[3], n[4]]))
        .collect()
}

fn text<'a>(row: &'a Answer, column: &str) -> &'a str {
    row[column].as_str().unwrap_or_default()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
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
            if !BY_ITSELF.contains(&text(row, "op")) {
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

/// Checks that the sums match mountstats, which shows whole ms, and that the histogram holds every request.
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
#[ignore = "boots a guest: make test-guests"]
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
        // Except for the last window, which was open.
        let live = counts(&live).values().map(|counts| counts[0]).sum::<u64>();
        let all = all.values().map(|counts| counts[0]).sum::<u64>();
        assert!(live * 2 > all, "{version}: {live} of {all}");
    }
}

/// Asks for the operations of each file.
const BY_FILE: [&str; 4] = ["--step", "all", "--by", "file,op"];

/// For a file, or all files together: requests, errors, queue, rtt and latency in us by operation.
type FileCounts = BTreeMap<String, [f64; 5]>;

fn file_counts<'a>(rows: impl IntoIterator<Item = &'a Answer>) -> FileCounts {
    let mut counts = FileCounts::new();
    let is_metadata = |op: &&Answer| !["READ", "WRITE"].contains(&text(op, "op"));
    for op in rows.into_iter().filter(is_metadata) {
        let sums = counts.entry(text(op, "op").to_owned()).or_default();
        let columns = [
            "requests",
            "errors",
            "queue_us_sum",
            "rtt_us_sum",
            "execute_us_sum",
        ];
        for (sum, column) in sums.iter_mut().zip(columns) {
            *sum += number(op, column);
        }
    }
    counts
}

/// Operations that always pass a handle from an inode.
const ALWAYS_OF_A_FILE: [&str; 14] = [
    "COMMIT", "SETATTR", "CLOSE", "LOCK", "LOCKU", "ALLOCATE", "RENAME", "LINK", "READLINK",
    "RMDIR", "MKDIR", "SYMLINK", "CREATE", "REMOVE",
];

/// Linux 5.10 maps handles to inodes only after the first read or write.
fn learns() -> bool {
    run::kernel() == "5.10"
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_metadata_is_told_by_file_and_is_never_more_than_there_was() {
    for version in VERSIONS {
        let files = Run::query_store(&RUN.out.join(version), &BY_FILE);
        let of_files = file_counts(&files);
        for row in recorded(version, "op", "all") {
            let op = text(&row, "op");
            let all = [
                "requests",
                "errors",
                "queue_us_sum",
                "rtt_us_sum",
                "execute_us_sum",
            ]
            .map(|column| number(&row, column));
            let Some(told) = of_files.get(op) else {
                assert!(
                    !ALWAYS_OF_A_FILE.contains(&op),
                    "{version}: {op} of no file"
                );
                continue;
            };
            assert!(
                !["READ", "WRITE", "READ_PLUS"].contains(&op),
                "{version}: {op} twice"
            );
            // Times are rounded for each file, and window.
            let slack = told[0] * 2.0 + 10.0;
            for (i, (told, all)) in told.iter().zip(all).enumerate() {
                let slack = if i < 2 { 0.0 } else { slack };
                assert!(*told <= all + slack, "{version}: {op} {told} of {all}");
                if ALWAYS_OF_A_FILE.contains(&op) && (!learns() || op == "COMMIT") {
                    assert!(
                        (told - all).abs() <= slack,
                        "{version}: {op} {told} of {all}"
                    );
                }
            }
            println!("{version}: {op}: {} of {} by file", told[0], all[0]);
        }
        for op in ["GETATTR", "COMMIT", "SETATTR"] {
            assert!(of_files.contains_key(op), "{version}: no file has {op}");
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_each_file_has_the_metadata_that_it_was_asked_for() {
    for version in VERSIONS {
        let known = RUN.text(&format!("{version}.told.json"));
        let known: serde_json::Value = serde_json::from_str(&known).expect("JSON");
        let store = RUN.out.join(version);
        let files = Run::query_store(&store, &BY_FILE);
        let written = Run::query_store(&store, &["--step", "all"]);
        for (fileid, ops) in known["ops"].as_object().expect("files") {
            let fileid: f64 = fileid.parse().expect("a number");
            let own = files.iter().filter(|file| number(file, "fileid") == fileid);
            let told = file_counts(own.clone());
            for (op, count) in ops.as_object().expect("operations") {
                let requests = told.get(op).map_or(0.0, |sums| sums[0]);
                // With a delegation, the client locks and closes without the server.
                let by_itself =
                    ["LOCK", "LOCKU", "CLOSE"].contains(&op.as_str()) && version != "v4.0";
                if by_itself && requests == 0.0 {
                    continue;
                }
                assert_eq!(
                    requests,
                    count.as_f64().expect("a count"),
                    "{version}: {op} of {fileid}: {told:?}"
                );
            }
            // The same by operation.
            let file = own.clone().next().expect("a file");
            let id = format!("{}:{fileid}", text(file, "dev"));
            let by_op = Run::query_store(&store, &["--step", "all", "--by", "op", "--file", &id]);
            let by_op: BTreeMap<&str, f64> = by_op
                .iter()
                .map(|row| (text(row, "op"), number(row, "requests")))
                .collect();
            for (op, sums) in &told {
                assert_eq!(by_op[op.as_str()], sums[0], "{version}: {op} of {fileid}");
            }
            let written = written.iter().find(|file| number(file, "fileid") == fileid);
            assert_eq!(
                by_op.get("WRITE").copied().unwrap_or(0.0),
                written.map_or(0.0, |file| number(file, "write_requests")),
                "{version}: {fileid}"
            );
        }
        // No process opens a directory for reading or writing: operations reveal its name.
        for (fileid, path) in known["directories"].as_object().expect("directories") {
            let id: f64 = fileid.parse().expect("a number");
            let is_it = |file: &&Answer| number(file, "fileid") == id;
            let names: Vec<_> = files.iter().filter(is_it).map(|row| &row["path"]).collect();
            assert!(
                !names.is_empty() && names.iter().all(|name| *name == path),
                "{version}: directory {fileid}: {names:?} are not {path}"
            );
        }
        let id = known["fileid"].as_str().expect("a fileid");
        let by = "file,tenant,op";
        let tenants = Run::query_store(&store, &["--step", "all", "--by", by]);
        for (uid, ops) in known["users"].as_object().expect("users") {
            let uid: u32 = uid.parse().expect("a uid");
            let is_of =
                |row: &&Answer| number(row, "fileid").to_string() == id && row["uid"] == uid;
            let told = file_counts(tenants.iter().filter(is_of));
            for (op, count) in ops.as_object().expect("operations") {
                let requests = told.get(op).map(|sums| sums[0]);
                assert_eq!(
                    requests,
                    count.as_f64(),
                    "{version}: {op} of {uid}: {told:?}"
                );
            }
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
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
    let renewals: u64 = BY_ITSELF.iter().map(|op| truth.count(op) + 2).sum();
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

/// A mount's line of mountstats adds up its own RPC client and parent clients, which other mounts may share.
#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_mounts_of_one_server_are_told_apart_where_the_kernel_says_which_is_which() {
    let rows = recorded("two", "op", "all");
    let of = |mount: Option<&str>| counts(rows.iter().filter(|row| row["mount"].as_str() == mount));
    let linked = RUN.text("sysfs.txt").contains("clnt-");
    let shared = of(None);
    if !linked {
        println!("this kernel does not link mounts and RPC clients: no mount is expected");
        assert_eq!(counts(&rows), shared);
        // Requests that are not common to both mounts are in one of them.
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
#[ignore = "boots a guest: make test-guests"]
fn guest_operations_left_out_cost_no_program_and_are_told() {
    let programs = |name: &str| -> u32 {
        let count = RUN.text(&format!("{name}.programs"));
        count.trim().parse().expect("a number")
    };
    // Programs for READ, WRITE and renames, and at the release if programs are skipped.
    assert!(programs("without") >= 3);
    assert_eq!(programs("with") - programs("without"), 1);
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

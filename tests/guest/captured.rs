//! Requests in the recording match captured packets: NFS v3 to v4.2, several connections, IPv6.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::json;

use crate::mountstats::TRANSFERS;
use crate::run::{Answer, Run, answers, kernel, program};

/// The mounts of `captured.sh`.
const CASES: [&str; 6] = ["v3", "v40", "v41", "v42", "nconnect", "ipv6"];
/// Share of WRITEs that may be sent in several pieces; the recorder's round trip then begins after the first piece.
const SENT_IN_PIECES: f64 = 0.02;

static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("captured", &["--deb", "tcpdump"]));

/// Every request, with its row and its packets.
static ROWS: LazyLock<Vec<Answer>> = LazyLock::new(|| {
    let output = compare(&["--rows", "--table", "requests", "--format", "json"]);
    answers(&String::from_utf8_lossy(&output.stdout))
});

fn compare(flags: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.arg("compare").arg("--store").arg(RUN.store());
    command.arg("--pcap").arg(RUN.out.join("all.pcap"));
    command
        .args(flags)
        .output()
        .expect("trackiops can be started")
}

fn ns(row: &Answer, column: &str) -> i64 {
    let value = row[column].as_i64();
    value.unwrap_or_else(|| panic!("{column} is unknown: {row:?}"))
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_request_of_one_is_in_the_other_and_equal() {
    let dropped = RUN.text("tcpdump.err");
    assert!(dropped.contains("\n0 packets dropped"), "{dropped}");
    let output = compare(&[]);
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    for row in &*ROWS {
        assert_eq!(row["differs"], json!(""), "{row:?}");
        for column in ["offset_bytes", "asked_bytes", "done_bytes", "errno"] {
            let captured = &row[&format!("captured_{column}")];
            assert_eq!(&row[column], captured, "{column}: {row:?}");
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_requests_in_both_are_those_that_the_kernel_counted() {
    let counted = RUN.mountstats("before", "after");
    for case in CASES {
        let (_, truth) = &counted.mounts[&format!("/mnt/{case}")];
        let of_case = |row: &&Answer| {
            let mount = row["mount"].as_str().expect("a mount");
            mount.ends_with(&format!("/exp-{case}"))
        };
        let rows: Vec<_> = ROWS.iter().filter(of_case).collect();
        let mut sums = [0_u64; 4];
        for row in &rows {
            let place = 2 * usize::from(row["op"] == json!("WRITE"));
            sums[place] += 1;
            sums[place + 1] += row["done_bytes"].as_u64().expect("a number");
        }
        println!("{case}: {} requests, {TRANSFERS:?} {sums:?}", rows.len());
        let counted = TRANSFERS.iter().zip(truth.transfers());
        for (column, count) in counted {
            let direction = usize::from(column.starts_with("write"));
            let place = 2 * direction + usize::from(column.ends_with("bytes"));
            assert_eq!(sums[place], count, "{case}: {column}");
        }
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_handle_is_one_file_and_a_file_has_one_handle() {
    let mut files: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let mut handles: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for row in &*ROWS {
        let text = |column: &str| row[column].to_string();
        let handle = (text("server"), text("handle"));
        let file = (text("mount"), text("fileid"));
        files
            .entry(handle.clone())
            .or_default()
            .insert(file.clone());
        handles.entry(file).or_default().insert(handle);
    }
    assert!(files.len() >= 6 * CASES.len(), "{} files", files.len());
    assert!(files.values().all(|files| files.len() == 1), "{files:?}");
    assert!(handles.values().all(|of| of.len() == 1), "{handles:?}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_errors_of_the_server_are_in_both() {
    let mut errors: BTreeMap<(String, i64), u64> = BTreeMap::new();
    for row in ROWS.iter().filter(|row| ns(row, "errno") != 0) {
        let op = row["op"].as_str().expect("a text").to_owned();
        *errors.entry((op, ns(row, "errno"))).or_default() += 1;
    }
    println!("errors: {errors:?}");
    // ENOSPC on every mount, ESTALE on the v3 mount.
    if kernel() != "5.10" {
        assert!(errors[&("WRITE".to_owned(), 28)] >= CASES.len() as u64);
    }
    assert_eq!(errors[&("READ".to_owned(), 116)], 1);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_time_on_the_wire_lies_within_the_recorded_time() {
    let mut in_pieces = Vec::new();
    for row in &*ROWS {
        let [latency, queue, rtt] = ["latency_ns", "queue_ns", "rtt_ns"].map(|name| ns(row, name));
        let captured = ns(row, "captured_ns");
        let answered = ns(row, "answered_ns");
        assert!(captured <= latency && answered <= queue + rtt, "{row:?}");
        let end = ns(row, "end_time_ns") - ns(row, "captured_end_time_ns");
        // The kernel's two clocks are read one after the other.
        assert!(end > -1_000_000, "{row:?}");
        // It ends when the client receives the reply's first bytes: `xprt_lookup_rqst` (net/sunrpc/xprt.c).
        if answered > rtt {
            in_pieces.push(row);
        }
    }
    // `xs_tcp_send_request` (net/sunrpc/xprtsock.c) sets rq_xtime at each attempt, even if it continues after a full socket.
    let is_large = |row: &&Answer| row["op"] == json!("WRITE") && ns(row, "asked_bytes") >= 65_536;
    assert!(in_pieces.iter().all(is_large), "{in_pieces:?}");
    let writes = ROWS.iter().filter(|row| row["op"] == json!("WRITE"));
    let most = writes.count() as f64 * SENT_IN_PIECES;
    println!("{} WRITEs were sent in pieces", in_pieces.len());
    assert!((in_pieces.len() as f64) < most, "{in_pieces:?}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_connections_and_addresses_are_those_of_the_mounts() {
    let ipv6: Vec<_> = ROWS
        .iter()
        .filter(|row| row["server"] == json!("::1"))
        .collect();
    assert!(ipv6.iter().all(|row| row["client"] == json!("::1")));
    assert!(ipv6.len() > 100, "{}", ipv6.len());
    let servers: BTreeSet<String> = ROWS.iter().map(|row| row["server"].to_string()).collect();
    assert_eq!(servers.len(), CASES.len(), "{servers:?}");
}

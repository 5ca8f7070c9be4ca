//! Single requests match the rollup and the kernel's counts, and the calls that caused them.

use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::mountstats::TRANSFERS;
use crate::run::Run;

static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("requests", &[]));

static SEEN: LazyLock<Value> = LazyLock::new(|| {
    let python = std::env::var("TRACKIOPS_PYTHON").expect("make test-guests sets TRACKIOPS_PYTHON");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/python/requests.py");
    let output = Command::new(python)
        .arg(script)
        .arg(RUN.store())
        .arg(RUN.files()["/mnt/nfs/pattern.bin"].to_string())
        .output()
        .expect("python can be started");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let seen: Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    println!("single requests by DuckDB: {seen}");
    seen
});

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_single_requests_add_up_to_the_rollup_and_to_mountstats() {
    let (_, truth) = &RUN.mountstats("before", "after").mounts["/mnt/nfs"];
    assert_eq!(SEEN["disagreements"], json!([]), "with the rollup, by file");
    let expected = truth.transfers();
    assert_eq!(TRANSFERS.map(|key| SEEN[key].as_u64()), expected.map(Some));
    assert!(expected.iter().all(|count| *count > 0), "{expected:?}");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_offsets_and_sizes_are_those_that_were_asked_for() {
    let rows = SEEN["of_file"].as_array().expect("rows");
    let row = |op: &str, offset: u64, bytes: u64| (op.to_owned(), offset, bytes);
    let mut direct = Vec::new();
    for row in rows.iter().filter(|row| row[4] == json!(true)) {
        let (op, offset) = (row[0].as_str(), row[1].as_u64());
        assert_eq!(row[2], row[3], "all of it was transferred: {row}");
        let bytes = row[2].as_u64();
        direct.push((
            op.expect("a text").to_owned(),
            offset.expect("a number"),
            bytes.expect("a number"),
        ));
    }
    let expected = [
        row("WRITE", 20_480, 4096),
        row("WRITE", 24_576, 4096),
        row("WRITE", 28_672, 4096),
        row("WRITE", 65_536, 65_536),
        row("READ", 8192, 8192),
        row("READ", 16_384, 8192),
    ];
    assert_eq!(direct, expected);
    // At last the whole file is read through the page cache.
    let buffered: Vec<_> = rows.iter().filter(|row| row[4] == json!(false)).collect();
    let bytes: u64 = buffered.iter().filter_map(|row| row[3].as_u64()).sum();
    assert_eq!(bytes, 131_072, "{buffered:?}");
    assert!(buffered.iter().all(|row| row[0] == json!("READ")));
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_all_is_known_of_single_requests() {
    let all = ["read_requests", "write_requests"].map(|key| SEEN[key].as_u64());
    let all = all
        .iter()
        .map(|count| count.expect("a number"))
        .sum::<u64>();
    for column in [
        "xid",
        "uid",
        "cgroup",
        "latency_ns",
        "queue_ns",
        "rtt_ns",
        "mount",
        "path",
    ] {
        assert_eq!(SEEN["known"][column].as_u64(), Some(all), "{column}");
    }
    assert_eq!(SEEN["parts_beyond_latency"], json!(0));
    assert_eq!(SEEN["xids_twice"], json!(0));
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_requests_that_were_not_sealed_survive_a_kill() {
    let left = RUN.text("journals");
    assert!(left.contains("requests-"), "a journal was left: {left}");
    let told = RUN.text("record.err");
    assert!(
        told.contains("requests, kept one by one, that an interrupted recording had left"),
        "{told}"
    );
    assert!(
        SEEN["files"].as_u64() > Some(1),
        "the files rotated: {}",
        SEEN["files"]
    );
}

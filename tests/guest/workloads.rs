//! Bytes and requests match the kernel's own count, for every kind of I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::run::{Answer, Run, answers, by_window, number, sum};

static RUN: LazyLock<Run> = LazyLock::new(|| Run::script("workloads", &[]));

fn of<'a>(answers: &'a [Answer], key: &str, value: &str) -> Vec<&'a Answer> {
    answers
        .iter()
        .filter(|a| a[key].as_str() == Some(value))
        .collect()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_bytes_and_requests_equal_mountstats_per_mount() {
    let stats = RUN.mountstats("before", "after");
    assert_eq!(stats.mounts.len(), 2, "both mounts have statistics");
    let files = RUN.query(&["--step", "all"]);
    for (mount_point, (device, truth)) in &stats.mounts {
        let own: Vec<Answer> = of(&files, "mount", device).into_iter().cloned().collect();
        assert!(
            truth.server_read_bytes > 0 && truth.server_written_bytes > 0,
            "{mount_point} was used"
        );
        let found = [
            "read_bytes",
            "write_bytes",
            "read_requests",
            "write_requests",
        ]
        .map(|key| sum(&own, key));
        let expected = [
            truth.server_read_bytes,
            truth.server_written_bytes,
            truth.reads(),
            truth.writes(),
        ];
        println!(
            "{device}: recorded {found:?}, mountstats {expected:?} (bytes and requests, read and written)"
        );
        assert_eq!(
            found,
            expected,
            "{device}: {} retransmissions",
            truth.retransmissions()
        );
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_who_listens_has_what_the_store_has() {
    let stored = RUN.query(&["--step", "1s"]);
    let heard = answers(&RUN.text("watch.json"));
    assert_eq!(by_window(&heard), by_window(&stored));
    let heard = RUN.text("watch.csv");
    let (header, rows) = heard.split_once('\n').expect("a header");
    let column = |name: &str| header.split(',').position(|column| column == name).unwrap();
    for name in [
        "read_bytes",
        "write_bytes",
        "read_requests",
        "write_requests",
    ] {
        let numbers = rows
            .lines()
            .map(|row| row.split(',').nth(column(name)).unwrap());
        let heard: u64 = numbers.map(|number| number.parse::<u64>().unwrap()).sum();
        assert_eq!(heard, sum(&stored, name), "{name}");
    }
    let operations = RUN.text("watch.txt");
    assert!(
        operations.contains("GETATTR") && operations.contains("buffered.bin"),
        "{operations}"
    );
    for said in ["watch.err", "watch.csv.err", "watch.txt.err"] {
        let said = RUN.text(said);
        // A busy host makes the server slow.
        let said: Vec<_> = said
            .lines()
            .filter(|line| !line.starts_with("STALLED"))
            .collect();
        assert_eq!(said, ["the recorder has ended; waiting for another one"]);
    }
    for door in ["watch", "top", "status"] {
        let said = RUN.text(&format!("other-{door}.err"));
        assert!(said.contains("you may not listen"), "{door}: {said}");
        assert_eq!(RUN.text(&format!("other-{door}.status")).trim(), "2");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_server_side_copy_is_seen_by_the_server_alone() {
    let stats = RUN.mountstats("before", "after");
    let copies = stats.mounts["/mnt/nfs"]
        .1
        .ops
        .get("COPY")
        .map_or(0, |numbers| numbers[0]);
    assert!(copies > 0, "cp used server-side copy");
    let copied = RUN.files()["/mnt/nfs/copied.bin"];
    let answers = RUN.query(&["--step", "all"]);
    assert!(
        !answers
            .iter()
            .any(|a| a["fileid"].as_u64() == Some(copied) && a["mount"] == "127.0.0.1:/exp")
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_direct_io_is_counted_file_by_file() {
    let files = RUN.files();
    let answers = RUN.query(&["--step", "all"]);
    let fio = RUN.json("direct.json");
    // fio reports its jobs in the order of their ends, so compare them as a whole.
    let mut asked = Vec::new();
    for job in fio["jobs"].as_array().expect("fio names its jobs") {
        let number = |key: &str| job["read"][key].as_u64().expect("fio counts");
        asked.push((number("total_ios"), number("io_bytes")));
    }
    let mut recorded = Vec::new();
    for index in 0..asked.len() {
        let path = format!("/mnt/nfs/direct.{index}.0");
        let own = |a: &&Answer| a["fileid"] == files[&path] && a["mount"] == "127.0.0.1:/exp";
        let answer = answers
            .iter()
            .find(own)
            .unwrap_or_else(|| panic!("{path} was recorded"));
        assert_eq!(answer["path"], path.as_str());
        let number = |key: &str| number(answer, key) as u64;
        recorded.push((number("read_requests"), number("read_bytes")));
    }
    asked.sort_unstable();
    recorded.sort_unstable();
    assert_eq!(recorded, asked, "(requests, bytes) read per file");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_equal_inode_numbers_of_two_exports_are_two_files() {
    let answers = RUN.query(&["--step", "all"]);
    let mut by_fileid: BTreeMap<u64, BTreeSet<(String, i64, String)>> = BTreeMap::new();
    for a in &answers {
        let identity = (
            a["mount"].to_string(),
            a["file_key"].as_i64().expect("a key"),
            a["dev"].to_string(),
        );
        by_fileid
            .entry(a["fileid"].as_u64().expect("a fileid"))
            .or_default()
            .insert(identity);
    }
    let twin = RUN.files()["/mnt/nfs2/twin.bin"];
    let files = &by_fileid[&twin];
    assert_eq!(files.len(), 2, "{files:?}");
    let distinct = |part: fn(&(String, i64, String)) -> String| {
        files.iter().map(part).collect::<BTreeSet<_>>().len()
    };
    assert_eq!(
        (
            distinct(|f| f.0.clone()),
            distinct(|f| f.1.to_string()),
            distinct(|f| f.2.clone())
        ),
        (2, 2, 2)
    );
    let second = answers
        .iter()
        .find(|a| a["mount"] == "127.0.0.1:/exp2")
        .expect("the second export");
    assert_eq!(
        (
            sum(std::slice::from_ref(second), "read_bytes"),
            sum(std::slice::from_ref(second), "write_bytes")
        ),
        (1_048_576, 1_048_576)
    );
    let device = format!("{}:{twin}", second["dev"].as_str().expect("a device"));
    let asked = RUN.query(&["--step", "all", "--file", &device]);
    assert_eq!(asked.len(), 1, "DEV:FILEID names one file");
    assert_eq!(asked[0]["file_key"], second["file_key"]);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_every_granularity_tells_the_same_totals() {
    let totals = |step: &str| {
        let answers = RUN.query(&["--step", step]);
        [
            "read_requests",
            "write_requests",
            "read_bytes",
            "write_bytes",
            "read_sequential",
            "write_short",
        ]
        .map(|key| sum(&answers, key))
    };
    let finest = totals("1s");
    assert!(finest[0] > 0);
    for step in ["10s", "1m", "all"] {
        assert_eq!(totals(step), finest, "{step}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_books_are_balanced_and_the_histogram_holds_every_request() {
    let stopped = RUN.text("record.err");
    let answers = RUN.query(&["--step", "1s"]);
    let requests = sum(&answers, "read_requests") + sum(&answers, "write_requests");
    let expected = format!("stopped: {requests} requests seen, {requests} recorded, 0 lost");
    assert!(stopped.contains(&expected), "`{expected}` in:\n{stopped}");
    for answer in &answers {
        for d in ["read", "write"] {
            let histogram = answer[&format!("{d}_latency_hist")]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let total: u64 = histogram
                .iter()
                .filter_map(|bucket| bucket["count"].as_u64())
                .sum();
            let timed =
                number(answer, &format!("{d}_requests")) - number(answer, &format!("{d}_untimed"));
            assert_eq!(total as f64, timed, "{answer:?}");
        }
    }
    assert_eq!(
        sum(&answers, "read_untimed") + sum(&answers, "write_untimed"),
        0
    );
    assert_eq!(
        sum(&answers, "read_errors") + sum(&answers, "write_errors"),
        0
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_stopped_store_opens_with_pyarrow_and_duckdb_and_matches_its_catalog() {
    let python = std::env::var("TRACKIOPS_PYTHON").expect("make test-guests sets TRACKIOPS_PYTHON");
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/python/open_everything.py"
    );
    let output = Command::new(python)
        .arg(script)
        .arg(RUN.store())
        .output()
        .expect("python can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let seen: Value = serde_json::from_slice(&output.stdout).expect("the script prints JSON");
    println!("pyarrow and DuckDB: {seen}");
    let answers = RUN.query(&["--step", "1s"]);
    for key in [
        "read_requests",
        "write_requests",
        "read_bytes",
        "write_bytes",
    ] {
        assert_eq!(
            seen[key].as_u64(),
            Some(sum(&answers, key)),
            "{key} by DuckDB"
        );
    }
    assert!(
        seen["segments"].as_u64() > Some(6),
        "the files rotated: {seen}"
    );
}

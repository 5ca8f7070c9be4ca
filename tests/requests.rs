//! `trackiops requests`: the first rows of an export, in any order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use trackiops_schemas::ebpf::ring::flags;
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::row::AppCalls;
use trackiops_store::Writer;
use trackiops_testkit::lake;
use trackiops_testkit::stores::options;
use trackiops_testkit::windows::{T0, file, reads, window};

type Rows = Vec<BTreeMap<String, String>>;

fn trackiops(dir: &Path, words: &[&str]) -> Output {
    let mut stores: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    stores.sort();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops"));
    command.args(words).env("TZ", "UTC0").env("COLUMNS", "100");
    for store in &stores {
        command.arg("--store").arg(store);
    }
    command.output().unwrap()
}

fn rows(csv: &[u8]) -> Rows {
    let mut reader = csv::Reader::from_reader(csv);
    reader.deserialize().map(Result::unwrap).collect()
}

/// All single requests of a store, from an export.
fn exported(dir: &Path) -> Rows {
    let file = dir.join("all.csv");
    let output = trackiops(
        dir,
        &["export", "--requests", "--output", file.to_str().unwrap()],
    );
    assert!(output.status.success(), "{output:?}");
    rows(&std::fs::read(file).unwrap())
}

fn listed(dir: &Path, words: &[&str]) -> Rows {
    let output = trackiops(dir, &[&["requests", "--csv"], words].concat());
    assert!(output.status.success(), "{output:?}");
    rows(&output.stdout)
}

fn number(row: &BTreeMap<String, String>, column: &str) -> i64 {
    row[column].parse().unwrap()
}

/// Keys of requests.
fn ids(rows: &Rows) -> Vec<(String, i64, String)> {
    let id = |row: &BTreeMap<String, String>| {
        (
            row["host"].clone(),
            number(row, "end_time_ns"),
            row["xid"].clone(),
        )
    };
    let mut ids: Vec<_> = rows.iter().map(id).collect();
    ids.sort();
    ids
}

#[test]
fn the_slowest_requests_are_those_of_an_export() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let mut all = exported(dir.path());
    assert!(all.len() > 500, "{}", all.len());
    all.sort_by_key(|row| -number(row, "latency_ns"));
    let latencies =
        |rows: &Rows| -> Vec<i64> { rows.iter().map(|row| number(row, "latency_ns")).collect() };
    // By default the slowest first, with all columns of the export.
    for (words, count) in [
        (vec![], all.len()),
        (vec!["--top", "7"], 7),
        (vec!["--top", "100000"], all.len()),
    ] {
        let found = listed(dir.path(), &words);
        assert_eq!(latencies(&found), latencies(&all)[..count]);
        assert!(found.iter().all(|row| all.contains(row)));
    }
    assert_eq!(ids(&listed(dir.path(), &["--top", "100000"])), ids(&all));
    // For a file, and with conditions.
    let of_file = |row: &&BTreeMap<String, String>| {
        row["path"] == "/mnt/f2" && number(row, "latency_ns") > 50_000_000
    };
    let expected: Rows = all.iter().filter(of_file).cloned().collect();
    let words = [
        "--file",
        "/mnt/f2",
        "--where",
        "latency > 50ms",
        "--top",
        "100000",
    ];
    assert!(!expected.is_empty());
    assert_eq!(ids(&listed(dir.path(), &words)), ids(&expected));
    // In another order.
    let first = listed(dir.path(), &["--sort", "offset_bytes:asc", "--top", "1"]);
    let least = all
        .iter()
        .map(|row| number(row, "offset_bytes"))
        .min()
        .unwrap();
    assert_eq!(number(&first[0], "offset_bytes"), least);
}

#[test]
fn a_table_fits_and_nothing_is_said_plainly() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let output = trackiops(dir.path(), &["requests", "--top", "3"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("latency") && table.contains("/mnt/f"),
        "{table}"
    );
    assert!(table.lines().count() <= 7, "{table}");
    let lines_of = |words: &[&str]| {
        let output = trackiops(dir.path(), &[&["requests"], words].concat());
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(lines_of(&[]), lines_of(&["--top", "20"]));
    for (words, said) in [
        (vec!["--where", "latency > 100s"], "no row"),
        (vec!["--op", "getattr"], "no GETATTR requests"),
    ] {
        let output = trackiops(dir.path(), &[&["requests"], &words[..]].concat());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(said), "{words:?}: {stderr}");
    }
}

/// A store with 10 sync calls of 1 to 10 ms, 3 opens, a write request, and calls of 2 functions, 4 of the first one.
fn store_of_calls(store: &Path) {
    let mut writer = Writer::open(store, options("h")).unwrap();
    let mut kept = writer.requests(64 << 20, |_| {}).unwrap();
    let one = |flags: u32, place: i64| Request {
        end_ns: (T0 + 10 * place) * 1_000_000,
        file: 0,
        flags,
        offset: 0,
        asked_bytes: 0,
        done_bytes: 0,
        latency_ns: place.cast_unsigned() * 1_000_000,
        queue_ns: 0,
        rtt_ns: 0,
        xid: 0,
        retransmissions: 0,
        error: 0,
        pid: 12,
        process: ProcessName::new(b"fio"),
    };
    let syncs = (1..=10).map(|place| one(flags::CALL | flags::SYNC, place));
    let opens = (11..=13).map(|place| one(flags::CALL | flags::OPEN, place));
    let spans = (15..=20).map(|place| Request {
        file: if place < 19 { 1 } else { 2 },
        ..one(flags::CALL | flags::SPAN, place)
    });
    let requests = syncs
        .chain(opens)
        .chain([one(flags::WRITE, 14)])
        .chain(spans);
    let requests = requests.collect();
    let used = file(1, 50, Some("/mnt/db"));
    let functions = ["/usr/bin/db:commit", "/usr/bin/db:read"];
    let functions = functions.map(|name| file(0, 0, Some(name)));
    let files = [Arc::clone(&used)].into_iter().chain(functions).collect();
    kept.append(&RequestBatch { files, requests }).unwrap();
    kept.finish().unwrap();
    let rows = vec![(used, reads(1))];
    writer.append(&window(T0, rows)).unwrap();
    writer.finish().unwrap();
}

#[test]
fn an_open_range_ends_with_the_recording() {
    let dir = tempfile::tempdir().unwrap();
    store_of_calls(&dir.path().join("store"));
    for words in [&["requests", "--level", "app"][..], &["query"]] {
        let output = trackiops(dir.path(), words);
        let table = String::from_utf8(output.stdout).unwrap();
        let range = table.lines().next().unwrap();
        assert!(range.contains(" to 03:52:01 "), "{words:?}: {range}");
    }
}

#[test]
fn calls_that_were_kept_are_found_by_their_operation_in_any_case() {
    let dir = tempfile::tempdir().unwrap();
    store_of_calls(&dir.path().join("store"));
    for op in ["fsync", "FSYNC", "Fsync"] {
        assert_eq!(listed(dir.path(), &["--op", op]).len(), 10, "{op}");
    }
    let output = trackiops(dir.path(), &["histogram", "--op", "Fsync", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&said["direction"], &said["requests"]),
        (&"fsync".into(), &10.into())
    );
    let ms = |name: &str| said[name].as_f64().unwrap() / 1000.0;
    assert!(
        (4.9..5.2).contains(&ms("p50_us")) && ms("max_us") == 10.0,
        "{said}"
    );
    let output = trackiops(dir.path(), &["histogram", "--op", "getattr"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("there were no GETATTR requests"), "{said}");
    let words = [
        "analyze", "latency", "--level", "app", "--by", "op", "--format", "csv",
    ];
    let said = String::from_utf8(trackiops(dir.path(), &words).stdout).unwrap();
    assert!(
        said.contains("fsync,0,10,") && said.contains("open,0,3,"),
        "{said}"
    );
}

#[test]
fn rows_of_several_levels_have_a_column_for_it_at_any_width() {
    let dir = tempfile::tempdir().unwrap();
    store_of_calls(&dir.path().join("store"));
    let table = |levels: &str, width: &str| {
        let words = ["requests", "--level", levels, "--store"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops"));
        let command = command.args(words).arg(dir.path().join("store"));
        let output = command.env("TZ", "UTC0").env("COLUMNS", width);
        String::from_utf8(output.output().unwrap().stdout).unwrap()
    };
    for width in ["50", "100", "200"] {
        let both = table("wire,app", width);
        let lines_of = |level: &str| {
            let is_of = |line: &&str| line.split_whitespace().any(|word| word == level);
            both.lines().filter(is_of).count()
        };
        let found = ["level", "wire", "app"].map(lines_of);
        assert_eq!(found, [1, 1, 13], "{both}");
        let one = table("app", width);
        assert!(!one.contains("level"), "{one}");
    }
}

#[test]
fn percentiles_are_of_single_calls_where_histograms_have_fewer() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    store_of_calls(&store);
    // The sums of the calls that were kept, 10 syncs of 1 to 10 ms. The kernel had room for 3 of them in a histogram.
    let mut execute = Histogram::default();
    (1..=3).for_each(|ms| execute.record(ms * 1_000_000));
    let mut sums = reads(1);
    sums.ops.add(&FileOp {
        op: OpName::new("fsync"),
        requests: 10,
        execute_ns_sum: 55_000_000,
        execute_ns_max: 10_000_000,
        execute,
        ..FileOp::default()
    });
    sums.app_read = AppCalls {
        calls: 10,
        timed: 10,
        latency: sums.ops.as_slice()[0].execute.clone(),
        ..AppCalls::default()
    };
    let mut writer = Writer::open(&store, options("h")).unwrap();
    let rows = vec![(file(1, 50, Some("/mnt/db")), sums)];
    writer.append(&window(T0 + 1000, rows)).unwrap();
    writer.finish().unwrap();
    let output = trackiops(dir.path(), &["histogram", "--op", "fsync", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = ["requests", "count", "max_us", "mean_us"].map(|name| said[name].as_f64());
    assert_eq!(found, [10.0, 10.0, 10_000.0, 5500.0].map(Some), "{said}");
    let p99_us = said["p99_us"].as_f64().unwrap();
    assert!((9800.0..=10_000.0).contains(&p99_us), "{said}");
    let noted = String::from_utf8(output.stderr).unwrap();
    assert!(!noted.contains("percentiles"), "{noted}");
    // Rows have percentiles of histograms only.
    let words = [
        "query", "--by", "file,op", "--op", "fsync", "--step", "all", "--json",
    ];
    let output = trackiops(dir.path(), &words);
    let row: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(row["requests"], 10, "{row}");
    let noted = String::from_utf8(output.stderr).unwrap();
    let expected = "percentiles of fsync are of 3 of 10 calls, ";
    assert!(noted.contains(expected), "{noted}");
    for (column, is_noted) in [("app_read_p99", true), ("app_read_calls", false)] {
        let words = ["query", "--step", "all", "--csv", "--columns", column];
        let output = trackiops(dir.path(), &words);
        assert!(output.status.success(), "{output:?}");
        let noted = String::from_utf8(output.stderr).unwrap();
        let expected = "percentiles of app_read are of 3 of 10 calls, ";
        assert_eq!(noted.contains(expected), is_noted, "{noted}");
    }
}

#[test]
fn a_process_has_a_name_wherever_it_has_a_number() {
    let dir = tempfile::tempdir().unwrap();
    store_of_calls(&dir.path().join("store"));
    let of = |row: &BTreeMap<String, String>| {
        ["process", "pid", "level", "requests"].map(|column| row[column].clone())
    };
    let mut found: Vec<_> = listed(dir.path(), &["--by", "process"])
        .iter()
        .map(of)
        .collect();
    found.sort();
    let expected = [("app", "13"), ("user", "6"), ("wire", "1")];
    let expected = expected.map(|(level, requests)| ["fio", "12", level, requests]);
    assert_eq!(found, expected);
    // Its cgroup is unknown here.
    let rows = listed(dir.path(), &["--by", "process"]);
    assert_eq!(rows[0]["cgroup"], "");
    let found = listed(
        dir.path(),
        &[
            "--by",
            "process",
            "--op",
            "fsync",
            "--where",
            "requests > 9",
        ],
    );
    assert_eq!(
        found.iter().map(of).collect::<Vec<_>>(),
        [["fio", "12", "app", "10"]]
    );
    let said = |words: &[&str]| {
        let output = trackiops(dir.path(), words);
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    for (words, name) in [
        ("requests --by process", " 12  fio\n"),
        ("requests --level app --columns process,pid", "fio      12"),
        ("analyze contention --level app --by process", "h fio 12"),
        ("query --by process", "`trackiops requests --by process`"),
    ] {
        let words: Vec<_> = words.split(' ').collect();
        let said = said(&words);
        assert!(said.contains(name), "{words:?}: {said}");
    }
    let timeline = dir.path().join("timeline.json");
    said(&[
        "export",
        "--requests",
        "--output",
        timeline.to_str().unwrap(),
    ]);
    let timeline = std::fs::read_to_string(timeline).unwrap();
    assert!(timeline.contains("h fio 12"), "{timeline}");
}

#[test]
fn contention_knows_every_call_and_function() {
    let dir = tempfile::tempdir().unwrap();
    store_of_calls(&dir.path().join("store"));
    let classes = |level: &str| -> Vec<(String, String)> {
        let words = [
            "analyze",
            "contention",
            "--csv",
            "--table",
            "classes",
            "--level",
            level,
        ];
        let output = trackiops(dir.path(), &words);
        assert!(output.status.success(), "{output:?}");
        let rows = rows(&output.stdout).into_iter();
        let mut rows: Vec<_> = rows
            .map(|row| (row["op"].clone(), row["requests"].clone()))
            .collect();
        rows.sort();
        rows
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(op, n)| (op.to_string(), n.to_string()))
            .collect()
    };
    assert_eq!(classes("app"), pairs(&[("fsync", "10"), ("open", "3")]));
    let functions = [("/usr/bin/db:commit", "4"), ("/usr/bin/db:read", "2")];
    assert_eq!(classes("user"), pairs(&functions));
}

#[test]
fn programs_get_every_row_of_contention_and_tables_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path().join("store"), options("h")).unwrap();
    let mut kept = writer.requests(64 << 20, |_| {}).unwrap();
    let files: Vec<_> = (1..=30)
        .map(|place| file(place, 50, Some(&format!("/mnt/{place}"))))
        .collect();
    let requests = (0..30).map(|place| Request {
        end_ns: (T0 + 10 * i64::from(place)) * 1_000_000,
        file: place,
        flags: 0,
        offset: 0,
        asked_bytes: 512,
        done_bytes: 512,
        latency_ns: 1_000_000 + u64::from(place),
        queue_ns: 0,
        rtt_ns: 0,
        xid: 0,
        retransmissions: 0,
        error: 0,
        pid: 0,
        process: ProcessName::default(),
    });
    let batch = RequestBatch {
        requests: requests.collect(),
        files: files.clone(),
    };
    kept.append(&batch).unwrap();
    kept.finish().unwrap();
    writer
        .append(&window(T0, vec![(files[0].clone(), reads(1))]))
        .unwrap();
    writer.finish().unwrap();
    let lines = |form: &[&str]| {
        let words = [
            "analyze",
            "contention",
            "--by",
            "file",
            "--table",
            "contention",
        ];
        let output = trackiops(dir.path(), &[&words, form].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().lines().count()
    };
    assert_eq!(lines(&["--csv"]), 31);
    assert_eq!(lines(&["--json"]), 30);
    assert_eq!(lines(&["--json", "--top", "3"]), 3);
    assert_eq!(lines(&[]), lines(&["--top", "20"]));
}

#[test]
fn an_analysis_without_rows_says_so() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let file = dir.path().join("all.parquet");
    let words = ["export", "--requests", "--output", file.to_str().unwrap()];
    assert!(trackiops(dir.path(), &words).status.success());
    let nowhere = ["--since", "2026-11-21T03:52:00.001Z", "--until", "+1ms"];
    for analysis in [
        "sequentiality",
        "sizes",
        "latency",
        "rates",
        "burst",
        "cube",
        "outstanding",
        "reuse",
        "contention",
        "files",
    ] {
        let words = [&["analyze", analysis], &nowhere[..]].concat();
        let of_file = Command::new(env!("CARGO_BIN_EXE_trackiops"))
            .args(&words)
            .arg(&file)
            .output();
        for output in [trackiops(dir.path(), &words), of_file.unwrap()] {
            assert_eq!(output.status.code(), Some(1), "{analysis}: {output:?}");
            assert_eq!(output.stdout, b"", "{analysis}");
        }
    }
    let words = ["analyze", "sizes", "--level", "user"];
    assert_eq!(trackiops(dir.path(), &words).status.code(), Some(1));
}

/// A store of ten seconds. Its first window dropped `dropped` requests; each of these seconds keeps 100 requests within `most_bytes`.
fn store_that_dropped(dir: &Path, dropped: u64, seconds: Range<i64>, most_bytes: u64) {
    let mut writer = Writer::open(dir.join("store"), options("h")).unwrap();
    let used = file(1, 50, Some("/mnt/a"));
    for second in 0..10 {
        let mut closed = window(T0 + 1000 * second, vec![(Arc::clone(&used), reads(1))]);
        closed.health.requests_dropped = if second == 0 { dropped } else { 0 };
        writer.append(&closed).unwrap();
    }
    if !seconds.is_empty() {
        let mut kept = writer.requests(most_bytes, |_| {}).unwrap();
        for second in seconds {
            let requests = (0..100).map(|n: i64| Request {
                end_ns: (T0 + 1000 * second) * 1_000_000 + n,
                file: 0,
                flags: 0,
                offset: (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8,
                asked_bytes: 512,
                done_bytes: 512,
                latency_ns: (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40,
                queue_ns: 0,
                rtt_ns: 0,
                xid: n as u32,
                retransmissions: 0,
                error: 0,
                pid: 0,
                process: ProcessName::default(),
            });
            let batch = RequestBatch {
                files: vec![Arc::clone(&used)],
                requests: requests.collect(),
            };
            kept.append(&batch).unwrap();
        }
        kept.finish().unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn what_single_requests_lack_is_said() {
    let advice = "`trackiops record --requests` keeps them";
    let said_of = |dropped: u64, seconds: i64, most_bytes: u64, status: i32| {
        let dir = tempfile::tempdir().unwrap();
        store_that_dropped(dir.path(), dropped, 0..seconds, most_bytes);
        let commands: [&[&str]; 3] = [
            &["requests"],
            &["analyze", "latency"],
            &["export", "--requests", "-o"],
        ];
        commands.map(|words| {
            let file = dir.path().join("file.csv");
            let file = [file.to_str().unwrap()];
            let to = if words[0] == "export" { &file[..] } else { &[] };
            let output = trackiops(dir.path(), &[words, to].concat());
            assert_eq!(output.status.code(), Some(status), "{words:?}: {output:?}");
            String::from_utf8(output.stderr).unwrap()
        })
    };
    for said in said_of(7, 3, 64 << 20, 0) {
        let said = said.replace("\n    ", " ");
        assert!(
            said.contains("7 single requests were not kept between"),
            "{said}"
        );
        assert!(!said.contains("deleted"), "{said}");
    }
    for said in said_of(7, 0, 0, 1) {
        let said = said.replace("\n    ", " ");
        assert!(
            said.contains("were not kept between") && !said.contains(advice),
            "{said}"
        );
    }
    for said in said_of(0, 0, 0, 1) {
        assert!(said.replace("\n    ", " ").contains(advice), "{said}");
    }
    for said in said_of(0, 10, 32 << 10, 0) {
        assert!(said.contains("single requests from before"), "{said}");
    }
}

#[test]
fn requests_of_the_time_in_which_single_ones_were_not_kept_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    store_that_dropped(dir.path(), 0, 4..6, 64 << 20);
    let lacking = "8 requests were not kept one by one between 2026-11-21 03:52:00 and 03:52:10";
    let commands: [&[&str]; 4] = [
        &["requests"],
        &["requests", "--by", "process"],
        &["requests", "--file", "/mnt/a", "--op", "read"],
        &["analyze", "latency"],
    ];
    for words in commands {
        let said = |more: &[&str]| {
            let output = trackiops(dir.path(), &[words, more].concat());
            assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
            let said = String::from_utf8(output.stderr).unwrap();
            said.replace("\n    ", " ")
        };
        let all = said(&[]);
        assert!(all.contains(lacking), "{words:?}: {all}");
        // None of the time in which they were kept, and none of other operations.
        let within = [
            "--since",
            "2026-11-21T03:52:04Z",
            "--until",
            "2026-11-21T03:52:06Z",
        ];
        let within = said(&within);
        assert!(!within.contains("one by one"), "{words:?}: {within}");
    }
    let other = trackiops(dir.path(), &["requests", "--op", "write"]);
    assert!(
        !String::from_utf8_lossy(&other.stderr).contains("one by one"),
        "{other:?}"
    );
}

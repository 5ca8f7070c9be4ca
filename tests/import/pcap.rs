//! `trackiops import pcap` and `compare`: stores of captures match the counts of other programs.
//!
//! Those captures are not in the repository: `TRACKIOPS_FAST09` is their folder. This file makes others.
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trackiops_testkit::program;

use super::packets::{Compound, START_S, pcap, requests_with, some_requests};
use super::{
    OF_A_REQUEST, Row, lines, operations, requests, rows, shared, text, trackiops, transfers,
};

/// Imports a capture through a pipe.
pub fn import(capture: &Path, store: &Path) -> Output {
    let unpacked = Command::new("bunzip2")
        .arg("-c")
        .arg(capture)
        .stdout(Stdio::piped())
        .spawn();
    let mut unpacked = unpacked.unwrap();
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.args(["import", "pcap", "-", "--store", text(store)]);
    let output = command
        .stdin(unpacked.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(unpacked.wait().unwrap().success());
    output
}

/// The counts of the reference, if it has any: requests by procedure of NFSv2 and v3, or all requests of v4. nfstrace agrees with TrackIOps
/// where tshark counts twice, and where tshark lacks requests beside holes.
fn reference(json: &Value) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let count = |value: &Value| value["answered_calls"].as_u64().or(value.as_u64()).unwrap();
    for table in json["nfstrace_reference"].as_array().unwrap_or(&Vec::new()) {
        let is_by_rpc = table["version"] == "3" || table["what"] == "procedures";
        for (name, value) in table["counts"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|_| is_by_rpc)
        {
            *counts.entry(name.clone()).or_default() += count(value);
        }
    }
    if counts.is_empty() {
        for procedures in json["tshark_4.0.17_answered"].as_object().unwrap().values() {
            for (name, value) in procedures.as_object().unwrap() {
                *counts.entry(name.clone()).or_default() += count(value);
            }
        }
    }
    counts.retain(|_, count| *count > 0);
    counts
}

#[test]
fn a_store_has_the_operations_that_others_count_in_the_capture() {
    let Some(folder) = shared("pcap") else {
        return;
    };
    let mut checked = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".pcap.bz2") else {
            continue;
        };
        let json = std::fs::read_to_string(folder.join(format!("{stem}.json"))).unwrap();
        let expected = reference(&serde_json::from_str(&json).unwrap());
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let output = import(&path, &store);
        assert!(output.status.success(), "{name}: {output:?}");
        let mut found = operations(&store);
        if expected.contains_key("COMPOUND")
            && expected
                .keys()
                .any(|op| !matches!(&**op, "COMPOUND" | "NULL"))
        {
            // With several versions, an operation of one may have the name of another's procedure.
            let sum = |counts: &BTreeMap<String, u64>| counts.values().sum::<u64>();
            assert!(
                sum(&found) >= sum(&expected),
                "{name}: {found:?}, expected {expected:?}"
            );
            continue;
        }
        if expected.contains_key("COMPOUND") {
            // A COMPOUND is named after its main operation.
            let others = found
                .iter()
                .filter(|(name, _)| *name != "NULL")
                .map(|(_, count)| *count)
                .sum();
            let null = found.remove("NULL");
            found = BTreeMap::from([("COMPOUND".to_owned(), others)]);
            found.extend(null.map(|null| ("NULL".to_owned(), null)));
        } else {
            for (op, (requests, _)) in ["READ", "WRITE"].iter().zip(transfers(&store)) {
                assert_eq!(
                    found.get(*op).copied().unwrap_or(0),
                    requests,
                    "{name}: {op}"
                );
            }
        }
        let said = String::from_utf8(output.stdout).unwrap();
        let mut directions = said
            .lines()
            .filter(|line| line.starts_with("  calls") || line.starts_with("  replies"));
        let is_whole = directions.all(|line| line.ends_with(" 0 B"));
        // Beside holes, other tools lack requests; tshark counts a duplicate reply again.
        let (more, again) = expected
            .iter()
            .fold((0, 0), |(more, again), (op, expected)| {
                let found = found.get(op).copied().unwrap_or(0);
                (
                    more + found.saturating_sub(*expected),
                    again + expected.saturating_sub(found),
                )
            });
        assert!(
            again <= answered_again(&said),
            "{name}: {found:?}, expected {expected:?}"
        );
        assert!(
            more == 0 || !is_whole,
            "{name}: {found:?}, expected {expected:?}"
        );
        assert!(
            found
                .keys()
                .all(|op| expected.contains_key(op) || !is_whole),
            "{name}: {found:?}"
        );
        let check = trackiops(&["store", "check", "--store", text(&store)]);
        assert!(check.status.success(), "{name}: {check:?}");
        println!(
            "equal    {stem}{}",
            if is_whole {
                ""
            } else {
                ", and more beside holes"
            }
        );
        checked += 1;
    }
    assert!(checked > 0);
}

/// The number of duplicate replies in an import's account.
fn answered_again(said: &str) -> u64 {
    let parts = said.lines().flat_map(|line| line.split(", "));
    parts
        .filter_map(|part| part.strip_suffix(" answered again"))
        .map(|number| number.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn requests_have_their_file_user_times_and_errors() {
    let dir = tempfile::tempdir().unwrap();
    let (capture, store) = (dir.path().join("a.pcap"), dir.path().join("store"));
    std::fs::write(&capture, pcap(START_S, &some_requests())).unwrap();
    let output = trackiops(&["import", "pcap", text(&capture), "--store", text(&store)]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("4 requests of 1 client, 2 READs and WRITEs\n8 packets"),
        "{said}"
    );
    assert_eq!(
        lines(&requests(&store), OF_A_REQUEST),
        [
            "10.0.0.1 10.0.0.2:/ /a b 42 1000 READ 8000 4096 1000 1000000 true  3",
            "10.0.0.1 10.0.0.2:/ /a b 42 1000 WRITE 0 8 0 1000000  28 4",
        ]
    );
    assert_eq!(transfers(&store), [(1, 1000), (1, 0)]);
    let expected = [("FSINFO", 1), ("LOOKUP", 1), ("READ", 1), ("WRITE", 1)];
    assert_eq!(
        operations(&store),
        expected.map(|(op, count)| (op.to_owned(), count)).into()
    );
}

#[test]
fn a_compound_is_what_it_is_for_and_each_read_counts() {
    let dir = tempfile::tempdir().unwrap();
    let (capture, store) = (dir.path().join("a.pcap"), dir.path().join("store"));
    let compounds = [
        Compound::about(b"root").lookup(b"a").get_handle(b"file"),
        // The handle of the looked-up file is missing.
        Compound::about(b"root").lookup(b"a").read(100),
        Compound::about(b"root").lookup(b"b").read(100),
        Compound::about(b"file").read(100).read(200),
        Compound::about(b"root")
            .lookup(b"dir")
            .open(b"c")
            .get_handle(b"opened"),
        Compound::about(b"root")
            .open(b"c")
            .get_handle(b"opened")
            .read(50),
    ];
    let packets = compounds.iter().zip(1..);
    let packets: Vec<_> = packets.flat_map(|(of, xid)| of.datagrams(xid)).collect();
    std::fs::write(&capture, pcap(START_S, &packets)).unwrap();
    let output = trackiops(&["import", "pcap", text(&capture), "--store", text(&store)]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("6 requests of 1 client, 5 READs and WRITEs\n12 packets"),
        "{said}"
    );
    let expected = [("LOOKUP", 1), ("OPEN", 2), ("READ", 5)];
    assert_eq!(
        operations(&store),
        expected.map(|(op, count)| (op.to_owned(), count)).into()
    );
    assert_eq!(transfers(&store)[0], (5, 550));
    let words = [
        "query",
        "--since",
        "1990-01-01",
        "--csv",
        "--columns",
        "path,read_requests",
    ];
    let rows = rows(&[&words[..], &["--store", text(&store)]].concat());
    let of = |ending: &str| {
        let own = rows.iter().filter(|row| row["path"].ends_with(ending));
        own.map(|row| row["read_requests"].parse::<u64>().unwrap())
            .sum::<u64>()
    };
    assert_eq!((of("/a"), of("/b"), of("/c")), (3, 1, 1), "{rows:?}");
}

#[test]
fn packets_without_a_time_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (capture, store) = (dir.path().join("a.pcapng"), dir.path().join("store"));
    let words =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let mut file = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    file.extend(words(&[1, 20, 101, 65535, 20]));
    for packet in some_requests() {
        let mut data = packet.clone();
        data.resize(packet.len().next_multiple_of(4), 0);
        let len = 16 + data.len() as u32;
        file.extend(words(&[3, len, packet.len() as u32]));
        file.extend(data);
        file.extend(words(&[len]));
    }
    // A packet of an interface without a description.
    file.extend(words(&[6, 36, 9, 0, 0, 4, 40, 0, 36]));
    std::fs::write(&capture, file).unwrap();
    let output = trackiops(&["import", "pcap", text(&capture), "--store", text(&store)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("9 packets (") && said.contains("not read: without a time"),
        "{said}"
    );
}

#[test]
fn a_signal_keeps_what_was_read_from_a_pipe() {
    for (format, text_of) in [
        ("pcap", pcap(START_S, &some_requests())),
        (
            "csv",
            b"end_time,op,done_bytes\n2026-11-29T00:00:00Z,READ,1\n2026-11-29T00:00:01Z,READ,40"
                .to_vec(),
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
        command.args(["import", format, "-", "--store", text(&store)]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(&text_of).unwrap();
        // By then the signal handlers are installed, and all is read.
        std::thread::sleep(std::time::Duration::from_secs(2));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        drop(pipe);
        assert!(output.status.success(), "{format}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("ended by a signal: what was read"), "{said}");
        let [reads, _] = transfers(&store);
        // A line without its end may be truncated.
        assert_eq!(reads.0, 1, "{format}");
    }
}

#[test]
fn files_of_one_capture_compressed_or_from_a_pipe_are_the_same() {
    let packets = some_requests();
    let (first, second) = packets.split_at(5);
    let mut results = Vec::new();
    for way in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let path = |name: &str| dir.path().join(name);
        let output = match way {
            0 => {
                std::fs::write(path("1"), pcap(START_S, first)).unwrap();
                std::fs::write(
                    path("2"),
                    pcap(START_S, &[vec![vec![]; 5], second.to_vec()].concat()),
                )
                .unwrap();
                trackiops(&[
                    "import",
                    "pcap",
                    text(&path("1")),
                    text(&path("2")),
                    "--store",
                    text(&store),
                ])
            }
            1 => {
                let file = std::fs::File::create(path("1.gz")).unwrap();
                let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
                gzip.write_all(&pcap(START_S, &packets)).unwrap();
                gzip.finish().unwrap();
                trackiops(&[
                    "import",
                    "pcap",
                    text(&path("1.gz")),
                    "--store",
                    text(&store),
                ])
            }
            _ => {
                std::fs::write(path("1"), pcap(START_S, &packets)).unwrap();
                let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
                command.args(["import", "pcap", "-", "--store", text(&store)]);
                command
                    .stdin(std::fs::File::open(path("1")).unwrap())
                    .output()
                    .unwrap()
            }
        };
        assert!(output.status.success(), "{output:?}");
        results.push((operations(&store), transfers(&store)));
    }
    assert!(
        results.windows(2).all(|pair| pair[0] == pair[1]),
        "{results:?}"
    );
}

#[test]
fn what_is_no_capture_is_refused_and_a_cut_one_is_imported_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let (file, store) = (dir.path().join("file"), dir.path().join("store"));
    std::fs::write(&file, "no capture").unwrap();
    let output = trackiops(&["import", "pcap", text(&file), "--store", text(&store)]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("neither pcap nor pcapng") && said.contains(text(&file)),
        "{said}"
    );
    let whole = pcap(START_S, &some_requests());
    std::fs::write(&file, &whole[..whole.len() - 10]).unwrap();
    let output = trackiops(&["import", "pcap", text(&file), "--store", text(&store)]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("ends in the middle of a packet"), "{said}");
    std::fs::write(&file, pcap(START_S, &[])).unwrap();
    let output = trackiops(&["import", "pcap", text(&file), "--store", text(&store)]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// Status, rows of a table and messages from the comparison of a store with a capture.
fn compared(store: &Path, capture: &Path, table: &str) -> (Option<i32>, Vec<Row>, String) {
    let words = ["compare", "--store", text(store), "--pcap", text(capture)];
    let form = ["--format", "csv", "--table", table];
    let output = trackiops(&[&words[..], &form].concat());
    let mut reader = csv::Reader::from_reader(&output.stdout[..]);
    let rows = reader.deserialize().map(Result::unwrap).collect();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), rows, said)
}

#[test]
fn a_comparison_finds_what_is_missing_and_what_differs() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (store, same, other) = (path("store"), path("same.pcap"), path("other.pcap"));
    std::fs::write(&same, pcap(START_S, &some_requests())).unwrap();
    std::fs::write(&other, pcap(START_S, &requests_with(996, 5))).unwrap();
    let output = trackiops(&["import", "pcap", text(&same), "--store", text(&store)]);
    assert!(output.status.success(), "{output:?}");

    let counts = |rows: &[Row]| {
        let columns = [
            "both",
            "equal",
            "store_only",
            "pcap_only",
            "failed",
            "bytes",
        ];
        let counts = rows
            .iter()
            .map(|row| columns.map(|column| row[column].parse().unwrap()));
        counts.collect::<Vec<[u64; 6]>>()
    };
    let (status, rows, said) = compared(&store, &same, "summary");
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(counts(&rows), [[1, 1, 0, 0, 0, 0]; 2]);

    let (status, rows, said) = compared(&store, &other, "summary");
    assert_eq!(status, Some(1), "{said}");
    assert_eq!(counts(&rows), [[1, 0, 0, 0, 0, 1], [0, 0, 1, 0, 1, 0]]);
    assert!(said.contains("1 request failed in the capture"), "{said}");
    let (_, rows, _) = compared(&store, &other, "requests");
    let shown = rows.iter().map(|row| {
        let columns = ["op", "xid", "differs", "done_bytes", "captured_done_bytes"];
        columns.map(|column| row[column].clone()).join(" ")
    });
    let mut shown: Vec<String> = shown.collect();
    shown.sort();
    let expected = [
        "READ 3 bytes 1000 996",
        "WRITE 4 store only 0 ",
        "WRITE 5 pcap only  0",
    ];
    assert_eq!(shown, expected);

    // Minutes later, other requests have these ids.
    std::fs::write(&other, pcap(START_S + 300, &some_requests())).unwrap();
    let (status, _, said) = compared(&store, &other, "summary");
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains("nothing of the time of the recording"),
        "{said}"
    );
}

#[test]
fn a_comparison_needs_single_requests() {
    let dir = tempfile::tempdir().unwrap();
    let (capture, store) = (dir.path().join("a.pcap"), dir.path().join("store"));
    std::fs::write(&capture, pcap(START_S, &some_requests())).unwrap();
    let import = ["import", "pcap", text(&capture), "--no-requests"];
    let output = trackiops(&[&import[..], &["--store", text(&store)]].concat());
    assert!(output.status.success(), "{output:?}");
    let (status, _, said) = compared(&store, &capture, "summary");
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("`trackiops record --requests`"), "{said}");
}

//! `trackiops analyze` gives the same results for a store and for Parquet from `export --requests`. Data that a store lacks is reported.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use trackiops_testkit::lake;

fn trackiops(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops"));
    command.args(words).env("TZ", "UTC0").env("COLUMNS", "100");
    command.output().unwrap()
}

/// The stores of a lake, as `--store` arguments.
fn stores(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut stores: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    stores.retain(|path| path.is_dir());
    stores.sort();
    let flags = stores
        .iter()
        .map(|store| format!("--store={}", store.display()));
    flags.collect()
}

fn written(words: &[&str]) -> String {
    let output = trackiops(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_store_and_its_export_give_the_same() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let stores = stores(dir.path());
    let stores: Vec<_> = stores.iter().map(String::as_str).collect();
    let file = dir.path().join("all.parquet");
    let file = file.to_str().unwrap();
    let export = [&["export", "--requests", "--output", file][..], &stores].concat();
    assert!(trackiops(&export).status.success());
    for (analysis, table) in [
        ("sequentiality", "distributions"),
        ("sequentiality --by=mount", "distributions"),
        ("sequentiality --by=file --order=request", "counts"),
        ("sizes", "distributions"),
        ("latency --by=server,op", "latencies"),
        ("latency --by=mount,tenant", "counts"),
        ("rates --interval=1,10", "rates"),
        ("burst", "bursts"),
        ("cube --by=host,mount,op,time", "cube"),
        ("outstanding --by=client", "in_flight"),
        ("outstanding", "times"),
        ("reuse", "cache"),
        ("contention --by=file --top=1000", "contention"),
        ("contention", "classes"),
        ("files", "counts"),
    ] {
        let words: Vec<_> = ["analyze"].into_iter().chain(analysis.split(' ')).collect();
        let form = ["--format=json", "--table", table];
        let of_store = written(&[&words[..], &form, &stores].concat());
        let of_file = written(&[&words[..], &form, &[file]].concat());
        assert!(of_store.lines().count() > 0, "{analysis}");
        assert_eq!(sorted(&of_store), sorted(&of_file), "{analysis} {table}");
    }
}

/// Sorts rows: requests that completed at the same time may come in any order, and so may the names that they refer to.
fn sorted(rows: &str) -> Vec<&str> {
    let mut rows: Vec<_> = rows.lines().collect();
    rows.sort_unstable();
    rows
}

#[test]
fn all_requests_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let stores = stores(dir.path());
    let stores: Vec<_> = stores.iter().map(String::as_str).collect();
    let all = [&["requests", "--csv", "--top", "100000"][..], &stores].concat();
    let requests = written(&all).lines().count() - 1;
    let cube = ["analyze", "cube", "--by=op", "--format=csv"];
    let cube = written(&[&cube[..], &stores].concat());
    let total = cube.lines().find(|line| line.starts_with('*')).unwrap();
    let count: usize = total.split(',').nth(1).unwrap().parse().unwrap();
    assert_eq!(count, requests);
}

#[test]
fn tables_begin_with_a_sentence_and_top_cuts_them() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let stores = stores(dir.path());
    let stores: Vec<_> = stores.iter().map(String::as_str).collect();
    for (analysis, sentence) in [
        ("latency", " ms; the longest p99 has "),
        ("sizes", "half are at most "),
        ("rates", "99 % at most "),
        ("burst", "the largest is "),
        ("sequentiality", "half are at most "),
        ("outstanding", "requests were in flight at once"),
        ("contention --by=file", "the file "),
        ("cube --by=op", " requests, "),
        ("reuse", "page cache"),
        ("files", "half are at most "),
    ] {
        let words: Vec<_> = ["analyze"].into_iter().chain(analysis.split(' ')).collect();
        let table = written(&[&words[..], &stores].concat());
        let first = table.split("\n\n").next().unwrap().replace('\n', " ");
        assert!(first.contains(sentence), "{analysis}: {first}");
        let csv = |top: &[&str]| written(&[&words[..], &["--csv"], top, &stores].concat());
        let (all, one) = (csv(&[]), csv(&["--top=1"]));
        assert!(!all.contains(sentence), "{analysis}: {all}");
        let both: Vec<_> = all.lines().take(2).collect();
        assert_eq!(one.lines().collect::<Vec<_>>(), both, "{analysis}");
    }
}

#[test]
fn what_a_store_cannot_tell_is_said_with_what_would() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(dir.path());
    let stores = stores(dir.path());
    for (words, said) in [
        (
            &["xids"][..],
            "`trackiops import pcap --messages` writes them",
        ),
        (
            &["paths"],
            "`trackiops import pcap --messages` writes what replies tell",
        ),
        (
            &["operations"],
            "`trackiops import pcap --messages` writes what replies tell",
        ),
        (&["burst", "--of=packets"], "only a capture has packets"),
        (
            &["cube", "--by=direction"],
            "--by direction: requests do not have it",
        ),
        (
            &["latency", "--of=messages", "--by=mount"],
            "messages do not tell it",
        ),
    ] {
        let words = [&["analyze"], words, &[&*stores[0]]].concat();
        let output = trackiops(&words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(said),
            "{words:?}: {errors}"
        );
    }
}

#[test]
fn a_file_that_is_no_parquet_is_refused_with_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.parquet");
    for content in [&b""[..], b"PAR1", b"PAR1\0\0\0\0\xff\xff\xff\x7fPAR1"] {
        std::fs::write(&file, content).unwrap();
        let output = trackiops(&["analyze", "sizes", file.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains("broken.parquet"),
            "{errors}"
        );
    }
}

#[test]
fn a_flag_that_selects_in_a_store_is_named_if_it_is_given_with_files() {
    for (given, flags) in [
        (&["--level", "app"][..], "--level cannot select"),
        (
            &["--dir", "/mnt", "--volume", "v"],
            "--dir and --volume cannot select",
        ),
    ] {
        let words = [&["analyze", "latency", "requests.parquet"][..], given].concat();
        let output = trackiops(&words);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(flags), "{errors}");
    }
}

//! Queries by name find the workload's requests under each name, and match mountstats.

use std::collections::BTreeMap;
use std::process::Command;

use super::{Made, RUN, of_case};
use crate::mountstats::Mountstats;
use crate::run::{Answer, number, program, sum};

const MOVED: &str = "/mnt/nfs/names/moved";

/// Requests by the start of their one-second window, UTC in ms: certainly and possibly in it.
type Windows = BTreeMap<i64, [u64; 2]>;

fn windows(made: &[&Made]) -> Windows {
    let mut windows = Windows::new();
    for (before, after) in made {
        let [first, last] = [before, after].map(|ms| ms.div_euclid(1000) * 1000);
        for window in (first..=last).step_by(1000) {
            let [certain, possible] = windows.entry(window).or_default();
            *certain += u64::from(first == last);
            *possible += 1;
        }
    }
    windows
}

fn answered(answers: &[Answer], column: &str) -> BTreeMap<i64, u64> {
    let window = |answer: &Answer| {
        let time = chrono::DateTime::parse_from_rfc3339(answer["time"].as_str()?).ok()?;
        Some((time.timestamp_millis(), number(answer, column) as u64))
    };
    let windows = answers.iter().map(|answer| window(answer).expect("a time"));
    windows.filter(|(_, requests)| *requests > 0).collect()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_each_name_of_a_file_that_is_moved_to_and_fro_finds_what_was_done_under_it() {
    let moved = of_case("moved");
    let [file, beside] = moved[..] else {
        panic!("{moved:?}")
    };
    let paths = [file.names[0].path.as_deref(), file.names[1].path.as_deref()];
    assert_eq!(file.names[2].path.as_deref(), paths[0], "moved back");
    let mut totals = [0; 4];
    for path in paths.into_iter().chain([beside.names[0].path.as_deref()]) {
        let path = path.expect("a name");
        let answers = RUN.query(&["--step", "1s", "--file", path]);
        let names = || file.names.iter().chain(&beside.names);
        let own = || names().filter(|name| name.path.as_deref() == Some(path));
        let made = [
            own().flat_map(|name| &name.reads).collect::<Vec<_>>(),
            own().flat_map(|name| &name.writes).collect(),
        ];
        for (column, made) in ["read_requests", "write_requests"].into_iter().zip(&made) {
            let (truth, answered) = (windows(made), answered(&answers, column));
            println!("{path}: {} {column} in {} windows", made.len(), truth.len());
            for (window, [certain, possible]) in &truth {
                let found = answered.get(window).copied().unwrap_or(0);
                let is_exact = (certain..=possible).contains(&&found);
                assert!(
                    is_exact,
                    "{path} at {window}: {found} of {certain} to {possible}"
                );
            }
            let all: u64 = answered.values().sum();
            assert_eq!(all, made.len() as u64, "{path}: {answered:?}, {truth:?}");
        }
        // Coarse rows are just as exact.
        for step in ["10s", "1m", "all"] {
            let coarse = RUN.query(&["--step", step, "--file", path]);
            let requests = ["read_requests", "write_requests"].map(|column| sum(&coarse, column));
            assert_eq!(
                requests.map(|n| n as usize),
                made.each_ref().map(Vec::len),
                "{step}"
            );
        }
        for (total, column) in totals.iter_mut().zip(TOTALS) {
            *total += sum(&answers, column);
        }
    }
    let shared = |window: &i64| {
        let [old, new] = [0, 1].map(|n| windows(&file.names[n].writes.iter().collect::<Vec<_>>()));
        old.contains_key(window) && new.contains_key(window)
    };
    let seconds = file.names[1].writes.iter();
    assert!(
        seconds
            .into_iter()
            .any(|(at, _)| shared(&(at / 1000 * 1000))),
        "a window has requests under both names"
    );
    let truth = RUN.mountstats("moved.before", "after");
    assert_eq!(
        totals,
        transferred(&truth),
        "{TOTALS:?} by name and in mountstats"
    );
    let below = RUN.query(&["--step", "all", "--file", &format!("{MOVED}/**")]);
    assert_eq!(
        TOTALS.map(|column| sum(&below, column)),
        totals,
        "by pattern"
    );
}

const TOTALS: [&str; 4] = [
    "read_requests",
    "write_requests",
    "read_bytes",
    "write_bytes",
];

/// Transfers of all mounts.
fn transferred(stats: &Mountstats) -> [u64; 4] {
    let mut sums = [0; 4];
    for (_, counters) in stats.mounts.values() {
        let own = [
            counters.reads(),
            counters.writes(),
            counters.server_read_bytes,
            counters.server_written_bytes,
        ];
        sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
    }
    sums
}

/// Values of the stacks of `trackiops flamegraph --folded`, each with its subject.
fn stacks(by: &str, direction: &str) -> Vec<(String, u64)> {
    let output = Command::new(program())
        .args([
            "flamegraph",
            "--folded",
            "--by",
            by,
            "--direction",
            direction,
            "--store",
        ])
        .arg(RUN.store())
        .output()
        .expect("trackiops can be started");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let folded = String::from_utf8(output.stdout).expect("text");
    let stack = |line: &str| {
        let (frames, value) = line.rsplit_once(' ')?;
        Some((frames.to_owned(), value.parse().ok()?))
    };
    folded
        .lines()
        .map(|line| stack(line).unwrap_or_else(|| panic!("no stack: {line}")))
        .collect()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_flame_graph_is_as_wide_as_the_query_and_as_mountstats() {
    let whole = RUN.query(&["--step", "all", "--by", "host"]);
    let truth = RUN.mountstats("before", "after");
    let [reads, writes, read_bytes, written_bytes] = transferred(&truth);
    assert_eq!(
        TOTALS.map(|column| sum(&whole, column)),
        transferred(&truth)
    );
    let [read_us, write_us] =
        ["read_latency_us_sum", "write_latency_us_sum"].map(|column| sum(&whole, column));
    let expected = [
        ("requests", reads, writes),
        ("bytes", read_bytes, written_bytes),
        ("time", read_us, write_us),
    ];
    for (by, read, write) in expected {
        println!("{by}: {read} read, {write} written");
        assert!(read > 0 && write > 0, "{by}");
        let all = [
            ("read", read),
            ("write", write),
            ("both", read + write),
            ("apart", read + write),
        ];
        for (direction, expected) in all {
            let total: u64 = stacks(by, direction).iter().map(|(_, value)| value).sum();
            assert_eq!(total, expected, "{by}, {direction}");
        }
    }
    // From the RPC client's own latencies, in whole milliseconds by operation and mount; see `latency`.
    let execute_us: f64 = truth
        .mounts
        .values()
        .map(|(_, counters)| {
            counters.execute_ms_mean() * 1000.0 * (counters.reads() + counters.writes()) as f64
        })
        .filter(|us| us.is_finite())
        .sum();
    let recorded_us = (read_us + write_us) as f64;
    println!("{recorded_us} us recorded, {execute_us} us in mountstats");
    let requests = (reads + writes) as f64;
    assert!((recorded_us - execute_us).abs() < execute_us * 0.1 + 50.0 * requests);
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_flame_graph_has_the_tree_of_directories() {
    let moved = of_case("moved");
    let writes = |path: &str| -> u64 {
        let names = moved.iter().flat_map(|file| &file.names);
        let own = names.filter(|name| name.path.as_deref() == Some(path));
        own.map(|name| name.writes.len() as u64).sum()
    };
    let stacks = stacks("requests", "write");
    for below in ["from/f", "to/deep/f", "from/beside"] {
        let frames = format!(";moved;{}", below.replace('/', ";"));
        let own = stacks.iter().filter(|(stack, _)| stack.ends_with(&frames));
        let own: Vec<_> = own.collect();
        let [(stack, value)] = own[..] else {
            panic!("{frames}: {own:?}")
        };
        assert!(stack.starts_with("127.0.0.1:/exp;/mnt/nfs"), "{stack}");
        assert_eq!(*value, writes(&format!("{MOVED}/{below}")), "{stack}");
    }
}

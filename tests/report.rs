//! `trackiops report incident`: the file's content and size, and what it lets a browser do.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::report_data::{data, parts};
use serde_json::Value;
use tempfile::TempDir;
use trackiops_render::pseudonym::Key;
use trackiops_schemas::row::{ClosedWindow, Direction, Row};
use trackiops_testkit::generated::{Numbers, THREE, folded_windows};
use trackiops_testkit::program;
use trackiops_testkit::recording::{Recording, of_two_files};
use trackiops_testkit::stores::{append, options, options_of, record};
use trackiops_testkit::windows::{T0, file, used_by, window, windows};

const SECOND: i64 = 1000;
const MOST_BYTES: usize = 5_000_000;

struct Here {
    dir: TempDir,
}

impl Here {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("incident.html")
    }

    /// Runs `trackiops` with words and this store.
    fn run(&self, words: &[&str]) -> Output {
        run(words, &self.store(), self.dir.path())
    }

    /// The page of a report, and the command's stdout.
    fn report(&self, words: &[&str]) -> (String, String) {
        let words = [&["report", "incident", "-o", "incident.html"], words].concat();
        let output = self.run(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}");
        let page = fs::read_to_string(self.path()).unwrap();
        (page, String::from_utf8(output.stdout).unwrap())
    }

    /// The reason why a report is refused.
    fn refused(&self, words: &[&str], status: i32) -> String {
        let output = self.run(&[&["report", "incident"], words].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
        assert!(!self.path().exists(), "{words:?}");
        said
    }
}

fn run(words: &[&str], store: &Path, dir: &Path) -> Output {
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.args(words).arg("--store").arg(store);
    command.current_dir(dir).env("TZ", "UTC0").output().unwrap()
}

fn numbers(of: &Value) -> Vec<i64> {
    let numbers = of.as_array().unwrap().iter();
    numbers.map(|number| number.as_i64().unwrap()).collect()
}

fn sum(of: &Value) -> i64 {
    numbers(of).into_iter().sum()
}

/// Sums of a column over rows by place.
fn by_place(data: &Value, direction: &str, column: &str) -> BTreeMap<i64, i64> {
    let rows = &data["rows"];
    let places = numbers(&rows["place"]).into_iter();
    let mut sums = BTreeMap::new();
    for (place, value) in places.zip(numbers(&rows[direction][column])) {
        *sums.entry(place).or_default() += value;
    }
    sums
}

/// The answer of `trackiops query`.
fn query(here: &Here, words: &[&str]) -> Vec<Value> {
    let output = here.run(&[&["query", "--json"], words].concat());
    let lines = String::from_utf8(output.stdout).unwrap();
    let rows = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    rows.collect()
}

const DIRECTIONS: [&str; 2] = ["read", "write"];
const ADDED: [&str; 9] = [
    "requests",
    "bytes",
    "errors",
    "untimed",
    "unsplit",
    "folded",
    "latency_us_sum",
    "queue_us_sum",
    "rtt_us_sum",
];

/// Compares the report's sums with those of a query by host.
fn assert_same_totals(here: &Here, data: &Value) {
    for direction in DIRECTIONS {
        for column in ADDED {
            let name = format!("{direction}_{column}");
            let columns = format!("--columns={name}");
            let rows = query(here, &["--by=host", "--step=all", &columns]);
            let expected: i64 = rows.iter().map(|row| row[&name].as_i64().unwrap()).sum();
            assert_eq!(sum(&data["rows"][direction][column]), expected, "{name}");
        }
    }
}

#[test]
fn a_report_has_what_the_command_answers() {
    let here = Here::new();
    record(
        &here.store(),
        options("h"),
        &folded_windows(1, THREE, SECOND, 600, 12),
    );
    let (page, said) = here.report(&[]);
    assert!(page.len() <= MOST_BYTES);
    let data = data(&page);
    assert!(
        said.contains("windows of 2s, 12 of 12 files one by one"),
        "{said}"
    );
    assert_eq!(
        (&data["step"], &data["since"]),
        (&2000.into(), &THREE.into())
    );
    assert_same_totals(&here, &data);
    let rows = query(
        &here,
        &[
            "--by=file",
            "--step=all",
            "--columns=dev,fileid,read_bytes,read_latency_hist",
        ],
    );
    let bytes = by_place(&data, "read", "bytes");
    let (places, names) = (&data["places"], &data["names"]);
    let mut by_file: BTreeMap<(String, String), i64> = BTreeMap::new();
    for (place, bytes) in bytes {
        let place = place as usize;
        let fileid = places["fileid"][place].as_u64().unwrap() as usize;
        let dev = places["dev"][place].as_str().unwrap().to_owned();
        let fileid = names["fileids"][fileid].as_str().unwrap().to_owned();
        *by_file.entry((dev, fileid)).or_default() += bytes;
    }
    let expected = rows.iter().map(|row| {
        let dev = row["dev"].as_str().unwrap().to_owned();
        (
            (dev, row["fileid"].as_str().unwrap().to_owned()),
            row["read_bytes"].as_i64().unwrap(),
        )
    });
    assert_eq!(by_file, expected.collect());
    // A histogram is its length, followed by pairs of a distance and a count.
    let histograms = numbers(&data["rows"]["read"]["histogram"]);
    let (mut at, mut counted) = (0, 0);
    while at < histograms.len() {
        let end = at + 1 + 2 * histograms[at] as usize;
        let pairs = histograms[at + 1..end].chunks_exact(2);
        counted += pairs.map(|pair| pair[1]).sum::<i64>();
        at = end;
    }
    let buckets = rows
        .iter()
        .flat_map(|row| row["read_latency_hist"].as_array().unwrap());
    let expected: i64 = buckets
        .map(|bucket| bucket["count"].as_i64().unwrap())
        .sum();
    assert_eq!(counted, expected);
    assert_eq!(sum(&data["recorded"]["recorded_ms"]), 600 * SECOND);
}

#[test]
fn a_range_has_what_is_in_it() {
    let here = Here::new();
    record(
        &here.store(),
        options("h"),
        &folded_windows(1, THREE, SECOND, 600, 5),
    );
    let (since, until) = ("@1795230061", "@1795230123");
    let (page, _) = here.report(&["--since", since, "--until", until]);
    let data = data(&page);
    // The same length of time before, as far as it was recorded.
    let first_ms = data["since"].as_i64().unwrap();
    assert_eq!(first_ms, 1_795_230_000_000);
    let since = format!("@{}", first_ms / SECOND);
    let rows = query(
        &here,
        &[
            "--by=host",
            "--step=all",
            "--since",
            &since,
            "--until",
            until,
            "--columns=requests",
        ],
    );
    let rows_of = |direction: &str| sum(&data["rows"][direction]["requests"]);
    assert_eq!(
        rows_of("read") + rows_of("write"),
        rows[0]["requests"].as_i64().unwrap()
    );
    assert_eq!(data["incident_since"], 1_795_230_061_000_i64);
    assert_eq!(data["incident_until"], 1_795_230_123_000_i64);
    assert_eq!(data["until"], 1_795_230_123_000_i64);
    assert_eq!(sum(&data["recorded"]["recorded_ms"]), 123 * SECOND);
}

/// A window in which a file was used a lot.
fn busy(numbers: &mut Numbers) -> Direction {
    let mut direction = Direction::default();
    for _ in 0..12 + numbers.below(20) {
        let latency_ns = 1000 * (100 + numbers.below(90_000));
        direction.requests += 1;
        direction.bytes += 4096 * (1 + numbers.below(256));
        direction.latency.record(latency_ns);
        direction.latency_ns_sum += latency_ns;
        direction.latency_ns_max = direction.latency_ns_max.max(latency_ns);
        direction.queue_ns_sum += 1000 * numbers.below(50);
        direction.rtt_ns_sum += latency_ns / 2;
    }
    direction
}

/// A day of 450 files in 15 directories, of 15 tenants, in windows of five minutes.
fn day() -> Vec<ClosedWindow> {
    let mut numbers = Numbers(7);
    let one = |i: i64| {
        let mut rows = Vec::new();
        for n in 0..450_u64 {
            if numbers.below(3) == 0 {
                continue;
            }
            let path = format!("/mnt/nfs/project-{}/run/output-{n}.dat", n % 15);
            let tenant = format!("{}:/job-{}", n % 15, n % 15);
            let row = Row {
                read: busy(&mut numbers),
                write: busy(&mut numbers),
                ..Row::default()
            };
            rows.push((used_by(&file(n + 2, 49, Some(&path)), &tenant), row));
        }
        let mut window = window(THREE + i * 300 * SECOND, rows);
        window.health.covered_ms = 300_000;
        window
    };
    (0..288).map(one).collect()
}

#[test]
fn a_large_store_makes_a_report_of_5_mb_with_all_sums() {
    let here = Here::new();
    record(&here.store(), options_of("h", "5m", "6h"), &day());
    let (page, said) = here.report(&[]);
    assert!(page.len() <= MOST_BYTES, "{}", page.len());
    // Most of the allowed size is used.
    assert!(page.len() > MOST_BYTES / 2, "{}", page.len());
    let data = data(&page);
    let kept = data["files"]["kept"].as_u64().unwrap();
    assert!((100..400).contains(&kept), "{kept}");
    assert_eq!(data["files"]["all"], 450);
    assert!(
        said.contains(&format!("{kept} of 450 files one by one")),
        "{said}"
    );
    assert_same_totals(&here, &data);
    // Trees are complete, whichever files have separate places.
    let rows = query(
        &here,
        &["--by=dir", "--step=all", "--columns=path,bytes", "--top=15"],
    );
    let (places, paths) = (&data["places"], &data["names"]["paths"]);
    let mut trees: BTreeMap<String, i64> = BTreeMap::new();
    for direction in DIRECTIONS {
        for (place, bytes) in by_place(&data, direction, "bytes") {
            let path = places["path"][place as usize].as_u64().unwrap() as usize;
            let path = paths[path].as_str().unwrap();
            let tree = path.split("/run").next().unwrap();
            *trees.entry(tree.to_owned()).or_default() += bytes;
        }
    }
    let expected = rows.iter().map(|row| {
        let path = row["path"].as_str().unwrap().split("/run").next().unwrap();
        (path.to_owned(), row["bytes"].as_i64().unwrap())
    });
    assert_eq!(trees, expected.collect());
}

#[test]
fn events_are_in_a_report_and_marks_are_not_with_a_key() {
    let here = Here::new();
    let mut recorded = windows(120);
    recorded.drain(80..90);
    record(&here.store(), options("h"), &recorded);
    let at = "--at=2026-11-21T03:52:30Z";
    let marked = here.run(&["mark", "--host=h", at, "job 17 starts"]);
    assert!(marked.status.success());
    let key = here.dir.path().join("key");
    fs::write(&key, Key::new(&[7; Key::BYTES]).to_text()).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let events = |words: &[&str]| {
        let data = data(&here.report(words).0);
        let texts = |name: &str| -> Vec<String> {
            let of = data["events"][name].as_array().unwrap().iter();
            of.map(|text| text.as_str().unwrap().to_owned()).collect()
        };
        let seconds = numbers(&data["events"]["time"]).into_iter();
        let seconds: Vec<_> = seconds.map(|ms| (ms - T0) / SECOND).collect();
        (seconds, texts("kind"), texts("text"))
    };
    let (seconds, kinds, texts) = events(&[]);
    assert_eq!(seconds, [30, 80, 90]);
    assert_eq!(kinds, ["mark", "recorder-ended", "recorder-started"]);
    let ended = "the recorder ended: 10 s not recorded";
    assert_eq!(texts, ["job 17 starts", ended, "the recorder started"]);
    let (seconds, _, texts) = events(&["--anonymize", "key"]);
    assert_eq!(seconds, [80, 90]);
    assert_eq!(texts, [ended, "the recorder started"]);
}

#[test]
fn several_hosts_are_in_one_report() {
    let here = Here::new();
    let other = here.dir.path().join("other");
    record(
        &here.store(),
        options("web-1"),
        &folded_windows(1, THREE, SECOND, 120, 6),
    );
    record(
        &other,
        options("web-2"),
        &folded_windows(2, THREE + 20 * SECOND, SECOND, 120, 6),
    );
    let (page, _) = here.report(&["--store", "other"]);
    let data = data(&page);
    let mut hosts: Vec<_> = data["names"]["hosts"].as_array().unwrap().iter().collect();
    hosts.sort_by_key(|host| host.as_str());
    assert_eq!(hosts, ["web-1", "web-2"]);
    assert_eq!(data["until"].as_i64().unwrap() - THREE, 140 * SECOND);
    let rows = query(
        &here,
        &[
            "--by=host",
            "--step=all",
            "--columns=requests",
            "--store=other",
        ],
    );
    let expected: i64 = rows
        .iter()
        .map(|row| row["requests"].as_i64().unwrap())
        .sum();
    let rows_of = |direction: &str| sum(&data["rows"][direction]["requests"]);
    assert_eq!(rows_of("read") + rows_of("write"), expected);
    assert_eq!(sum(&data["recorded"]["recorded_ms"]), 240 * SECOND);
}

#[test]
fn a_report_loads_and_sends_nothing() {
    let here = Here::new();
    record(&here.store(), options("h"), &of_two_files(T0, 20));
    let (page, _) = here.report(&[]);
    let (page, _) = parts(&page);
    let (head, _) = page.split_once("<style>").unwrap();
    let policy = head
        .split("Content-Security-Policy\" content=\"")
        .nth(1)
        .unwrap();
    let policy = policy.split('"').next().unwrap();
    let mut rules = policy.split("; ").map(|rule| rule.split_once(' ').unwrap());
    assert_eq!(rules.next(), Some(("default-src", "'none'")));
    for (name, value) in rules {
        match name {
            "script-src" | "style-src" => {
                assert!(value.starts_with("'sha256-") && !value.contains(' '))
            }
            "img-src" => assert_eq!(value, "data:"),
            _ => assert_eq!(value, "'none'", "{name}"),
        }
    }
    for attribute in head.split_ascii_whitespace() {
        let Some((name, value)) = attribute.split_once('=') else {
            continue;
        };
        if ["src", "href"].contains(&name) {
            assert!(value.starts_with("\"data:"), "{attribute}");
        }
    }
}

#[test]
fn a_store_that_is_being_written_is_reported() {
    let here = Here::new();
    let writer = append(&here.store(), options("h"), &of_two_files(T0, 50));
    let (page, _) = here.report(&[]);
    assert_same_totals(&here, &data(&page));
    drop(writer);
    let recording = Recording::begin();
    recording.put(&of_two_files(T0, 25));
    let output = run(
        &["report", "incident", "-o", "incident.html"],
        &recording.store(),
        recording.dir(),
    );
    assert_eq!(output.status.code(), Some(0));
    let page = fs::read_to_string(recording.dir().join("incident.html")).unwrap();
    assert_eq!(sum(&data(&page)["recorded"]["recorded_ms"]), 25 * SECOND);
}

#[test]
fn what_cannot_be_reported_is_refused_with_the_reason() {
    let here = Here::new();
    let output = ["-o", "incident.html"];
    let said = here.refused(&output, 2);
    assert!(said.contains("there is no store at"), "{said}");
    record(&here.store(), options("h"), &of_two_files(T0, 20));
    for (words, status, expected) in [
        (
            vec!["--since", "@1795233200", "--until", "@1795233100"],
            2,
            "the range",
        ),
        (vec!["--since", "nonsense"], 2, "--since"),
        (
            vec!["--since", "@1000", "--until", "@2000"],
            1,
            "nothing was recorded from",
        ),
        (
            vec!["--anonymize", "nowhere"],
            2,
            "cannot read the key nowhere",
        ),
    ] {
        let said = here.refused(&[&output[..], &words].concat(), status);
        assert!(said.contains(expected), "{words:?}: {said}");
    }
    for (path, expected) in [
        ("incident.txt", "end the name in .html or .htm"),
        ("nowhere/incident.html", "there is no directory nowhere"),
        (".", "it is a directory"),
        (
            "store/journal/incident.html",
            "among the files of the store",
        ),
    ] {
        let said = here.refused(&["-o", path], 2);
        assert!(said.contains(expected), "{path}: {said}");
    }
}

#[test]
fn the_file_is_replaced_in_whole_and_is_its_owners() {
    let here = Here::new();
    record(&here.store(), options("h"), &of_two_files(T0, 20));
    fs::write(here.path(), "of before").unwrap();
    fs::set_permissions(here.path(), Permissions::from_mode(0o644)).unwrap();
    let nothing = here.run(&[
        "report",
        "incident",
        "-o",
        "incident.html",
        "--until",
        "@1000",
        "--since",
        "@1",
    ]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("incident.html is not written"));
    assert_eq!(fs::read(here.path()).unwrap(), b"of before");
    here.report(&[]);
    let mode = fs::metadata(here.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    // To stdout as well, without any other output.
    let output = here.run(&["report", "incident", "-o", "-"]);
    assert!(output.stdout.starts_with(b"<!doctype html>"));
    assert!(output.stdout.ends_with(b"</html>\n"));
}

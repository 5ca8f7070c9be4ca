//! The formats of `trackiops report billing`, `placement` and `carbon`, and refused options. tests/report_numbers.rs compares the numbers.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;
use trackiops_testkit::{program, usage};

const PRICES: &str = "currency = \"EUR\"\n[per_million]\nreads = 1000\nwrites = 2000.5\n";
const COEFFICIENTS: &str =
    "pue = 1.3\n[joule_per_request]\nread = 0.01\n[stored]\n\"<b>&archive\" = \"2TiB\"\n";

fn stores() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    usage::record(dir.path(), 4);
    fs::write(dir.path().join("prices.toml"), PRICES).unwrap();
    fs::write(dir.path().join("c.toml"), COEFFICIENTS).unwrap();
    dir
}

fn run(dir: &Path, words: &str) -> Output {
    let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
    command.arg("report").args(words.split_whitespace());
    let stores = ["--store", "h", "--store", "i"];
    let command = command.args(stores).current_dir(dir);
    command
        .env("TZ", "UTC0")
        .env("COLUMNS", "200")
        .output()
        .unwrap()
}

fn done(dir: &Path, words: &str) -> String {
    let output = run(dir, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(dir: &Path, words: &str, status: i32) -> String {
    let output = run(dir, words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{words}: {said}");
    assert!(output.stdout.is_empty(), "{words}");
    said
}

const REPORTS: [(&str, &str); 3] = [
    ("billing", "billing --prices prices.toml --period 1h"),
    ("placement", "placement --by mount --targets 2"),
    (
        "carbon",
        "carbon --coefficients c.toml --intensity-default 300",
    ),
];

#[test]
fn every_format_has_the_same_rows() {
    let dir = stores();
    for (name, words) in REPORTS {
        let csv = done(dir.path(), &format!("{words} --format csv"));
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let header = reader.headers().unwrap().clone();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        let json = done(dir.path(), &format!("{words} --format json"));
        let objects: Vec<Value> = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert!(rows.len() == objects.len() && !rows.is_empty(), "{name}");
        for (row, object) in rows.iter().zip(&objects) {
            assert_eq!(object.as_object().unwrap().len(), header.len(), "{name}");
            for (column, cell) in header.iter().zip(row) {
                let text = match &object[column] {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                // serde_json reads numbers with an error in the last digit.
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-12 * a.abs();
                let numbers = text.parse().ok().zip(cell.parse().ok());
                let same = text == cell || numbers.is_some_and(|(a, b)| near(a, b));
                assert!(same, "{name} {column}: {text} and {cell}");
            }
        }
        done(dir.path(), &format!("{words} -o rows.parquet"));
        let parquet = fs::read(dir.path().join("rows.parquet")).unwrap();
        assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
        let table = done(dir.path(), words);
        println!("{table}");
        assert!(table.contains("2026-11-21"), "{name}: {table}");
    }
}

#[test]
fn amounts_are_decimals() {
    let dir = stores();
    let json = done(dir.path(), "billing --prices prices.toml --format json");
    let first = json.lines().next().unwrap();
    let amount = first.split("\"total_amount\":").nth(1).unwrap();
    let digits = amount.split(',').next().unwrap();
    let (_, cents) = digits.split_once('.').unwrap();
    assert_eq!(cents.len(), 2, "{digits}");
}

#[test]
fn a_page_has_all_tables_notes_and_the_method_and_runs_nothing() {
    let dir = stores();
    for (name, words) in REPORTS {
        done(dir.path(), &format!("{words} -o page.html"));
        let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
        let policy = page.find("Content-Security-Policy").unwrap();
        assert!(policy < page.find("<style").unwrap() && page.contains("default-src 'none'"));
        for refused in [
            "<script", "http://", "https://", "src=", "@import", "url(", " style=", "onload",
        ] {
            assert!(!page.contains(refused), "{name}: {refused}");
        }
        for wanted in [
            "prefers-color-scheme: dark",
            "<h2>Method</h2>",
            "recorded of",
        ] {
            assert!(page.contains(wanted), "{name}: {wanted}");
        }
        let open = page.matches("<tr>").count();
        assert!(open > 2 && open == page.matches("</tr>").count(), "{name}");
    }
    done(dir.path(), &format!("{} -o page.html", REPORTS[2].1));
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(
        page.contains("&lt;b&gt;&amp;archive") && !page.contains("<b>"),
        "{page}"
    );
    done(dir.path(), &format!("{} -o page.html", REPORTS[1].1));
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    for table in ["subjects", "targets", "correlations"] {
        assert!(page.contains(&format!("<h2>{table}</h2>")), "{table}");
    }
}

#[test]
fn bad_input_names_the_thing_the_cause_and_what_to_do() {
    let dir = stores();
    let write = |text: &str| fs::write(dir.path().join("bad"), text).unwrap();
    write("currency = \"EUR\"\n[per_milion]\nreads = 1\n");
    let said = refused(dir.path(), "billing --prices bad", 2);
    assert!(
        said.contains("bad:2: unknown table [per_milion]; did you mean per_million?"),
        "{said}"
    );
    write("[joule_per_request]\nreed = 1\n");
    let said = refused(
        dir.path(),
        "carbon --coefficients bad --intensity-default 1",
        2,
    );
    assert!(
        said.contains("bad:2: unknown key reed in [joule_per_request]; did you mean read?"),
        "{said}"
    );
    write("time,g_per_kwh\n2026-11-21T04:00:00Z,300\n");
    let said = refused(
        dir.path(),
        "carbon --coefficients c.toml --intensity bad",
        2,
    );
    assert!(
        said.contains("2026-11-21T03:00:00") && said.contains("--intensity-default"),
        "{said}"
    );
    for (words, wanted) in [
        (
            "billing --prices none.toml",
            "--prices: cannot read none.toml",
        ),
        ("billing --period 7h", "--period"),
        ("billing --period 1m", "--interval"),
        ("billing --percentile 101", "is not a percentile"),
        ("billing --percentile 95 --percentile 95", "given twice"),
        ("billing --interval 1s", "1s"),
        ("billing --table targets", "write charges"),
        ("billing --format html --csv-safe", "--csv-safe"),
        ("billing -o x.png", ".html"),
        ("billing --by colour", "colour"),
        ("billing --depth 2", "--by dir"),
        ("carbon --intensity-default 1", "--coefficients"),
        ("carbon --coefficients c.toml", "--intensity"),
        ("placement --by tenant", "file, dir or mount"),
        ("placement --table targets", "--capacity-iops"),
        (
            "placement --targets 2 --capacity-iops 5",
            "cannot be used with",
        ),
        ("placement --targets 2 --check-share 1", "below 1"),
        ("placement --capacity-bytes 0", "holds nothing"),
    ] {
        let said = refused(dir.path(), words, 2);
        assert!(said.contains(wanted), "{words}: {said}");
    }
}

#[test]
fn nothing_found_is_status_1_and_writes_nothing() {
    let dir = stores();
    for (_, words) in REPORTS {
        let said = refused(
            dir.path(),
            &format!("{words} --since 2026-11-20 --until 2026-11-20T05:00 -o none.csv"),
            1,
        );
        assert!(
            said.contains("nothing was recorded") && said.contains("none.csv is not written"),
            "{said}"
        );
        assert!(!dir.path().join("none.csv").exists());
    }
}

#[test]
fn hosts_that_did_not_record_together_are_told() {
    let dir = stores();
    let output = run(dir.path(), "placement --by mount");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("are left out, because not all hosts recorded them"),
        "{said}"
    );
    assert!(said.contains("on h, ") && said.contains("on i"), "{said}");
}

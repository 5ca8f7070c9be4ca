//! A latency distribution contains each request with a latency exactly once.

use serde_json::Value;
use trackiops_query::times::Zone;
use trackiops_query::{Answer, GroupBy, Question, Step};
use trackiops_render::terminal_style::{Look, Style};
use trackiops_render::{DistributionFormat, Format, write_distribution};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{THREE, file, folded_windows, health};
use trackiops_testkit::questions::{found, question};
use trackiops_testkit::stores::{options_of, record};

const BOTH: [&str; 2] = ["read", "write"];

fn written(answer: &Answer, format: DistributionFormat, width: usize) -> String {
    let look = Look {
        width: Some(width),
        ..Look::default()
    };
    let style = Style {
        look,
        ..Zone::utc().into()
    };
    let mut out = Vec::new();
    write_distribution(answer, &BOTH, format, &style, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn objects(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn counts(object: &Value) -> u64 {
    let buckets = object["buckets"].as_array().unwrap().iter();
    buckets
        .map(|bucket| bucket["count"].as_u64().unwrap())
        .sum()
}

#[test]
fn counts_are_those_of_a_query() {
    let dir = tempfile::tempdir().unwrap();
    let windows = folded_windows(5, THREE, 1000, 90, 9);
    record(dir.path(), options_of("h", "1s,10s", "1m"), &windows);
    let asked = Question {
        step: Some(Step::All),
        by: GroupBy::HOST,
        ..question(dir.path())
    };
    let answer = found(&asked);
    let mut rows = Vec::new();
    trackiops_render::write(&answer, Format::Json, Zone::utc(), &mut rows).unwrap();
    let row = &objects(std::str::from_utf8(&rows).unwrap())[0];
    let json = objects(&written(&answer, DistributionFormat::Json, 80));
    let csv = written(&answer, DistributionFormat::Csv, 80);
    assert_eq!(json.len(), 2);
    for (name, object) in BOTH.iter().zip(&json) {
        let of_query = |column: &str| row[format!("{name}_{column}")].as_u64().unwrap();
        let [requests, untimed, folded] = ["requests", "untimed", "folded"].map(of_query);
        assert!(untimed > 0 && folded > 0);
        assert_eq!(object["direction"], *name);
        assert_eq!(object["requests"], requests);
        assert_eq!(counts(object), requests - untimed - folded);
        assert_eq!(object["count"], counts(object));
        for percentile in ["p50", "p90", "p99", "p999"] {
            assert_eq!(
                object[format!("{percentile}_us")],
                row[format!("{name}_latency_us_{percentile}")]
            );
        }
        assert_eq!(object["mean_us"], row[format!("{name}_latency_us_mean")]);
        let max = row[format!("{name}_latency_us_max")].as_f64();
        assert_eq!(object["max_us"].as_f64(), max);
        let mut reader = csv::Reader::from_reader(csv.as_bytes());
        let records = reader.records().map(Result::unwrap);
        let lines: Vec<_> = records.filter(|record| record[0] == **name).collect();
        let in_lines = lines.iter().map(|line| line[3].parse::<u64>().unwrap());
        assert_eq!(in_lines.sum::<u64>(), counts(object));
        let bounds: Vec<f64> = lines.iter().map(|line| line[2].parse().unwrap()).collect();
        let in_json = object["buckets"].as_array().unwrap();
        assert_eq!(in_json.len(), bounds.len());
        for (bucket, bound) in in_json.iter().zip(bounds) {
            // The reader of JSON rounds the last digit.
            let of_json = bucket["le_us"].as_f64().unwrap();
            assert!((of_json / bound - 1.0).abs() < 1e-12, "{of_json} {bound}");
        }
    }
    // The same for the lines of the table.
    let table = written(&answer, DistributionFormat::Table, 80);
    let of_lines = table.lines().filter(|line| line.contains(" - "));
    let of_lines = of_lines.map(|line| line[22..].split_whitespace().next().unwrap());
    let total: u64 = of_lines.map(|count| count.parse::<u64>().unwrap()).sum();
    assert_eq!(total, json.iter().map(counts).sum::<u64>());
}

fn of_latencies(latencies_ns: &[u64]) -> Answer {
    let dir = tempfile::tempdir().unwrap();
    let mut row = Row::default();
    for ns in latencies_ns {
        row.read.requests += 1;
        row.read.latency_ns_sum += ns;
        row.read.latency_ns_max = row.read.latency_ns_max.max(*ns);
        row.read.latency.record(*ns);
    }
    let file = file(1, Some("/mnt/a"));
    let rows = vec![FileRow { file, row }];
    let window = ClosedWindow {
        start: UtcMs(THREE),
        ops: Vec::new(),
        health: health(1000, &rows),
        rows,
    };
    record(dir.path(), options_of("h", "1s", "15m"), &[window]);
    let asked = Question {
        step: Some(Step::All),
        ..question(dir.path())
    };
    found(&asked)
}

#[test]
fn nanoseconds_and_hours_are_in_one_table() {
    let answer = of_latencies(&[1000, 1000, 1001, 7_200_000_000_000]);
    assert_eq!(
        written(&answer, DistributionFormat::Table, 60),
        "\
2026-11-21 03:00:00 to 03:00:01 (+00:00)

reads: 4
               latency  count   share
    500 ns -   1.00 us      2   50.0%  █████████████████████
   1.00 us -   2.00 us      1   25.0%  ██████████▌
                   ...      0
    1.19 h -    2.39 h      1   25.0%  ██████████▌
p50 989 ns  p90 1.98 h  p95 1.98 h  p99 1.98 h  p99.9 1.98 h
max 2.00 h
count 4  mean 30.0 min
"
    );
    // The least latency that the clock resolves.
    let table = written(&of_latencies(&[1]), DistributionFormat::Table, 40);
    assert!(
        table.contains("\n   0.98 ns -   1.95 ns      1  100.0%  ████\n"),
        "{table}"
    );
}

#[test]
fn no_percentile_is_above_the_largest_latency() {
    // The middle of the bucket of 2.3 ms is above it.
    let answer = of_latencies(&[2_300_000; 3]);
    let mut rows = Vec::new();
    trackiops_render::write(&answer, Format::Json, Zone::utc(), &mut rows).unwrap();
    let row = &objects(std::str::from_utf8(&rows).unwrap())[0];
    let distribution = &objects(&written(&answer, DistributionFormat::Json, 80))[0];
    for quantile in ["p50", "p90", "p99", "p999"] {
        assert_eq!(
            row[format!("read_latency_us_{quantile}")],
            2300.0,
            "{quantile}"
        );
        assert_eq!(distribution[format!("{quantile}_us")], 2300.0, "{quantile}");
    }
    assert_eq!(row["read_latency_us_max"], 2300);
    let table = written(&answer, DistributionFormat::Table, 80);
    assert!(
        table.contains("p99 2.30 ms") && table.contains("max 2.30 ms"),
        "{table}"
    );
}

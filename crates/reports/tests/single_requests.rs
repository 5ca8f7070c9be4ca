//! The numbers of `noisy` and `slow` match those that DuckDB and NumPy compute from single requests. Needs a Python with both:
//! TRACKIOPS_PYTHON is its path, which `make notebooks` sets.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

use std::path::Path;

use serde_json::{Value as Json, json};
use trackiops_query::Range;
use trackiops_query::columns::{Columns, Value};
use trackiops_reports::{noisy, slow};
use trackiops_schemas::ebpf::ring::flags;
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Writer;
use trackiops_testkit::program;
use trackiops_testkit::questions::question;
use trackiops_testkit::queueing::{Day, file_of, simulate, windows};
use trackiops_testkit::stores::options_of;
use trackiops_testkit::windows::granularity;

/// Midnight, 2026-11-21.
const T0: i64 = 1_795_219_200_000;
const DAY: Day = Day {
    seed: 141,
    neighbour: true,
    seconds: 4 * 3600,
};
/// More room than the requests need.
const REQUESTS_BYTES: u64 = 256 << 20;

fn record(store: &Path) {
    let mut requests = Vec::new();
    simulate(DAY, |done| {
        requests.push(Request {
            end_ns: T0 * 1_000_000 + done.end_ns.cast_signed(),
            file: done.tenant as u32,
            flags: if done.write { flags::WRITE } else { 0 },
            offset: 0,
            asked_bytes: done.bytes as u32,
            done_bytes: done.bytes as u32,
            latency_ns: done.latency_ns,
            queue_ns: done.queue_ns,
            rtt_ns: done.rtt_ns,
            xid: 0,
            retransmissions: 0,
            error: 0,
            pid: 0,
            process: ProcessName::default(),
        });
    });
    requests.retain(|of| of.end_ns < (T0 + 1000 * DAY.seconds.cast_signed()) * 1_000_000);
    requests.sort_by_key(|of| of.end_ns);
    let (windows, truth) = windows(DAY, T0, 10_000);
    let mut writer = Writer::open(store, options_of("h", "10s,1m", "2h")).unwrap();
    let mut kept = writer.requests(REQUESTS_BYTES, |_| {}).unwrap();
    for window in &windows {
        writer.append(window).unwrap();
    }
    for some in requests.chunks(5000) {
        let batch = RequestBatch {
            files: (0..truth.tenants).map(file_of).collect(),
            requests: some.to_vec(),
        };
        kept.append(&batch).unwrap();
    }
    kept.finish().unwrap();
    writer.finish().unwrap();
}

/// Rows as objects.
fn rows<R: 'static>(columns: &Columns<R>, rows: &[R]) -> Vec<Json> {
    let value = |value: Value<'_>| match value {
        Value::Null => Json::Null,
        Value::Text(text) => json!(text),
        Value::Count(count) => json!(count),
        Value::Int(int) | Value::Key(int) => json!(int),
        Value::Flag(flag) => json!(flag),
        Value::Figure(figure) => json!(figure),
        Value::Time(time) => json!(time.0),
        other => panic!("{other:?}"),
    };
    let object = |row: &R| {
        let fields = columns
            .iter()
            .map(|column| (column.name.clone(), value(column.value(row))));
        Json::Object(fields.collect())
    };
    rows.iter().map(object).collect()
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB"]
fn evidence_is_what_is_computed_from_single_requests() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    record(&store);
    let mut question = question(&store);
    question.now = UtcMs(T0 + 86_400_000);
    let made = noisy::report::make(&question, "tenant".parse().unwrap(), granularity("10s"));
    let noisy = made.unwrap().unwrap();
    question.range = Range {
        since: Some(UtcMs(T0 + 7_200_000)),
        until: Some(UtcMs(T0 + 14_400_000)),
    };
    let made = slow::report::make(&question, None, granularity("10s"));
    let slow = made.unwrap().unwrap();
    assert!(
        !slow.times.answer.rows.is_empty(),
        "{:?}",
        slow.about.remarks
    );
    let answers = json!({
        "start_ms": T0,
        "intervals": DAY.seconds / 10,
        "baseline_ms": [T0, T0 + 7_200_000],
        "noisy": rows(&noisy.candidates.columns, &noisy.candidates.answer.rows),
        "times": rows(&slow.times.columns, &slow.times.answer.rows),
        "sufferers": rows(&slow.sufferers.columns, &slow.sufferers.answer.rows),
    });
    let file = dir.path().join("answers.json");
    std::fs::write(&file, answers.to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/single_requests.py");
    program::python(&script, [&store, &file], dir.path());
}

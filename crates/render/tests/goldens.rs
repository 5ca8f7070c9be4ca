//! Output for people and programs about a small store, compared exactly. `UPDATE_GOLDEN=1 cargo test` rewrites the files; review the
//! difference.

use std::path::Path;

use chrono::FixedOffset;
use trackiops_query::times::Zone;
use trackiops_query::{
    Answer, Connections, Figures, GroupBy, Outcome, Projection, Question, ask_operations,
};
use trackiops_render::Format;
use trackiops_render::Render;
use trackiops_render::formats::Texts;
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, FileRow, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{THREE, file, health, windows};
use trackiops_testkit::questions::{found, question, select};
use trackiops_testkit::stores::{options_of, record};
use trackiops_testkit::windows::{named, used_by};

/// Two hand-made files in three windows. One has a name that needs quoting, and two users. The other has no name; some of its requests
/// failed or were folded.
fn small() -> Vec<ClosedWindow> {
    let quoted = file(2, Some("/mnt/a \"quoted\", long name"));
    let [quoted, other] = ["0:/db.service", "1000:?4711"].map(|tenant| used_by(&quoted, tenant));
    let quoted = named(&quoted, "root");
    let nameless = file(3, None);
    let row = |reads: u64, writes: u64| {
        let mut row = Row::default();
        for (direction, requests) in [(&mut row.read, reads), (&mut row.write, writes)] {
            for i in 0..requests {
                let latency_ns = (400 + 100 * i) * 1000;
                direction.requests += 1;
                direction.bytes += 65_536;
                direction.latency_ns_sum += latency_ns;
                direction.latency_ns_max = latency_ns;
                direction.latency.record(latency_ns);
                direction.queue_ns_sum += 50_000;
                direction.rtt_ns_sum += latency_ns - 80_000;
            }
        }
        row
    };
    let window = |i: i64, rows: Vec<(&_, Row)>| {
        let rows = rows.into_iter().map(|(file, row)| FileRow {
            file: std::sync::Arc::clone(file),
            row,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| row.file.key);
        ClosedWindow {
            start: UtcMs(THREE + i * 1000),
            ops: Vec::new(),
            health: health(1000, &rows),
            rows,
        }
    };
    let mut failed = row(0, 2);
    failed.write.errors = 1;
    failed.write.errnos.add(116, 1);
    failed.write.unsplit = 1;
    failed.write.stable = 2;
    failed.write.untimed = 1;
    failed.write.folded = 1;
    failed.write.latency_ns_sum += 600_000;
    failed.write.latency_ns_max = 600_000;
    failed.write.requests += 2;
    failed.read.sequential = 0;
    for (name, requests) in [("COMMIT", 2), ("GETATTR", 5)] {
        failed.ops.add(&FileOp {
            op: OpName::new(name),
            requests,
            errors: 1,
            queue_ns_sum: 40_000,
            rtt_ns_sum: 2_900_000,
            execute_ns_sum: 3_000_000,
            execute_ns_max: 2_000_000,
            ..FileOp::default()
        });
    }
    vec![
        window(0, vec![(&quoted, row(20, 0)), (&nameless, row(1, 1))]),
        window(1, vec![(&quoted, row(3, 0)), (&other, row(0, 5))]),
        window(2, vec![(&quoted, row(0, 1)), (&nameless, failed)]),
    ]
}

fn check(name: &str, question: &Question, format: Format) {
    let mut question = question.clone();
    question.projection = format.projection();
    check_written(name, &found(&question), format, question.zone);
}

fn check_written<R: Render>(name: &str, answer: &Answer<R>, format: Format, zone: Zone) {
    let mut out = Vec::new();
    trackiops_render::write(answer, format, zone, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &out).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(out == golden, "{name} is to be\n{golden}\nand is\n{out}");
}

#[test]
fn answers_look_as_they_always_did() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), options_of("web-1", "1s,10s", "1m"), &small());
    let mut asked = question(dir.path());
    asked.zone = Zone::Fixed(FixedOffset::east_opt(2 * 3600).unwrap());
    check("files.json", &asked, Format::Json);
    check("files.csv", &asked, Format::Csv(Texts::AsTheyAre));
    check("files.txt", &asked, Format::Table(Figures::Rates));
    check("parts.txt", &asked, Format::Table(Figures::Parts));
    let mut all = asked.clone();
    all.step = Some("all".parse().unwrap());
    check("all.txt", &all, Format::Table(Figures::Rates));
    all.by = GroupBy::FILE_TENANT;
    check("tenants.txt", &all, Format::Table(Figures::Rates));
    asked.files = vec![select("0:49:2")];
    check("one.txt", &asked, Format::Table(Figures::Rates));
    asked.by = GroupBy::FILE_TENANT;
    check("one_tenants.txt", &asked, Format::Table(Figures::Rates));
    assert_eq!(asked.projection, Projection::all());
}

#[test]
fn operations_look_as_they_always_did() {
    let dir = tempfile::tempdir().unwrap();
    let operation = |mount: Option<&str>, op: &str, transport: &str, requests: u64| {
        let mut sums = OperationSums {
            requests,
            errors: requests / 4,
            sent_bytes: 200 * requests,
            received_bytes: 5000 * requests,
            ..OperationSums::default()
        };
        for i in 1..=requests {
            sums.queue_ns_sum += 20_000;
            sums.rtt_ns_sum += 300_000 * i;
            sums.execute_ns_sum += 400_000 * i;
            sums.execute_ns_max = 400_000 * i;
            sums.execute.record(400_000 * i);
        }
        let operation = Operation {
            mount: mount.map(str::to_owned),
            op: op.to_owned(),
            transport: Some(transport.to_owned()),
        };
        OperationRow { operation, sums }
    };
    let mut windows = small();
    for window in &mut windows {
        window.health.ops_covered_ms = window.health.covered_ms;
    }
    windows[0].ops = vec![
        operation(Some("srv:/even"), "GETATTR", "tcp-0", 3),
        operation(Some("srv:/even"), "GETATTR", "tcp-1", 9),
        operation(Some("srv:/even"), "COMMIT", "tcp-1", 1),
    ];
    windows[2].ops = vec![operation(None, "SEQUENCE", "tcp-0", 2)];
    record(dir.path(), options_of("web-1", "1s,10s", "1m"), &windows);
    let asked = question(dir.path());
    let mut all = asked.clone();
    all.step = Some("all".parse().unwrap());
    let table = Format::Table(Figures::Rates);
    let mut of_file = all.clone();
    of_file.files = vec![select("0:50:3")];
    for (name, question, connections, format) in [
        ("op.txt", &asked, Connections::Together, table),
        ("op_all.txt", &all, Connections::Together, table),
        ("op_file.txt", &of_file, Connections::Together, table),
        ("transport.txt", &all, Connections::Apart, table),
        ("op.json", &all, Connections::Together, Format::Json),
        (
            "op.csv",
            &all,
            Connections::Together,
            Format::Csv(Texts::AsTheyAre),
        ),
    ] {
        let Outcome::Found(answer) = ask_operations(question, connections).unwrap() else {
            panic!("{name}: nothing found");
        };
        check_written(name, &answer, format, question.zone);
    }
}

#[test]
fn csv_and_json_have_the_same_columns_in_the_same_order() {
    let dir = tempfile::tempdir().unwrap();
    record(
        dir.path(),
        options_of("web-1", "1s,10s", "1m"),
        &windows(9, THREE, 1000, 30, 5),
    );
    let written = |format| {
        let mut out = Vec::new();
        trackiops_render::write(&found(&question(dir.path())), format, Zone::utc(), &mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    };
    let (csv, json) = (
        written(Format::Csv(Texts::AsTheyAre)),
        written(Format::Json),
    );
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().unwrap().clone();
    for (record, line) in reader.records().zip(json.lines()) {
        let object: serde_json::Map<_, _> = serde_json::from_str(line).unwrap();
        let mut at = 0;
        for (name, cell) in header.iter().zip(&record.unwrap()) {
            at += line[at..].find(&format!("\"{name}\":")).unwrap();
            match &object[name] {
                serde_json::Value::Null => assert_eq!(cell, ""),
                serde_json::Value::String(text) => assert_eq!(cell, text),
                serde_json::Value::Number(number) => {
                    assert_eq!(cell.parse::<f64>().unwrap(), number.as_f64().unwrap());
                }
                serde_json::Value::Bool(flag) => assert_eq!(cell, flag.to_string()),
                other => panic!("{name}: {other}"),
            }
        }
        // CSV has no lists.
        let values = object.values().filter(|value| !value.is_array());
        assert_eq!(values.count(), header.len());
    }
}

//! Runs the recipes of docs/guide/notebooks.md, `contrib/trackiops.sql` and `contrib/python`, and compares them with the answers of
//! `trackiops query`. They need a Python with their imports (`make notebooks`, `make science`): TRACKIOPS_PYTHON is its path.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use trackiops_testkit::lake;
use trackiops_testkit::program;

use trackiops_schemas::ebpf::ring::{NO_OFFSET, flags};
use trackiops_schemas::identity::{FileAttributes, FileId, FileKey};
use trackiops_schemas::level::IoLevel;
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::row::{ClosedWindow, FileRow};
use trackiops_store::Writer;
use trackiops_testkit::generated::{THREE, file, windows};
use trackiops_testkit::merging;
use trackiops_testkit::stores::{append, options_of, record};
use trackiops_testkit::windows::used_by;

const PATHS: [&str; 8] = [
    "/mnt/nfs/db/orders.db",
    "/mnt/nfs/db/orders.idx",
    "/mnt/nfs/db/old/orders.db",
    "/mnt/nfs/dbx",
    "/mnt/nfs/logs/app.log",
    "/mnt/nfs/media/movie.mkv",
    "/mnt/nfs/www/index.html",
    "/mnt/nfs/www/it's.html",
];

/// Four minutes of files with a gap; two tenants share some files.
fn recorded() -> Vec<ClosedWindow> {
    let mut recorded = windows(21, THREE, 1000, 240, 2 * PATHS.len() as u64);
    for window in &mut recorded {
        for (i, row) in window.rows.iter_mut().enumerate() {
            let place = i % PATHS.len();
            let file = file(place as u64 + 1, Some(PATHS[place]));
            row.file = match i < PATHS.len() {
                true => file,
                false => used_by(&file, "1000:/batch.slice"),
            };
        }
        window
            .rows
            .sort_by_key(|row: &FileRow| (row.file.key, row.file.tenant.to_string()));
    }
    recorded.drain(70..83);
    recorded[100].health.covered_ms = 300;
    recorded
}

/// A rotation falls into the middle of a minute.
fn store(dir: &Path) {
    let options = options_of("h", "1s,10s,1m", "90s");
    record(&dir.join("store"), options, &recorded());
}

/// Like [`store`], in many journals, with a recorder that still runs and has begun to merge them. Its last windows, whose journal is not
/// sealed, are empty.
fn merging(dir: &Path) -> Writer {
    let mut windows = recorded();
    windows.push(merging::idle(0));
    append(
        &dir.join("store"),
        options_of("h", "1s,10s,1m", "5s"),
        &windows,
    )
}

fn run(dir: &Path, engines: &[&str]) {
    let notebooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/notebooks.md");
    python(dir, "run.py", &[notebooks.to_str().unwrap()], engines);
}

/// Runs a script of `tests/science` in a directory.
fn python(dir: &Path, script: &str, args: &[&str], engines: &[&str]) {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/science");
    let args = [&[env!("CARGO_BIN_EXE_trackiops")], args, engines].concat();
    program::python(&scripts.join(script), args, dir);
}

/// Recorded numbers beyond 63 and 32 bits, and times that are not whole milliseconds; and their values in columns.
fn extremes(dir: &Path) {
    let files = [(i64::MIN, u64::MAX), (-5, 1 << 63), (i64::MAX, 34_866_518)];
    let files = files.map(|(key, fileid)| {
        let plain = used_by(&file(1, Some("/mnt/a")), "4294967294:/a.service");
        Arc::new(FileAttributes {
            key: FileKey(key),
            id: FileId { fileid, ..plain.id },
            ..(*plain).clone()
        })
    });
    let mut window = windows(3, THREE, 1000, 1, 1).remove(0);
    let row = window.rows.remove(0).row;
    let rows = files.iter().map(|file| FileRow {
        file: Arc::clone(file),
        row: row.clone(),
    });
    window.rows = rows.collect();
    let start_ns = THREE * 1_000_000;
    let requests: Vec<_> = (0..files.len())
        .map(|place| Request {
            end_ns: start_ns + 123_456_789 + place as i64,
            file: place as u32,
            flags: 0,
            offset: 0,
            asked_bytes: 4096,
            done_bytes: 4096,
            latency_ns: 1_234_567,
            queue_ns: 1,
            rtt_ns: 2,
            xid: u32::MAX,
            retransmissions: 0,
            error: -5,
            pid: 4_194_304,
            process: ProcessName::new(b"fio"),
        })
        .collect();
    let rollup = files.iter().map(|file| {
        serde_json::json!({
            "time": THREE * 1000,
            "file_key": file.key.0,
            "fileid": file.id.fileid.cast_signed(),
            "uid": 4_294_967_294_u32,
            "cgroup": "/a.service",
            "read_requests": row.read.requests,
        })
    });
    let single = requests.iter().zip(&files).map(|(request, file)| {
        serde_json::json!({
            "end_time": request.end_ns / 1000,
            "end_time_ns": request.end_ns,
            "file_key": file.key.0,
            "fileid": file.id.fileid.cast_signed(),
            "uid": 4_294_967_294_u32,
            "pid": 4_194_304,
            "xid": u32::MAX,
            "latency_ns": 1_234_567,
            "errno": 5,
        })
    });
    let expected = serde_json::json!({
        "rollup": rollup.collect::<Vec<_>>(),
        "requests": single.collect::<Vec<_>>(),
    });
    fs::write(dir.join("expected.json"), expected.to_string()).unwrap();
    let mut writer = Writer::open(dir.join("store"), options_of("h", "1s,10s", "1m")).unwrap();
    let mut kept = writer.requests(64 << 20, |_| {}).unwrap();
    writer.append(&window).unwrap();
    let files = files.into();
    kept.append(&RequestBatch { files, requests }).unwrap();
    kept.finish().unwrap();
    writer.finish().unwrap();
}

fn compare_extremes(engines: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    extremes(dir.path());
    python(dir.path(), "values.py", &[], engines);
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB, Polars and pandas"]
fn recipes_of_duckdb_polars_and_pandas_answer_as_the_query_does() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    run(dir.path(), &["DuckDB", "Polars", "pandas"]);
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB, Polars and pandas"]
fn recipes_of_a_store_that_was_just_merged_answer_as_the_query_does() {
    let dir = tempfile::tempdir().unwrap();
    let writer = merging(dir.path());
    assert!(merging::all_merged(&dir.path().join("store")) > 0);
    run(dir.path(), &["DuckDB", "Polars", "pandas"]);
    drop(writer);
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB, Polars and pandas"]
fn recipes_of_a_store_that_is_being_merged_answer_as_the_query_does() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = merging(dir.path());
    merging::while_merging(&dir.path().join("store"), &mut writer, || {
        run(dir.path(), &["--live", "DuckDB", "Polars", "pandas"]);
    });
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB, Polars and pandas"]
fn trackiops_sql_and_the_module_for_python_answer_as_the_query_does() {
    let dir = tempfile::tempdir().unwrap();
    lake::record(&dir.path().join("lake"));
    python(dir.path(), "short_way.py", &[], &[]);
}

#[test]
#[ignore = "make science: needs a Python with PySpark, and Java"]
fn spark_recipes_answer_as_the_query_does() {
    let dir = tempfile::tempdir().unwrap();
    let writer = merging(dir.path());
    run(dir.path(), &["PySpark"]);
    drop(writer);
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB, Polars and pandas"]
fn duckdb_polars_and_pandas_read_the_values_that_were_recorded() {
    compare_extremes(&["DuckDB", "Polars", "pandas"]);
}

#[test]
#[ignore = "make science: needs a Python with PySpark, and Java"]
fn spark_and_clickhouse_read_the_values_that_were_recorded() {
    compare_extremes(&["PySpark", "ClickHouse"]);
}

/// A thread that reads and writes within functions, and the requests of its calls.
fn calls(dir: &Path) {
    let of = |path: &str, level| FileAttributes {
        level,
        ..(*used_by(&file(1, Some(path)), "1000:/a.service")).clone()
    };
    let files = [
        of("/mnt/a", IoLevel::Wire),
        of("/usr/bin/job:step", IoLevel::Wire),
    ];
    let plain = Request {
        end_ns: 0,
        file: 0,
        flags: 0,
        offset: 0,
        asked_bytes: 4096,
        done_bytes: 4096,
        latency_ns: 100,
        queue_ns: 10,
        rtt_ns: 50,
        xid: 7,
        retransmissions: 0,
        error: 0,
        pid: 1234,
        process: ProcessName::new(b"fio"),
    };
    let steps = (0..200).flat_map(|step| {
        let at_ns = THREE * 1_000_000 + step * 10_000;
        let call = flags::CALL | flags::UNSPLIT;
        let of = |end_ns, flags| Request {
            end_ns: at_ns + end_ns,
            flags,
            offset: step as u64 * 4096,
            ..plain
        };
        let whole = Request {
            file: 1,
            latency_ns: 4000,
            ..of(4500, call | flags::SPAN)
        };
        let sync = Request {
            offset: NO_OFFSET,
            done_bytes: 0,
            ..of(3000, call | flags::SYNC)
        };
        let written = of(2000, call | flags::WRITE);
        [
            of(1500, flags::WRITE),
            of(1501, flags::WRITE),
            written,
            sync,
            whole,
        ]
    });
    let mut writer = Writer::open(dir.join("store"), options_of("h", "1s,10s", "1m")).unwrap();
    let mut kept = writer.requests(64 << 20, |_| {}).unwrap();
    writer
        .append(&windows(3, THREE, 1000, 1, 1).remove(0))
        .unwrap();
    let batch = RequestBatch {
        files: files.map(Arc::new).into(),
        requests: steps.collect(),
    };
    kept.append(&batch).unwrap();
    kept.finish().unwrap();
    writer.finish().unwrap();
}

#[test]
#[ignore = "make science: needs a Python with otf2"]
fn an_otf2_archive_has_every_request_and_call() {
    let dir = tempfile::tempdir().unwrap();
    calls(dir.path());
    python(dir.path(), "otf2_archive.py", &[], &[]);
}

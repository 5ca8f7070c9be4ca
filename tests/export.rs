//! Exports, and pseudonyms in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use trackiops_testkit::{forge, program};

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use serde_json::{Value, json};
use tempfile::TempDir;
use trackiops_render::formats::Reader;
use trackiops_render::pseudonym::known_schemas;
use trackiops_schemas::columns::META_STORES;
use trackiops_schemas::ebpf::ring::flags;
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey, path_text};
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::row::{ClosedWindow, FileRow};
use trackiops_store::{ParquetFile, Writer, store_ids};
use trackiops_testkit::generated::{Numbers, THREE, health, windows};
use trackiops_testkit::stores::options_of;
use trackiops_testkit::windows::{named, used_by};

use crate::report_data::parts;

const FORMATS: [&str; 3] = ["parquet", "csv", "arrow"];
const DATASETS: [&str; 4] = ["rollup", "ops", "health", "requests"];
/// Names of servers, mounts, paths, hosts, users, cgroups and filters of [`store`].
const NAMES: [&str; 16] = [
    "filer.example",
    "exports",
    "projects",
    "secret plan",
    "new\nline",
    "odd\\xff",
    "mnt",
    "build-host",
    "system.slice",
    "db.service",
    "quarterly.xlsx",
    "orders.db",
    "10.0.0.5",
    "--dir",
    "tape.example",
    "alice",
];

struct Store {
    dir: TempDir,
}

fn file(fileid: u64, mount: Option<&str>, path: Option<&str>) -> Arc<FileAttributes> {
    let id = FileId {
        dev: Dev(49),
        fileid,
        handle_hash: fileid as u32,
    };
    Arc::new(FileAttributes {
        key: FileKey::new(mount, id),
        id,
        mount: mount.map(Into::into),
        path: path.map(Into::into),
        path_inferred: false,
        tenant: Default::default(),
        level: Default::default(),
    })
}

/// Files with all kinds of names.
fn files() -> Vec<Arc<FileAttributes>> {
    let projects = Some("filer.example:/exports/projects");
    let odd = path_text(b"/mnt/projects/odd\xff");
    let mut files = vec![
        named(
            &used_by(
                &file(
                    1,
                    projects,
                    Some("/mnt/projects/secret plan/quarterly.xlsx"),
                ),
                "1000:/system.slice/db.service",
            ),
            "alice",
        ),
        used_by(
            &file(
                1,
                projects,
                Some("/mnt/projects/secret plan/quarterly.xlsx"),
            ),
            "0:?77",
        ),
        used_by(
            &file(
                2,
                projects,
                Some("/mnt/projects/secret plan/new\nline, \"quoted\""),
            ),
            "0",
        ),
        used_by(&file(3, projects, Some(&odd)), "?:/"),
        file(4, projects, None),
        file(5, None, Some("/mnt/projects/orders.db")),
        file(6, Some("[fe80::1]:/"), Some("/é/ü")),
        file(0, projects, Some("(other)")),
    ];
    files.sort_by_key(|file| file.key);
    files
}

impl Store {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = files();
        let mut recorded = windows(3, THREE, 1000, 90, 1);
        let mut numbers = Numbers(5);
        for (i, window) in recorded.iter_mut().enumerate() {
            let sample = windows(i as u64 + 10, THREE, 1000, 1, 40).remove(0);
            let rows = files
                .iter()
                .zip(sample.rows)
                .filter(|_| numbers.below(3) > 0);
            window.rows = rows
                .map(|(file, row)| FileRow {
                    file: Arc::clone(file),
                    row: row.row,
                })
                .collect();
            window.ops = vec![
                operation("READ", Some("filer.example:/exports/projects")),
                operation("EXCHANGE_ID", None),
            ];
            window.health = health(1000, &window.rows);
            window.health.ops_covered_ms = 1000;
            if i == 40 {
                window.health.pending = Some(Pending {
                    requests_max: 3,
                    age_ms_max: 2500,
                    clients: vec![PendingClient {
                        client: 1,
                        server: Some("10.0.0.5".into()),
                        mounts: vec![
                            "filer.example:/exports/projects".into(),
                            "tape.example:/".into(),
                        ],
                        requests_max: 3,
                        age_ms_max: 2500,
                    }],
                });
            }
        }
        let store = dir.path().join("store");
        let options = trackiops_store::Options {
            filter: Some("--dir /mnt/projects".into()),
            ..options_of("build-host.example", "1s,10s,1m", "30s")
        };
        let mut writer = Writer::open(&store, options).unwrap();
        let mut requests = writer.requests(1 << 30, |_| {}).unwrap();
        for window in &recorded {
            requests.append(&requests_of(window)).unwrap();
            writer.append(window).unwrap();
        }
        // Unsealed data is exported as well.
        drop(requests);
        writer.finish().unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")))
            .args(args)
            .current_dir(self.dir.path())
            .env("TZ", "UTC0")
            .output()
            .unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Asserts that an export is refused and writes no file.
    fn refused(&self, args: &[&str], with: &[&str]) {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        for part in with {
            assert!(stderr.contains(part), "{args:?}: {stderr}");
        }
        assert!(output.stdout.is_empty());
        assert!(!self.path("refused").exists());
        let left = fs::read_dir(self.dir.path()).unwrap();
        let mut left = left.map(|entry| entry.unwrap().file_name());
        assert!(!left.any(|name| name.to_string_lossy().contains("partial")));
    }

    fn key(&self, name: &str) {
        self.ok(&["anonymize-key", name]);
    }

    fn export(&self, dataset: &str, output: &str, more: &[&str]) -> RecordBatch {
        let args = [
            "export",
            "--store",
            "store",
            "--dataset",
            dataset,
            "--output",
            output,
        ];
        self.ok(&[&args, more].concat());
        self.read(output)
    }

    fn read(&self, name: &str) -> RecordBatch {
        let reader = Reader::open(&self.path(name), &known_schemas()).unwrap();
        let schema = Arc::clone(reader.schema());
        let batches: Vec<_> = reader.map(Result::unwrap).collect();
        concat_batches(&schema, &batches).unwrap()
    }
}

fn operation(op: &str, mount: Option<&str>) -> trackiops_schemas::ops::OperationRow {
    use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
    let operation = Operation {
        op: op.into(),
        mount: mount.map(Into::into),
        transport: Some("tcp-3".into()),
    };
    let sums = OperationSums {
        requests: 2,
        ..OperationSums::default()
    };
    OperationRow { operation, sums }
}

/// As many requests as a window counts, spread over it.
fn requests_of(window: &ClosedWindow) -> RequestBatch {
    let mut batch = RequestBatch::default();
    let mut place = 0;
    for (file, row) in window.rows.iter().enumerate() {
        batch.files.push(Arc::clone(&row.file));
        for i in 0..row.row.read.requests {
            place += 1;
            batch.requests.push(Request {
                end_ns: window.start.0 * 1_000_000 + 1_000_000 * place + 1,
                file: file as u32,
                flags: if i % 2 == 0 { flags::UNSPLIT } else { 0 },
                offset: 4096 * i,
                asked_bytes: 4096,
                done_bytes: 4096,
                // Longer than a window.
                latency_ns: 1_300_000_000 + i,
                queue_ns: 100_000_000 * (i % 2),
                rtt_ns: 250_000_000 * (i % 2),
                xid: 7,
                retransmissions: 0,
                error: 0,
                pid: 12,
                process: ProcessName::new(b"fio"),
            });
        }
    }
    batch
}

fn texts<'b>(batch: &'b RecordBatch, column: &str) -> Vec<Option<&'b str>> {
    let column = batch.column_by_name(column).unwrap();
    column.as_string::<i32>().iter().collect()
}

fn numbers(batch: &RecordBatch, column: &str) -> Vec<i64> {
    let column = batch.column_by_name(column).unwrap();
    column.as_primitive::<Int64Type>().values().to_vec()
}

#[test]
fn an_export_answers_as_its_store_does() {
    let store = Store::new();
    store.export("rollup", "all.parquet", &["--granularity", "1s"]);
    let sums = "--columns path,host,requests,bytes,iops,p50,p99,read_errors,write_max";
    for question in [
        "--csv --step 1s",
        "--csv --step 10s --by tenant --columns time,path,tenant,requests,read_p99",
        &format!("--csv --step all {sums}"),
        &format!("--step all {sums}"),
        &format!("--csv --step all {sums} --top 3 --sort p99"),
        &format!("--csv --step all {sums} --where requests>100"),
        &format!("--csv --step all {sums} --file /mnt/projects/**"),
        &format!("--csv --step all {sums} --file 0:49:4"),
        "--csv --step all --dir /mnt/projects --op read --columns path,read_bytes",
        &format!("--csv --step all {sums} --mount filer.example:/exports/projects"),
        "--csv --by dir --columns path,requests,bytes",
        "--csv --by file,op --columns path,op,requests,errors",
        "--csv --step 1s --since 2026-11-21T03:00:20Z --until 2026-11-21T03:00:31Z",
    ] {
        let ask = |named: &str| {
            let args = format!("query --store {named} {question}");
            store.ok(&args.split(' ').collect::<Vec<_>>())
        };
        let of_store = ask("store");
        assert!(of_store.lines().count() > 1, "{question}");
        assert_eq!(ask("all.parquet"), of_store, "{question}");
    }
    // A forged range must not make a reader iterate over it.
    let mut forged = fs::read(store.path("all.parquet")).unwrap();
    let find = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).rposition(|at| at == text);
    let range = find(&forged, b"trackiops.range").unwrap();
    let end = range + find(&forged[range..range + 60], b"..").unwrap() + 2;
    forged[end..end + 13].fill(b'9');
    forge::seal(&mut forged);
    fs::write(store.path("forged.parquet"), forged).unwrap();
    let asked = store.run(&["query", "--store", "forged.parquet"]);
    assert_eq!(asked.status.code(), Some(2));
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(said.contains("more windows than can be read"), "{said}");
    for args in ["files --csv", "flamegraph --folded"] {
        let ask = |named: &str| {
            let args = format!("{args} --store {named}");
            store.ok(&args.split(' ').collect::<Vec<_>>())
        };
        assert_eq!(ask("all.parquet"), ask("store"), "{args}");
    }
    let said = store.run(&["query", "--store", "all.parquet"]).stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("all.parquet is an export"), "{said}");

    store.export("ops", "ops.parquet", &[]);
    store.export("rollup", "all.csv", &[]);
    let query = |file| ["query", "--store", file];
    store.refused(&query("ops.parquet"), &["ops.parquet", "--dataset rollup"]);
    store.refused(&query("all.csv"), &["all.csv", "export in Parquet"]);
    store.key("key");
    store.export(
        "rollup",
        "veiled.parquet",
        &["--anonymize", "key", "--granularity", "1s"],
    );
    let back = [
        "deanonymize",
        "--key",
        "key",
        "veiled.parquet",
        "--output",
        "back.parquet",
    ];
    store.ok(&back);
    assert_eq!(
        store.ok(&query("back.parquet")),
        store.ok(&query("all.parquet"))
    );
}

#[test]
fn an_export_names_its_store_unless_it_is_anonymous() {
    let store = Store::new();
    store.key("key");
    let stores = |name: &str| {
        let file = ParquetFile::open(&store.path(name)).unwrap();
        let mut pairs = file.key_values().unwrap().iter();
        let stores = pairs.find(|pair| pair.key == META_STORES);
        stores.and_then(|stores| stores.value.clone())
    };
    let id = store_ids(&store.path("store")).unwrap().id.to_string();
    for dataset in DATASETS {
        let [plain, hidden] = ["plain", "hidden"].map(|name| format!("{name}-{dataset}.parquet"));
        store.export(dataset, &plain, &[]);
        assert_eq!(stores(&plain).as_ref(), Some(&id), "{dataset}");
        store.export(dataset, &hidden, &["--anonymize", "key"]);
        assert_eq!(stores(&hidden), None, "{dataset}");
    }
    // An export of an export is of the same store.
    let (plain, again) = ("plain-rollup.parquet", "again.parquet");
    store.ok(&["export", "--store", plain, "--output", again]);
    assert_eq!(stores(again), Some(id));
}

#[test]
fn an_export_is_the_query_with_all_columns_in_the_order_of_windows_and_files() {
    let store = Store::new();
    let name = "2026-11-21T03:00:00.000Z";
    for (format, args) in FORMATS
        .iter()
        .flat_map(|format| [(format, ["--granularity", "1s"].as_slice()), (format, &[])])
    {
        let output = format!("all.{format}");
        let batch = store.export("rollup", &output, args);
        if *format == "csv" {
            // Names contain line breaks, so lines are not rows. An export also has files with only metadata.
            let requests = ["read_requests", "write_requests"];
            let schema = batch.schema();
            let places = requests.map(|column| schema.index_of(column).unwrap());
            let sorted = |text: &str| {
                let mut records = csv_records(text);
                records.retain(|record| places.iter().any(|place| record[*place] != "0"));
                records.sort();
                records
            };
            let exported = fs::read_to_string(store.path(&output)).unwrap();
            let header = exported.lines().next().unwrap();
            assert!(header.contains("read_latency_hist"), "an export has lists");
            let query = "query --store store --step 1s --by file,tenant --csv --columns";
            let query: Vec<_> = query.split(' ').chain([header]).collect();
            let query = store.ok(&query);
            assert_eq!(sorted(&exported), sorted(&query));
            assert!(query.contains(name));
        }
        let times = batch.column_by_name("time").unwrap();
        let times = times.as_primitive::<TimestampMicrosecondType>();
        let order: Vec<_> = times
            .values()
            .iter()
            .copied()
            .zip(numbers(&batch, "file_key"))
            .collect();
        assert!(order.is_sorted());
        assert!(order.len() > 300, "{}", order.len());
        assert_eq!(batch, store.read("all.parquet"));
    }
}

fn csv_records(text: &str) -> Vec<Vec<String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let records = reader
        .records()
        .map(|record| record.unwrap().iter().map(str::to_owned).collect());
    records.collect()
}

#[test]
fn percentiles_of_exported_histograms_are_those_of_the_query() {
    let store = Store::new();
    let batch = store.export("rollup", "all.parquet", &[]);
    let keys = numbers(&batch, "file_key");
    let lists = batch
        .column_by_name("read_latency_hist")
        .unwrap()
        .as_list::<i32>()
        .clone();
    let mut histograms: BTreeMap<i64, Histogram> = BTreeMap::new();
    for (row, key) in keys.into_iter().enumerate() {
        let elements = lists.value(row);
        let buckets = elements
            .as_struct()
            .column(0)
            .as_primitive::<Int32Type>()
            .clone();
        let counts = elements
            .as_struct()
            .column(1)
            .as_primitive::<Int64Type>()
            .clone();
        let pairs = buckets.values().iter().zip(counts.values());
        let sum = histograms.entry(key).or_default();
        pairs.for_each(|(bucket, count)| sum.add(*bucket, *count as u64));
    }
    let query =
        "query --store store --step all --format csv --columns file_key,read_p50,read_p99,read_max";
    let query = store.ok(&query.split(' ').collect::<Vec<_>>());
    let records = csv_records(&query);
    assert_eq!(records.len(), histograms.len());
    let shown =
        |us: Option<f64>| us.map_or(String::new(), |us| ((us * 1e3).round() / 1e3).to_string());
    for record in records {
        let histogram = &histograms[&record[0].parse().unwrap()];
        let max_ns = 1000 * record[3].parse::<u64>().unwrap();
        let own = [0.5, 0.99].map(|q| shown(histogram.quantile_us_up_to(q, max_ns)));
        assert_eq!(record[1..3], own);
    }
}

#[test]
fn files_mounts_and_ranges_choose_rows() {
    let store = Store::new();
    let dir = store.export(
        "rollup",
        "a.parquet",
        &["--dir", "/mnt/projects/secret plan"],
    );
    let paths: BTreeSet<_> = texts(&dir, "path").into_iter().collect();
    assert_eq!(paths.len(), 2);
    assert!(
        paths
            .iter()
            .all(|path| path.unwrap().contains("secret plan"))
    );
    let part = [
        "--since",
        "2026-11-21T03:00:10Z",
        "--until",
        "2026-11-21T03:00:20Z",
    ];
    let part = store.export(
        "rollup",
        "a.parquet",
        &[&part[..], &["--granularity", "10s"]].concat(),
    );
    assert_eq!(texts(&part, "host").len(), part.num_rows());
    let times = part.column_by_name("time").unwrap();
    let times = times.as_primitive::<TimestampMicrosecondType>();
    assert!(
        times
            .values()
            .iter()
            .all(|time| *time == (THREE + 10_000) * 1000)
    );
    let mounts = store.export("rollup", "a.parquet", &["--mount", "[fe80::1]:/"]);
    assert_eq!(
        texts(&mounts, "path").into_iter().collect::<BTreeSet<_>>(),
        [Some("/é/ü")].into()
    );
}

/// Start, end (ns) and name of a slice of a timeline.
type Slice<'a> = (i64, i64, &'a str);

/// The slices of each track; a track is a process and a thread of the timeline.
fn tracks(events: &[Value]) -> BTreeMap<(u64, u64), Vec<Slice<'_>>> {
    let mut tracks: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let ns = |key: &str| (event[key].as_f64().unwrap() * 1000.0).round() as i64;
        let track = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap(),
        );
        let (from, length) = (ns("ts"), ns("dur"));
        let slice = (from, from + length, event["name"].as_str().unwrap());
        tracks.entry(track).or_default().push(slice);
    }
    tracks
}

/// The fields of a protocol buffers message: numbers, and values that are numbers or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Result<u64, &[u8]>)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Ok(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes);
                Err(bytes.split_off(..length as usize).unwrap())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes.split_off_first().unwrap();
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    number
}

/// The slices of a Perfetto trace, by the numbers in its `.proto` files, and its events without a length. Each track ends its last open
/// slice first.
fn slices_of_packets(trace: &[u8]) -> [Vec<(i64, i64, String)>; 2] {
    let mut open: BTreeMap<u64, Vec<(i64, String)>> = BTreeMap::new();
    let (mut slices, mut instants, mut described) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (_, packet) in fields(trace) {
        let packet: BTreeMap<_, _> = fields(packet.unwrap_err()).into_iter().collect();
        if let Some(track) = packet.get(&60) {
            let track: BTreeMap<_, _> = fields(track.unwrap_err()).into_iter().collect();
            let parent = track.get(&5);
            assert!(parent.is_none_or(|parent| described.contains(&parent.unwrap())));
            assert!(described.insert(track[&1].unwrap()) && track.contains_key(&2));
        }
        let Some(event) = packet.get(&11) else {
            continue;
        };
        let event: BTreeMap<_, _> = fields(event.unwrap_err()).into_iter().collect();
        let (at, track) = (packet[&8].unwrap() as i64, event[&11].unwrap());
        assert!(described.contains(&track));
        let open = open.entry(track).or_default();
        let name = || String::from_utf8(event[&23].unwrap_err().to_vec()).unwrap();
        match event[&9].unwrap() {
            1 => open.push((at, name())),
            2 => {
                let (from, name) = open.pop().unwrap();
                slices.push((from, at, name));
            }
            3 => instants.push((at, at, name())),
            other => panic!("type {other}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "{open:?}");
    [slices, instants]
}

#[test]
fn a_timeline_has_each_request_with_its_parts_and_no_slices_that_cross() {
    let store = Store::new();
    let all = store.export("requests", "r.parquet", &[]);
    let words = "mark --store store --host web-9 --at 2026-11-21T03:00:10Z begin";
    store.ok(&words.split(' ').collect::<Vec<_>>());
    let marked_ns = (THREE + 10_000) * 1_000_000;
    let words = "export --store store --requests --output t.json";
    store.ok(&words.split(' ').collect::<Vec<_>>());
    let text = fs::read_to_string(store.path("t.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let begin = file["otherData"]["times_count_from"].as_str().unwrap();
    assert_eq!(begin, "2026-11-20T00:00:00.000Z");
    let midnight_ns = (THREE - 27 * 3_600_000) * 1_000_000;
    let events = file["traceEvents"].as_array().unwrap();
    let tracks = tracks(events);
    let marks = events.iter().filter(|event| event["cat"] == "mark");
    let marks: Vec<_> = marks
        .map(|event| (&event["ph"], &event["name"], &event["ts"]))
        .collect();
    let ts = json!((marked_ns - midnight_ns) as f64 / 1000.0);
    assert_eq!(marks, [(&json!("i"), &json!("begin"), &ts)]);
    let (mut ends, mut parts) = (Vec::new(), 0);
    for slices in tracks.values() {
        let mut open: Vec<Slice> = Vec::new();
        let mut slices = slices.clone();
        slices.sort_by_key(|(from, to, _)| (*from, -to));
        for slice in slices {
            open.retain(|(_, to, _)| *to > slice.0);
            assert!(
                open.iter().all(|(_, to, _)| *to >= slice.1),
                "{open:?} {slice:?}"
            );
            match slice.2.starts_with("READ 4.00 KiB") {
                true => ends.push(slice.1 + midnight_ns),
                false => parts += 1,
            }
            open.push(slice);
        }
    }
    ends.sort_unstable();
    assert_eq!(ends, numbers(&all, "end_time_ns"));
    let split = all.column_by_name("queue_ns").unwrap();
    assert_eq!(parts, 3 * (split.len() - split.null_count()));
    let mut of_json: Vec<_> = tracks.values().flatten().collect();
    of_json.sort_unstable();
    let words = "export --store store --requests --output t.pftrace";
    store.ok(&words.split(' ').collect::<Vec<_>>());
    let packets = fs::read(store.path("t.pftrace")).unwrap();
    let [packets, instants] = slices_of_packets(&packets);
    assert_eq!(instants, [(marked_ns, marked_ns, "begin".to_owned())]);
    let packets = packets.iter();
    let packets = packets.map(|(from, to, name)| (from - midnight_ns, to - midnight_ns, &**name));
    let mut of_packets: Vec<Slice> = packets.collect();
    of_packets.sort_unstable();
    assert_eq!(of_packets.iter().collect::<Vec<_>>(), of_json);
    let refused = |words: &str, why: &str| {
        let args = format!("export --store store --output refused{words}");
        store.refused(&args.split(' ').collect::<Vec<_>>(), &[why]);
    };
    refused(".json", "--requests");
    refused(".json", "end the name in .jsonl");
    refused(".pftrace", "--format perfetto draws single requests");
    refused(".csv --requests --format chrome", "contradicts");
    store.key("key");
    refused(".json --requests --anonymize key", ".parquet");
}

#[test]
fn every_request_that_was_kept_is_exported_once_and_in_order() {
    let store = Store::new();
    let rollup = store.export("rollup", "a.parquet", &[]);
    let requests = rollup
        .column_by_name("read_requests")
        .unwrap()
        .as_primitive::<Int64Type>();
    let all = store.export("requests", "r.parquet", &[]);
    assert_eq!(all.num_rows() as i64, requests.values().iter().sum::<i64>());
    assert!(numbers(&all, "end_time_ns").is_sorted());
    let some = store.export(
        "requests",
        "r.parquet",
        &[
            "--file",
            "/mnt/projects/orders.db",
            "--since",
            "2026-11-21T03:00:45Z",
        ],
    );
    assert!(some.num_rows() > 10);
    assert!(
        texts(&some, "path")
            .into_iter()
            .all(|path| path == Some("/mnt/projects/orders.db"))
    );
    let first = numbers(&some, "end_time_ns")[0];
    assert!(first >= (THREE + 45_000) * 1_000_000);
    let same = "export --store store --store store --requests --output same.parquet";
    store.ok(&same.split(' ').collect::<Vec<_>>());
    assert_eq!(store.read("same.parquet"), all);
}

#[test]
fn what_is_anonymized_tells_no_name_and_comes_back_as_it_was() {
    let store = Store::new();
    store.key("key");
    for (dataset, format) in DATASETS
        .iter()
        .flat_map(|dataset| FORMATS.map(|format| (dataset, format)))
    {
        let [plain, hidden, back] =
            ["plain", "hidden", "back"].map(|name| format!("{name}.{format}"));
        let expected = store.export(dataset, &plain, &[]);
        let there = store.export(dataset, &hidden, &["--anonymize", "key"]);
        assert_eq!(there.num_rows(), expected.num_rows());
        let mut csv = Vec::new();
        trackiops_render::formats::Writer::new(
            trackiops_render::formats::Kind::Csv(Default::default()),
            &there.schema(),
            &mut csv,
        )
        .and_then(|mut sheet| {
            sheet.write(&there)?;
            sheet.finish().map(drop)
        })
        .unwrap();
        let text = String::from_utf8(csv).unwrap();
        for name in NAMES {
            assert!(!text.contains(name), "{dataset}.{format} tells {name}");
        }
        if format == "csv" {
            assert_eq!(text, fs::read_to_string(store.path(&hidden)).unwrap());
        }
        store.ok(&["deanonymize", "--key", "key", &hidden, "--output", &back]);
        assert_eq!(store.read(&back), expected, "{dataset}.{format}");
        let bytes = |name: &str| fs::read(store.path(name)).unwrap();
        assert!(
            format == "parquet" || bytes(&plain) == bytes(&back),
            "{dataset}.{format}"
        );
    }
}

#[test]
fn a_report_tells_no_name_either() {
    let store = Store::new();
    store.key("key");
    let report = |flags: &[&str]| {
        let words = [
            "report",
            "incident",
            "--store",
            "store",
            "-o",
            "report.html",
        ];
        store.ok(&[&words, flags].concat());
        let page = fs::read_to_string(store.path("report.html")).unwrap();
        parts(&page)
    };
    let (page, data) = report(&["--anonymize", "key"]);
    for name in NAMES {
        // The program contains words such as `--dir`; only the page's data must not contain names.
        assert!(!data.contains(name), "the data tell {name}");
        assert!(
            !page.contains(name) || name.starts_with('-'),
            "the page tells {name}"
        );
    }
    // Otherwise this could not fail. JSON writes a line end as `\n`.
    let (_, data) = report(&[]);
    for name in NAMES {
        let name = name.replace('\n', "\\n").replace("\\xff", "\\\\xff");
        assert!(data.contains(&name), "{name}");
    }
}

#[test]
fn a_token_of_a_report_is_that_of_an_export() {
    let store = Store::new();
    store.key("key");
    let words = [
        "report",
        "incident",
        "--store",
        "store",
        "-o",
        "report.html",
        "--anonymize",
        "key",
    ];
    store.ok(&words);
    let page = fs::read_to_string(store.path("report.html")).unwrap();
    let data: serde_json::Value = serde_json::from_str(&parts(&page).1).unwrap();
    let exported = store.export("rollup", "hidden.parquet", &["--anonymize", "key"]);
    for (list, column) in [("hosts", "host"), ("mounts", "mount")] {
        let told = data["names"][list].as_array().unwrap().iter();
        let told: BTreeSet<_> = told.map(|name| name.as_str().unwrap()).collect();
        assert_eq!(
            told,
            texts(&exported, column).into_iter().flatten().collect(),
            "{list}"
        );
    }
}

#[test]
fn every_name_of_a_plain_export_would_be_found() {
    // Otherwise the test before could not fail.
    let store = Store::new();
    let text: String = DATASETS
        .iter()
        .map(|dataset| {
            store.export(dataset, "all.csv", &[]);
            fs::read_to_string(store.path("all.csv")).unwrap()
        })
        .collect();
    for name in NAMES {
        assert!(text.contains(name), "{name}");
    }
}

#[test]
fn trees_and_joins_stay() {
    let store = Store::new();
    store.key("key");
    let plain = store.export("rollup", "plain.parquet", &[]);
    let hidden = store.export("rollup", "hidden.parquet", &["--anonymize", "key"]);
    let requests = store.export("requests", "requests.parquet", &["--anonymize", "key"]);
    // A file is the same in both exports, but its number differs from the original.
    let keys = |batch: &RecordBatch| {
        numbers(batch, "file_key")
            .into_iter()
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(keys(&hidden), keys(&requests));
    assert!(keys(&hidden).is_disjoint(&keys(&plain)));
    let ids = |batch: &RecordBatch| {
        numbers(batch, "fileid")
            .into_iter()
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(ids(&hidden).len(), ids(&plain).len());
    assert!(ids(&hidden).is_disjoint(&ids(&plain)));
    // Paths keep their depth, and what a directory and a mount share.
    let depth = |batch: &RecordBatch| -> Vec<_> {
        texts(batch, "path")
            .into_iter()
            .map(|path| path.map(|path| path.split('/').count()))
            .collect()
    };
    assert_eq!(depth(&plain), depth(&hidden));
    let of = |batch: &RecordBatch| -> (String, String) {
        let place = texts(&plain, "path")
            .iter()
            .position(|path| path.is_some_and(|path| path.ends_with("xlsx")))
            .unwrap();
        let second = |column: &str| {
            texts(batch, column)[place]
                .unwrap()
                .split('/')
                .nth(2)
                .unwrap()
                .to_owned()
        };
        (second("path"), second("mount"))
    };
    assert_eq!(of(&plain), ("projects".to_owned(), "projects".to_owned()));
    let (path, mount) = of(&hidden);
    assert_eq!(path, mount);
    assert!(texts(&hidden, "path").contains(&Some("(other)")));
    // The same in another export.
    let again = store.export("rollup", "again.parquet", &["--anonymize", "key"]);
    assert_eq!(again, hidden);
}

#[test]
fn without_the_right_key_there_is_no_way_back() {
    let store = Store::new();
    store.key("key");
    store.key("other");
    let mode = fs::metadata(store.path("key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    assert_ne!(
        fs::read(store.path("key")).unwrap(),
        fs::read(store.path("other")).unwrap()
    );
    store.refused(&["anonymize-key", "key"], &["key is there already"]);
    for format in FORMATS {
        let hidden = format!("hidden.{format}");
        store.export("rollup", &hidden, &["--anonymize", "key"]);
        let with = [
            "was not made by this key",
            "another key",
            "nothing is written",
        ];
        store.refused(
            &[
                "deanonymize",
                "--key",
                "other",
                &hidden,
                "--output",
                "refused",
            ],
            &with,
        );
        let plain = format!("plain.{format}");
        store.export("rollup", &plain, &[]);
        store.refused(
            &["deanonymize", "--key", "key", &plain, "--output", "refused"],
            &["or is not anonymized"],
        );
        let whole = fs::read(store.path(&hidden)).unwrap();
        fs::write(store.path("half"), &whole[..whole.len() / 2]).unwrap();
        store.refused(
            &["deanonymize", "--key", "key", "half", "--output", "refused"],
            &["half"],
        );
    }
    let export = [
        "export",
        "--store",
        "store",
        "--output",
        "refused",
        "--anonymize",
    ];
    for mode in [0o640, 0o604, 0o602] {
        fs::set_permissions(store.path("key"), fs::Permissions::from_mode(mode)).unwrap();
        store.refused(
            &[&export[..], &["key"]].concat(),
            &["chmod 600 key", &format!("{mode:04o}")],
        );
    }
    fs::write(store.path("none"), "-----BEGIN PRIVATE KEY-----\n").unwrap();
    fs::set_permissions(store.path("none"), fs::Permissions::from_mode(0o600)).unwrap();
    store.refused(
        &[&export[..], &["none"]].concat(),
        &["none", "no key file of TrackIOps"],
    );
    store.refused(
        &[&export[..], &["missing"]].concat(),
        &["missing", "anonymize-key"],
    );
}

/// The bytes that an export writes to standard output; stdout must contain nothing else.
fn piped(store: &Store, dataset: &str, format: &str) -> Vec<u8> {
    let args = [
        "export",
        "--store",
        "store",
        "--dataset",
        dataset,
        "--format",
        format,
        "-o",
        "-",
    ];
    let output = store.run(&args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
    assert!(stderr.contains(" rows"), "{stderr}");
    output.stdout
}

#[test]
fn an_export_to_standard_output_has_the_rows_of_the_file() {
    let store = Store::new();
    for dataset in DATASETS {
        let file = store.export(dataset, "file.arrow", &[]);
        store.ok(&[
            "export",
            "--store",
            "store",
            "--dataset",
            dataset,
            "-o",
            "file.csv",
        ]);
        let csv = fs::read(store.path("file.csv")).unwrap();
        assert!(piped(&store, dataset, "csv") == csv, "{dataset}");
        let stream = piped(&store, dataset, "arrow");
        let batches = arrow_ipc::reader::StreamReader::try_new(&stream[..], None).unwrap();
        let batches: Vec<_> = batches.map(Result::unwrap).collect();
        let rows = concat_batches(&file.schema(), &batches).unwrap();
        assert_eq!(rows.columns(), file.columns(), "{dataset}");
        let json = String::from_utf8(piped(&store, dataset, "json")).unwrap();
        let objects: Vec<Value> = json
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(objects.len(), file.num_rows(), "{dataset}");
        let schema = file.schema();
        let names: BTreeSet<_> = schema.fields().iter().map(|field| field.name()).collect();
        let keys: BTreeSet<_> = objects[0].as_object().unwrap().keys().collect();
        assert_eq!(keys, names, "{dataset}");
        store.ok(&[
            "export",
            "--store",
            "store",
            "--dataset",
            dataset,
            "-o",
            "file.jsonl",
        ]);
        assert!(
            fs::read_to_string(store.path("file.jsonl")).unwrap() == json,
            "{dataset}"
        );
    }
    for (words, said) in [
        (
            vec!["--format", "parquet"],
            "parquet cannot go to standard output",
        ),
        (vec![], "write --format csv, json or arrow"),
        (
            vec!["--requests", "--format", "chrome"],
            "chrome cannot go to standard output",
        ),
    ] {
        let words = [&["export", "--store", "store", "-o", "-"], &words[..]].concat();
        store.refused(&words, &[said]);
    }
}

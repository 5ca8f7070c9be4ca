//! Sends random requests through windows, journals and segments, like a recorder, and also keeps them as single requests. `trackiops query`
//! must answer what DuckDB computes from the single requests. Needs a Python with DuckDB (`make notebooks`): TRACKIOPS_PYTHON is its path.
//! TRACKIOPS_TEST_LONG runs more requests.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use trackiops_testkit::program;

use trackiops_collector::Replay;
use trackiops_schemas::ebpf::ring::{RequestRecord, flags};
use trackiops_schemas::identity::{FileAttributes, FileId, TenantId};
use trackiops_schemas::request::{Request, RequestBatch};
use trackiops_schemas::time::UtcMs;
use trackiops_store::Writer;
use trackiops_testkit::generated::{Numbers, THREE, file};
use trackiops_testkit::stores::options_of;
use trackiops_testkit::windows::{named, used_by};

const FILES: u64 = 30;
const SECONDS: i64 = 190;
const NS_PER_MS: i64 = 1_000_000;
/// More room than the requests need.
const REQUESTS_BYTES: u64 = 64 << 20;
const TENANTS: [&str; 3] = ["0:/db.service", "1000:/batch.slice", "?:?7"];
/// The second tenant's user.
const USER: &str = "alice";

/// A file as one of [`TENANTS`] uses it.
fn used(file: &FileAttributes, tenant: u32) -> Arc<FileAttributes> {
    let file = used_by(file, TENANTS[tenant as usize]);
    match tenant {
        1 => named(&file, USER),
        _ => file,
    }
}

/// A few files have no name, and one has the same name as a file of another mount.
fn attributes(number: u64) -> Arc<FileAttributes> {
    let path = match number {
        n if n % 9 == 8 => None,
        n if n % 5 == 0 => Some(format!("/mnt/all/shared/f{}", n % 10)),
        n => Some(format!("/mnt/all/d{}/sub{}/f{n}", n % 3, n % 2)),
    };
    file(number + 1, path.as_deref())
}

/// Requests of a second, in order of completion; some belong to the second before. Times are whole microseconds, because rows round their
/// sums to these.
fn second(
    numbers: &mut Numbers,
    start_ns: i64,
    files: &[Arc<FileAttributes>],
) -> Vec<RequestRecord> {
    // Some seconds have no requests.
    let count = numbers.below(4) * numbers.below(120);
    let us = |us: u64| us * 1000;
    let mut records: Vec<_> = (0..count)
        .map(|_| {
            let file = &files[(numbers.below(FILES) * numbers.below(FILES) / FILES) as usize];
            let late = i64::from(numbers.below(50) == 0) * 1000;
            let at_ms = numbers.below(1000) as i64 - late;
            let mut bits = 0;
            let mut maybe = |numbers: &mut Numbers, bit: u32, one_of: u64| {
                let is_set = numbers.below(one_of) == 0;
                bits |= if is_set { bit } else { 0 };
                is_set
            };
            match maybe(numbers, flags::WRITE, 2) {
                true => maybe(numbers, flags::STABLE, 7),
                false => maybe(numbers, flags::EOF, 5),
            };
            maybe(numbers, flags::DIRECT, 4);
            let untimed = maybe(numbers, flags::UNTIMED, 30);
            let unsplit = maybe(numbers, flags::UNSPLIT, 20) || untimed;
            // From a few us to minutes.
            let magnitude = 4 << numbers.below(26);
            let latency = if untimed {
                0
            } else {
                us(1 + numbers.below(magnitude))
            };
            let queue = if unsplit {
                0
            } else {
                us(numbers.below(latency / 1000 + 1))
            };
            let rtt = if unsplit {
                0
            } else {
                us(numbers.below((latency - queue) / 1000 + 1))
            };
            let asked = 512 << numbers.below(12);
            let error = if numbers.below(40) == 0 { -5 } else { 0 };
            let short = numbers.below(15) == 0;
            let tenant = numbers.below(TENANTS.len() as u64);
            RequestRecord {
                end_ns: (start_ns + at_ms * NS_PER_MS) as u64,
                latency_ns: latency,
                fileid: file.id.fileid,
                offset: 4096 * numbers.below(1 << 20),
                asked_bytes: asked,
                done_bytes: if error < 0 {
                    0
                } else {
                    asked >> u32::from(short)
                },
                dev: file.id.dev.0,
                handle_hash: file.id.handle_hash,
                error,
                pid: 12,
                flags: if unsplit { bits | flags::UNSPLIT } else { bits },
                uid: tenant as u32,
                cgroup: tenant + 1,
                queue_ns: queue,
                rtt_ns: rtt,
                xid: 0,
                retransmissions: if unsplit {
                    0
                } else {
                    u32::from(numbers.below(25) == 0)
                },
            }
        })
        .collect();
    records.sort_by_key(|record| record.end_ns);
    records
}

/// Records a stream into `store`: all but the last journal are sealed.
fn record(store: &Path, seed: u64) {
    let mut numbers = Numbers(seed);
    let files: Vec<_> = (0..FILES).map(attributes).collect();
    let by_id: HashMap<FileId, Arc<FileAttributes>> =
        files.iter().map(|f| (f.id, Arc::clone(f))).collect();
    let of = move |id: FileId, tenant: TenantId| used(&by_id[&id], tenant.uid);
    let (granularities, rotation) =
        [("1s,10s,1m", "1m"), ("1s,1m", "45s"), ("1s,5s", "1h")][numbers.below(3) as usize];
    let options = options_of("h", granularities, rotation);
    let mut replay = Replay::new(options.granularities.finest(), of);
    let mut writer = Writer::open(store, options).unwrap();
    let mut requests = writer.requests(REQUESTS_BYTES, |_| {}).unwrap();
    for n in 0..SECONDS {
        let start = UtcMs(THREE + 1000 * n);
        let records = second(&mut numbers, start.0 * NS_PER_MS, &files);
        replay.add(&records);
        for window in replay.close(UtcMs(start.0 + 1000)) {
            writer.append(&window).unwrap();
        }
        let mut batch = RequestBatch::default();
        for (place, record) in records.iter().enumerate() {
            let file = &files[record.fileid as usize - 1];
            batch.files.push(used(file, record.uid));
            let request = Request::new(record, record.end_ns.cast_signed(), place as u32);
            batch.requests.push(request);
        }
        requests.append(&batch).unwrap();
    }
    requests.finish().unwrap();
    if seed.is_multiple_of(2) {
        writer.finish().unwrap();
    }
}

#[test]
#[ignore = "make notebooks: needs a Python with DuckDB"]
fn every_answer_is_what_is_computed_from_single_requests() {
    let streams = if std::env::var_os("TRACKIOPS_TEST_LONG").is_some() {
        40
    } else {
        4
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/science/equality.py");
    for seed in 1..=streams {
        let dir = tempfile::tempdir().unwrap();
        record(&dir.path().join("store"), seed);
        print!("seed {seed}: ");
        let args = [env!("CARGO_BIN_EXE_trackiops"), &seed.to_string()];
        program::python(&script, args, dir.path());
    }
}

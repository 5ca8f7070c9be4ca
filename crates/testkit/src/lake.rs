//! Stores of two hosts below one directory, in the form of a lake.

use std::path::Path;

use trackiops_schemas::ops::{Operation, OperationRow};
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::row::ClosedWindow;
use trackiops_store::Writer;

use crate::generated::{Numbers, THREE, file, folded_windows, operation_sums, windows};
use crate::stores::options_of;
use crate::windows::stalled;

/// Host `h` has no windows of an hour. It has a gap, partly covered windows, and a file renamed in the middle of a minute. It also has
/// files of several users, folded requests, a server that did not answer, and single requests. Host `i` was up for a part of that time, and
/// has no windows of 10 s.
pub fn record(lake: &Path) {
    let mut first = folded_windows(5, THREE, 1000, 250, 12);
    first.drain(70..83);
    for (place, covered_ms) in [(0, 700), (50, 300), (90, 1), (236, 10)] {
        first[place].health.covered_ms = covered_ms;
    }
    first[20].health.pending = Some(stalled("10.0.0.5", "srv:/odd", 1500, 3));
    with_operations(&mut first, 7);
    // A rotation falls into the middle of a minute.
    let writer = Writer::open(lake.join("h"), options_of("h", "1s,10s,1m", "90s")).unwrap();
    let mut single = writer.requests(64 << 20, |_| {}).unwrap();
    single.append(&requests()).unwrap();
    single.finish().unwrap();
    append(writer, &first);

    let mut second = windows(6, THREE + 30_000, 1000, 200, 8);
    with_operations(&mut second, 8);
    append(
        Writer::open(lake.join("i"), options_of("i", "1s,1m", "1h")).unwrap(),
        &second,
    );
}

fn append(mut writer: Writer, windows: &[ClosedWindow]) {
    for window in windows {
        writer.append(window).unwrap();
    }
    writer.finish().unwrap();
}

fn with_operations(windows: &mut [ClosedWindow], seed: u64) {
    let mut numbers = Numbers(seed);
    for window in windows {
        for mount in ["srv:/even", "srv:/odd"] {
            for op in ["ACCESS", "COMMIT", "GETATTR", "READ"] {
                let sums = operation_sums(&mut numbers, 5, 90050);
                if sums.requests > 0 {
                    window.health.ops_seen += sums.requests;
                    window.ops.push(OperationRow {
                        operation: Operation {
                            mount: Some(mount.into()),
                            op: op.into(),
                            transport: Some("tcp-1".into()),
                        },
                        sums,
                    });
                }
            }
        }
        window.health.ops_covered_ms = window.health.covered_ms;
    }
}

/// Single requests for three files.
fn requests() -> RequestBatch {
    let mut numbers = Numbers(9);
    let files: Vec<_> = (1..4)
        .map(|n| file(n, Some(&format!("/mnt/f{n}"))))
        .collect();
    let request = |place: u32| Request {
        end_ns: THREE * 1_000_000 + i64::from(place) * 70_000_001,
        file: place % 3,
        flags: 0,
        offset: 4096 * numbers.below(1 << 20),
        asked_bytes: 4096,
        done_bytes: 4096,
        latency_ns: 1000 * (1 + numbers.below(200_000)),
        queue_ns: 1,
        rtt_ns: 2,
        xid: place,
        retransmissions: 0,
        error: 0,
        pid: 12,
        process: ProcessName::new(b"fio"),
    };
    let requests = (0..600).map(request).collect();
    RequestBatch { files, requests }
}

use trackiops_schemas::level::IoLevel;

use super::*;
use crate::clock::ClockSample;
use crate::rollup::other_files::MOST;
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::identity::{Dev, FileKey, TenantId};

fn record(fileid: u64, flags: u32, done_bytes: u32, error: i32) -> RequestRecord {
    RequestRecord {
        end_ns: 1_000_000,
        latency_ns: 1000,
        fileid,
        offset: 0,
        asked_bytes: 4096,
        done_bytes,
        dev: 49,
        handle_hash: 1,
        error,
        pid: 1,
        flags,
        uid: 1000,
        cgroup: 1,
        ..RequestRecord::default()
    }
}

/// Adds one request that completes at `end`. Returns whether it begins a row.
fn add(rollup: &mut Rollup, record: &RequestRecord, end: UtcMs) -> bool {
    let clock = Clock::new(ClockSample {
        now: MonotonicNs(0),
        offset_ns: 0,
    });
    let record = RequestRecord {
        end_ns: end.0.cast_unsigned() * 1_000_000,
        ..*record
    };
    let mut first = false;
    rollup.add(&clock, &mut &[record][..], |_, _| first = true);
    first
}

fn rollup() -> Rollup {
    Rollup::new("1s".parse().unwrap())
}

fn all(rollup: &mut Rollup) -> Vec<OpenWindow> {
    rollup.take_windows(|_, _| true)
}

#[test]
fn a_request_is_counted_once_in_the_window_of_its_completion() {
    let mut rollup = rollup();
    assert!(add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(1999)));
    assert!(add(
        &mut rollup,
        &record(1, flags::WRITE, 100, 0),
        UtcMs(2000)
    ));
    assert!(!add(&mut rollup, &record(1, 0, 0, -5), UtcMs(2001)));
    let windows = all(&mut rollup);
    assert_eq!(
        windows.iter().map(|w| w.start.0).collect::<Vec<_>>(),
        [1000, 2000]
    );
    let (read, write) = (&windows[1].rows[0].1.read, &windows[1].rows[0].1.write);
    assert_eq!(
        (read.requests, read.errors, read.short, read.bytes),
        (1, 1, 0, 0)
    );
    assert_eq!(
        (write.requests, write.errors, write.short, write.bytes),
        (1, 0, 1, 100)
    );
    assert_eq!(windows[1].health.recorded, 2);
}

fn operation(fileid: u64, uid: u32, cgroup: u64, name: &str, requests: u64) -> FileOpInWindow {
    FileOpInWindow {
        row: RowKey {
            file: FileId {
                dev: Dev(49),
                fileid,
                handle_hash: 1,
            },
            tenant: TenantId { uid, cgroup },
            level: IoLevel::Wire,
        },
        window: 1,
        pid: 7,
        op: FileOp {
            op: OpName::new(name),
            requests,
            ..FileOp::default()
        },
    }
}

#[test]
fn an_operation_of_an_unknown_cgroup_is_of_the_users_only_tenant_there_is() {
    let mut rollup = rollup();
    for cgroup in [1, 2] {
        let shared = RequestRecord {
            cgroup,
            ..record(2, 0, 1, 0)
        };
        add(&mut rollup, &shared, UtcMs(1500));
    }
    add(&mut rollup, &record(1, 0, 1, 0), UtcMs(1500));
    let taken = vec![
        operation(1, 1000, 0, "COMMIT", 3),
        operation(2, 1000, 0, "COMMIT", 4),
        operation(3, 7, 0, "CLOSE", 5),
        operation(3, 7, 9, "GETATTR", 6),
        operation(1, 7, 0, "GETATTR", 7),
    ];
    let mut begun = Vec::new();
    rollup.add_operations(taken, MonotonicNs(0), |row, pid| begun.push((row, pid)));
    let window = &all(&mut rollup)[0];
    let told = window.rows.iter().flat_map(|(key, row)| {
        let ops = row.ops.as_slice().iter();
        let TenantId { uid, cgroup } = key.tenant;
        ops.map(move |op| (key.file.fileid, uid, cgroup, op.op.as_str(), op.requests))
    });
    let mut told: Vec<_> = told.collect();
    told.sort_unstable();
    let expected = [
        (1, 7, 0, "GETATTR", 7),
        (1, 1000, 1, "COMMIT", 3),
        (2, 1000, 0, "COMMIT", 4),
        (3, 7, 9, "CLOSE", 5),
        (3, 7, 9, "GETATTR", 6),
    ];
    assert_eq!(told, expected);
    assert_eq!(begun.len(), 3, "{begun:?}");
    assert_eq!(window.health.seen, 3, "the requests alone");
}

#[test]
fn a_walk_through_a_tree_leaves_the_files_that_are_known_and_no_more_than_there_is_room_for() {
    let mut rollup = rollup();
    let known = 1_000_000;
    add(&mut rollup, &record(known, 0, 1, 0), UtcMs(1500));
    let mut walk: Vec<_> = (1..=10_000)
        .map(|fileid| operation(fileid, 1000, 1, "GETATTR", 1))
        .collect();
    walk.push(operation(known, 1000, 1, "GETATTR", 1));
    rollup.add_operations(walk, MonotonicNs(0), |_, _| {});
    let window = &all(&mut rollup)[0];
    assert!(window.rows.len() < 5000, "{}", window.rows.len());
    let sum_of = |fileid| {
        let mut rows = window.rows.iter();
        let (_, row) = rows.find(|(key, _)| key.file.fileid == fileid).unwrap();
        row.ops.as_slice()[0].requests
    };
    assert_eq!(sum_of(known), 1);
    let all: u64 = window
        .rows
        .iter()
        .flat_map(|(_, row)| row.ops.as_slice())
        .map(|op| op.requests)
        .sum();
    assert_eq!(all, 10_001, "none is lost");
    assert_eq!(sum_of(0), 10_001 - window.rows.len() as u64 + 1);
}

#[test]
fn folded_requests_stand_in_their_window_and_row_without_a_histogram() {
    let mut rollup = rollup();
    let key = FoldKey {
        fileid: 1,
        cgroup: 1,
        window: 1,
        dev: 49,
        handle_hash: 1,
        uid: 1000,
        direction: flags::WRITE,
    };
    let sum = FoldValue {
        requests: 5,
        bytes: 5000,
        latency_ns_sum: 900,
        latency_ns_max: 500,
        errors: 1,
        short: 2,
        untimed: 2,
        queue_ns_sum: 200,
        rtt_ns_sum: 300,
        unsplit: 1,
        retransmissions: 4,
        direct: 5,
        direct_bytes: 4000,
        stable: 3,
    };
    add(&mut rollup, &record(1, flags::WRITE, 4096, 0), UtcMs(1500));
    assert!(
        !rollup.add_folded(&key, &sum, UtcMs(1000)),
        "the row was there"
    );
    let other = FoldKey { uid: 7, ..key };
    assert!(
        rollup.add_folded(&other, &sum, UtcMs(1000)),
        "another tenant, another row"
    );
    let window = &all(&mut rollup)[0];
    let health = &window.health;
    assert_eq!((health.seen, health.recorded, health.folded), (11, 1, 10));
    let write = &window.rows[0].1.write;
    assert_eq!(
        (write.requests, write.bytes, write.folded, write.untimed),
        (6, 9096, 3, 2)
    );
    assert_eq!((write.latency_ns_sum, write.latency_ns_max), (1900, 1000));
    assert_eq!((write.queue_ns_sum, write.rtt_ns_sum), (200, 300));
    assert_eq!(
        (write.unsplit, write.retrans, write.direct, write.stable),
        (1, 4, 5, 3)
    );
    assert_eq!(write.errnos.counts(), [], "folding keeps no errno");
    assert_eq!(
        write.latency.total(),
        write.requests - write.folded - write.untimed
    );
}

#[test]
fn where_the_time_went_and_how_is_added_up() {
    let mut rollup = rollup();
    let split = RequestRecord {
        queue_ns: 100,
        rtt_ns: 700,
        retransmissions: 2,
        ..record(1, flags::WRITE | flags::DIRECT | flags::STABLE, 4096, 0)
    };
    let unsplit = record(1, flags::WRITE | flags::UNSPLIT, 0, -116);
    for one in [split, split, unsplit] {
        add(&mut rollup, &one, UtcMs(0));
    }
    let write = &all(&mut rollup)[0].rows[0].1.write;
    assert_eq!(
        (write.queue_ns_sum, write.rtt_ns_sum, write.unsplit),
        (200, 1400, 1)
    );
    assert_eq!((write.retrans, write.direct, write.stable), (4, 2, 2));
    assert_eq!(write.errnos.counts(), [(116, 1)]);
    let parts = write.parts_ns_mean().unwrap();
    let mean = write.latency_ns_mean().unwrap();
    assert!((parts.iter().sum::<f64>() - mean).abs() < 1e-9, "{parts:?}");
}

#[test]
fn end_of_file_is_not_a_short_transfer() {
    let mut rollup = rollup();
    add(&mut rollup, &record(1, flags::EOF, 10, 0), UtcMs(0));
    assert_eq!(all(&mut rollup)[0].rows[0].1.read.short, 0);
}

#[test]
fn untimed_requests_are_counted_without_a_latency() {
    let mut rollup = rollup();
    add(&mut rollup, &record(1, flags::UNTIMED, 4096, 0), UtcMs(0));
    add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(0));
    let read = &all(&mut rollup)[0].rows[0].1.read;
    assert_eq!(
        (read.requests, read.untimed, read.latency.total()),
        (2, 1, 1)
    );
    assert_eq!(read.latency_ns_mean(), Some(1000.0));
}

#[test]
fn a_run_of_requests_ends_with_its_file_and_with_its_window() {
    let clock = Clock::new(ClockSample {
        now: MonotonicNs(0),
        offset_ns: 500_000_000,
    });
    // Fileid and completion in ms; the windows end at 500, 1500 ...
    let requests = [
        (1, 100),
        (1, 499),
        (1, 500),
        (2, 600),
        (1, 700),
        (1, 450),
        (1, 1600),
    ];
    let records = requests.iter().map(|(fileid, end_ms)| RequestRecord {
        end_ns: end_ms * 1_000_000,
        ..record(*fileid, 0, 1, 0)
    });
    let mut rollup = rollup();
    let mut newcomers = Vec::new();
    rollup.add(
        &clock,
        &mut &records.collect::<Vec<_>>()[..],
        |row, record| newcomers.push((row.file.fileid, record.end_ns / 1_000_000)),
    );
    assert_eq!(
        newcomers,
        [(1, 100), (1, 500), (2, 600), (1, 450), (1, 1600)]
    );
    let windows = all(&mut rollup);
    let counts = windows.iter().map(|w| {
        let requests = |id| w.rows.iter().filter(move |(k, _)| k.file.fileid == id);
        let sum = |id| requests(id).map(|(_, r)| r.read.requests).sum::<u64>();
        (w.start.0, sum(1), sum(2), w.health.recorded)
    });
    let counts: Vec<_> = counts.collect();
    assert_eq!(counts, [(0, 3, 0, 3), (1000, 2, 1, 3), (2000, 1, 0, 1)]);
}

#[test]
fn a_late_request_opens_one_more_partial_window() {
    let mut rollup = rollup();
    add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(1500));
    assert_eq!(rollup.take_windows(|_, end| end <= UtcMs(2000)).len(), 1);
    assert!(add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(1600)));
    add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(2500));
    add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(1700));
    let windows = all(&mut rollup);
    let requests = |w: &OpenWindow| w.rows.iter().map(|(_, r)| r.read.requests).sum::<u64>();
    assert_eq!(
        windows
            .iter()
            .map(|w| (w.start.0, requests(w)))
            .collect::<Vec<_>>(),
        [(1000, 2), (2000, 1)]
    );
}

#[test]
fn what_was_seen_before_a_mount_left_keeps_its_mount() {
    let mut rollup = rollup();
    add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(0));
    let attributes = |row: RowKey| {
        let id = row.file;
        let mount = Some("s:/old".to_owned());
        let key = FileKey::new(mount.as_deref(), id);
        Arc::new(FileAttributes {
            key,
            id,
            mount,
            path: None,
            path_inferred: false,
            tenant: Default::default(),
            level: Default::default(),
        })
    };
    rollup.settle(|file| file.dev == Dev(50), attributes);
    assert!(rollup.window(UtcMs(0)).settled.is_empty());
    rollup.settle(|file| file.dev == Dev(49), attributes);
    rollup.settle(|file| file.dev == Dev(49), attributes);
    add(&mut rollup, &record(1, 0, 100, 0), UtcMs(1));
    let window = all(&mut rollup).remove(0);
    let settled: Vec<_> = window.settled.iter().map(|r| r.row.read.bytes).collect();
    let rows: Vec<_> = window.rows.iter().map(|(_, r)| r.read.bytes).collect();
    assert_eq!((settled, rows), (vec![4096], vec![100]));
}

#[test]
fn files_for_which_there_is_no_room_are_counted_as_others() {
    let mut rollup = rollup();
    let more = 7;
    for fileid in 1..=MOST as u64 + more {
        add(&mut rollup, &record(fileid, 0, 100, 0), UtcMs(0));
    }
    assert!(rollup.is_full());
    assert!(
        !add(&mut rollup, &record(1, 0, 100, 0), UtcMs(1)),
        "it is known"
    );
    let window = all(&mut rollup).remove(0);
    assert_eq!(window.rows.len(), MOST + 1);
    let requests = window.rows.iter().map(|(_, row)| row.read.requests);
    assert_eq!(requests.sum::<u64>(), MOST as u64 + more + 1);
    let others = |(key, _): &&(RowKey, Row)| key.file == FileId::others(Dev(49));
    let (key, row) = window.rows.iter().find(others).unwrap();
    assert_eq!(
        (key.tenant.uid, row.read.requests, row.read.sequential),
        (1000, more, 0)
    );
    rollup.rotate();
    rollup.rotate();
    assert!(!rollup.is_full());
    add(
        &mut rollup,
        &record(MOST as u64 + more, 0, 100, 0),
        UtcMs(1000),
    );
    let window = all(&mut rollup).remove(0);
    assert_eq!(
        window.rows[0].0.file.fileid,
        MOST as u64 + more,
        "there is room again"
    );
}

#[test]
fn idle_files_are_forgotten_without_losing_their_open_rows() {
    let mut rollup = rollup();
    add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(0));
    rollup.rotate();
    rollup.rotate();
    assert_eq!(all(&mut rollup)[0].rows.len(), 1);
}

#[test]
fn open_transfers_have_rows_and_settled_rows_but_not_what_was_missed() {
    let mut rollup = rollup();
    add(&mut rollup, &record(1, 0, 4096, 0), UtcMs(0));
    add(&mut rollup, &record(1, 0, 0, -5), UtcMs(0));
    let attributes = |id: FileId| {
        Arc::new(FileAttributes {
            key: FileKey::new(None, id),
            id,
            mount: None,
            path: None,
            path_inferred: false,
            tenant: Default::default(),
            level: Default::default(),
        })
    };
    rollup.settle(|file| file.fileid == 1, |row| attributes(row.file));
    add(&mut rollup, &record(2, flags::WRITE, 100, 0), UtcMs(1000));
    let missed = FileRow {
        file: attributes(FileId::missed(Dev(49))),
        row: Transfers::new((7, 700), (0, 0)).row(),
    };
    rollup.window(UtcMs(1000)).settled.push(missed);
    let elsewhere = RequestRecord {
        dev: 50,
        ..record(1, 0, 10, 0)
    };
    add(&mut rollup, &elsewhere, UtcMs(1000));
    let mut open: Vec<_> = rollup.open_transfers().into_iter().collect();
    open.sort_by_key(|(dev, _)| dev.0);
    let expected = [
        (Dev(49), Transfers::new((1, 4096), (1, 100))),
        (Dev(50), Transfers::new((1, 10), (0, 0))),
    ];
    assert_eq!(open, expected);
}

#[test]
fn bytes_of_a_piece_belong_to_a_request_that_another_record_counts() {
    let record = |fileid, bits| RequestRecord {
        end_ns: 10,
        fileid,
        dev: 0x70_0000,
        asked_bytes: 4096,
        done_bytes: 4096,
        latency_ns: 5,
        flags: bits | flags::BLOCK,
        ..RequestRecord::default()
    };
    let records = [
        record(1, flags::WRITE),
        record(2, flags::WRITE | flags::PIECE),
        RequestRecord {
            flags: flags::WRITE,
            ..record(1, 0)
        },
    ];
    let mut rollup = Rollup::new("1s".parse().unwrap());
    let clock = Clock::new(ClockSample {
        now: MonotonicNs(0),
        offset_ns: 0,
    });
    rollup.add(&clock, &mut &records[..], |_, _| {});
    let windows = rollup.take_windows(|_, _| true);
    let rows = windows[0].rows.iter();
    let rows: Vec<_> = rows
        .map(|(key, row)| {
            let write = &row.write;
            let timed = write.latency.total();
            (
                key.file.fileid,
                key.level,
                write.requests,
                write.bytes,
                timed,
            )
        })
        .collect();
    let (block, wire) = (IoLevel::Block, IoLevel::Wire);
    assert_eq!(
        rows,
        [
            (1, block, 1, 4096, 1),
            (2, block, 0, 4096, 0),
            (1, wire, 1, 4096, 1)
        ]
    );
}

#[test]
fn what_was_written_from_the_cache_is_what_was_not_direct() {
    let mut rollup = Rollup::new("1s".parse().unwrap()).with_cache(true);
    for bits in [
        0,
        flags::WRITE,
        flags::WRITE | flags::DIRECT,
        flags::WRITE | flags::PIECE,
    ] {
        add(&mut rollup, &record(1, bits, 4096, 0), UtcMs(1500));
    }
    let key = FoldKey {
        fileid: 1,
        cgroup: 0,
        window: 1,
        dev: 49,
        handle_hash: 1,
        uid: 7,
        direction: flags::WRITE,
    };
    let sum = FoldValue {
        bytes: 5000,
        direct_bytes: 4000,
        ..FoldValue::default()
    };
    rollup.add_folded(&key, &sum, UtcMs(1000));
    let windows = rollup.take_windows(|_, _| true);
    let written: Vec<_> = windows[0]
        .rows
        .iter()
        .map(|(_, row)| row.cache.written)
        .collect();
    assert_eq!(written, [2 * 4096, 1000]);
}

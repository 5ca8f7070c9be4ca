//! A store holds exactly the appended windows, at every granularity.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::net::SocketAddr;
use std::sync::Arc;

use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::PageIndexPolicy;
use proptest::prelude::*;
use trackiops_schemas::captured::{Captured, Carrier, Stream, StreamBytes, StreamDirection};
use trackiops_schemas::columns;
use trackiops_schemas::file_ops::{FileOp, OpName};
use trackiops_schemas::histogram::Histogram;
use trackiops_schemas::identity::FileAttributes;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::pending::{Pending, PendingClient};
use trackiops_schemas::row::{
    AppCalls, CachedBytes, ClosedWindow, Direction, FileRow, Health, Row,
};
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::{DAY_MS, UtcMs};
use trackiops_store::batch::decode_health;
use trackiops_store::{Dataset, Options, Segment, SegmentReader, Snapshot, Writer};
use trackiops_testkit::content::{Content, of, rows};
use trackiops_testkit::stores::{journals, options, parquet_files};
use trackiops_testkit::windows::{T0, file, granularity, named, reads, used_by, window};

fn a_file() -> impl Strategy<Value = Arc<FileAttributes>> {
    // Few of each, so that files recur, also with other names and devices.
    let path = prop::option::of(prop::sample::select(vec![
        "/mnt/a",
        "/mnt/b",
        "/mnt/\u{e9}",
    ]));
    let tenant = prop::option::of(prop::sample::select(vec!["0:/a.service", "1000"]));
    let unknown_mount = prop::bool::weighted(0.2);
    let parts = (1_u64..6, 49_u32..51, path, tenant, unknown_mount);
    parts.prop_map(|(fileid, dev, path, tenant, unknown)| {
        let file = match (file(fileid, dev, path), tenant) {
            (file, Some("1000")) => named(&used_by(&file, "1000"), "alice"),
            (file, Some(tenant)) => used_by(&file, tenant),
            (file, None) => file,
        };
        if !unknown {
            return file;
        }
        Arc::new(FileAttributes {
            key: trackiops_schemas::identity::FileKey::new(None, file.id),
            mount: None,
            ..(*file).clone()
        })
    })
}

/// Latencies are whole microseconds, so that sums are exact in the store.
fn a_direction() -> impl Strategy<Value = Direction> {
    let request = (prop::option::of(1_u64..1 << 30), 0_u64..1 << 20, 0_u8..16);
    prop::collection::vec(request, 0..8).prop_map(|requests| {
        let mut d = Direction::default();
        for (latency_us, bytes, flags) in requests {
            d.requests += 1;
            d.bytes += bytes;
            if flags & 1 != 0 {
                d.errors += 1;
                d.errnos.add(i32::from(flags), 1);
            }
            d.retrans += u64::from(flags >> 1);
            d.direct += u64::from(flags >> 2 & 1);
            d.unsplit += u64::from(flags >> 3 & 1);
            d.short += u64::from(flags >> 1 & 1);
            d.sequential += u64::from(flags >> 2 & 1);
            match latency_us {
                None => d.untimed += 1,
                Some(us) => {
                    d.latency_ns_sum += us * 1000;
                    d.latency_ns_max = d.latency_ns_max.max(us * 1000);
                    d.queue_ns_sum += us / 3 * 1000;
                    d.rtt_ns_sum += us / 2 * 1000;
                    match flags >> 3 & 1 {
                        0 => d.latency.record(us * 1000),
                        _ => d.folded += 1,
                    }
                }
            }
        }
        d
    })
}

fn an_operation() -> impl Strategy<Value = OperationRow> {
    let operation = (
        prop::option::of("s:/[ab]"),
        prop_oneof!["GETATTR", "COMMIT"],
        prop::option::of("tcp-[01]"),
    );
    let times = prop::collection::vec(1_u64..1 << 30, 0..5);
    (operation, times, 0_u64..9).prop_map(|((mount, op, transport), times, errors)| {
        let mut sums = OperationSums {
            errors,
            sent_bytes: 100 * errors,
            tcp: TcpSums {
                readings: errors,
                // Whole microseconds, and nothing that is not known.
                rtt_ns_min: 2000 * errors,
                retrans: errors / 2,
                ..TcpSums::default()
            },
            ..OperationSums::default()
        };
        for us in times {
            sums.requests += 1;
            sums.received_bytes += us;
            sums.queue_ns_sum += us / 4 * 1000;
            sums.rtt_ns_sum += us / 2 * 1000;
            sums.execute_ns_sum += us * 1000;
            sums.execute_ns_max = sums.execute_ns_max.max(us * 1000);
            sums.execute.record(us * 1000);
        }
        OperationRow {
            operation: Operation {
                mount,
                op,
                transport,
            },
            sums,
        }
    })
}

fn a_window() -> impl Strategy<Value = ClosedWindow> {
    let row = (a_file(), a_direction(), a_direction(), 0_u64..4);
    let row = row.prop_map(|(file, read, write, ops)| FileRow {
        file,
        row: Row {
            app_read: AppCalls {
                calls: 3 * read.requests,
                bytes: 2 * read.bytes,
                ..AppCalls::default()
            },
            app_write: AppCalls {
                errors: write.errors,
                direct_calls: ops,
                direct_bytes: 4096 * ops,
                ..AppCalls::default()
            },
            cache: CachedBytes {
                added: read.bytes,
                evicted: 4096 * ops,
                dirtied: write.bytes,
                written: 4096 * ops,
            },
            read,
            write,
            ops: ["COMMIT", "GETATTR"]
                .into_iter()
                .zip(1..)
                .filter(|(_, n)| ops & n != 0)
                .map(|(name, n)| FileOp {
                    op: OpName::new(name),
                    requests: 2 * n,
                    errors: n / 2,
                    queue_ns_sum: n * 1000,
                    rtt_ns_sum: n * 4000,
                    execute_ns_sum: n * 7000,
                    execute_ns_max: n * 5000,
                    execute: Histogram::of_ascending([(100 + n as i32, n)]),
                })
                .collect(),
        },
    });
    // Around midnight and around rotations, some late.
    let midnight = (T0 / DAY_MS + 1) * DAY_MS;
    let start = prop_oneof![
        (-30_i64..30).prop_map(move |s| midnight + s * 1000),
        (0_i64..4000).prop_map(|s| T0 + s * 1000),
    ];
    let client = (0_u32..3, 1_u64..100, 0_u64..100_000);
    let clients = prop::option::of(prop::collection::vec(client, 0..3));
    let health = (0_u64..1001, 0_u64..1000, 0_u64..3, clients);
    let ops = prop::collection::vec(an_operation(), 0..6);
    (start, prop::collection::vec(row, 0..8), ops, health).prop_map(
        |(start, rows, ops, (covered_ms, seen, clock_steps, clients))| ClosedWindow {
            start: UtcMs(start),
            rows,
            ops,
            health: Health {
                covered_ms,
                seen,
                recorded: seen - seen / 3,
                folded: seen / 3,
                lost: clock_steps / 2,
                missed: clock_steps,
                clock_steps,
                tenant_changes: clock_steps / 3,
                ops_covered_ms: covered_ms / 2,
                app_covered_ms: covered_ms / 3,
                block_covered_ms: covered_ms / 4,
                app_missed: clock_steps / 2,
                ops_seen: seen * 3,
                ops_missed: clock_steps,
                tracing_ns: seen * 1000,
                shed_single_calls_ms: covered_ms,
                shed_call_times_ms: covered_ms / 2,
                shed_calls_ms: covered_ms / 3,
                shed_cache_ms: covered_ms / 4,
                shed_parts_ms: covered_ms / 5,
                shed_file_ops_ms: clock_steps,
                requests_dropped: clock_steps / 2,
                store_failures: clock_steps,
                audit_comparisons: clock_steps,
                audit_kernel_requests: seen,
                audit_kernel_bytes: seen * 4096,
                audit_row_requests: seen - clock_steps.min(seen),
                audit_row_bytes: seen * 4000,
                audit_missed_requests: clock_steps,
                audit_missed_bytes: clock_steps * 96,
                audit_missed_app_bytes: clock_steps * 7,
                audit_alarms: clock_steps / 2,
                pending: clients.map(pending),
                filter: None,
                source: None,
                captured: captured(seen, clock_steps),
            },
        },
    )
}

/// A named stream, and the stream of all others.
fn captured(bytes: u64, packets: u64) -> Captured {
    let stream = Stream {
        client: SocketAddr::from(([10, 0, 0, 1], 700 + packets as u16)),
        server: SocketAddr::from(([10, 0, 0, 2], 2049)),
        carrier: Carrier::Tcp,
        direction: StreamDirection::Calls,
    };
    let mut captured = Captured::default();
    if packets > 0 {
        let bytes = StreamBytes {
            packets,
            payload_bytes: bytes,
            lost_bytes: 2 * bytes,
            ..StreamBytes::default()
        };
        captured.add(Some(stream), &bytes);
        captured.add((packets == 1).then_some(stream), &bytes);
    }
    captured
}

/// The sum of several looks, each with one client.
fn pending(looks: Vec<(u32, u64, u64)>) -> Pending {
    let mut sum = Pending::default();
    for (client, requests_max, age_ms_max) in looks {
        sum.merge(&Pending {
            requests_max,
            age_ms_max,
            clients: vec![PendingClient {
                client,
                server: (client > 0).then(|| format!("10.0.0.{client}")),
                mounts: vec![format!("nas:/{}", age_ms_max % 3)],
                requests_max,
                age_ms_max,
            }],
        });
    }
    sum
}

fn check_segment(segment: &Segment) {
    let rows = rows(segment);
    let keys: Vec<_> = rows.iter().map(|(id, _)| (id.key, id.time)).collect();
    assert!(keys.is_sorted(), "ordered by (file_key, time)");
    assert_eq!(rows.len() as u64, segment.rows);
    let times = || rows.iter().map(|(id, _)| id.time);
    assert_eq!(times().min(), Some(segment.start));
    assert_eq!(
        times().max().map(|t| t.plus(segment.granularity)),
        Some(segment.end)
    );
    for (id, row) in &rows {
        assert_eq!(id.time.align(segment.granularity), id.time);
        for d in [&row.read, &row.write] {
            assert_eq!(d.latency.total(), d.requests - d.folded - d.untimed);
        }
        let date = id.time.0.div_euclid(DAY_MS);
        assert_eq!(
            date,
            segment.start.0.div_euclid(DAY_MS),
            "one date a segment"
        );
    }
    let files = segment.files.unpack();
    for (at, (id, _)) in rows.iter().enumerate() {
        let ranges = files.rows_of(&[id.key]);
        assert_eq!(ranges.len(), 1);
        assert!(ranges[0].contains(&(at as u64)));
        let of_file = rows.iter().filter(|(other, _)| other.key == id.key).count();
        assert_eq!(ranges[0].end - ranges[0].start, of_file as u64);
    }
}

#[test]
fn a_journal_of_very_many_files_is_followed_by_another_one_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options {
        granularities: "1s".parse().unwrap(),
        ..options("h")
    };
    let mut writer = Writer::open(dir.path(), options()).unwrap();
    let files = 35_000;
    for second in 0..3 {
        let numbers = second * files..(second + 1) * files;
        let rows = numbers.map(|n| (file(n as u64, 49, Some(&format!("/mnt/{n}"))), reads(1)));
        let window = window(T0 + second * 1000, rows.collect());
        writer.append(&window).unwrap();
    }
    drop(writer);
    let begun = journals(dir.path()).len() + usize::from(!parquet_files(dir.path()).is_empty());
    assert_eq!(begun, 2, "within a minute");
    Writer::open(dir.path(), options())
        .unwrap()
        .finish()
        .unwrap();
    let content = Content::stored(dir.path(), granularity("1s"));
    assert_eq!(content.rows.len() as i64, 3 * files);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn every_granularity_holds_exactly_what_was_appended(
        windows in prop::collection::vec(a_window(), 0..40),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let mut options = options("web-1");
        options.granularities = "1s,10s,1m,1d,2d".parse().unwrap();
        let granularities = options.granularities.as_slice().to_vec();
        let mut writer = Writer::open(&store, options).unwrap();
        for window in &windows {
            writer.append(window).unwrap();
        }
        let finest = granularities[0];
        prop_assert_eq!(Content::stored(&store, finest), Content::of(&windows, finest));
        writer.finish().unwrap();

        prop_assert!(journals(&store).is_empty());
        let snapshot = Snapshot::open(&store).unwrap();
        for granularity in granularities {
            let (stored, appended) =
                (Content::stored(&store, granularity), Content::of(&windows, granularity));
            prop_assert_eq!(stored, appended, "{}", granularity);
            of(&snapshot, Dataset::Rollup, granularity).iter().for_each(check_segment);
        }
        let starts = || windows.iter().map(|window| window.start);
        let span = starts().min().zip(starts().max().map(|start| start.plus(finest)));
        prop_assert_eq!(snapshot.span(), span);
        let findings = trackiops_store::check(&store).unwrap().findings;
        prop_assert_eq!(findings, [], "no file is unknown or missing");
    }
}

#[test]
fn latencies_are_rounded_to_the_nearest_microsecond_and_histograms_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut row = Row::default();
    row.read.requests = 1;
    row.read.latency_ns_sum = 1_499;
    row.read.latency_ns_max = 1_500;
    row.read.latency.record(1_499);
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    writer
        .append(&window(T0, vec![(file(1, 49, None), row)]))
        .unwrap();
    writer.finish().unwrap();
    let content = Content::stored(dir.path(), granularity("1s"));
    let stored = content.rows.into_values().next().unwrap().read;
    let mut expected = Histogram::default();
    expected.record(1_499);
    assert_eq!(
        (stored.latency_ns_sum, stored.latency_ns_max),
        (1_000, 2_000)
    );
    assert_eq!(stored.latency, expected);
}

#[test]
fn coarse_windows_of_a_file_under_two_names_are_two_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    for i in 0..10 {
        let path = ["/mnt/a", "/mnt/b"][i % 2];
        let row = (file(1, 49, Some(path)), reads(2));
        writer
            .append(&window(T0 + i as i64 * 1000, vec![row]))
            .unwrap();
    }
    writer.finish().unwrap();
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let segments = of(&snapshot, Dataset::Rollup, granularity("10s"));
    let stored = rows(&segments[0]);
    let requests: Vec<_> = stored.iter().map(|(_, row)| row.read.requests).collect();
    assert_eq!(requests, [10, 10]);
}

#[test]
fn two_users_of_a_file_are_two_rows_of_each_window() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    let file = file(1, 49, Some("/mnt/a"));
    for i in 0..10 {
        let rows = ["0:/a.service", "1000:?77"]
            .map(|tenant| (used_by(&file, tenant), reads(2)))
            .to_vec();
        let window = window(T0 + i * 1000, rows);
        writer.append(&window).unwrap();
    }
    writer.finish().unwrap();
    let snapshot = Snapshot::open(dir.path()).unwrap();
    for (name, windows, requests) in [("1s", 10, 2), ("10s", 1, 20)] {
        let granularity = granularity(name);
        let segment = of(&snapshot, Dataset::Rollup, granularity).remove(0);
        check_segment(&segment);
        let stored = rows(&segment);
        let stored: Vec<_> = stored
            .iter()
            .map(|(id, row)| (id.uid, id.cgroup.as_deref(), row.read.requests))
            .collect();
        let both = [(0, "/a.service"), (1000, "?77")];
        let both = both.map(|(uid, cgroup)| (Some(uid), Some(cgroup), requests));
        assert_eq!(stored, both.repeat(windows), "{granularity}");
    }
}

/// Ten windows in which a user gets a name, another one, and then none.
fn renamed() -> Vec<ClosedWindow> {
    let file = used_by(&file(1, 49, Some("/mnt/a")), "1000:/a.service");
    let window = |i: i64| {
        let file = match i {
            3..6 => named(&file, "alice"),
            6..9 => named(&file, "bob"),
            _ => file.clone(),
        };
        window(T0 + i * 1000, vec![(file, reads(2))])
    };
    (0..10).map(window).collect()
}

/// User and requests of each row of a granularity.
fn users(store: &std::path::Path, name: &str) -> Vec<(Option<String>, u64)> {
    let snapshot = Snapshot::open(store).unwrap();
    let segments = of(&snapshot, Dataset::Rollup, granularity(name));
    let rows = segments.iter().flat_map(rows);
    rows.map(|(id, row)| (id.user, row.read.requests)).collect()
}

#[test]
fn a_user_who_is_renamed_has_one_row_in_a_coarse_window_with_the_last_name() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    for window in renamed() {
        writer.append(&window).unwrap();
    }
    writer.finish().unwrap();
    let [alice, bob] = ["alice", "bob"].map(|name| Some(name.to_owned()));
    let by_second = [
        vec![None; 3],
        vec![alice; 3],
        vec![bob.clone(); 3],
        vec![None],
    ];
    let by_second: Vec<_> = by_second
        .concat()
        .into_iter()
        .map(|user| (user, 2))
        .collect();
    assert_eq!(users(dir.path(), "1s"), by_second);
    for coarse in ["10s", "1m", "1h"] {
        assert_eq!(users(dir.path(), coarse), [(bob.clone(), 20)], "{coarse}");
    }
}

#[test]
fn segments_carry_page_indexes_order_and_versions() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(dir.path(), options("h")).unwrap();
    for i in 0..800 {
        let rows = (0..10).map(|f| (file(f, 49, Some("/mnt/x")), reads(3)));
        writer
            .append(&window(T0 + 60_000 + i * 1000, rows.collect()))
            .unwrap();
    }
    writer.finish().unwrap();
    let snapshot = Snapshot::open(dir.path()).unwrap();
    let segment = of(&snapshot, Dataset::Rollup, granularity("1s")).remove(0);
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    let file = std::fs::File::open(&segment.path).unwrap();
    let metadata = ArrowReaderMetadata::load(&file, options).unwrap();
    assert_eq!(
        metadata.schema().fields(),
        columns::rollup_schema().fields()
    );
    let metadata = metadata.metadata();
    let index = metadata.page_index_for_row_group(0);
    let file_key = columns::rollup_schema()
        .index_of(columns::FILE_KEY)
        .unwrap();
    assert!(index.column_index(file_key).is_some());
    let pages = index.offset_index(file_key).unwrap().page_locations();
    assert!(
        pages.len() >= 3,
        "{} pages of {} rows",
        pages.len(),
        segment.rows
    );
    let order = metadata.row_group(0).sorting_columns().unwrap();
    assert_eq!(
        order.iter().map(|c| c.column_idx).collect::<Vec<_>>(),
        [file_key as i32, 0]
    );
    let meta = metadata.file_metadata().key_value_metadata().unwrap();
    let value = |key: &str| {
        meta.iter()
            .find(|kv| kv.key == key)
            .unwrap()
            .value
            .clone()
            .unwrap()
    };
    assert_eq!(
        value(columns::META_FORMAT),
        columns::FORMAT_VERSION.to_string()
    );
    assert_eq!(value(columns::META_GRANULARITY), "1s");
    assert_eq!(value(columns::META_WRITER), env!("CARGO_PKG_VERSION"));
}

#[test]
fn a_filter_stands_in_every_health_row_of_its_recording() {
    let dir = tempfile::tempdir().unwrap();
    let second = "1s".parse().unwrap();
    for (i, filter) in [None, Some("--uid 7")].into_iter().enumerate() {
        let filtered = Options {
            filter: filter.map(str::to_owned),
            ..options("h")
        };
        let mut writer = Writer::open(dir.path(), filtered).unwrap();
        let start = T0 + 1000 * i as i64;
        for number in 0..2 {
            writer
                .append(&window(start + number * 10_000, Vec::new()))
                .unwrap();
        }
        writer.finish().unwrap();
    }
    let health = Content::stored(dir.path(), second).health;
    let told: Vec<_> = health
        .values()
        .map(|health| health.filter.as_deref())
        .collect();
    assert_eq!(told, [None, Some("--uid 7"), None, Some("--uid 7")]);
}

/// The rows of a health segment, and how many columns were read.
fn health_of(reader: SegmentReader) -> (Vec<(UtcMs, Health)>, usize) {
    let schema = columns::health_schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let reader = reader.only(names).unwrap().without_defaults();
    let (mut rows, mut width) = (Vec::new(), 0);
    for batch in reader.batches(8192).unwrap() {
        let batch = batch.unwrap();
        width = batch.num_columns();
        decode_health(&batch, |row| rows.push((row.time, row.health))).unwrap();
    }
    (rows, width)
}

#[test]
fn health_is_the_same_without_the_columns_that_say_nothing() {
    let plain = || Health {
        covered_ms: 1000,
        ..Health::default()
    };
    let pending = |clients: &[u64]| {
        let client = |age_ms_max: &u64| PendingClient {
            client: 1,
            server: None,
            mounts: Vec::new(),
            requests_max: 1,
            age_ms_max: *age_ms_max,
        };
        Some(Pending {
            requests_max: clients.len() as u64,
            age_ms_max: clients.iter().copied().max().unwrap_or(0),
            clients: clients.iter().map(client).collect(),
        })
    };
    let mut captured = Captured::default();
    captured.add(None, &StreamBytes::default());
    let kinds = [
        plain(),
        Health { lost: 1, ..plain() },
        // No pending requests is different from unknown.
        Health {
            pending: pending(&[]),
            ..plain()
        },
        Health {
            pending: pending(&[0]),
            ..plain()
        },
        Health {
            filter: Some("".into()),
            ..plain()
        },
        Health {
            captured,
            ..plain()
        },
    ];
    for (a, b) in kinds.iter().flat_map(|a| kinds.iter().map(move |b| (a, b))) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(dir.path(), options("h")).unwrap();
        for (i, health) in [a, b].into_iter().enumerate() {
            let mut window = window(T0 + i as i64 * 1000, Vec::new());
            window.health = health.clone();
            writer.append(&window).unwrap();
        }
        writer.finish().unwrap();
        let snapshot = Snapshot::open(dir.path()).unwrap();
        for segment in snapshot.segments(Dataset::Health, None).unwrap() {
            let (all, of_all) = health_of(segment.reader().unwrap());
            let (filled, width) = health_of(segment.reader_with_statistics().unwrap());
            assert_eq!(filled, all, "{}", segment.granularity);
            assert_eq!(of_all, columns::health_schema().fields().len());
            assert!(width <= 8, "{width} columns of {filled:?}");
        }
    }
}

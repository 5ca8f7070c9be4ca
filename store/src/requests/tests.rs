//! Tests of single requests in a store, including failures of their writer.

use std::fs::{self, File};
use std::path::Path;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use trackiops_schemas::columns;
use trackiops_schemas::ebpf::ring::flags;
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::stores::{journals, parquet_files};
use trackiops_testkit::windows::{T0, file, named, used_by, windows};

use super::{DiskBudget, RequestsView, RequestsWriter, Task, Warning, sealing};
use crate::journal::end::Extent;
use crate::unit_tests::{Told, options, tell};
use crate::{Writer, check, layout};

const T0_NS: i64 = T0 * 1_000_000;
const BUDGET: u64 = 1 << 30;

fn open(store: &Path, most_bytes: u64) -> (Writer, RequestsWriter, Told) {
    let writer = Writer::open(store, options("h")).unwrap();
    let told = Told::default();
    let requests = writer.requests(most_bytes, tell(&told)).unwrap();
    (writer, requests, told)
}

fn write(end_ns: i64, file: u32, offset: u64) -> Request {
    Request {
        end_ns,
        file,
        flags: flags::WRITE | flags::STABLE,
        offset,
        asked_bytes: 4096,
        done_bytes: 4096,
        latency_ns: 300_000,
        queue_ns: 1000,
        rtt_ns: 250_000,
        xid: 0x1234 + offset as u32,
        retransmissions: 1,
        error: 0,
        pid: 7,
        process: ProcessName::new(b"fio"),
    }
}

/// `count` writes to two files, one per millisecond from `start_ns` on.
fn batch(start_ns: i64, count: u64) -> RequestBatch {
    let one = |i: u64| {
        write(
            start_ns + i.cast_signed() * 1_000_000,
            i as u32 % 2,
            i * 4096,
        )
    };
    RequestBatch {
        files: vec![
            named(
                &used_by(&file(1, 49, Some("/mnt/a")), "1000:/a.service"),
                "alice",
            ),
            file(2, 49, None),
        ],
        requests: (0..count).map(one).collect(),
    }
}

#[test]
fn requests_of_any_number_of_files_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (writer, mut requests, _) = open(dir.path(), BUDGET);
    let per_batch = options("h").most_files as u64 / 2;
    for i in 0..10 {
        let files = (i * per_batch..(i + 1) * per_batch).map(|number| file(number, 49, None));
        let requests_of = |file: u32| write(T0_NS + i.cast_signed(), file, 0);
        let all = RequestBatch {
            files: files.collect(),
            requests: (0..per_batch as u32).map(requests_of).collect(),
        };
        requests.append(&all).unwrap();
    }
    requests.finish().unwrap();
    writer.finish().unwrap();
    let rows: usize = stored(dir.path()).iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows as u64, 10 * per_batch);
}

/// All segments of requests, ordered by name.
fn stored(store: &Path) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    for path in request_files(store) {
        let file = File::open(store.join(path)).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        batches.extend(reader.build().unwrap().map(Result::unwrap));
    }
    batches
}

fn request_files(store: &Path) -> Vec<String> {
    let mut files = parquet_files(store);
    files.retain(|path| path.starts_with("requests/"));
    files
}

/// End and offset of each stored request, in the order of the segments.
fn ends_and_offsets(store: &Path) -> Vec<(i64, i64)> {
    let of = |batch: &RecordBatch| {
        let ends = batch[columns::END_TIME_NS].as_primitive::<Int64Type>();
        let times = batch[columns::END_TIME].as_primitive::<TimestampMicrosecondType>();
        for (ns, us) in ends.values().iter().zip(times.values()) {
            assert_eq!(ns.div_euclid(1000), *us);
        }
        let offsets = batch[columns::OFFSET_BYTES].as_primitive::<Int64Type>();
        let pairs = ends.values().iter().zip(offsets.values());
        pairs
            .map(|(end, offset)| (*end, *offset))
            .collect::<Vec<_>>()
    };
    stored(store).iter().flat_map(of).collect()
}

fn expected(batches: &[RequestBatch]) -> Vec<(i64, i64)> {
    let requests = batches.iter().flat_map(|batch| &batch.requests);
    requests
        .map(|request| (request.end_ns, request.offset.cast_signed()))
        .collect()
}

#[test]
fn a_request_is_stored_with_all_that_is_known_and_null_for_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let (writer, mut requests, _) = open(dir.path(), BUDGET);
    let mut batch = batch(T0_NS, 1);
    batch.requests.push(Request {
        flags: flags::UNTIMED | flags::UNSPLIT | flags::EOF | flags::DIRECT,
        done_bytes: 0,
        latency_ns: 0,
        queue_ns: 0,
        rtt_ns: 0,
        xid: 0,
        retransmissions: 0,
        error: -116,
        pid: 0,
        process: ProcessName::default(),
        ..write(T0_NS + 1, 1, 1 << 40)
    });
    requests.append(&batch).unwrap();
    requests.finish().unwrap();
    writer.finish().unwrap();

    assert_eq!(
        request_files(dir.path()),
        ["requests/date=2026-11-21/h-20261121T035200Z-1.parquet"]
    );
    let stored = stored(dir.path());
    let [stored] = &stored[..] else {
        panic!("{stored:?}")
    };
    assert_eq!(stored.schema().fields(), columns::request_schema().fields());
    let texts = |name: &str| -> Vec<Option<String>> {
        let column = stored[name].as_string::<i32>().iter();
        column.map(|text| text.map(str::to_owned)).collect()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(texts(columns::HOST), [some("h"), some("h")]);
    assert_eq!(
        texts(columns::MOUNT),
        [some("srv:/export"), some("srv:/export")]
    );
    assert_eq!(texts(columns::PATH), [some("/mnt/a"), None]);
    assert_eq!(texts(columns::DEV), [some("0:49"), some("0:49")]);
    assert_eq!(texts(columns::USER), [some("alice"), None]);
    assert_eq!(texts(columns::CGROUP), [some("/a.service"), None]);
    assert_eq!(texts(columns::OP), [some("WRITE"), some("READ")]);
    let keys: Vec<_> = stored[columns::FILE_KEY]
        .as_primitive::<Int64Type>()
        .values()
        .to_vec();
    assert_eq!(keys, [batch.files[0].key.0, batch.files[1].key.0]);
    let fileids: Vec<_> = stored[columns::FILEID]
        .as_primitive::<Int64Type>()
        .values()
        .to_vec();
    assert_eq!(fileids, [1, 2]);
    let longs = |name: &str| {
        stored[name]
            .as_primitive::<Int64Type>()
            .iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(longs(columns::UID), [Some(1000), None]);
    assert_eq!(longs(columns::OFFSET_BYTES), [Some(0), Some(1 << 40)]);
    assert_eq!(longs(columns::ASKED_BYTES), [Some(4096), Some(4096)]);
    assert_eq!(longs(columns::DONE_BYTES), [Some(4096), Some(0)]);
    assert_eq!(longs(columns::LATENCY_NS), [Some(300_000), None]);
    assert_eq!(longs(columns::QUEUE_NS), [Some(1000), None]);
    assert_eq!(longs(columns::RTT_NS), [Some(250_000), None]);
    assert_eq!(longs(columns::RETRANS), [Some(1), None]);
    assert_eq!(longs(columns::UID), [Some(1000), None]);
    assert_eq!(longs(columns::PID), [Some(7), None]);
    let processes = stored[columns::PROCESS].as_string::<i32>().iter();
    assert_eq!(processes.collect::<Vec<_>>(), [Some("fio"), None]);
    assert_eq!(longs(columns::XID), [Some(0x1234), None]);
    let bits = |name: &str| stored[name].as_boolean().iter().collect::<Vec<_>>();
    assert_eq!(bits(columns::EOF), [None, Some(true)]);
    assert_eq!(bits(columns::DIRECT), [Some(false), Some(true)]);
    assert_eq!(bits(columns::STABLE), [Some(true), None]);
    let errnos: Vec<_> = stored[columns::ERRNO]
        .as_primitive::<Int32Type>()
        .iter()
        .collect();
    assert_eq!(errnos, [None, Some(116)]);
}

#[test]
fn requests_are_ordered_by_time_and_cut_at_midnight_and_at_rotations() {
    let dir = tempfile::tempdir().unwrap();
    let midnight_ns = (T0 - T0 % 86_400_000 + 86_400_000) * 1_000_000;
    let (_writer, mut requests, _) = open(dir.path(), BUDGET);
    // The second batch has requests from before the end of the first. The third is on another day.
    let batches = [
        batch(midnight_ns - 100_000_000, 20),
        batch(midnight_ns - 90_500_000, 20),
        batch(midnight_ns - 5_000_000, 20),
    ];
    for batch in &batches {
        requests.append(batch).unwrap();
    }
    requests
        .idle(UtcMs(midnight_ns / 1_000_000 + 1000))
        .unwrap();
    requests
        .append(&batch(midnight_ns + 3_600_000_000_000, 1))
        .unwrap();
    requests.finish().unwrap();

    assert_eq!(
        request_files(dir.path()),
        [
            "requests/date=2026-11-21/h-20261121T235959Z-1.parquet",
            "requests/date=2026-11-22/h-20261122T000000Z-1.parquet",
            "requests/date=2026-11-22/h-20261122T010000Z-2.parquet",
        ]
    );
    let mut all = expected(&batches);
    all.push((midnight_ns + 3_600_000_000_000, 0));
    all.sort();
    assert_eq!(ends_and_offsets(dir.path()), all);
}

#[test]
fn a_clock_that_is_set_back_begins_another_segment() {
    let dir = tempfile::tempdir().unwrap();
    let (_writer, mut requests, _) = open(dir.path(), BUDGET);
    let batches = [batch(T0_NS + 60_000_000_000, 5), batch(T0_NS, 5)];
    for batch in &batches {
        requests.append(batch).unwrap();
    }
    requests.finish().unwrap();
    assert_eq!(request_files(dir.path()).len(), 2);
    assert_eq!(stored(dir.path()).len(), 2);
}

#[test]
fn a_journal_is_durable_when_it_is_handed_over_to_be_sealed() {
    let dir = tempfile::tempdir().unwrap();
    let (_writer, mut requests, _) = open(dir.path(), BUDGET);
    requests.append(&batch(T0_NS, 5)).unwrap();
    // A file in place of the directory prevents sealing.
    fs::write(dir.path().join("requests"), "").unwrap();
    requests.idle(UtcMs(T0 + 86_400_000)).unwrap();
    let journal = layout::requests_journal(dir.path(), 1);
    let durable = Extent::read(&journal).map(|extent| extent.bytes);
    assert_eq!(durable, Some(fs::metadata(&journal).unwrap().len()));
}

#[test]
fn a_dropped_writer_leaves_requests_that_the_next_seals_even_if_none_are_kept_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let batches = [batch(T0_NS, 30), batch(T0_NS + 30_000_000, 30)];
    let (mut writer, mut requests, _) = open(dir.path(), BUDGET);
    for batch in &batches {
        requests.append(batch).unwrap();
    }
    writer.append(&windows(1)[0]).unwrap();
    drop((requests, writer));
    assert_eq!(journals(dir.path()), ["1.tij", "requests-1.tij"]);

    let (writer, requests, told) = open(dir.path(), BUDGET);
    requests.finish().unwrap();
    assert!(!writer.has_unsealed_requests().unwrap());
    let recovered = Warning::RecoveredRequests {
        requests: 60,
        torn_bytes: 0,
    };
    assert_eq!(*told.lock().unwrap(), [recovered]);
    assert_eq!(ends_and_offsets(dir.path()), expected(&batches));
}

#[test]
fn a_tail_torn_at_any_byte_costs_the_torn_batch_alone() {
    let batches = [batch(T0_NS, 3), batch(T0_NS + 3_000_000, 3)];
    let left = tempfile::tempdir().unwrap();
    let (_writer, mut requests, _) = open(left.path(), BUDGET);
    let [(kept, end), (whole, _)] = [0, 1].map(|i| {
        requests.append(&batches[i]).unwrap();
        let journal = layout::requests_journal(left.path(), 1);
        let end = fs::read(layout::journal_end(&journal)).unwrap();
        (fs::read(&journal).unwrap(), end)
    });
    drop(requests);
    for cut in kept.len()..whole.len() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        drop(Writer::open(&store, options("h")).unwrap());
        fs::copy(layout::catalog(left.path()), layout::catalog(&store)).unwrap();
        let journal = layout::requests_journal(&store, 1);
        fs::write(&journal, &whole[..cut]).unwrap();
        // After a power cut it is at least as long as the first batch.
        fs::write(layout::journal_end(&journal), &end).unwrap();
        let (_writer, requests, told) = open(&store, BUDGET);
        requests.finish().unwrap();
        assert_eq!(
            ends_and_offsets(&store),
            expected(&batches[..1]),
            "cut at {cut}"
        );
        let recovered = Warning::RecoveredRequests {
            requests: 3,
            torn_bytes: (cut - kept.len()) as u64,
        };
        assert_eq!(*told.lock().unwrap(), [recovered], "cut at {cut}");
    }
}

#[test]
fn sealing_again_after_the_segments_got_their_names_doubles_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (writer, mut requests, _) = open(dir.path(), BUDGET);
    requests.append(&batch(T0_NS, 50)).unwrap();
    let journal = layout::requests_journal(dir.path(), 1);
    let bytes = fs::read(&journal).unwrap();
    requests.finish().unwrap();
    drop(writer);
    let (names, content) = (request_files(dir.path()), ends_and_offsets(dir.path()));
    // As if the process had ended before it removed the journal.
    fs::write(&journal, bytes).unwrap();
    let (_writer, mut requests, _) = open(dir.path(), BUDGET);
    requests.append(&batch(T0_NS + 1_000_000_000, 1)).unwrap();
    requests.finish().unwrap();
    let after = request_files(dir.path());
    assert_eq!(after.len(), names.len() + 1, "{after:?}");
    assert_eq!(ends_and_offsets(dir.path())[..50], content);
}

#[test]
fn what_cannot_be_written_is_left_out_and_the_rest_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (writer, mut requests, _) = open(dir.path(), BUDGET);
    let batches: Vec<_> = (0..4).map(|i| batch(T0_NS + i * 100_000_000, 3)).collect();
    requests.append(&batches[0]).unwrap();
    // The next journal cannot be created.
    let journals = dir.path().join("journal");
    let aside = dir.path().join("away");
    std::fs::rename(&journals, &aside).unwrap();
    requests.retire(|_| true).unwrap();
    assert!(requests.append(&batches[1]).is_err());
    std::fs::rename(&aside, &journals).unwrap();
    // The error may come from sealing.
    let _ = requests.append(&batches[2]);
    requests.append(&batches[3]).unwrap();
    requests.finish().unwrap();
    drop(writer);
    // The first journal may still be unsealed, if the thread looked for it while the directory was missing.
    let (_writer, requests, _) = open(dir.path(), BUDGET);
    requests.finish().unwrap();
    let stored = ends_and_offsets(dir.path());
    for (i, kept) in [(0, true), (1, false), (3, true)] {
        let first = expected(&batches[i..=i])[0];
        assert_eq!(stored.contains(&first), kept, "{i}");
    }
}

#[test]
fn a_journal_that_makes_no_sense_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    drop(Writer::open(dir.path(), options("h")).unwrap());
    fs::write(
        layout::requests_journal(dir.path(), 3),
        b"not a journal at all",
    )
    .unwrap();
    let (writer, mut requests, told) = open(dir.path(), BUDGET);
    requests.append(&batch(T0_NS, 2)).unwrap();
    requests.finish().unwrap();
    let quarantined = dir.path().join("journal/requests-3.tij.damaged");
    assert_eq!(
        *told.lock().unwrap(),
        [Warning::Quarantined(quarantined.clone())]
    );
    assert!(request_files(dir.path())[0].ends_with("-4.parquet"));
    // No segments are left. A new journal must not replace the file that was set aside.
    drop(writer);
    fs::remove_dir_all(dir.path().join("requests")).unwrap();
    let (_writer, mut requests, _) = open(dir.path(), BUDGET);
    requests.append(&batch(T0_NS, 2)).unwrap();
    requests.finish().unwrap();
    assert!(request_files(dir.path())[0].ends_with("-5.parquet"));
    assert_eq!(fs::read(&quarantined).unwrap(), b"not a journal at all");
}

#[test]
fn a_segment_in_the_place_of_another_one_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (_writer, mut requests, _) = open(dir.path(), BUDGET);
    for day in 0..2 {
        let start_ns = T0_NS + day * 86_400_000_000_000;
        requests.append(&batch(start_ns, 3)).unwrap();
    }
    requests.finish().unwrap();
    let files = request_files(dir.path());
    assert_eq!(files.len(), 2);
    let [kept, replaced] = [0, 1].map(|i| dir.path().join(&files[i]));
    fs::copy(kept, &replaced).unwrap();
    let mut view = RequestsView::open(dir.path()).unwrap();
    let mut rows = 0;
    view.read(0..i64::MAX, &mut |batch| {
        rows += batch.num_rows();
        Ok(true)
    })
    .unwrap();
    assert_eq!(rows, 3);
    assert_eq!(view.damaged().keys().collect::<Vec<_>>(), [&replaced]);
    let report = check(dir.path()).unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
}

#[test]
fn all_files_stay_within_the_budget_and_the_newest_are_kept() {
    const SMALL: u64 = 2 << 20;
    let dir = tempfile::tempdir().unwrap();
    let (_writer, mut requests, told) = open(dir.path(), SMALL);
    let room = |store: &Path| -> u64 {
        let journals = fs::read_dir(layout::journal_dir(store)).unwrap();
        let journals = journals.map(|entry| entry.unwrap().path());
        let segments = request_files(store)
            .into_iter()
            .map(|path| store.join(path));
        // The sealing thread may rename or remove the file at the same time.
        let bytes = |path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        journals.chain(segments).map(bytes).sum()
    };
    let (mut start_ns, mut most) = (T0_NS, 0);
    // Random offsets and latencies do not compress: about 10 MiB.
    for i in 0..1000_u64 {
        let mut batch = batch(start_ns, 500);
        for (n, request) in batch.requests.iter_mut().enumerate() {
            let random = (i * 500 + n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            request.offset = random >> 20;
            request.latency_ns = random >> 30;
            request.xid = random as u32;
        }
        start_ns += 500_000_000;
        requests.append(&batch).unwrap();
        most = most.max(room(dir.path()));
    }
    requests.finish().unwrap();
    // A journal exceeds its share by less than a batch.
    assert!(most <= SMALL + (64 << 10), "{most} bytes");
    assert!(most > SMALL / 2, "{most} bytes: nothing to delete");
    assert_eq!(
        *told.lock().unwrap(),
        [Warning::RequestsFull(SMALL)],
        "told once"
    );
    let kept = ends_and_offsets(dir.path());
    assert!(kept.len() < 500_000);
    let newest = start_ns - 1_000_000;
    let oldest = newest - (kept.len() as i64 - 1) * 1_000_000;
    let mut ends: Vec<i64> = kept.iter().map(|(end, _)| *end).collect();
    ends.sort_unstable();
    assert_eq!((ends[0], ends[ends.len() - 1]), (oldest, newest), "no gap");
}

#[test]
fn a_smaller_budget_is_kept_to_without_further_requests() {
    let dir = tempfile::tempdir().unwrap();
    let (_writer, mut requests, _) = open(dir.path(), BUDGET);
    requests.append(&batch(T0_NS, 500)).unwrap();
    let catalog = requests.catalog.clone();
    requests.finish().unwrap();
    let budget = DiskBudget::new(BUDGET);
    let mut seal = sealing(catalog, budget.clone(), u64::MAX, Box::new(drop));
    seal(Task::Idle).unwrap();
    assert_eq!(request_files(dir.path()).len(), 1);
    budget.set(64);
    seal(Task::Idle).unwrap();
    assert!(request_files(dir.path()).is_empty());
}

//! Operations add up to the recorded ones at any step, whether sealed or not.

use std::collections::BTreeMap;

use trackiops_query::coverage::note::Note;
use trackiops_query::coverage::{Gap, Interval};
use trackiops_query::{
    Answer, Connections, EmptyReason, GroupBy, OperationAnswer, Outcome, QueryError, Question,
    Step, ask_operations, ask_operations_by,
};
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, FileRow};
use trackiops_schemas::time::UtcMs;
use trackiops_testkit::generated::{Numbers, THREE, windows};
use trackiops_testkit::questions::{question, range, select};
use trackiops_testkit::stores::{append, options_of, record};
use trackiops_testkit::windows::{connection, granularity};

/// Windows of a second with operations of two mounts and without a mount, over two connections.
fn windows_of_operations(seed: u64, start: i64, count: i64) -> Vec<ClosedWindow> {
    let mut numbers = Numbers(seed);
    let mut windows = windows(seed, start, 1000, count, 2);
    for window in &mut windows {
        window.health.ops_covered_ms = window.health.covered_ms;
        for mount in [None, Some("srv:/even"), Some("srv:/odd")] {
            for op in ["COMMIT", "GETATTR", "READ"] {
                for transport in ["tcp-0", "tcp-1"] {
                    let requests = numbers.below(4);
                    if requests > 0 {
                        window.ops.push(row(mount, op, transport, requests));
                    }
                }
            }
        }
    }
    windows
}

fn row(mount: Option<&str>, op: &str, transport: &str, requests: u64) -> OperationRow {
    let mut sums = OperationSums {
        requests,
        errors: requests / 3,
        sent_bytes: 100 * requests,
        received_bytes: 300 * requests,
        ..OperationSums::default()
    };
    for i in 1..=requests {
        sums.queue_ns_sum += i * 1000;
        sums.rtt_ns_sum += i * 200_000;
        sums.execute_ns_sum += i * 300_000;
        sums.execute_ns_max = i * 300_000;
        sums.execute.record(i * 300_000);
    }
    OperationRow {
        operation: Operation {
            mount: mount.map(str::to_owned),
            op: op.to_owned(),
            transport: Some(transport.to_owned()),
        },
        sums,
    }
}

type Sums = BTreeMap<(i64, Option<String>, String, Option<String>), OperationSums>;

/// The expected answer, computed directly.
fn straightforward(windows: &[ClosedWindow], step: Step, connections: Connections) -> Sums {
    let mut sums = Sums::new();
    for window in windows {
        let time = match step {
            Step::Windows(step) => window.start.align(step).0,
            Step::All => windows[0].start.0,
        };
        for row in &window.ops {
            let operation = row.operation.clone();
            let apart = connections == Connections::Apart;
            let transport = operation.transport.filter(|_| apart);
            let key = (time, operation.mount, operation.op, transport);
            sums.entry(key).or_default().merge(&row.sums);
        }
    }
    sums
}

fn sums(answer: &Answer<OperationAnswer>, connections: Connections) -> Sums {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
    let row = |row: &OperationAnswer| {
        let apart = connections == Connections::Apart;
        let transport = text(&row.transport).filter(|_| apart);
        let key = (row.time.0, text(&row.mount), row.op.to_string(), transport);
        (key, row.sums.clone())
    };
    let sums: Sums = answer.rows.iter().map(row).collect();
    assert_eq!(sums.len(), answer.rows.len(), "a row comes twice");
    sums
}

fn found(question: &Question, connections: Connections) -> Answer<OperationAnswer> {
    match ask_operations(question, connections).unwrap() {
        Outcome::Found(answer) => answer,
        Outcome::Nothing { why, .. } => panic!("nothing found: {why:?}"),
    }
}

const BOTH: [Connections; 2] = [Connections::Together, Connections::Apart];

#[test]
fn operations_add_up_to_what_was_recorded_sealed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows_of_operations(7, THREE, 150);
    // Rotated twice, with the rest unsealed at first.
    let recorder = || options_of("h", "1s,10s,1m", "1m");
    let mut writer = append(dir.path(), recorder(), &windows);
    for sealed in [false, true] {
        if sealed {
            writer.finish().unwrap();
            writer = append(dir.path(), recorder(), &[]);
        }
        for step in ["1s", "10s", "1m", "5m", "all"] {
            let step: Step = step.parse().unwrap();
            let mut question = question(dir.path());
            question.step = Some(step);
            for connections in BOTH {
                let answer = found(&question, connections);
                let expected = straightforward(&windows, step, connections);
                assert_eq!(sums(&answer, connections), expected, "{step:?}");
            }
        }
    }
    writer.finish().unwrap();
}

#[test]
fn a_range_takes_the_operations_of_its_windows() {
    let dir = tempfile::tempdir().unwrap();
    let windows = windows_of_operations(9, THREE, 60);
    record(dir.path(), options_of("h", "1s,10s", "1m"), &windows);
    let mut question = question(dir.path());
    question.step = Some("1s".parse().unwrap());
    question.range = range(THREE + 7000, THREE + 33_000);
    let answer = found(&question, Connections::Apart);
    let expected = straightforward(&windows[7..33], question.step.unwrap(), Connections::Apart);
    assert_eq!(sums(&answer, Connections::Apart), expected);
}

#[test]
fn of_several_connections_none_stands_in_the_sum() {
    let dir = tempfile::tempdir().unwrap();
    let mut windows = windows(1, THREE, 1000, 1, 1);
    windows[0].ops = vec![
        row(None, "COMMIT", "tcp-0", 1),
        row(None, "COMMIT", "tcp-1", 2),
        row(None, "READ", "tcp-1", 3),
    ];
    record(dir.path(), options_of("h", "1s", "1m"), &windows);
    let answer = found(&question(dir.path()), Connections::Together);
    let told: Vec<_> = answer
        .rows
        .iter()
        .map(|row| (&*row.op, row.transport.as_deref()))
        .collect();
    assert_eq!(told, [("COMMIT", None), ("READ", Some("tcp-1"))]);
    let mix: Vec<_> = answer
        .rows
        .iter()
        .map(|row| (row.sums.requests, row.mount_requests))
        .collect();
    assert_eq!(mix, [(3, 6), (3, 6)]);
}

#[test]
fn what_tcp_knows_of_a_connection_is_in_each_of_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let mut windows = windows(1, THREE, 1000, 2, 1);
    let mount = Some("srv:/even");
    windows[0].ops = vec![
        row(mount, "READ", "tcp-1", 3),
        row(mount, "WRITE", "tcp-1", 1),
        row(mount, "READ", "tcp-2", 2),
        connection("tcp-1", 300, 2, 100),
        connection("tcp-9", 100, 0, 100),
    ];
    windows[1].ops = vec![
        row(mount, "READ", "tcp-1", 1),
        connection("tcp-1", 100, 5, 100),
    ];
    for window in &mut windows {
        window.health.ops_covered_ms = window.health.covered_ms;
    }
    record(dir.path(), options_of("h", "1s", "1m"), &windows);
    let mut all = question(dir.path());
    all.step = Some(Step::All);
    let told = |question: &Question, connections: Connections| {
        let mut rows: Vec<_> = found(question, connections)
            .rows
            .into_iter()
            .map(|row| {
                let tcp = row.sums.tcp;
                let transport = row.transport.map(|name| name.to_string());
                let known = (tcp.readings, tcp.rtt_ns_sum, tcp.retrans);
                (row.op.to_string(), transport.unwrap_or_default(), known)
            })
            .collect();
        rows.sort();
        rows
    };
    let expected = |rows: &[(&str, &str, (u64, u64, u64))]| -> Vec<_> {
        let rows = rows.iter();
        let own =
            rows.map(|(op, transport, known)| ((*op).to_owned(), (*transport).to_owned(), *known));
        own.collect()
    };
    let (one, none) = ((2, 400_000, 7), (0, 0, 0));
    let apart = expected(&[
        ("(connection)", "tcp-9", (1, 100_000, 0)),
        ("READ", "tcp-1", one),
        ("READ", "tcp-2", none),
        ("WRITE", "tcp-1", one),
    ]);
    assert_eq!(told(&all, Connections::Apart), apart);
    let stored = expected(&[
        ("(connection)", "tcp-1", one),
        ("(connection)", "tcp-9", (1, 100_000, 0)),
        ("READ", "tcp-1", none),
        ("READ", "tcp-2", none),
        ("WRITE", "tcp-1", none),
    ]);
    assert_eq!(told(&all, Connections::Stored), stored);
    let together = expected(&[("READ", "", none), ("WRITE", "tcp-1", none)]);
    assert_eq!(told(&all, Connections::Together), together);
    // Only rows of selected mounts and operations are there, with what is known of their connections.
    all.mounts = vec!["srv:/even".to_owned()];
    all.ops = vec!["WRITE".to_owned()];
    let write = expected(&[("WRITE", "tcp-1", one)]);
    assert_eq!(told(&all, Connections::Apart), write);
}

#[test]
fn servers_that_had_the_same_connection_one_after_the_other_are_apart_by_window_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut windows = windows(1, THREE, 1000, 2, 1);
    let servers = [("near:/a", 100), ("far:/b", 300)];
    for (window, (mount, rtt_us)) in windows.iter_mut().zip(servers) {
        window.ops = vec![
            row(Some(mount), "READ", "tcp-1", 1),
            connection("tcp-1", rtt_us, 0, 100),
        ];
        window.health.ops_covered_ms = window.health.covered_ms;
    }
    record(dir.path(), options_of("h", "1s", "1m"), &windows);
    let told = |step: Step| -> Vec<(String, u64)> {
        let mut question = question(dir.path());
        question.step = Some(step);
        let answer = found(&question, Connections::Apart);
        let rows = answer.rows.iter();
        let told = rows.map(|row| {
            let mount = row.mount.as_deref().unwrap_or_default();
            (mount.to_owned(), row.sums.tcp.rtt_ns_sum / 1000)
        });
        told.collect()
    };
    let of = |mount: &str, us: u64| (mount.to_owned(), us);
    let second = Step::Windows(granularity("1s"));
    assert_eq!(told(second), [of("near:/a", 100), of("far:/b", 300)]);
    // What is stored of a connection names no server.
    assert_eq!(told(Step::All), [of("far:/b", 400), of("near:/a", 400)]);
}

/// The reason and the notes of an empty answer.
fn nothing(question: &Question) -> (EmptyReason, Vec<Note>) {
    match ask_operations(question, Connections::Together).unwrap() {
        Outcome::Nothing { why, notes } => (why, notes),
        Outcome::Found(answer) => panic!("{answer:?}"),
    }
}

#[test]
fn a_recording_without_operations_says_so_and_an_idle_one_that_there_were_none() {
    for recorded in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut windows = windows(1, THREE, 1000, 5, 1);
        for window in windows.iter_mut().filter(|_| recorded) {
            window.health.ops_covered_ms = window.health.covered_ms;
        }
        record(dir.path(), options_of("h", "1s", "1m"), &windows);
        let (why, notes) = nothing(&question(dir.path()));
        let left_out = notes
            .iter()
            .any(|note| matches!(note, Note::LeftOut { .. }));
        assert_eq!(left_out, !recorded, "{notes:?}");
        let expected = match recorded {
            true => matches!(why, EmptyReason::NoOperation { .. }),
            false => matches!(why, EmptyReason::LeftOut { .. }),
        };
        assert!(expected, "{why:?}");
    }
}

#[test]
fn a_part_of_the_range_without_operations_is_told_and_does_not_dilute_rates() {
    for sealed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut windows = windows_of_operations(3, THREE, 60);
        for window in &mut windows[20..30] {
            window.ops.clear();
            window.health.ops_covered_ms = 0;
        }
        let writer = append(dir.path(), options_of("h", "1s,10s,1m", "1h"), &windows);
        if sealed {
            writer.finish().unwrap();
        }
        let answer = found(&question(dir.path()), Connections::Together);
        let gap = Gap {
            range: Interval::new(UtcMs(THREE + 20_000), UtcMs(THREE + 30_000)),
            missing_ms: 10_000,
        };
        let left_out = Note::LeftOut { host: None, gap };
        assert!(answer.notes.contains(&left_out), "{:?}", answer.notes);
        let no_gap = |note: &Note| !matches!(note, Note::Gap { .. });
        assert!(answer.notes.iter().all(no_gap), "{:?}", answer.notes);
        let mut question = question(dir.path());
        question.step = Some(Step::All);
        let answer = found(&question, Connections::Together);
        assert!(answer.rows.iter().all(|row| row.covered_ms == 50_000));
    }
}

#[test]
fn only_what_is_missed_of_operations_is_told_with_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut windows = windows_of_operations(5, THREE, 10);
    let health = &mut windows[4].health;
    (health.lost, health.missed) = (7, 8);
    (health.audit_missed_requests, health.audit_alarms) = (6, 5);
    (health.ops_seen, health.ops_missed) = (40, 9);
    record(dir.path(), options_of("h", "1s", "1m"), &windows);
    let notes = found(&question(dir.path()), Connections::Together).notes;
    let told = |note: &Note| match note {
        Note::Lost { losses, .. } | Note::Missed { losses, .. } => {
            Some((losses.count, losses.seen))
        }
        Note::Booked { count, .. } | Note::AuditAlarm { count, .. } => Some((*count, 0)),
        _ => None,
    };
    assert_eq!(notes.iter().filter_map(told).collect::<Vec<_>>(), [(9, 40)]);
}

#[test]
fn connections_of_a_file_are_not_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let of_file = Question {
        files: vec![select("0:49:2")],
        ..question(dir.path())
    };
    let error: QueryError = ask_operations(&of_file, Connections::Apart).unwrap_err();
    assert!(error.to_string().contains("--file"), "{error}");
}

#[test]
fn the_first_are_those_of_the_whole_range_and_conditions_leave_the_rest_out() {
    let dir = tempfile::tempdir().unwrap();
    record(
        dir.path(),
        options_of("h", "1s", "1m"),
        &windows_of_operations(5, THREE, 30),
    );
    let all = Question {
        step: Some(Step::All),
        ..question(dir.path())
    };
    let answer = found(&all, Connections::Together);
    let name = |row: &OperationAnswer| (row.mount.clone(), row.op.clone());
    let mut frequent: Vec<_> = answer.rows.iter().collect();
    frequent.sort_by_key(|row| std::cmp::Reverse(row.sums.requests));
    assert_ne!(frequent[1].sums.requests, frequent[2].sums.requests);
    let expected: Vec<_> = frequent[..2].iter().map(|row| name(row)).collect();
    let top = Question {
        top: std::num::NonZeroUsize::new(2),
        ..all.clone()
    };
    let told = found(&top, Connections::Together);
    assert_eq!(told.rows.iter().map(name).collect::<Vec<_>>(), expected);
    let by_windows = Question { step: None, ..top };
    let told = found(&by_windows, Connections::Together);
    let mut names: Vec<_> = told.rows.iter().map(name).collect();
    names.dedup();
    assert_eq!(names, expected);
    assert!(told.rows.len() > 10);

    let limit = frequent[2].sums.requests;
    let some = Question {
        conditions: vec![format!("requests > {limit}").parse().unwrap()],
        sort: Some("requests:asc".parse().unwrap()),
        ..all.clone()
    };
    let told = found(&some, Connections::Together);
    let expected: Vec<_> = expected.into_iter().rev().collect();
    assert_eq!(told.rows.iter().map(name).collect::<Vec<_>>(), expected);
    let one = Question {
        ops: vec!["GETATTR".into()],
        mounts: vec!["srv:/e*".into()],
        ..all
    };
    let told = found(&one, Connections::Together);
    assert_eq!(told.rows.len(), 1);
    assert_eq!(told.rows[0].mount.as_deref(), Some("srv:/even"));
}

#[test]
fn operations_of_files_add_up_to_those_of_all_files() {
    let dir = tempfile::tempdir().unwrap();
    record(
        dir.path(),
        options_of("h", "1s,10s", "1m"),
        &windows(7, THREE, 1000, 30, 6),
    );
    let asked = Question {
        step: Some(Step::All),
        ..question(dir.path())
    };
    let sums = |by: GroupBy| {
        let Outcome::Found(answer) = ask_operations_by(&asked, by).unwrap() else {
            panic!("nothing found");
        };
        let mut sums: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for row in &answer.rows {
            let sum = sums.entry((row.mount.clone(), row.op.clone())).or_default();
            *sum = (sum.0 + row.sums.requests, sum.1 + row.sums.bytes());
        }
        (sums, answer.rows.len())
    };
    let (mounts, rows) = sums(GroupBy::MOUNT);
    assert_eq!(mounts.len(), rows);
    for by in [
        GroupBy::FILE,
        GroupBy::FILE_TENANT,
        GroupBy::dir(1),
        GroupBy::HOST,
    ] {
        let (other, count) = sums(by);
        if by != GroupBy::HOST {
            assert_eq!(other, mounts, "{by:?}");
        }
        assert!(count > rows || by == GroupBy::HOST, "{by:?}");
    }
}

#[test]
fn of_a_file_reads_writes_and_metadata_are_told_each_once_whoever_used_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path();
    let windows = windows(7, THREE, 1000, 30, 6);
    record(store, options_of("web-1", "1s,10s", "1m"), &windows);
    // The first file has no known user, and the second one has two users at once.
    for path in ["/mnt/f1", "/mnt/f2"] {
        let asked = Question {
            files: vec![select(path)],
            step: Some(Step::All),
            ..question(store)
        };
        let Outcome::Found(answer) = ask_operations(&asked, Connections::Together).unwrap() else {
            panic!("nothing found");
        };
        let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        let all = windows.iter().flat_map(|window| &window.rows);
        for FileRow { row, .. } in all.filter(|row| row.file.path.as_deref() == Some(path)) {
            let mut add = |op: &str, requests, untimed| {
                let sums = expected.entry(op.to_owned()).or_default();
                *sums = (sums.0 + requests, sums.1 + untimed);
            };
            add("READ", row.read.requests, row.read.untimed);
            add("WRITE", row.write.requests, row.write.untimed);
            for op in row.ops.as_slice() {
                add(op.op.as_str(), op.requests, 0);
            }
        }
        let told = answer.rows.iter();
        let told: BTreeMap<_, _> = told
            .map(|row| (row.op.to_string(), (row.sums.requests, row.untimed)))
            .collect();
        assert_eq!(told, expected, "{path}");
        assert_eq!(told.keys().collect::<Vec<_>>(), ["COMMIT", "READ", "WRITE"]);
        assert_eq!(answer.rows.len(), 3, "each once");
        let all: u64 = expected.values().map(|(requests, _)| requests).sum();
        assert!(answer.rows.iter().all(|row| row.mount_requests == all));
    }
}

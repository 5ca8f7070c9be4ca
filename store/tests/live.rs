//! Programs that subscribe to a recorder: the messages that they receive, and that they do not slow it down.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests fail by panicking"
)]

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::slice;
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

use trackiops_schemas::identity::Dev;
use trackiops_schemas::row::{ClosedWindow, Row};
use trackiops_schemas::time::{Granularity, UtcMs};
use trackiops_store::live::{
    Gap, LiveError, LiveServer, LiveWindow, Message, Position, Subscription,
};
use trackiops_store::{RetentionPolicy, Snapshot, store_ids};
use trackiops_testkit::content::Content;
use trackiops_testkit::recording::{Recording, recorder};
use trackiops_testkit::stores::parquet_files;
use trackiops_testkit::windows::{T0, file, granularity, mount_point, reads, window, windows};

const LONG: Duration = Duration::from_secs(20);

fn second() -> Granularity {
    granularity("1s")
}

fn connect(recording: &Recording) -> Subscription {
    Subscription::connect(&recording.socket()).unwrap()
}

/// Messages that a subscriber receives until the recorder ends.
#[derive(Default)]
struct Received {
    windows: Vec<LiveWindow>,
    gaps: Vec<Gap>,
    statuses: u64,
    totals: Option<LiveWindow>,
}

impl Received {
    fn until_the_end(subscription: &mut Subscription) -> Self {
        let mut received = Self::default();
        loop {
            match subscription.next(LONG).unwrap().expect("silence") {
                Message::Window(window) => received.windows.push(window),
                Message::Gap(gap) => received.gaps.push(gap),
                Message::Status(_) => received.statuses += 1,
                Message::Totals(totals) => received.totals = Some(totals),
                Message::Hello(_) | Message::Mounts(_) => {}
                Message::End => return received,
            }
        }
    }

    fn content(&self, after: Position) -> Content {
        let windows: Vec<_> = self
            .windows
            .iter()
            .filter(|w| w.position > after)
            .cloned()
            .collect();
        let snapshot = Snapshot::of_windows(&windows, &[], Path::new("socket")).unwrap();
        Content::of_view(&snapshot, second()).unwrap()
    }
}

fn listen(mut subscription: Subscription) -> JoinHandle<Received> {
    thread::spawn(move || Received::until_the_end(&mut subscription))
}

#[test]
fn subscribers_have_the_mounts_that_are_recorded_and_the_store_has_all() {
    let mut recording = Recording::begin();
    let at = |path| mount_point(Dev(49), "srv:/e", path);
    let [recorded, other] = ["/mnt/a", "/mnt/b"].map(at);
    let all = vec![recorded.clone(), other];
    recording.mounted(UtcMs(T0), all, slice::from_ref(&recorded));
    let mut subscription = connect(&recording);
    let mounts = loop {
        if let Message::Mounts(mounts) = subscription.next(LONG).unwrap().expect("silence") {
            break mounts;
        }
    };
    assert_eq!(mounts, [recorded]);
    recording.put(&windows(2));
    recording.end();
    let there = Snapshot::open(&recording.store())
        .unwrap()
        .mounts()
        .unwrap();
    assert_eq!(there.len(), 2);
}

#[test]
fn a_reader_that_subscribes_first_has_each_window_once() {
    let recorded = windows(200);
    for subscribes_at in [0, 1, 57, 150, 200] {
        let mut recording = Recording::begin();
        let mut listener = None;
        let mut view = None;
        for (i, window) in recorded.iter().enumerate() {
            if i == subscribes_at {
                listener = Some(listen(connect(&recording)));
            }
            if i == subscribes_at + 5 {
                view = Some(Snapshot::open(&recording.store()).unwrap());
            }
            recording.close(window);
            if i % 8 == 0 {
                sleep(Duration::from_millis(1));
            }
        }
        let listener = listener.unwrap_or_else(|| listen(connect(&recording)));
        let view = view.unwrap_or_else(|| Snapshot::open(&recording.store()).unwrap());
        let after = view.position();
        // Read before merging deletes any of it.
        let mut content = Content::of_view(&view, second()).unwrap();
        recording.end();
        let received = listener.join().unwrap();
        content.merge(received.content(after));
        assert_eq!(content, Content::of(&recorded, second()), "{subscribes_at}");
        assert_eq!(received.gaps, []);
        assert!(
            received
                .windows
                .is_sorted_by(|a, b| a.position < b.position)
        );
    }
}

#[test]
fn totals_are_the_sums_of_all_windows_for_whoever_comes_when() {
    let recorded = windows(20);
    let mut recording = Recording::begin();
    recording.put(&recorded[..10]);
    let mut subscription = connect(&recording);
    recording.put(&recorded[10..]);
    // The status after the last window, and its totals.
    let mut received = Received::default();
    while received.statuses < 3 || received.totals.is_none() {
        match subscription.next(LONG).unwrap().unwrap() {
            Message::Status(_) => received.statuses += 1,
            Message::Totals(totals) => received.totals = Some(totals),
            _ => {}
        }
    }
    recording.end();
    let totals = received.totals.unwrap().decode(Path::new("socket"));
    let totals = totals.unwrap().unwrap();
    let mut sum = Row::default();
    for row in recorded.iter().flat_map(|window| &window.rows) {
        sum.merge(&row.row);
    }
    let [of_mount] = &totals.rows[..] else {
        panic!("{totals:?}");
    };
    assert_eq!(of_mount.file.mount.as_deref(), Some("srv:/export"));
    assert_eq!((of_mount.file.path.as_deref(), &of_mount.row), (None, &sum));
    assert_eq!(totals.health.seen, sum.read.requests);
}

#[test]
fn hello_status_and_mounts_come_first() {
    let mut recording = Recording::begin();
    recording.put(&windows(1));
    let mut subscription = connect(&recording);
    let store = recording.store();
    assert_eq!(subscription.hello().recorder, recorder(&store));
    let next = |subscription: &mut Subscription| subscription.next(LONG).unwrap().unwrap();
    let first = next(&mut subscription);
    assert!(
        matches!(&first, Message::Mounts(none) if none.is_empty()),
        "{first:?}"
    );
    let Message::Status(status) = next(&mut subscription) else {
        panic!("no status");
    };
    assert_eq!((status.windows, status.last_ms), (1, Some(T0)));
    assert_eq!((status.total.read_requests, status.last.files), (7, 2));
    assert_eq!(status.total.health.covered_ms, 1000);
    assert_eq!(status.store_error, None);
    // Another status each second, beside the window.
    let mut statuses = 0;
    while statuses < 2 {
        statuses += u8::from(matches!(next(&mut subscription), Message::Status(_)));
    }
    recording.end();
}

#[test]
fn the_status_has_the_id_of_the_store_also_if_that_was_deleted_and_created_again() {
    let mut recording = Recording::begin();
    let store = recording.store();
    let mut known = Vec::new();
    for window in windows(2) {
        if !known.is_empty() {
            fs::remove_dir_all(&store).unwrap();
        }
        recording.put(slice::from_ref(&window));
        let mut subscription = connect(&recording);
        let told = loop {
            if let Message::Status(status) = subscription.next(LONG).unwrap().unwrap() {
                break status.store_id;
            }
        };
        let id = store_ids(&store).unwrap().id;
        assert_eq!(told, Some(id));
        known.push(id);
    }
    assert_ne!(known[0], known[1]);
    recording.end();
}

/// A window of some 4 KiB for each file.
fn large(i: i64, files: u64) -> ClosedWindow {
    let rows = (0..files).map(|fileid| {
        let path = format!("/mnt/{fileid:04000}");
        (file(fileid, 49, Some(&path)), reads(2))
    });
    window(T0 + 1000 * i, rows.collect())
}

#[test]
fn who_is_too_slow_is_told_what_is_missing_and_holds_up_nobody() {
    let mut recording = Recording::begin();
    let mut stopped = connect(&recording);
    let quick = listen(connect(&recording));
    let recorded: Vec<_> = (0..30).map(|i| large(i, 400)).collect();
    for window in &recorded {
        recording.put(slice::from_ref(window));
        // The quick subscriber must keep up in a debug build.
        sleep(Duration::from_millis(100));
    }
    let stopped = thread::spawn(move || Received::until_the_end(&mut stopped));
    sleep(Duration::from_millis(1500));
    recording.end();
    let all = Content::of(&recorded, second());
    let quick = quick.join().unwrap();
    assert_eq!(quick.gaps, []);
    assert_eq!(quick.content(Position::default()), all);
    let stopped = stopped.join().unwrap();
    let [gap] = stopped.gaps[..] else {
        panic!("one gap: {:?}", stopped.gaps);
    };
    assert!(gap.windows > 5, "{gap:?}");
    let windows = stopped.windows.len() as u64;
    assert_eq!(gap.windows + windows, 30, "{gap:?}");
    assert!(
        gap.after < gap.until && gap.since_ms <= gap.until_ms,
        "{gap:?}"
    );
    // The gap is at its reported place, and nothing else is missing.
    let position = |i: usize| quick.windows[i].position;
    let until = (0..30).find(|i| position(*i) == gap.until).unwrap();
    let missing = until + 1 - gap.windows as usize..=until;
    let left: Vec<_> = (0..30)
        .filter(|i| !missing.contains(i))
        .map(position)
        .collect();
    let received: Vec<_> = stopped.windows.iter().map(|w| w.position).collect();
    assert_eq!(received, left);
    let first = *missing.start() as i64;
    assert_eq!(
        [gap.since_ms, gap.until_ms],
        [T0 + 1000 * first, T0 + 1000 * (until as i64 + 1)]
    );
}

#[test]
fn a_window_that_is_larger_than_the_buffer_is_a_gap() {
    let mut recording = Recording::begin();
    let listener = listen(connect(&recording));
    recording.close(&large(0, 4000));
    recording.close(&windows(2)[1]);
    recording.end();
    let received = listener.join().unwrap();
    let gaps: Vec<_> = received.gaps.iter().map(|gap| gap.windows).collect();
    assert_eq!((gaps, received.windows.len()), (vec![1], 1));
}

#[test]
fn many_listeners_of_any_kind_cost_no_window() {
    let mut recording = Recording::begin();
    let path = recording.socket();
    let listeners: Vec<_> = (0..18).map(|_| listen(connect(&recording))).collect();
    let stopped = connect(&recording);
    let garbage = {
        let path = path.clone();
        thread::spawn(move || {
            let mut socket = UnixStream::connect(path).unwrap();
            socket
                .set_write_timeout(Some(Duration::from_millis(50)))
                .unwrap();
            while socket.write_all(&[0xa5; 4096]).is_ok() {}
        })
    };
    let restless = thread::spawn(move || {
        for i in 0..1000 {
            let mut socket = UnixStream::connect(&path).unwrap();
            if i % 3 == 0 {
                let _ = socket.read(&mut [0; 3]);
            }
        }
    });
    let recorded = windows(300);
    for window in &recorded {
        recording.close(window);
        sleep(Duration::from_millis(2));
    }
    garbage.join().unwrap();
    restless.join().unwrap();
    let store = recording.store();
    recording.end();
    let all = Content::of(&recorded, second());
    assert_eq!(Content::stored(&store, second()), all);
    for listener in listeners {
        let received = listener.join().unwrap();
        assert_eq!(received.gaps, []);
        assert_eq!(received.content(Position::default()), all);
    }
    drop(stopped);
}

#[test]
fn after_a_restart_positions_go_on() {
    let recorded = windows(40);
    let mut recording = Recording::begin();
    let first = listen(connect(&recording));
    for window in &recorded[..20] {
        recording.close(window);
    }
    recording.end();
    let first = first.join().unwrap();
    let last = first.windows.last().unwrap().position;
    assert!(matches!(
        Subscription::connect(&recording.socket()),
        Err(LiveError::NoRecorder(_))
    ));
    recording.resume();
    let second_one = listen(connect(&recording));
    for window in &recorded[20..] {
        recording.close(window);
    }
    recording.end();
    let second_one = second_one.join().unwrap();
    assert!(
        second_one
            .windows
            .iter()
            .all(|window| window.position > last)
    );
    let mut content = first.content(Position::default());
    content.merge(second_one.content(last));
    assert_eq!(content, Content::of(&recorded, second()));
}

#[test]
fn what_is_kept_can_change_while_recording() {
    let kept = |recording: &Recording| {
        let recorder = connect(recording).hello().recorder.clone();
        (recorder.store_size, recorder.retention)
    };
    // A deleted store is created again, with the current retention.
    for is_deleted in [false, true] {
        let mut recording = Recording::begin();
        assert_eq!(kept(&recording), (None, "1s=2d,1h=forever".to_owned()));
        recording.put(&windows(10));
        recording.set_retention(RetentionPolicy {
            retention: "1h=1d".parse().unwrap(),
            most_bytes: Some(0),
            ..RetentionPolicy::default()
        });
        assert_eq!(kept(&recording), (Some(0), "1h=86400000ms".to_owned()));
        if is_deleted {
            fs::remove_dir_all(recording.store()).unwrap();
        }
        recording.put(&windows(20)[10..]);
        recording.end();
        assert_eq!(parquet_files(&recording.store()), [""; 0]);
    }
}

#[test]
fn the_socket_is_the_recorders_alone() {
    let mut recording = Recording::begin();
    let path = recording.socket();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&path), 0o660);
    assert_eq!(mode(path.parent().unwrap()), 0o755);
    let other = LiveServer::start(&path, recorder(&recording.store()), Position::default());
    assert_eq!(other.unwrap_err().kind(), ErrorKind::AddrInUse);
    // The first recorder still serves.
    let listener = listen(connect(&recording));
    recording.put(&windows(1));
    recording.end();
    assert_eq!(listener.join().unwrap().windows.len(), 1);
    assert!(!path.exists());
    // A socket that a killed recorder left is replaced; any other file is not.
    drop(UnixListener::bind(&path).unwrap());
    recording.resume();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.sock");
    fs::write(&path, "precious").unwrap();
    let refused = LiveServer::start(&path, recorder(dir.path()), Position::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn what_is_no_recorder_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.sock");
    for answer in [
        &b""[..],
        b"HTTP/1.1 400",
        b"TIOL\x02\0\0\0",
        b"TIOL\x01\0\0\0\x01\0\0\0\x63\x01x",
    ] {
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(answer).unwrap();
        });
        let error = Subscription::connect(&path).unwrap_err();
        let is_right = match answer {
            b"" => matches!(error, LiveError::Closed(_)),
            _ => matches!(error, LiveError::Foreign { .. }),
        };
        assert!(is_right, "{error}");
        server.join().unwrap();
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn windows_add_up_to_one() {
    let recorded = windows(25);
    let mut recording = Recording::begin();
    let listener = listen(connect(&recording));
    recording.put(&recorded);
    recording.end();
    let received = listener.join().unwrap();
    let minute = granularity("1m");
    let sum = LiveWindow::sum(&received.windows, minute, Path::new("socket"));
    let sum = sum.unwrap().unwrap();
    assert_eq!(sum.position, received.windows[24].position);
    let view = Snapshot::of_windows(&[sum], &[], Path::new("socket")).unwrap();
    let content = Content::of_view(&view, minute).unwrap();
    assert_eq!(content, Content::of(&recorded, minute));
    assert_eq!(view.granularities(), [minute]);
    assert!(
        LiveWindow::sum(&[], minute, Path::new(""))
            .unwrap()
            .is_none()
    );
}

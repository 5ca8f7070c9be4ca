//! `trackiops metrics`: output for scrapers and collectors, and resistance to hostile clients.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::server::{LONG, Server, answer, trackiops};
use trackiops_schemas::identity::{Dev, FileAttributes, Tenant};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::tcp::TcpSums;
use trackiops_schemas::time::UtcMs;
use trackiops_serve::metrics::{MOST_SERIES, catalogue::FAMILIES};
use trackiops_testkit::recording::{Recording, of_two_files, recent};
use trackiops_testkit::windows::{T0, connection, file, mount_point, reads, stalled, window};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A running `trackiops metrics`.
struct Metrics(Server);

impl Metrics {
    fn start(recording: &Recording, flags: &[&str]) -> Self {
        let mut command = trackiops(recording.dir());
        command
            .args(["metrics", "--socket"])
            .arg(recording.socket());
        command.args(["--listen", "127.0.0.1:0"]).args(flags);
        Self(Server::start(&mut command, "metrics at "))
    }

    fn scrape(&self, accept: &str) -> (String, Vec<u8>) {
        let headers = format!("Host: {}\r\nAccept: {accept}\r\n", self.address);
        self.get("/metrics", &headers)
    }

    fn text(&self) -> String {
        let (head, body) = self.scrape("text/plain");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        String::from_utf8(body).unwrap()
    }

    /// The exposition, once it contains this line.
    fn text_with(&self, line: &str) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if text.lines().any(|of| of == line) {
                return text;
            }
            assert!(begun.elapsed() < LONG, "no {line} in\n{text}");
            sleep(Duration::from_millis(100));
        }
    }
}

impl Deref for Metrics {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

/// Lines of samples, without their values.
fn series(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().0).collect()
}

fn value(text: &str, series: &str) -> f64 {
    let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    let mut found = lines.filter(|(name, _)| *name == series);
    let (_, value) = found
        .next()
        .unwrap_or_else(|| panic!("no {series} in\n{text}"));
    value.parse().unwrap()
}

fn volume() -> MountPoint {
    MountPoint {
        volume: Some("pvc-1".into()),
        claim: Some("shop/data".into()),
        ..mount_point(Dev(49), "srv:/export", "/mnt")
    }
}

/// A window with an event for every metric.
fn eventful() -> ClosedWindow {
    let mut window = recent(1).remove(0);
    window.ops = vec![OperationRow {
        operation: Operation {
            mount: Some("srv:/export".into()),
            op: "GETATTR".into(),
            transport: None,
        },
        sums: OperationSums {
            requests: 7,
            rtt_ns_sum: 2_000_000,
            execute_ns_sum: 3_500_000,
            ..OperationSums::default()
        },
    }];
    window.ops.push(OperationRow {
        operation: Operation::connection("tcp-3".into()),
        sums: OperationSums {
            tcp: TcpSums {
                readings: 2,
                rtt_ns_sum: 82_000_000,
                rtt_ns_min: 40_000_000,
                segments: 500,
                retrans: 7,
                ..TcpSums::default()
            },
            ..OperationSums::default()
        },
    });
    // Nothing was acknowledged yet.
    window.ops.push(connection("tcp-4", 0, 1, 1));
    for row in &mut window.rows {
        let named = Tenant {
            name: Some("acme".into()),
            ..Tenant::default()
        };
        Arc::make_mut(&mut row.file).tenant = Arc::new(named);
    }
    window.health.pending = Some(stalled("192.0.2.1", "srv:/export", 42_000, 3));
    window
}

#[test]
fn what_is_served_is_what_a_query_answers() {
    let mut recording = Recording::begin();
    recording.put(&recent(20));
    let metrics = Metrics::start(&recording, &[]);
    let text = metrics.text_with("trackiops_windows_total 20");
    recording.end();
    let output = Command::new(env!("CARGO_BIN_EXE_trackiops"))
        .args([
            "query", "--by", "mount", "--step", "1h", "--json", "--store",
        ])
        .arg(recording.store())
        .output()
        .unwrap();
    let mut expected = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        for (column, metric) in [
            ("read_requests", "requests_total"),
            ("read_bytes", "transferred_bytes_total"),
            ("read_untimed", "untimed_requests_total"),
        ] {
            *expected.entry(metric).or_insert(0.0) += row[column].as_f64().unwrap();
        }
    }
    assert!(expected["requests_total"] > 100.0, "{expected:?}");
    let of = |metric: &str| {
        let labels = r#"{mount="srv:/export",direction="read"}"#;
        value(&text, &format!("trackiops_{metric}{labels}"))
    };
    for (metric, expected) in &expected {
        assert_eq!(of(metric), *expected, "{metric}");
    }
    // All take 300 us.
    let timed = expected["requests_total"] - expected["untimed_requests_total"];
    assert_eq!(of("latency_seconds_count"), timed);
    assert!((of("latency_seconds_sum") - timed * 0.0003).abs() < 1e-9);
    for (bound, within) in [("0.000256", 0.0), ("0.000512", timed), ("+Inf", timed)] {
        let bucket = format!(
            r#"trackiops_latency_seconds_bucket{{mount="srv:/export",direction="read",le="{bound}"}}"#
        );
        assert_eq!(value(&text, &bucket), within, "{bound}");
    }
}

#[test]
fn a_restart_resets_nothing_and_without_a_recorder_little_is_left() {
    let mut recording = Recording::begin();
    recording.put(&recent(10));
    let last = "trackiops_windows_total 10";
    let before = Metrics::start(&recording, &[]).text_with(last);
    let metrics = Metrics::start(&recording, &[]);
    let sums = |text: &str| -> Vec<String> {
        let is_sum = |line: &&str| line.contains("direction=") && !line.starts_with('#');
        text.lines().filter(is_sum).map(str::to_owned).collect()
    };
    assert_eq!(sums(&metrics.text_with(last)), sums(&before));
    recording.end();
    let gone = metrics.text_with("trackiops_recorder_up 0");
    assert_eq!(series(&gone).len(), 2, "{gone}");
    recording.resume();
    recording.put(&recent(3));
    metrics.text_with("trackiops_windows_total 3");
}

#[test]
fn files_and_mounts_of_an_answer_are_of_the_same_windows() {
    let recording = Recording::begin();
    let metrics = Metrics::start(&recording, &["--metrics-top-files", "3"]);
    metrics.text_with("trackiops_recorder_up 1");
    let sum = |text: &str, metric: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(metric));
        lines
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
            .sum()
    };
    let (mut sums, mut differing) = (BTreeSet::new(), 0);
    // Some four seconds, in which the recorder sends its sums four times.
    for windows in of_two_files(T0 / 10_000 * 10_000, 120).chunks(2) {
        for window in windows {
            recording.put(std::slice::from_ref(window));
        }
        let text = metrics.text();
        let of_mounts = sum(&text, "trackiops_requests_total{");
        let of_files = sum(&text, "trackiops_file_requests_total{");
        // On a disk that takes longer than half a second, an answer may differ.
        differing += u32::from(of_files != of_mounts);
        sums.insert(of_mounts as u64);
        sleep(Duration::from_millis(20));
    }
    assert!(sums.len() > 2, "{sums:?}");
    assert!(differing <= 2, "{differing} answers differ");
}

#[test]
fn every_metric_is_served_and_in_the_reference() {
    let recording = Recording::begin();
    recording.mounted(UtcMs(T0), vec![volume()], &[volume()]);
    let flags = ["--metrics-top-files", "1", "--otlp", "http://127.0.0.1:9"];
    let metrics = Metrics::start(&recording, &flags);
    metrics.text_with("trackiops_recorder_up 1");
    recording.put(&[eventful()]);
    metrics.text_with("trackiops_windows_total 1");
    let (head, text) = metrics.scrape("application/openmetrics-text; version=1.0.0");
    let content_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.to_lowercase().contains(content_type), "{head}");
    let text = String::from_utf8(text).unwrap();
    assert!(text.ends_with("# EOF\n"), "{text}");
    let served: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    // Metrics that this recorder lacks, or does not have yet.
    let unknown = [
        "trackiops_recorder_bpf_seconds",
        "trackiops_store_limit_bytes",
        "trackiops_store_bytes",
    ];
    let is_known = |name: &&str| !unknown.contains(name);
    let served: BTreeSet<_> = served.into_iter().filter(is_known).collect();
    let expected = FAMILIES.iter().map(|family| family.name);
    let expected: BTreeSet<_> = expected.filter(is_known).collect();
    assert_eq!(served, expected);
    assert_eq!(
        value(
            &text,
            r#"trackiops_stalled_seconds{server="192.0.2.1",mounts="srv:/export"}"#
        ),
        42.0
    );
    let getattr = r#"{mount="srv:/export",operation="GETATTR"}"#;
    assert_eq!(
        value(
            &text,
            &format!("trackiops_operation_seconds_total{getattr}")
        ),
        0.0035
    );
    let of_connection = |metric: &str| {
        value(
            &text,
            &format!(r#"trackiops_tcp_{metric}{{transport="tcp-3"}}"#),
        )
    };
    let known = ["rtt_seconds_total", "rtt_min_seconds"].map(of_connection);
    assert_eq!(known, [0.082, 0.04]);
    assert_eq!(of_connection("retransmitted_segments_total"), 7.0);
    let of_new = |metric: &str| format!(r#"trackiops_tcp_{metric}{{transport="tcp-4"}}"#);
    assert_eq!(value(&text, &of_new("readings_total")), 1.0);
    assert!(!text.contains(&of_new("rtt_min_seconds")), "{text}");
    // It is not an operation.
    assert!(!text.contains("(connection)"), "{text}");
    let of = |metric: &str, label: &str| {
        value(
            &text,
            &format!(r#"trackiops_{metric}{{{label},direction="read"}}"#),
        )
    };
    assert_eq!(
        of("tenant_requests_total", r#"tenant="acme""#),
        of("requests_total", r#"mount="srv:/export""#)
    );
    let info = r#"trackiops_mount_info{mount="srv:/export",server="srv",export="/export",path="/mnt",version="4.2",volume="pvc-1",claim="shop/data"}"#;
    assert_eq!(value(&text, info), 1.0);

    let rows = FAMILIES.iter().map(|family| {
        let labels = family.labels.iter().map(|label| format!("`{label}`"));
        let labels = labels.collect::<Vec<_>>().join(", ");
        let (name, kind) = (family.sample_name(), family.kind.name());
        format!("| `{name}` | {kind} | {labels} | {} |\n", family.help)
    });
    let reference = fs::read_to_string(format!("{ROOT}/docs/reference/metrics.md")).unwrap();
    let table: String = reference
        .split_inclusive('\n')
        .filter(|line| line.starts_with("| `trackiops_"))
        .collect();
    assert_eq!(table, rows.collect::<String>());
}

#[test]
fn a_scrape_with_100_000_active_files_is_small_and_quick() {
    let recording = Recording::begin();
    let rows = (0..100_000_u64).map(|number| {
        let mount = format!(
            "server-{:02}.storage.example.com:/exports/projects/{}",
            number % 80,
            number % 80
        );
        let attributes = FileAttributes {
            mount: Some(mount),
            ..(*file(number, 49, Some(&format!("/mnt/{number}")))).clone()
        };
        (Arc::new(attributes), reads(3))
    });
    let mut window = window(T0, rows.collect());
    let operation = |number: usize| OperationRow {
        operation: Operation {
            mount: Some(format!(
                "server-{:02}.storage.example.com:/exports/projects/{}",
                number % 80,
                number % 80
            )),
            op: format!("OPERATION{}", number / 80),
            transport: None,
        },
        sums: OperationSums {
            requests: 1,
            ..OperationSums::default()
        },
    };
    window.ops = (0..800).map(operation).collect();
    recording.close(&window);
    let metrics = Metrics::start(&recording, &["--metrics-top-files", "100"]);
    let text = metrics.text_with("trackiops_active_files 100000");
    for accept in [
        "text/plain",
        "application/openmetrics-text;version=1.0.0",
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
    ] {
        // Each status causes a new exposition: of ten scrapes in three seconds, some are the first ones after it.
        let mut times = Vec::new();
        for _ in 0..10 {
            let begun = Instant::now();
            let (head, body) = metrics.scrape(accept);
            times.push(begun.elapsed());
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            assert!(body.len() < 1 << 20, "{} bytes of {accept}", body.len());
            sleep(Duration::from_millis(300));
        }
        times.sort();
        println!("{accept}: {times:?}");
        // The longest scrapes build the exposition, here without optimisation and beside other tests.
        let fifty = Duration::from_millis(50);
        assert!(times[5] < fifty, "{accept}: {times:?}");
        assert!(times[8] < 4 * fifty, "{accept}: {times:?}");
    }
    assert!(
        series(&text).len() <= MOST_SERIES,
        "{}",
        series(&text).len()
    );
    let other = r#"trackiops_requests_total{mount="(other)",direction="read"}"#;
    assert!(value(&text, other) > 3.0 * 1000.0);
    // No sum is missing.
    let all = text
        .lines()
        .filter(|line| line.starts_with("trackiops_requests_total{"));
    let all: f64 = all
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        .sum();
    assert_eq!(all, 300_000.0);
    // A normal end would seal all these files, which takes a minute without optimisation.
    let dir = recording.dir().to_owned();
    std::mem::forget(recording);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn hostile_scrapers_cost_a_bounded_amount() {
    let recording = Recording::begin();
    recording.put(&recent(3));
    let metrics = Metrics::start(&recording, &[]);
    metrics.text_with("trackiops_windows_total 3");
    let before = metrics.rss_bytes();
    // Clients that send nothing, or an incomplete head.
    let mut held = Vec::new();
    for number in 0..900 {
        let mut stream = metrics.connect();
        if number % 2 == 0 {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ");
        }
        held.push(stream);
    }
    metrics.text();
    let sockets = fs::read_dir(format!("/proc/{}/fd", metrics.child.id()))
        .unwrap()
        .count();
    assert!(sockets < 90, "{sockets} descriptors");
    // Clients that send requests and do not read.
    for stream in &mut held[850..] {
        for _ in 0..50 {
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        }
    }
    metrics.text();
    // A head that is too large, by length or by number of fields.
    for headers in [
        format!("X: {}\r\n", "x".repeat(100_000)),
        "X: y\r\n".repeat(1000),
    ] {
        let mut stream = metrics.connect();
        let _ = stream.write_all(
            format!("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n").as_bytes(),
        );
        let (head, _) = answer(stream);
        assert!(
            head.is_empty() || head.contains(" 431 ") || head.contains(" 400 "),
            "{head}"
        );
    }
    // Requests that are not HTTP, and other invalid ones.
    for (request, status) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00"[..], "400"),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody", "405"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "200"),
        (b"GET /other HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "404"),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "421"),
        (b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", "421"),
    ] {
        let mut stream = metrics.connect();
        stream.write_all(request).unwrap();
        let (head, _) = answer(stream);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {head}");
    }
    metrics.text();
    let grown = metrics.rss_bytes().saturating_sub(before);
    println!("grown by {grown} bytes");
    assert!(grown < 32 << 20, "{grown} bytes");
    drop(held);
}

#[test]
fn as_root_it_refuses_and_names_the_next_step() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for flags in [
        ["--listen", "127.0.0.1:0"],
        ["--otlp", "http://127.0.0.1:4318"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops"));
        let Output { status, stderr, .. } = command.arg("metrics").args(flags).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("as root") && stderr.contains("setpriv --reuid=nobody"),
            "{stderr}"
        );
    }
}

#[test]
fn what_other_hosts_could_reach_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (flags, next_step) in [
        (["--listen", "0.0.0.0:9930"], "--web-config"),
        (["--otlp", "http://collector.example"], "https://"),
    ] {
        let mut command = trackiops(dir.path());
        let Output { status, stderr, .. } = command.arg("metrics").args(flags).output().unwrap();
        let stderr = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{stderr}");
        for word in ["127.0.0.1", next_step] {
            assert!(stderr.contains(word), "{stderr}");
        }
    }
}

#[test]
fn pushes_are_posted_and_failures_are_counted() {
    let recording = Recording::begin();
    recording.put(&recent(3));
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", collector.local_addr().unwrap());
    let metrics = Metrics::start(&recording, &["--otlp", &url, "--otlp-interval", "1s"]);
    let answers = ["503 Service Unavailable", "200 OK"];
    for answer in answers {
        let (stream, _) = collector.accept().unwrap();
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            stream.read_line(&mut head).unwrap();
        }
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
        assert!(
            head.contains("content-type: application/x-protobuf\r\n"),
            "{head}"
        );
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        stream.read_exact(&mut body).unwrap();
        let mut stream = stream.into_inner();
        write!(stream, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n").unwrap();
    }
    let text = metrics.text_with("trackiops_otlp_pushes_total 2");
    assert_eq!(value(&text, "trackiops_otlp_push_failures_total"), 1.0);
}

#[test]
fn a_unix_socket_is_for_its_group_and_goes_with_the_process() {
    let recording = Recording::begin();
    let dir = recording.dir().join("metrics");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
    let socket = dir.join("s");
    let listen = format!("unix:{}", socket.display());
    let mut command = trackiops(recording.dir());
    command
        .args(["metrics", "--socket"])
        .arg(recording.socket());
    let mut child = command.args(["--listen", &listen]).spawn().unwrap();
    let begun = Instant::now();
    let mut stream = loop {
        match std::os::unix::net::UnixStream::connect(&socket) {
            Ok(stream) => break stream,
            Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
        }
        sleep(Duration::from_millis(20));
    };
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    // Its Host header is ignored.
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: proxy.example\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let pid = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!socket.exists());
}

//! `trackiops serve`: its answers, access control, and resistance to hostile clients.

use std::collections::VecDeque;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use crate::server::{LONG, NOBODY, Server, answer, request, trackiops};
use serde_json::Value;
use trackiops_query::times::rfc3339;
use trackiops_schemas::request::{ProcessName, Request, RequestBatch};
use trackiops_schemas::row::ClosedWindow;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Mark, Writer, store_ids};
use trackiops_testkit::recording::{Recording, of_two_files, recent};
use trackiops_testkit::stores::options;
use trackiops_testkit::windows::{T0, file};

/// A running `trackiops serve` on loopback.
pub struct Serve {
    server: Server,
    token: String,
}

impl Serve {
    pub fn start(recording: &Recording) -> Self {
        Self::start_with(recording, &["--listen", "127.0.0.1:0"])
    }

    fn start_with(recording: &Recording, flags: &[&str]) -> Self {
        Self::started(command(recording).args(flags))
    }

    pub fn started(command: &mut Command) -> Self {
        let mut server = Server::start(command, "serving at http://");
        let address = server.address.clone();
        let (address, token) = address.split_once("/?token=").unwrap();
        server.address = address.to_owned();
        Self {
            server,
            token: token.to_owned(),
        }
    }

    fn headers(&self, more: &str) -> String {
        format!(
            "Host: {}\r\nAuthorization: Bearer {}\r\n{more}",
            self.address, self.token
        )
    }

    /// Status and JSON of an answer.
    pub fn ask(&self, path: &str) -> (u16, Value) {
        let (head, body) = self.get(path, &self.headers(""));
        let body = serde_json::from_slice(&body).unwrap_or_else(|e| panic!("{path}: {e}: {head}"));
        (status(&head), body)
    }

    /// Number of processes that answer questions.
    fn children(&self) -> usize {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        children.unwrap().split_whitespace().count()
    }
}

impl Deref for Serve {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

fn command(recording: &Recording) -> Command {
    let mut command = trackiops(recording.dir());
    command.arg("serve").arg("--store").arg(recording.store());
    command.arg("--socket").arg(recording.socket());
    command.env("TZ", "UTC0");
    command
}

fn status(head: &str) -> u16 {
    let status = head.split(' ').nth(1);
    let status = status.and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no status in {head:?}"))
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let found = lines.find(|(of, _)| of.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

/// A command's answer about the same store: rows as JSON.
fn rows(store: &Path, words: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_trackiops"))
        .args(words)
        .args(["--json", "--store"])
        .arg(store)
        .env("TZ", "UTC0")
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A store of a minute, completely sealed.
fn minute() -> Recording {
    let mut recording = Recording::begin();
    recording.put(&of_two_files(T0, 60));
    recording.end();
    recording
}

#[test]
fn what_is_answered_is_what_the_command_answers() {
    let recording = minute();
    let serve = Serve::start(&recording);
    let store = recording.store();
    for (path, words) in [
        ("top", vec!["query", "--step=all", "--top=100"]),
        (
            "top?by=tenant&top=1",
            vec!["query", "--step=all", "--by=tenant", "--top=1"],
        ),
        (
            "series?step=10s&dir=%2Fmnt%2Fa",
            vec!["query", "--step=10s", "--dir=/mnt/a"],
        ),
        (
            "series?file=/mnt/a/x&columns=time,read_p99",
            vec!["query", "--file=/mnt/a/x", "--columns=time,read_p99"],
        ),
        (
            "series?where=read_requests+%3E+5&where=read_bytes+%3E+1&step=1s&sort=read_requests",
            vec![
                "query",
                "--where=read_requests > 5",
                "--where=read_bytes > 1",
                "--step=1s",
                "--sort=read_requests",
            ],
        ),
        (
            "heat?step=1m",
            vec![
                "query",
                "--step=1m",
                "--by=host",
                "--columns=time,host,mount,path,read_latency_hist,write_latency_hist",
            ],
        ),
        ("files", vec!["files", "--top=100"]),
    ] {
        let (status, answer) = serve.ask(&format!("/api/v1/{path}"));
        assert_eq!(status, 200, "{path}: {answer}");
        let expected = rows(&store, &words);
        assert!(!expected.is_empty(), "{path}");
        assert_eq!(answer["rows"], Value::from(expected), "{path}");
    }
    let (_, flame) = serve.ask("/api/v1/flame?by=requests");
    let widths = flame["rows"].as_array().unwrap().iter();
    let width: u64 = widths.map(|row| row["value"].as_u64().unwrap()).sum();
    let all = rows(&store, &["query", "--by=host", "--step=all"]);
    assert_eq!(width, all[0]["read_requests"].as_u64().unwrap());

    let (status, nothing) = serve.ask("/api/v1/top?file=/nowhere");
    assert_eq!((status, &nothing["rows"]), (200, &Value::Array(vec![])));
    assert!(
        !nothing["notes"].as_array().unwrap().is_empty(),
        "{nothing}"
    );
    let (_, meta) = serve.ask("/api/v1/meta");
    assert_eq!(meta["hosts"], Value::from(vec!["h"]));
    assert_eq!(meta["until"], "2026-11-21T03:53:00.000Z");
    let id = store_ids(&store).unwrap().id.to_string();
    assert_eq!(meta["store_ids"], Value::from(vec![id]));
    assert_eq!(meta["recorder"], Value::Null);
}

#[test]
fn arrow_has_the_same_rows() {
    let recording = minute();
    let serve = Serve::start(&recording);
    let (head, body) = serve.get("/api/v1/top?format=arrow", &serve.headers(""));
    assert_eq!(
        header(&head, "content-type"),
        Some("application/vnd.apache.arrow.file")
    );
    assert_eq!(header(&head, "trackiops-notes"), Some("[]"));
    assert!(body.starts_with(b"ARROW1"), "{head}");
    let (head, body) = serve.get("/api/v1/top?format=arrow&file=/nowhere", &serve.headers(""));
    assert_eq!((status(&head), body.len()), (204, 0), "{head}");
    assert!(
        header(&head, "trackiops-notes")
            .unwrap()
            .contains("/nowhere"),
        "{head}"
    );
}

#[test]
fn bad_questions_are_refused_with_a_reason() {
    let recording = minute();
    let serve = Serve::start(&recording);
    for (path, expected, words) in [
        (
            "top?bytes=1",
            400,
            "takes no parameter `bytes`; it takes since",
        ),
        ("top?output=/tmp/x", 400, "takes no parameter `output`"),
        ("top?store=/etc", 400, "takes no parameter `store`"),
        ("series?plot=x.svg", 400, "takes no parameter `plot`"),
        ("top?where=read_p99", 400, "is missing at the end"),
        ("top?since=whenever", 400, "--since"),
        ("top?top=1&top=2", 400, "cannot be used multiple times"),
        ("top?columns=help", 400, "docs/reference/columns.md"),
        ("top?format=xml", 400, "json or arrow"),
        ("top?columns=%2D%2Doutput%3Dx", 400, "there is no column"),
        ("nothing", 404, "/api/v1/openapi.json"),
        ("..%2f..%2f..%2fetc%2fpasswd", 404, "/api/v1/openapi.json"),
        ("../../../../etc/passwd", 404, "/api/v1/openapi.json"),
    ] {
        let (status, answer) = serve.ask(&format!("/api/v1/{path}"));
        let error = answer["error"].as_str().unwrap_or_default();
        assert!(
            status == expected && error.contains(words),
            "{path}: {status} {answer}"
        );
    }
    let mut stream = serve.connect();
    let posted = format!(
        "POST /api/v1/top HTTP/1.1\r\nConnection: close\r\n{}\r\n",
        serve.headers("")
    );
    stream.write_all(posted.as_bytes()).unwrap();
    assert_eq!(status(&answer(stream).0), 405);
}

#[test]
fn an_answer_that_has_not_changed_is_not_sent_again() {
    let mut recording = minute();
    let serve = Serve::start(&recording);
    let path = "/api/v1/top?since=2026-11-21T03:52:00Z&until=%2B2m";
    let (head, first) = serve.get(path, &serve.headers(""));
    let tag = header(&head, "etag").unwrap().to_owned();
    assert_eq!(header(&head, "cache-control"), Some("private, no-cache"));
    let again = |tag: &str| serve.get(path, &serve.headers(&format!("If-None-Match: {tag}\r\n")));
    let (head, body) = again(&tag);
    assert_eq!((status(&head), body.len()), (304, 0), "{head}");
    assert_eq!(status(&again("W/\"other\"").0), 200);
    // Another question and another state have other tags.
    let other = serve.get(
        &format!("{path}&top=1"),
        &serve.headers(&format!("If-None-Match: {tag}\r\n")),
    );
    assert_eq!(status(&other.0), 200);
    recording.resume();
    recording.put(&of_two_files(T0 + 60_000, 1));
    let (head, second) = again(&tag);
    assert_eq!(status(&head), 200);
    assert_ne!(first, second);
    // A store that was deleted and made again has the same times and names.
    let store = recording.store();
    let anew = |recording: &mut Recording| {
        recording.end();
        fs::remove_dir_all(&store).unwrap();
        recording.resume();
        recording.put(&of_two_files(T0, 60));
        recording.end();
        serve.get(path, &serve.headers("")).0
    };
    let [one, other] = [anew(&mut recording), anew(&mut recording)];
    assert_eq!([status(&one), status(&other)], [200; 2]);
    assert_ne!(header(&one, "etag"), header(&other, "etag"));
    // Relative times differ each time.
    let (head, _) = serve.get("/api/v1/top?since=10000h", &serve.headers(""));
    assert_eq!(
        (header(&head, "etag"), header(&head, "cache-control")),
        (None, Some("no-store"))
    );
}

#[test]
fn an_answer_is_sent_again_when_there_is_another_mark() {
    let recording = minute();
    let serve = Serve::start(&recording);
    for name in ["marks", "events"] {
        let path = format!("/api/v1/{name}?since=2026-11-21T03:52:00Z&until=%2B2m");
        let (head, _) = serve.get(&path, &serve.headers(""));
        let tag = header(&head, "etag").unwrap();
        let known = serve.headers(&format!("If-None-Match: {tag}\r\n"));
        assert_eq!(status(&serve.get(&path, &known).0), 304, "{name}");
        let mark = Mark {
            time: UtcMs(T0 + 1000),
            host: "h".into(),
            text: format!("seen in {name}"),
        };
        mark.add_to(&recording.store()).unwrap();
        let (head, body) = serve.get(&path, &known);
        let body = String::from_utf8(body).unwrap();
        assert_eq!(status(&head), 200, "{name}");
        assert!(body.contains(&mark.text), "{body}");
    }
}

/// A request for a file, `ms` after [`T0`].
fn kept(ms: i64) -> RequestBatch {
    let request = Request {
        end_ns: (T0 + ms) * 1_000_000,
        file: 0,
        flags: 0,
        offset: 4096,
        asked_bytes: 4096,
        done_bytes: 4096,
        latency_ns: 300_000,
        queue_ns: 1000,
        rtt_ns: 200_000,
        xid: 1,
        retransmissions: 0,
        error: 0,
        pid: 12,
        process: ProcessName::new(b"fio"),
    };
    RequestBatch {
        files: vec![file(1, 49, Some("/mnt/a/x"))],
        requests: vec![request],
    }
}

#[test]
fn processes_are_added_up_as_by_the_command() {
    let recording = minute();
    let writer = Writer::open(recording.store(), options("h")).unwrap();
    let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
    for ms in [1000, 1500] {
        requests.append(&kept(ms)).unwrap();
    }
    requests.finish().unwrap();
    writer.finish().unwrap();
    let serve = Serve::start(&recording);
    let (head, body) = serve.get("/api/v1/requests?by=process", &serve.headers(""));
    assert_eq!(status(&head), 200, "{head}");
    let body: Value = serde_json::from_slice(&body).unwrap();
    let words = ["requests", "--by", "process"];
    assert_eq!(body["rows"], Value::from(rows(&recording.store(), &words)));
    assert_eq!(body["rows"][0]["process"], "fio", "{body}");
    assert_eq!(body["rows"][0]["requests"], 2, "{body}");
}

#[test]
fn an_answer_is_sent_again_when_more_requests_are_kept() {
    let recording = minute();
    let serve = Serve::start(&recording);
    let path = "/api/v1/requests?since=2026-11-21T03:52:00Z&until=%2B10s";
    let of = |tag: &str| {
        let known = serve.headers(&format!("If-None-Match: {tag}\r\n"));
        let (head, body) = serve.get(path, &known);
        let tag = header(&head, "etag").unwrap().to_owned();
        // 304 has no body.
        let body = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        let rows = body["rows"].as_array().map_or(0, Vec::len);
        (status(&head), rows, tag)
    };
    let (_, rows, mut tag) = of("");
    assert_eq!(rows, 0);
    let writer = Writer::open(recording.store(), options("h")).unwrap();
    let mut requests = writer.requests(64 << 20, |_| {}).unwrap();
    // Once the writer has looked after what was there before.
    wait_for("the store is as it was", || {
        let (_, _, now) = of(&tag);
        let before = std::mem::replace(&mut tag, now);
        sleep(Duration::from_millis(500));
        tag == before && of(&tag).0 == 304
    });
    // The first one begins a journal, and the second one makes it longer. The last one is not in the range.
    for (ms, expected) in [(1000, (200, 1)), (1500, (200, 2)), (20_000, (304, 0))] {
        requests.append(&kept(ms)).unwrap();
        let (status, rows, now) = of(&tag);
        assert_eq!((status, rows), expected, "{ms}");
        assert_eq!(of(&now), (304, 0, now.clone()));
        tag = now;
    }
    // Sealed in a segment, they are others for a tag.
    requests.finish().unwrap();
    let (status, rows, _) = of(&tag);
    assert_eq!((status, rows), (200, 2));
}

#[test]
fn bodies_are_compressed_for_those_who_can_read_that() {
    let recording = minute();
    let serve = Serve::start(&recording);
    let path = "/api/v1/series?step=1s";
    let (_, plain) = serve.get(path, &serve.headers(""));
    let (head, small) = serve.get(path, &serve.headers("Accept-Encoding: gzip\r\n"));
    assert_eq!(header(&head, "content-encoding"), Some("gzip"));
    assert!(
        small.len() * 5 < plain.len(),
        "{} of {}",
        small.len(),
        plain.len()
    );
}

#[test]
fn a_port_asks_for_the_token_once() {
    let recording = minute();
    let serve = Serve::start(&recording);
    let host = format!("Host: {}\r\n", serve.address);
    let (head, _) = serve.get("/api/v1/meta", &host);
    assert_eq!(status(&head), 401);
    for token in ["", "x", &serve.token[1..]] {
        let (head, _) = serve.get(&format!("/?token={token}"), &host);
        assert_eq!((status(&head), header(&head, "set-cookie")), (401, None));
    }
    let (head, _) = serve.get(&format!("/api/v1/top?top=1&token={}", serve.token), &host);
    assert_eq!(
        (status(&head), header(&head, "location")),
        (303, Some("/api/v1/top?top=1"))
    );
    let cookie = header(&head, "set-cookie").unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    assert!(!cookie.contains(&serve.token), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    let (head, _) = serve.get("/api/v1/meta", &format!("{host}Cookie: a=b; {cookie}\r\n"));
    assert_eq!(status(&head), 200);
    let (head, _) = serve.get("/api/v1/meta", &format!("{host}Cookie: {cookie}0\r\n"));
    assert_eq!(status(&head), 401);
    // The process's command line and environment do not contain it.
    let pid = serve.child.id();
    for file in ["cmdline", "environ"] {
        let text = fs::read(format!("/proc/{pid}/{file}")).unwrap();
        assert!(
            !String::from_utf8_lossy(&text).contains(&serve.token),
            "{file}"
        );
    }
}

#[test]
fn requests_under_other_names_and_from_other_pages_are_refused() {
    let recording = minute();
    let serve = Serve::start_with(
        &recording,
        &["--listen", "127.0.0.1:0", "--allow-host", "nas.example"],
    );
    let token = format!("Authorization: Bearer {}\r\n", serve.token);
    let port = serve.address.rsplit_once(':').unwrap().1.to_owned();
    for (headers, expected) in [
        ("Host: evil.example\r\n".to_owned(), 421),
        (String::new(), 400),
        (format!("Host: localhost:{port}\r\n"), 200),
        (
            format!("Host: localhost:{port}\r\nHost: evil.example\r\n"),
            421,
        ),
        ("Host: [::1].evil.example\r\n".to_owned(), 421),
        (format!("Host: nas.example:{port}\r\n"), 200),
        (
            format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n"),
            200,
        ),
        (
            format!("Host: localhost:{port}\r\nOrigin: http://evil.example\r\n"),
            403,
        ),
        (
            format!("Host: localhost:{port}\r\nOrigin: http://localhost\r\n"),
            403,
        ),
        (format!("Host: localhost:{port}\r\nOrigin: null\r\n"), 403),
        (
            format!("Host: localhost:{port}\r\nSec-Fetch-Site: cross-site\r\n"),
            403,
        ),
        (
            format!("Host: localhost:{port}\r\nSec-Fetch-Site: same-site\r\n"),
            403,
        ),
        (
            format!("Host: localhost:{port}\r\nSec-Fetch-Site: same-origin\r\n"),
            200,
        ),
        (
            format!("Host: localhost:{port}\r\nSec-Fetch-Site: none\r\n"),
            200,
        ),
    ] {
        let (head, _) = serve.get("/api/v1/meta", &format!("{headers}{token}"));
        let found = status(&head);
        // Without a Host header there is no name.
        assert!(
            found == expected || headers.is_empty() && found == 421,
            "{headers}: {head}"
        );
        let policy = header(&head, "content-security-policy").unwrap_or_default();
        assert!(
            found == 400 || policy.starts_with("default-src 'none'; script-src 'self'"),
            "{head}"
        );
    }
}

#[test]
fn a_link_elsewhere_leads_to_a_page() {
    let recording = minute();
    let serve = Serve::start(&recording);
    let host = format!("Host: {}\r\n", serve.address);
    let link =
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    // Browsers omit the cookie here. Without it, the page asks again.
    let (head, body) = serve.get("/", &format!("{host}{link}"));
    assert_eq!(status(&head), 200, "{head}");
    assert!(String::from_utf8_lossy(&body).contains("http-equiv=\"refresh\""));
    let again = link.replace("cross-site", "same-origin");
    assert_eq!(status(&serve.get("/", &format!("{host}{again}")).0), 401);
    assert_eq!(status(&serve.get("/", &serve.headers(&again)).0), 200);
    // Not as a frame, as a picture or by a script.
    for (from, to) in [("document", "iframe"), ("navigate", "no-cors")] {
        let other = link.replace(from, to);
        assert_eq!(
            status(&serve.get("/", &serve.headers(&other)).0),
            403,
            "{to}"
        );
    }
}

#[test]
fn a_unix_socket_is_for_its_owner_and_group() {
    let recording = minute();
    let dir = recording.dir().join("serve");
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
    let path = dir.join("s");
    let mut command = command(&recording);
    command
        .arg("--listen")
        .arg(format!("unix:{}", path.display()));
    let _server = Server::start(&mut command, "serving at unix:");
    let ask = |headers: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream
            .write_all(request("/api/v1/meta", headers).as_bytes())
            .unwrap();
        status(&answer(stream).0)
    };
    assert_eq!(ask("Host: localhost:8080\r\n"), 200, "as through `ssh -L`");
    assert_eq!(ask("Host: evil.example\r\n"), 421);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o660
    );
    if rustix::process::geteuid().is_root() {
        let mut other = Command::new("python3");
        let code = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ntry: s.connect(sys.argv[1])\nexcept PermissionError: sys.exit(7)";
        other
            .args(["-c", code])
            .arg(&path)
            .uid(NOBODY - 1)
            .gid(NOBODY - 1)
            .current_dir("/");
        assert_eq!(other.status().unwrap().code(), Some(7));
    }
}

#[test]
fn beyond_loopback_it_needs_names_and_never_root() {
    let recording = minute();
    let refused = |command: &mut Command| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let said = refused(command(&recording).args(["--listen", "0.0.0.0:0"]));
    assert!(said.contains("--allow-host"), "{said}");
    let said = refused(command(&recording).env_remove("XDG_RUNTIME_DIR"));
    assert!(said.contains("--listen unix:/PATH"), "{said}");
    if rustix::process::geteuid().is_root() {
        let mut as_root = Command::new(env!("CARGO_BIN_EXE_trackiops"));
        let said = refused(as_root.arg("serve").arg("--store").arg(recording.store()));
        assert!(said.contains("refusing to serve HTTP as root"), "{said}");
    }
}

/// Waits until a condition holds.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LONG, "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// A server whose questions stop before they answer.
fn stuck() -> (Recording, Serve) {
    let recording = minute();
    let mut command = command(&recording);
    command.env("TRACKIOPS_STOP_AT", "1 output: stdout");
    let serve = Serve::started(command.args(["--listen", "127.0.0.1:0"]));
    (recording, serve)
}

#[test]
fn two_questions_run_sixteen_wait_and_each_ends_with_its_client() {
    let (_recording, serve) = stuck();
    let begin = || {
        let mut stream = serve.connect();
        let question = format!("GET /api/v1/top HTTP/1.1\r\n{}\r\n", serve.headers(""));
        stream.write_all(question.as_bytes()).unwrap();
        stream
    };
    let mut clients: Vec<TcpStream> = (0..18).map(|_| begin()).collect();
    wait_for("two run", || serve.children() == 2);
    sleep(Duration::from_millis(300));
    assert_eq!(serve.children(), 2);
    let (head, body) = serve.get("/api/v1/top", &serve.headers(""));
    assert_eq!(status(&head), 503, "{head}");
    assert_eq!(header(&head, "retry-after"), Some("1"));
    assert!(String::from_utf8_lossy(&body).contains("ask again later"));
    // Requests that are not questions are still answered.
    let (head, _) = serve.get("/api/v1/openapi.json", &serve.headers(""));
    assert_eq!(status(&head), 200);
    clients.clear();
    wait_for("none runs", || serve.children() == 0);
}

#[test]
fn hostile_clients_cost_little_and_keep_nobody_out() {
    let recording = minute();
    let serve = Serve::start(&recording);
    serve.ask("/api/v1/meta");
    let before = serve.rss_bytes();
    let idle: Vec<_> = (0..1000)
        .filter_map(|_| TcpStream::connect(&serve.address).ok())
        .collect();
    assert!(idle.len() > 500, "{}", idle.len());
    let (status_of, _) = serve.ask("/api/v1/top?top=1");
    assert_eq!(status_of, 200);
    for headers in [
        format!("X-Long: {}\r\n", "x".repeat(100 << 10)),
        (0..1000).map(|i| format!("X-{i}: y\r\n")).collect(),
    ] {
        let mut stream = serve.connect();
        // The server may refuse it before all of it is sent.
        let _ = stream.write_all(request("/api/v1/top", &serve.headers(&headers)).as_bytes());
        let (head, _) = answer(stream);
        assert!(
            head.is_empty() || status(&head) == 431 || status(&head) == 400,
            "{head}"
        );
    }
    let long = format!("/api/v1/top?file={}", "x".repeat(60 << 10));
    let mut stream = serve.connect();
    let _ = stream.write_all(request(&long, &serve.headers("")).as_bytes());
    let (head, _) = answer(stream);
    assert!(head.is_empty() || status(&head) >= 400, "{head}");
    let after = serve.rss_bytes();
    assert!(after < before + (8 << 20), "{before} then {after} bytes");
    drop(idle);
    assert_eq!(serve.ask("/api/v1/top?top=1").0, 200);
}

#[test]
fn callers_without_the_token_end_no_answers() {
    let recording = minute();
    let serve = Serve::start(&recording);
    let mut known = serve.connect();
    let ask = |stream: &mut TcpStream| {
        let asked = request("/api/v1/openapi.json", &serve.headers(""));
        let asked = asked.replace("Connection: close\r\n", "");
        stream.write_all(asked.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream
                .read_exact(&mut byte)
                .expect("the connection is open");
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert_eq!(status(&head), 200, "{head}");
        let (_, length) = head.split_once("content-length: ").unwrap();
        let length = length.split("\r\n").next().unwrap().parse().unwrap();
        stream.read_exact(&mut vec![0; length]).unwrap();
    };
    ask(&mut known);
    let others = |headers: &str| {
        for _ in 0..100 {
            let mut stream = serve.connect();
            let _ = stream.write_all(request("/api/v1/meta", headers).as_bytes());
        }
    };
    others(&format!("Host: {}\r\n", serve.address));
    others("Host: evil.example\r\n");
    let idle: Vec<_> = (0..100).map(|_| serve.connect()).collect();
    serve.ask("/api/v1/meta");
    ask(&mut known);
    drop(idle);
}

#[test]
fn a_flood_of_connections_without_requests_resets_no_caller_with_the_token() {
    let recording = minute();
    let serve = Serve::start(&recording);
    let (address, is_over) = (serve.address.clone(), AtomicBool::new(false));
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut open = VecDeque::new();
            while !is_over.load(Ordering::Relaxed) && begun.elapsed() < LONG {
                open.extend(TcpStream::connect(&address));
                if open.len() > 200 {
                    open.pop_front();
                }
            }
        });
        for _ in 0..30 {
            assert_eq!(serve.ask("/api/v1/openapi.json").0, 200);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn files_of_the_server_are_not_looked_for() {
    let recording = minute();
    let serve = Serve::start(&recording);
    let said = |file: &str| {
        let (status, body) = serve.ask(&format!("/api/v1/top?file={file}"));
        (status, body.to_string())
    };
    let known = recording.dir().join("catalog.db");
    let there = said(known.to_str().unwrap());
    let missing = said(known.with_file_name("nowhere").to_str().unwrap());
    assert_eq!(there.0, missing.0);
    assert_eq!(there.1.replace("catalog.db", "nowhere"), missing.1);
    assert!(there.1.contains("no file was ever recorded"), "{}", there.1);
    for name in ["x", "../x", "*", "%1b[31m", "a**"] {
        let (status, said) = said(name);
        assert_eq!(status, 400, "{said}");
        assert!(said.contains("slash"), "{said}");
    }
    for name in ["%00", "/a%00b"] {
        assert_eq!(said(name).0, 400);
    }
}

#[test]
fn windows_are_sent_as_they_close() {
    let mut recording = Recording::begin();
    recording.put(&recent(5));
    let serve = Serve::start(&recording);
    let follow = |headers: &str| {
        let mut stream = serve.connect();
        let path = "/api/v1/live?by=host&columns=time,read_requests";
        stream
            .write_all(request(path, &serve.headers(headers)).as_bytes())
            .unwrap();
        BufReader::new(stream)
    };
    let next = |stream: &mut BufReader<TcpStream>| -> (String, Value) {
        let mut id = String::new();
        loop {
            let mut line = String::new();
            assert!(stream.read_line(&mut line).unwrap() > 0, "it has ended");
            if let Some(of) = line.strip_prefix("id: ") {
                id = of.trim().to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data).unwrap());
            }
        }
    };
    let mut stream = follow("");
    wait_for("it follows", || serve.children() == 1);
    // Windows before the connection do not count.
    sleep(Duration::from_millis(500));
    let later = recent(5)[0].start.0 + 20_000;
    recording.put(&of_two_files(later, 3));
    let events: Vec<_> = (0..3).map(|_| next(&mut stream)).collect();
    let counts = events.iter().map(|(id, data)| {
        assert_eq!(data["since"].as_str(), Some(&**id));
        assert_eq!(data["from"], "recorder");
        data["rows"][0]["read_requests"].as_u64().unwrap()
    });
    assert_eq!(counts.collect::<Vec<_>>(), [10, 11, 12]);
    drop(stream);
    wait_for("nobody follows", || serve.children() == 0);
    // Continues from the last event, which comes again.
    let mut stream = follow(&format!("Last-Event-ID: {}\r\n", events[1].0));
    for event in &events[1..] {
        let (id, again) = next(&mut stream);
        assert_eq!((&id, &again["rows"]), (&event.0, &event.1["rows"]));
        assert_eq!(again["from"], "store");
    }
    drop(stream);
    let (head, _) = serve.get(
        "/api/v1/live",
        &serve.headers("Last-Event-ID: --output=x\r\n"),
    );
    assert_eq!(status(&head), 400);
    // The recorder is not affected.
    recording.put(&of_two_files(later + 10_000, 1));
    recording.end();
}

/// Events of `/api/v1/live`, from the first one until the end: type and data.
pub fn events(serve: &Serve, path: &str) -> impl Iterator<Item = (String, Value)> + use<> {
    let mut stream = serve.connect();
    let question = request(&format!("/api/v1/live{path}"), &serve.headers(""));
    stream.write_all(question.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut kind = "window".to_owned();
    lines.filter_map(move |line| match line.split_once(": ") {
        Some(("event", of)) => {
            kind = of.trim().to_owned();
            None
        }
        Some(("data", data)) => Some((kind.clone(), serde_json::from_str(data).unwrap())),
        _ => None,
    })
}

#[test]
fn a_window_is_one_event_whatever_its_columns_and_the_last_event_says_why() {
    let mut recording = Recording::begin();
    let five = recent(5);
    recording.put(&five);
    let serve = Serve::start(&recording);
    let since = rfc3339(five[0].start);
    let path = format!("?columns=read_requests,path&since={since}");
    let mut events_of_all = events(&serve, &path);
    let windows: Vec<_> = events_of_all.by_ref().take(5).collect();
    for (kind, window) in &windows {
        assert_eq!(kind, "window");
        let rows = window["rows"].as_array().unwrap();
        assert!(rows.len() > 1, "{window}");
        assert!(rows.iter().all(|row| row["time"].is_null()), "{window}");
    }
    // An idle window counts, too.
    let idle = windows_of_idle(five[0].start.0 + 20_000);
    recording.put(&idle);
    let (_, window) = events_of_all.next().unwrap();
    assert_eq!(window["rows"], Value::Array(vec![]), "{window}");
    recording.end();
    let (kind, end) = events_of_all.next().unwrap();
    assert_eq!(kind, "end");
    assert_eq!(end["error"], "the recorder has ended");
    assert!(events_of_all.next().is_none());
    for (path, words) in [
        ("", "no recorder"),
        ("?columns=nothing", "there is no column `nothing`"),
    ] {
        let (kind, end) = events(&serve, path).next().unwrap();
        let error = end["error"].as_str().unwrap();
        assert!(kind == "end" && error.contains(words), "{path}: {end}");
    }
}

/// Idle windows.
fn windows_of_idle(start_ms: i64) -> Vec<ClosedWindow> {
    let mut windows = of_two_files(start_ms, 1);
    windows[0].rows.clear();
    windows
}

#[test]
fn the_step_of_an_answer_is_data_and_notes_are_about_the_recording() {
    let recording = minute();
    let serve = Serve::start(&recording);
    for (path, step) in [
        ("series?step=auto", Value::from("1s")),
        ("series?step=30s", Value::from("30s")),
        ("top?since=2026-11-21+03:52&until=%2B1m", Value::Null),
    ] {
        let (_, answer) = serve.ask(&format!("/api/v1/{path}"));
        assert_eq!(answer["step"], step, "{path}");
        assert_eq!(answer["notes"], Value::Array(vec![]), "{path}");
    }
    let (_, meta) = serve.ask("/api/v1/meta");
    let store = meta["stores"][0].as_str().unwrap();
    assert!(Path::new(store).is_absolute(), "{meta}");
}

#[test]
fn only_a_few_follow_at_once() {
    let recording = Recording::begin();
    recording.put(&recent(5));
    let serve = Serve::start(&recording);
    let mut streams = Vec::new();
    for _ in 0..8 {
        let mut stream = serve.connect();
        stream
            .write_all(request("/api/v1/live", &serve.headers("")).as_bytes())
            .unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        streams.push(stream);
    }
    let (head, _) = serve.get("/api/v1/live", &serve.headers(""));
    assert_eq!(status(&head), 503);
    drop(streams);
    wait_for("nobody follows", || serve.children() == 0);
}

#[test]
fn it_ends_at_once_when_asked_to() {
    let (_recording, mut serve) = stuck();
    let mut stream = serve.connect();
    let question = format!("GET /api/v1/top HTTP/1.1\r\n{}\r\n", serve.headers(""));
    stream.write_all(question.as_bytes()).unwrap();
    wait_for("it runs", || serve.children() == 1);
    let pid = serve.child.id();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let mut kill = Command::new("kill");
    assert!(
        kill.arg(pid.to_string())
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    assert!(serve.server.child.wait().unwrap().success());
    let child = children.trim().to_owned();
    wait_for("the question ends, too", || {
        let stat = fs::read_to_string(format!("/proc/{child}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
}

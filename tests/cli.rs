//! Output and exit status of the program, as far as no kernel is needed.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use trackiops_testkit::program;

use trackiops_schemas::identity::{Dev, FileAttributes, FileId, FileKey};
use trackiops_schemas::mount::MountPoint;
use trackiops_schemas::row::{ClosedWindow, FileRow, Health, Row};
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Options, Writer, store_ids};
use trackiops_testkit::windows::mount_point;

fn trackiops(args: &[&str]) -> Output {
    program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")))
        .args(args)
        .output()
        .expect("trackiops can be started")
}

fn assert_fails_with(args: &[&str], words: &[&str]) {
    let output = trackiops(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(
        output.stdout.is_empty(),
        "no output that looks like an answer"
    );
    for word in words {
        assert!(said.contains(word), "{args:?}: `{word}` in: {said}");
    }
}

#[test]
fn a_file_that_is_no_btf_is_named() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert_fails_with(&["record", "--store", "x", "--btf", file], &["BTF", file]);
    let nowhere = "/nowhere/vmlinux";
    assert_fails_with(&["record", "--store", "x", "--btf", nowhere], &[nowhere]);
}

#[test]
fn bad_flags_are_named() {
    assert_fails_with(
        &["record", "--store", "x", "--granularity", "7s"],
        &["--granularity", "7"],
    );
    assert_fails_with(
        &["record", "--store", "x", "--granularity", "2s,5s"],
        &["5s is not a whole number of 2s"],
    );
    assert_fails_with(
        &["record", "--store", "x", "--duration", "5"],
        &["--duration", "90s"],
    );
    assert_fails_with(
        &["record", "--store", "x", "--no-live", "--live-socket", "y"],
        &["--no-live", "--live-socket"],
    );
    assert_fails_with(
        &["record", "--store", "x", "--retain", "1m=2d,1s=1d"],
        &["--retain", "1s follows 1m"],
    );
    assert_fails_with(
        &["record", "--store", "x", "--store-size", "1MiB"],
        &["--store-size", "64MiB"],
    );
    for flag in ["--store-size", "--requests-size", "--ring-memory"] {
        assert_fails_with(
            &["record", "--store", "x", flag, "20parsec"],
            &[flag, "`20parsec`", "1.5GiB", "20GB"],
        );
    }
    assert_fails_with(
        &["record", "--store", "x", "--rotate", "soon"],
        &["--rotate", "`soon`", "10s"],
    );
    assert_fails_with(&["frobnicate"], &["frobnicate"]);
}

#[test]
fn a_query_of_what_is_no_store_says_so() {
    let empty = tempfile::tempdir().expect("a directory");
    let path = empty.path().to_str().expect("a readable name");
    assert_fails_with(&["query", "--store", path], &[path]);
    assert_fails_with(
        &["query", "--store", "/nonexistent/store"],
        &["/nonexistent/store"],
    );
    assert_fails_with(
        &["query", "--store", path, "--by", "colour"],
        &[
            "--by",
            "file, dir, mount, volume, tenant, user, host, level, op or transport",
        ],
    );
    for command in ["files", "flamegraph"] {
        assert_fails_with(&[command, "--store", path], &[path]);
    }
}

fn small_options(rotate: &str) -> Options {
    Options {
        host: "h".into(),
        granularities: "1s,10s".parse().expect("granularities"),
        rotate: rotate.parse().expect("a rotation"),
        filter: None,
        source: None,
        allow_nfs_store: true,
        most_files: Options::MOST_FILES,
        keep: Default::default(),
    }
}

fn small_window(start_ms: i64, rows: Vec<FileRow>) -> ClosedWindow {
    let requests = rows.len() as u64;
    ClosedWindow {
        start: UtcMs(start_ms),
        rows,
        ops: Vec::new(),
        health: Health {
            covered_ms: 1000,
            seen: requests,
            recorded: requests,
            ..Health::default()
        },
    }
}

/// Two seconds of two files; one file is renamed in between.
fn small_store(store: &Path) {
    let mut writer = Writer::open(store, small_options("1m")).expect("a store");
    let row = |fileid: u64, path: &str| {
        let id = FileId {
            dev: Dev(49),
            fileid,
            handle_hash: 1,
        };
        let file = FileAttributes {
            key: FileKey::new(Some("srv:/e"), id),
            id,
            mount: Some("srv:/e".into()),
            path: Some(path.into()),
            path_inferred: false,
            tenant: Default::default(),
            level: Default::default(),
        };
        let mut row = Row::default();
        row.read.requests = 1;
        row.read.untimed = 1;
        row.read.bytes = 4096 * fileid;
        FileRow {
            file: file.into(),
            row,
        }
    };
    let names = [("/mnt/a/one", "/mnt/b/x\ty"), ("/mnt/a/two", "/mnt/b/x\ty")];
    for (i, (one, two)) in names.into_iter().enumerate() {
        let mut rows = vec![row(1, one), row(2, two)];
        rows.sort_by_key(|row| row.file.key);
        let window = small_window(1_795_230_000_000 + 1000 * i as i64, rows);
        writer.append(&window).expect("it is written");
    }
    let mount = MountPoint {
        options: "rw,vers=4.2".into(),
        volume: Some("db".into()),
        ..mount_point(Dev(49), "srv:/e", "/mnt")
    };
    let start = UtcMs(1_795_230_000_000);
    writer.mounted(start, &[mount]).expect("it is written");
    writer.finish().expect("it is sealed");
}

#[test]
fn completions_and_man_pages_are_printed() {
    let printed = |words: &[&str]| {
        let output = trackiops(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(printed(&["completions", "bash"]).contains("rebuild-catalog"));
    assert!(printed(&["completions", "zsh"]).starts_with("#compdef trackiops"));
    assert!(printed(&["man"]).contains(".TH trackiops 1"));
    assert!(printed(&["man", "store", "check"]).contains("trackiops\\-store\\-check"));
    let dir = tempfile::tempdir().unwrap();
    let all = printed(&["man", "--all", dir.path().to_str().unwrap()]);
    assert!(all.is_empty() && dir.path().join("trackiops-query.1").is_file());
    let unknown = trackiops(&["man", "nothing"]);
    assert_eq!(unknown.status.code(), Some(2));
}

/// Stdout, stderr and status of a command.
fn ask(store: &Path, args: &[&str]) -> (String, String, Option<i32>) {
    let store = store.to_str().expect("a readable name");
    let args = [&args[..1], &["--store", store], &args[1..]].concat();
    let output = trackiops(&args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        text(&output.stdout),
        text(&output.stderr),
        output.status.code(),
    )
}

#[test]
fn files_are_asked_for_by_names_patterns_and_directories() {
    let dir = tempfile::tempdir().expect("a directory");
    small_store(dir.path());
    let rows = |args: &[&str]| {
        let (out, said, status) = ask(dir.path(), args);
        assert_eq!(status, Some(0), "{args:?}: {said}");
        out.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let query =
        |args: &[&str]| rows(&[&["query", "--format", "csv", "--step", "1s"], args].concat());
    assert_eq!(query(&["--file", "/mnt/a/one"]).len(), 1);
    assert_eq!(query(&["--file", "/mnt/a/*"]).len(), 2);
    assert_eq!(
        query(&["--file", "/mnt/a/two", "--file", "0:49:2"]).len(),
        3
    );
    assert_eq!(query(&["--dir", "/mnt/b"]).len(), 2);
    assert_eq!(
        query(&["--file", "/mnt/a/one", "--dir", "/mnt/b/"]).len(),
        3
    );
    let sums = |args: &[&str]| {
        let rows = rows(&[&["query", "--format", "csv", "--step", "all", "--by"], args].concat());
        let path = |row: String| row.split(',').nth(3).map(str::to_owned);
        rows.into_iter().filter_map(path).collect::<Vec<_>>()
    };
    assert_eq!(sums(&["dir"]), ["/mnt/b", "/mnt/a"]);
    assert_eq!(sums(&["dir", "--depth", "0"]), ["/mnt"]);
    assert_eq!(sums(&["dir", "--dir", "/", "--depth", "1"]), ["/mnt"]);
    assert_eq!(sums(&["mount"]).len(), 1);
    assert_eq!(sums(&["host"]).len(), 1);
    let files = rows(&["files"]).join("\n");
    assert!(files.contains("  named /mnt/a/one"), "{files}");
    assert!(files.contains("/mnt/b/x\\u{9}y"), "{files}");
    assert_eq!(
        rows(&[
            "files", "--file", "**/two", "--dir", "/mnt/b", "--format", "csv"
        ])
        .len(),
        1
    );
}

#[test]
fn a_store_that_is_not_sealed_yet_has_a_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut writer = Writer::open(dir.path(), small_options("1m")).expect("a store");
    let (_, said, status) = ask(dir.path(), &["volume"]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("nothing is recorded in "), "{said}");
    let window = small_window(1_795_230_000_000, Vec::new());
    writer.append(&window).expect("it is written");
    let (out, said, status) = ask(dir.path(), &["volume"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("not sealed yet: "), "{said}");
    assert!(out.contains("journal  1s "), "{out}");
}

#[test]
fn mounts_are_listed_with_when_they_were_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let (out, _, status) = ask(dir.path(), &["mounts"]);
    assert_eq!((out.as_str(), status), ("", Some(2)), "no store");
    small_store(dir.path());
    let (out, _, status) = ask(dir.path(), &["mounts", "--format", "json"]);
    assert_eq!(status, Some(0));
    assert_eq!(
        out,
        "{\"host\":\"h\",\"dev\":\"0:49\",\"mount\":\"srv:/e\",\"source\":\"srv:/e\",\"path\":\"/mnt\",\"version\":\"4.2\",\
         \"options\":\"rw,vers=4.2\",\"foreign_namespace\":false,\"volume\":\"db\",\"claim\":null,\"first_seen\":\"2026-11-21T03:00:00.000Z\",\
         \"last_seen\":\"2026-11-21T03:00:02.000Z\"}\n"
    );
    let (out, _, _) = ask(dir.path(), &["mounts"]);
    assert!(
        out.ends_with("0:49    4.2  /mnt        own        srv:/e  rw,vers=4.2\n"),
        "{out}"
    );
}

#[test]
fn what_is_not_found_has_status_1_and_what_cannot_be_asked_2() {
    let dir = tempfile::tempdir().expect("a directory");
    small_store(dir.path());
    let said = |status: i32, args: &[&str], words: &[&str]| {
        let (out, said, code) = ask(dir.path(), args);
        assert_eq!(code, Some(status), "{args:?}: {said}");
        assert!(out.is_empty(), "{args:?}: {out}");
        for word in words {
            assert!(said.contains(word), "{args:?}: `{word}` in: {said}");
        }
    };
    for command in ["query", "files", "flamegraph"] {
        let near = "did you mean /mnt/a/one?";
        said(1, &[command, "--file", "/mnt/a/onee"], &[near]);
        said(
            1,
            &[command, "--file", "/mnt/c*"],
            &["matches /mnt/c*", "trackiops files"],
        );
        said(1, &[command, "--file", "/mnt/b"], &["--dir /mnt/b"]);
        said(1, &[command, "--dir", "/srv"], &["below /srv/"]);
        said(1, &[command, "--file", "/mnt/[a"], &["/mnt/[a", "[[]"]);
        said(2, &[command, "--since", "someday"], &["--since", "90s"]);
    }
    said(2, &["query", "--depth", "2"], &["--by dir"]);
    said(
        2,
        &["query", "--by", "mount", "--depth", "2"],
        &["--by dir"],
    );
    said(
        1,
        &["flamegraph", "--direction", "write"],
        &["no WRITE latencies"],
    );
    said(
        2,
        &["flamegraph", "--by", "dir"],
        &["time, bytes, requests, app-time, app-bytes and app-calls"],
    );
    said(
        2,
        &["flamegraph", "--direction", "up"],
        &["read, write, both and apart"],
    );
    said(
        2,
        &["flamegraph", "--output", "/nowhere/x.svg"],
        &["/nowhere/x.svg"],
    );
}

#[test]
fn a_flame_graph_is_folded_stacks_or_an_svg() {
    let dir = tempfile::tempdir().expect("a directory");
    small_store(dir.path());
    let (out, _, status) = ask(dir.path(), &["flamegraph", "--folded"]);
    assert_eq!(status, Some(0));
    assert_eq!(
        out,
        "srv:/e;/mnt;a;one 4096\nsrv:/e;/mnt;a;two 4096\nsrv:/e;/mnt;b;x\\u{9}y 16384\n"
    );
    let (out, ..) = ask(
        dir.path(),
        &[
            "flamegraph",
            "--folded",
            "--by",
            "requests",
            "--direction",
            "apart",
        ],
    );
    assert!(out.starts_with("read;srv:/e;/mnt;a;one 1\n"), "{out}");
    let file = dir.path().join("graph.svg");
    let path = file.to_str().expect("a readable name");
    let (out, said, status) = ask(dir.path(), &["flamegraph", "--output", path]);
    assert_eq!(status, Some(0), "{said}");
    assert!(out.is_empty(), "{out}");
    let svg = std::fs::read_to_string(&file).expect("it is written");
    let (out, ..) = ask(dir.path(), &["flamegraph"]);
    assert_eq!(out, svg);
    assert!(svg.starts_with("<?xml") && svg.contains("all (24,576 bytes, 100%)"));
}

#[test]
fn help_and_version_are_answers() {
    for args in [
        &["--help"][..],
        &["record", "--help"],
        &["query", "--help"],
        &["files", "--help"],
        &["flamegraph", "--help"],
        &["--version"],
    ] {
        assert_eq!(trackiops(args).status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn programs_are_told_what_people_are() {
    let dir = tempfile::tempdir().expect("a directory");
    small_store(dir.path());
    let objects = |args: &[&str]| {
        let output = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")))
            .args(args)
            .env("TRACKIOPS_STORE", dir.path())
            .output()
            .expect("trackiops can be started");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let lines = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("an object"));
        (
            lines.collect::<Vec<serde_json::Value>>(),
            output.status.code(),
        )
    };
    let (doctor, status) = objects(&["doctor", "--json"]);
    let [doctor] = doctor.as_slice() else {
        panic!("{doctor:?}");
    };
    assert!(doctor["kernel"].is_string(), "{doctor}");
    for fact in [
        "may_use_bpf",
        "bpf_ring_buffer",
        "lockdown",
        "nfs_client",
        "tracefs",
        "btf",
        "hung_servers",
        "mountstats",
    ] {
        let fact = &doctor["facts"][fact];
        assert!(
            fact["ok"].is_boolean() && fact["state"].is_string(),
            "{doctor}"
        );
    }
    for engine in ["direct", "tracepoint"] {
        assert!(doctor["engines"][engine]["ok"].is_boolean(), "{doctor}");
    }
    let is_possible = doctor["engine"].is_string();
    assert_eq!(doctor["error"].is_null(), is_possible, "{doctor}");
    assert_eq!(status, Some(if is_possible { 0 } else { 2 }));
    assert!(doctor["machine"].is_null(), "{doctor}");

    let (doctor, _) = objects(&["doctor", "--report", "--json"]);
    let machine = &doctor[0]["machine"];
    assert_eq!(
        machine["trackiops"],
        env!("CARGO_PKG_VERSION"),
        "{doctor:?}"
    );
    assert_eq!(
        machine["variables that are set"],
        "TRACKIOPS_CONFIG, TRACKIOPS_STORE"
    );
    let store = dir.path().to_str().expect("a path");
    assert!(!doctor[0].to_string().contains(store), "{doctor:?}");

    let (check, status) = objects(&["store", "check", "--format", "json"]);
    assert_eq!((check.len(), status), (1, Some(0)), "{check:?}");
    assert_eq!(check[0]["kind"], "summary");
    assert_eq!(check[0]["findings"], 0);
    let ids = store_ids(dir.path()).expect("a store");
    assert_eq!(check[0]["store_id"], ids.id.to_string());
    assert_eq!(
        (&check[0]["former_ids"], &check[0]["is_copy"]),
        (&serde_json::json!([]), &serde_json::json!(false))
    );
    assert!(
        check[0]["rows"].as_u64().is_some_and(|rows| rows > 0),
        "{check:?}"
    );
    let date = dir.path().join("rollup/granularity=1s/date=2026-11-21");
    let segment = std::fs::read_dir(&date).expect("segments").next();
    let segment = segment.expect("a segment").expect("a segment").path();
    std::fs::remove_file(&segment).expect("it can be removed");
    let (check, status) = objects(&["store", "check", "--json"]);
    assert_eq!(status, Some(1), "{check:?}");
    assert_eq!(check[0]["kind"], "finding");
    assert_eq!(check[0]["path"].as_str(), segment.to_str());
    assert_eq!(check[0]["start"], "2026-11-21T03:00:00.000Z");
    for name in ["why", "end", "files", "names", "next"] {
        assert!(!check[0][name].is_null(), "{name}: {check:?}");
    }

    let (mounts, _) = objects(&["mounts", "--json"]);
    assert_eq!(mounts[0]["mount"], "srv:/e");
    let (volume, _) = objects(&["volume", "--json"]);
    assert_eq!(volume[0]["granularity_ms"], 1000);
    assert_fails_with(
        &["doctor", "--json", "--format", "text"],
        &["--json", "--format"],
    );
    assert_fails_with(&["store", "check", "/positional"], &["/positional"]);
}

#[test]
fn files_and_stores_can_be_named_without_flags() {
    let dir = tempfile::tempdir().expect("a directory");
    small_store(dir.path());
    let store = dir.path().to_str().expect("a readable name");
    let same = |named: &[&str], flagged: &[&str]| {
        let (named, flagged) = (trackiops(named), trackiops(flagged));
        assert_eq!(named.stdout, flagged.stdout, "{named:?} {flagged:?}");
        assert_eq!(named.status.code(), flagged.status.code());
        assert!(!named.stdout.is_empty(), "{named:?}");
    };
    same(
        &["store", "check", store],
        &["store", "check", "--store", store],
    );
    assert_fails_with(
        &["store", "check", store, "--store", store],
        &["cannot be used"],
    );
    let of = |words: &[&'static str]| [words, &["--store", store]].concat();
    for command in ["query", "files"] {
        let flagged = of(&[
            command,
            "--csv",
            "--since",
            "2026-01-01",
            "--file",
            "/mnt/a/*",
        ]);
        same(
            &of(&[command, "--csv", "--since", "2026-01-01", "/mnt/a/*"]),
            &flagged,
        );
    }
    let folded = ["flamegraph", "--folded", "--since", "2026-01-01"];
    same(
        &of(&[&folded[..], &["/mnt"]].concat()),
        &of(&[&folded[..], &["--dir", "/mnt"]].concat()),
    );
}

/// A pipe without a reader, and a file on a full disk.
fn unwritable() -> [Stdio; 2] {
    let (_, pipe) = std::io::pipe().expect("a pipe");
    let full = File::options().write(true).open("/dev/full");
    [pipe.into(), full.expect("it can be opened").into()]
}

#[test]
fn no_file_of_a_store_is_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    small_store(dir.path());
    let store = dir.path().to_str().expect("a readable name");
    let catalog = format!("{store}/catalog.db");
    let below = format!("{store}/rollup/x.csv");
    for output in [&catalog, &below] {
        let export = ["export", "--store", store, "--output", output];
        assert_fails_with(&export, &["among the files of the store"]);
    }
    assert_fails_with(
        &["query", "--store", store, "--output", &catalog],
        &["among the files of the store"],
    );
    assert_fails_with(
        &["volume", "--store", store, "--granularity", "1m"],
        &["--plan"],
    );
}

/// Commands that write a file; the file's name is missing.
fn writing(store: &Path) -> Vec<Vec<String>> {
    let store = store.to_str().expect("a readable name");
    let (key, hidden) = (format!("{store}-key"), format!("{store}-hidden"));
    let words = |command: &str| command.split(' ').map(str::to_owned).collect();
    vec![
        words(&format!("query --store {store} --output")),
        words(&format!("query --store {store} --plot")),
        words(&format!("files --store {store} --output")),
        words(&format!("mounts --store {store} --output")),
        words(&format!("flamegraph --store {store} --output")),
        words(&format!("export --store {store} --output")),
        words(&format!("deanonymize --key {key} {hidden} --output")),
        words("anonymize-key"),
    ]
}

#[test]
fn what_is_written_is_for_its_owner_alone_and_behind_no_link() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().join("store");
    small_store(&store);
    let path = |name: &str| format!("{}/{name}", dir.path().display());
    let (key, hidden) = (path("store-key"), path("store-hidden"));
    let ok = |args: &[&str]| {
        let output = trackiops(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
    };
    ok(&["anonymize-key", &key]);
    let (store_name, export) = (path("store"), ["export", "--anonymize", &key]);
    ok(&[&export[..], &["--store", &store_name, "--output", &hidden]].concat());
    fs::create_dir(path("out")).expect("a directory");
    let theirs = path("theirs");
    fs::write(&theirs, "theirs").expect("it is written");
    let by_umask = fs::metadata(&theirs).unwrap().permissions().mode();
    for command in writing(&store) {
        let out = match command.iter().any(|word| word == "--plot") {
            true => path("out/it.svg"),
            false => path("out/it"),
        };
        let args: Vec<&str> = command.iter().map(String::as_str).chain([&*out]).collect();
        let mode = || fs::metadata(&out).unwrap().permissions().mode();
        ok(&args);
        assert_eq!(mode() & 0o7777, 0o600, "{args:?}");
        if command[0] != "anonymize-key" {
            fs::set_permissions(&out, fs::Permissions::from_mode(0o644)).unwrap();
            ok(&args);
            assert_eq!(mode() & 0o7777, 0o600, "{args:?}");
            ok(&[&args[..], &["--umask"]].concat());
            assert_eq!(mode(), by_umask, "{args:?}");
        }
        fs::remove_file(&out).unwrap();
        for to in [&*theirs, "nowhere", "/dev/full"] {
            symlink(to, &out).unwrap();
            assert_fails_with(&args, &[&out]);
            assert!(Path::new(&out).is_symlink(), "{args:?}");
            fs::remove_file(&out).unwrap();
        }
        assert_eq!(fs::read_dir(path("out")).unwrap().count(), 0, "{args:?}");
    }
    assert_eq!(fs::read(&theirs).unwrap(), b"theirs");
}

#[cfg(feature = "fail-points")]
#[test]
fn a_command_that_is_ended_leaves_nothing_behind() {
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().join("store");
    small_store(&store);
    let out = dir.path().join("out");
    fs::create_dir(&out).expect("a directory");
    for place in ["1 output: begun", "1 output: written"] {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            // A test that runs in the background has SIGINT ignored.
            let mut command = program::command(Path::new("env"));
            command.arg("--default-signal=INT,TERM,HUP");
            command.arg(env!("CARGO_BIN_EXE_trackiops"));
            command.args(["export", "--granularity", "1s", "--store"]);
            command
                .arg(&store)
                .arg("--output")
                .arg(out.join("it.parquet"));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.env("TRACKIOPS_STOP_AT", place);
            let mut child = command.spawn().expect("it can be started");
            let pid = Pid::from_child(&child);
            let stopped = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap();
            assert!(stopped.is_some_and(|(_, status)| status.stopped()));
            let has_draft = || {
                let mut entries = fs::read_dir(&out).unwrap();
                entries.any(|entry| entry.unwrap().file_name() != "it.parquet")
            };
            assert!(has_draft(), "{place}");
            kill_process(pid, signal).unwrap();
            kill_process(pid, Signal::CONT).unwrap();
            let status = child.wait().unwrap();
            assert_eq!(status.signal(), Some(signal.as_raw()), "{place}");
            assert!(!has_draft(), "{place}: {signal:?}");
        }
    }
}

#[test]
fn a_file_that_gets_too_long_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = dir.path().join("store");
    small_store(&store);
    let out = dir.path().join("out");
    fs::create_dir(&out).expect("a directory");
    let limited = format!(
        "ulimit -f 0; {} export --store {} --output {}",
        env!("CARGO_BIN_EXE_trackiops"),
        store.display(),
        out.join("long.parquet").display()
    );
    let output = Command::new("sh").args(["-c", &limited]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("File too large"), "{said}");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}

#[test]
fn what_cannot_be_told_ends_nothing_early() {
    let dir = tempfile::tempdir().expect("a directory");
    small_store(dir.path());
    let store = dir.path().to_str().expect("a readable name");
    let status = |args: &[&str], stdout: Stdio, stderr: Stdio| {
        let mut command = program::command(Path::new(env!("CARGO_BIN_EXE_trackiops")));
        command.args(args).stdout(stdout).stderr(stderr);
        command.status().expect("it can be started").code()
    };
    let explained = ["query", "--store", store, "--explain"];
    let nothing = ["query", "--store", store, "--file", "/nothing"];
    let refused = ["query", "--store", store, "--since", "nonsense"];
    for (args, expected) in [(&explained[..], 0), (&nothing, 1), (&refused, 2)] {
        for stderr in unwritable() {
            let status = status(args, Stdio::null(), stderr);
            assert_eq!(status, Some(expected), "{args:?}");
        }
    }
    // An answer that could not be written is an error, unless its reader closed the pipe.
    for args in [
        &["store", "check", "--store", store][..],
        &["query", "--store", store],
    ] {
        let [pipe, full] = unwritable();
        assert_eq!(status(args, pipe, Stdio::null()), Some(0), "{args:?}");
        assert_eq!(status(args, full, Stdio::null()), Some(2), "{args:?}");
    }
    for stdout in unwritable() {
        let status = status(&["doctor"], stdout, Stdio::null());
        assert!(matches!(status, Some(0 | 2)), "{status:?}");
    }
}

#[test]
fn damage_is_told_and_the_rest_is_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    small_store(dir.path());
    let store = dir.path().to_str().expect("a readable name");
    let check = || {
        let output = trackiops(&["store", "check", "--store", store]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text, output.status.code())
    };
    let (told, status) = check();
    assert_eq!(status, Some(0), "{told}");
    assert!(told.contains("nothing is damaged"), "{told}");

    let date = dir.path().join("rollup/granularity=1s/date=2026-11-21");
    let segments: Vec<_> = std::fs::read_dir(&date).expect("segments").collect();
    let segment = segments[0].as_ref().expect("a segment").path();
    let mut bytes = std::fs::read(&segment).expect("it can be read");
    bytes.truncate(1000);
    std::fs::write(&segment, bytes).expect("it can be written");
    let (told, status) = check();
    assert_eq!(status, Some(1), "{told}");
    let name = segment.to_str().expect("a readable name");
    for word in [name, "2026-11-21", "/mnt/", "restore", "1 problem"] {
        assert!(told.contains(word), "`{word}` in: {told}");
    }
    let (rows, said, status) = ask(dir.path(), &["query", "--step", "10s", "--format", "csv"]);
    assert_eq!((rows.lines().count(), status), (3, Some(0)), "{said}");
    let (rows, said, status) = ask(dir.path(), &["query", "--step", "1s", "--format", "csv"]);
    assert_eq!((rows.as_str(), status), ("", Some(3)));
    assert!(said.contains(name) && said.contains("of 2 files"), "{said}");
    assert!(said.contains("no rows can be read"), "{said}");
    assert!(!said.contains("no request read or wrote a file"), "{said}");

    let rebuilt = trackiops(&["store", "rebuild-catalog", "--store", store]);
    let told = String::from_utf8_lossy(&rebuilt.stdout).into_owned();
    assert_eq!(rebuilt.status.code(), Some(1), "{told}");
    assert!(told.contains(name), "{told}");
    // The new catalog keeps it, even after the file is gone.
    for gone in [false, true] {
        if gone {
            std::fs::remove_file(&segment).expect("it can be removed");
            trackiops(&["store", "rebuild-catalog", "--store", store]);
        }
        let (rows, said, status) = ask(dir.path(), &["query", "--step", "1s", "--format", "csv"]);
        assert_eq!((rows.as_str(), status), ("", Some(3)), "{said}");
        assert!(said.contains(name), "{said}");
        assert_eq!(check().1, Some(1), "{}", check().0);
    }

    let nowhere = trackiops(&["store", "check", "--store", "/nonexistent/store"]);
    assert_eq!(nowhere.status.code(), Some(2));
}

#[test]
fn a_copy_of_a_store_answers_as_the_store_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let (store, to) = (dir.path().join("store"), dir.path().join("copy"));
    small_store(&store);
    let [from, into] = [&store, &to].map(|path| path.to_str().expect("a readable name"));
    for command in ["copy", "snapshot"] {
        let copied = trackiops(&["store", command, from, into]);
        let told = String::from_utf8_lossy(&copied.stdout).into_owned();
        assert_eq!(copied.status.code(), Some(0), "{told}");
        assert!(told.contains("linked") && told.contains(into), "{told}");
        let asked = |store| ask(store, &["query", "--step", "1s", "--format", "csv"]);
        assert_eq!(asked(&to), asked(&store));
        let checked = |flags: &[&str]| -> serde_json::Value {
            let check = ["store", "check", "--json", "--store", into];
            let output = trackiops(&[&check, flags].concat());
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let summary = text.lines().next_back().expect("a summary");
            serde_json::from_str(summary).expect("JSON")
        };
        let id = store_ids(&store).expect("a store").id.to_string();
        let copy = checked(&[]);
        assert_eq!(copy["store_id"], id);
        assert_eq!(copy["is_copy"], true);
        // A command that writes gives it another id.
        let copy = checked(&["--repair"]);
        assert_ne!(copy["store_id"], id);
        assert_eq!(copy["former_ids"], serde_json::json!([id]));
        assert_eq!(copy["is_copy"], false);
        let refused = trackiops(&["store", command, into, "--store", from]);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(
            said.contains("not empty") && said.contains("new or empty"),
            "{said}"
        );
        fs::remove_dir_all(&to).expect("it can be removed");
    }
}

#[test]
fn a_journal_that_was_deleted_is_missed() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut writer = Writer::open(dir.path(), small_options("1m")).expect("a store");
    let window = small_window(1_795_230_000_000, Vec::new());
    writer.append(&window).expect("it is written");
    drop(writer);
    fs::remove_file(dir.path().join("journal/1.tij")).expect("it is removed");
    let (_, said, status) = ask(dir.path(), &["query"]);
    assert_eq!(status, Some(3), "{said}");
    assert!(
        said.contains("1.tij") && said.contains("deleted before"),
        "{said}"
    );
    let store = dir.path().to_str().expect("a readable name");
    let checked = trackiops(&["store", "check", "--store", store]);
    let told = String::from_utf8_lossy(&checked.stdout);
    let status = checked.status.code();
    assert_eq!(status, Some(1), "{told}");
    assert!(
        told.contains("1.tij") && told.contains("2026-11-21"),
        "{told}"
    );
}

#[test]
fn mounts_that_a_catalog_lacks_are_not_taken_for_none() {
    let dir = tempfile::tempdir().expect("a directory");
    small_store(dir.path());
    let catalog = dir.path().join("catalog.db");
    let older = fs::read(&catalog).expect("a catalog");
    let mut writer = Writer::open(dir.path(), small_options("1m")).expect("a store");
    let window = small_window(1_795_233_600_000, Vec::new());
    writer.append(&window).expect("it is written");
    writer.finish().expect("it is sealed");
    let (_, said, status) = ask(dir.path(), &["mounts"]);
    assert_eq!(status, Some(0), "{said}");
    fs::write(&catalog, older).expect("it is written");
    let (out, said, status) = ask(dir.path(), &["mounts"]);
    assert!(out.contains("srv:/e"), "{out}");
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("rebuild-catalog"), "{said}");
    fs::remove_file(&catalog).expect("it is removed");
    let store = dir.path().to_str().expect("a readable name");
    trackiops(&["store", "rebuild-catalog", "--store", store]);
    let (out, said, status) = ask(dir.path(), &["mounts"]);
    assert_eq!((out.as_str(), status), ("", Some(1)), "{said}");
    assert!(said.contains("no mounts are known"), "{said}");
}

#[test]
fn a_recorder_that_may_open_too_few_files_says_so() {
    let few = format!(
        "ulimit -n 32; {} record --store x",
        env!("CARGO_BIN_EXE_trackiops")
    );
    let output = Command::new("sh").args(["-c", &few]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no more than 32 files") && said.contains("ulimit -n 388"),
        "{said}"
    );
}

/// Hidden files below a directory, and the files that a glob matches.
fn segments(dir: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut hidden, mut seen) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            let below = segments(&path);
            hidden.extend(below.0);
            seen.extend(below.1);
        } else if path.to_string_lossy().ends_with(".removed") {
            hidden.push(path);
        } else if path.extension().is_some_and(|e| e == "parquet") {
            seen.push(path);
        }
    }
    (hidden, seen)
}

#[test]
fn what_an_interrupted_merge_has_left_is_reported_and_repaired() {
    let dir = tempfile::tempdir().expect("a directory");
    let (live, killed) = (dir.path().join("live"), dir.path().join("killed"));
    small_store(&live);
    let check = |store: &Path, repair: &[&str]| {
        let store = store.to_str().expect("a readable name");
        let output = trackiops(&[&["store", "check", "--store", store], repair].concat());
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        (said, output.status.code())
    };
    let (said, status) = check(&live, &["--repair"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("nothing to repair\n"), "{said}");

    // Four journals that are merged, and one that is not sealed.
    let mut writer = Writer::open(&live, small_options("10s")).expect("a store");
    for i in 0..5 {
        let window = small_window(1_795_240_000_000 + 10_000 * i, vec![]);
        writer.append(&window).expect("it is written");
    }
    let begun = Instant::now();
    while segments(&live).0.len() < 4 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing merges");
        sleep(Duration::from_millis(20));
    }
    let (said, status) = check(&live, &[]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("will be deleted"), "{said}");
    let (said, status) = check(&live, &["--repair"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("stop the recorder"), "{said}");

    let copied = Command::new("cp").arg("-a").args([&live, &killed]).status();
    assert!(copied.expect("cp can be started").success());
    drop(writer);
    let (hidden, _) = segments(&killed);
    let name = hidden[0].file_stem().expect("a name").to_string_lossy();
    let seen = hidden[0].with_file_name(&name[1..]);
    std::fs::rename(&hidden[0], &seen).expect("it is renamed");
    let (said, status) = check(&killed, &[]);
    assert_eq!(status, Some(1), "{said}");
    for word in [
        seen.to_str().expect("a readable name"),
        "a glob may count its rows twice",
        "store check --repair",
        "1 problem",
    ] {
        assert!(said.contains(word), "`{word}` in: {said}");
    }
    let (said, status) = check(&killed, &["--repair"]);
    assert_eq!(status, Some(0), "{said}");
    let begins = "repaired: 1 superseded segment hidden, 0 segments shown, ";
    assert!(said.starts_with(begins), "{said}");
    assert!(segments(&killed).0.is_empty());
    let (said, status) = check(&killed, &["--repair"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("nothing to repair\n"), "{said}");
}

#[test]
fn a_volume_is_planned_before_anything_is_recorded() {
    let plan = trackiops(&[
        "volume",
        "--plan",
        "--files",
        "4000",
        "--granularity",
        "1s",
        "--format",
        "json",
    ]);
    assert_eq!(plan.status.code(), Some(0), "{plan:?}");
    let row: serde_json::Value = serde_json::from_slice(&plan.stdout).unwrap();
    // The paper's number: 4000 files at 1 s are 13.8 GB a day.
    assert_eq!(row["paper_bytes"], 13_824_000_000_u64);
    assert_eq!(row["entries"], 345_600_000);
    let like = [
        "volume",
        "--plan",
        "--files",
        "9",
        "--store",
        "/nonexistent",
    ];
    assert_fails_with(&like, &["/nonexistent", "--store"]);
}

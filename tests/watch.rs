//! `trackiops watch`: its output matches `trackiops query` for the same windows.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use trackiops_store::store_ids;
use trackiops_testkit::incidents::noisy_neighbour;
use trackiops_testkit::recording::{Recording, recent};

/// Runs programs about a recording.
trait Asked {
    fn watch(&self, flags: &[&str]) -> Watch;
    fn query(&self, flags: &[&str]) -> String;
}

impl Asked for Recording {
    /// A `watch` that listens.
    fn watch(&self, flags: &[&str]) -> Watch {
        let name = flags.join("").replace('/', "");
        let [wrote, said] = ["wrote", "said"].map(|what| {
            let path = self.dir().join(format!("{what}{name}"));
            (File::create(&path).unwrap(), path)
        });
        let mut command = trackiops();
        command.args(["watch", "--socket"]).arg(self.socket());
        command.args(flags).stdout(wrote.0).stderr(said.0);
        let watch = Watch {
            child: command.spawn().unwrap(),
            wrote: wrote.1,
            said: said.1,
        };
        let fds = format!("/proc/{}/fd", watch.child.id());
        let is_socket = |fd: fs::DirEntry| {
            let target = fs::read_link(fd.path()).unwrap_or_default();
            target.to_string_lossy().starts_with("socket:")
        };
        let begun = Instant::now();
        while !fs::read_dir(&fds).unwrap().flatten().any(is_socket) {
            assert!(begun.elapsed() < Duration::from_secs(30), "no connection");
            sleep(Duration::from_millis(10));
        }
        // The recorder accepts the connection at once, but there is nothing to observe.
        sleep(Duration::from_millis(400));
        watch
    }

    fn query(&self, flags: &[&str]) -> String {
        let mut command = trackiops();
        command.args(["query", "--store"]).arg(self.store());
        let Output { stdout, .. } = command.args(flags).output().unwrap();
        String::from_utf8(stdout).unwrap()
    }
}

struct Watch {
    child: Child,
    wrote: PathBuf,
    said: PathBuf,
}

impl Watch {
    /// Its output and messages once the recorder has ended and it waits for another one.
    fn end(mut self) -> (String, String) {
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let begun = Instant::now();
        while !read(&self.said).contains("has ended") && self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it goes on");
            sleep(Duration::from_millis(20));
        }
        (read(&self.wrote), read(&self.said))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn trackiops() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trackiops"));
    command.env("TZ", "UTC").env("COLUMNS", "100");
    command
}

/// Sorts lines: a question about many windows sorts by time, and so does a watch.
fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn what_it_writes_is_what_a_query_answers() {
    let cases: [&[&str]; 7] = [
        &["--json"],
        &["--json", "--file", "/mnt/a/*"],
        &["--json", "--by", "tenant", "--where", "read_requests > 4"],
        &["--csv", "--by", "dir", "--dir", "/mnt/b"],
        &["--json", "--step", "10s", "--by", "mount"],
        &["--csv", "--columns", "time,path,read_requests,read_p99"],
        &["--json", "--mount", "srv:/nothing"],
    ];
    let mut recording = Recording::begin();
    let watches: Vec<_> = cases.iter().map(|flags| recording.watch(flags)).collect();
    recording.put(&recent(30));
    recording.end();
    for (flags, watch) in cases.iter().zip(watches) {
        let (wrote, said) = watch.end();
        let mut flags = flags.to_vec();
        if !flags.contains(&"--step") {
            flags.extend(["--step", "1s"]);
        }
        assert_eq!(
            sorted(&wrote),
            sorted(&recording.query(&flags)),
            "{flags:?}"
        );
        assert_eq!(said, "the recorder has ended; waiting for another one\n");
        assert_eq!(
            wrote.is_empty(),
            flags.contains(&"srv:/nothing"),
            "{flags:?}"
        );
    }
}

#[test]
fn what_was_before_comes_first_and_nothing_twice() {
    let windows = recent(40);
    let mut recording = Recording::begin();
    recording.put(&windows[..25]);
    let watch = recording.watch(&["--json", "--since", "10m"]);
    recording.put(&windows[25..]);
    recording.end();
    let (wrote, _) = watch.end();
    let expected = recording.query(&["--json", "--step", "1s"]);
    assert_eq!(sorted(&wrote), sorted(&expected));
    assert_eq!(wrote.lines().count(), 80);
}

#[test]
fn the_papers_lines_have_a_file_each() {
    let windows = recent(2);
    let mut recording = Recording::begin();
    let watch = recording.watch(&["--paper"]);
    recording.put(&windows);
    recording.end();
    let (wrote, _) = watch.end();
    let lines: Vec<_> = wrote.lines().collect();
    assert_eq!(lines.len(), 5, "{wrote}");
    assert!(
        lines[0].starts_with("[Timestamp], File ID, r-iops, "),
        "{wrote}"
    );
    // Two users of one file are one line. Each has one untimed request.
    let (_, rest) = lines[1].split_once("], ").unwrap();
    assert_eq!(rest, "0:49:1, 5, 20480, 300000, 0, 0, 0");
}

#[test]
fn a_table_is_for_people_and_the_next_recorder_is_found() {
    let windows = recent(20);
    let mut recording = Recording::begin();
    let watch = recording.watch(&["--parts"]);
    recording.put(&windows[..1]);
    recording.end();
    sleep(Duration::from_millis(300));
    // Windows without a listener.
    recording.resume();
    recording.put(&windows[1..2]);
    sleep(Duration::from_millis(1500));
    recording.put(&windows[2..3]);
    sleep(Duration::from_millis(300));
    recording.end();
    sleep(Duration::from_millis(500));
    let (wrote, said) = watch.end();
    assert!(
        wrote.contains("/mnt/a/x") && wrote.contains("/mnt/b/y"),
        "{wrote}"
    );
    assert!(
        wrote.lines().all(|line| line.chars().count() <= 100),
        "{wrote}"
    );
    assert!(
        said.contains("has ended; waiting for another one"),
        "{said}"
    );
}

#[test]
fn events_are_written_and_programs_run_at_them() {
    let mut windows = recent(6);
    let mut recording = Recording::begin();
    // Other users may write there.
    let open = tempfile::tempdir().unwrap();
    fs::set_permissions(open.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let at = |event: &str| {
        let file = open.path().join(event);
        format!(
            "{event}=sh -c '{{ id -u; echo $0$HOME; cat; }} >$1' $HOME {}",
            file.display()
        )
    };
    let (alert, lost) = (at("alert"), at("lost"));
    let flags = [
        "--json",
        "--by",
        "mount",
        "--where",
        "read_requests > 11",
        "--for",
        "2",
        "--on",
        &alert,
        "--on",
        &lost,
    ];
    let watch = recording.watch(&flags);
    recording.put(&windows[..1]);
    // Earlier losses are not an event.
    sleep(Duration::from_millis(1200));
    windows[2].health.lost = 3;
    for window in &windows[1..] {
        recording.put(std::slice::from_ref(window));
        sleep(Duration::from_millis(1100));
    }
    recording.end();
    sleep(Duration::from_millis(500));
    let wrote = fs::read_to_string(&watch.wrote).unwrap();
    let events: Vec<serde_json::Value> = wrote
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut kinds: Vec<_> = events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(kinds.pop(), Some("recorder-ended"), "{wrote}");
    kinds.sort_unstable();
    assert_eq!(kinds, ["alert", "lost"], "{wrote}");
    let user = if rustix::process::geteuid().is_root() {
        "65534".to_owned()
    } else {
        rustix::process::geteuid().as_raw().to_string()
    };
    for (name, key, value) in [
        ("alert", "/row/mount", "srv:/export"),
        ("lost", "/requests", "3"),
    ] {
        let told = fs::read_to_string(open.path().join(name)).unwrap();
        let mut lines = told.lines();
        assert_eq!(lines.next(), Some(&*user), "{told}");
        // No shell has expanded anything, and the environment is not passed on.
        assert_eq!(lines.next(), Some("$HOME"), "{told}");
        let event: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        assert_eq!(event["event"], name);
        assert_eq!(event["host"], "h");
        assert!(
            event.pointer(key).unwrap().to_string().contains(value),
            "{event}"
        );
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_next_step() {
    let recording = Recording::begin();
    let refused = |flags: &[&str]| {
        let mut command = trackiops();
        command.args(["watch", "--socket"]).arg(recording.socket());
        command.args(["--duration", "5s"]).args(flags);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    for (flags, words) in [
        (&["--step", "1500ms"][..], "1500ms"),
        (&["--step", "100ms"], "multiple"),
        (&["--paper", "--by", "tenant"], "leave out --by"),
        (&["--paper", "--op", "getattr"], "leave out"),
        (&["--json", "--csv"], "cannot be used"),
        (&["--where", "nonsense > 1"], "nonsense"),
        (&["--columns", "nonsense"], "nonsense"),
        (&["--since", "soon"], "--since"),
        (
            &["--on", "stal=/bin/page"],
            "there is no event `stal`; there are stall",
        ),
        (&["--events", "--by", "op"], "leave out --by op"),
        (&["--events", "--csv"], "cannot be used"),
    ] {
        let said = refused(flags);
        assert!(said.contains(words), "{flags:?}: {said}");
    }
    let output = trackiops()
        .args(["watch", "--socket", "/nonexistent/live.sock"])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said.contains("no recorder serves") && said.contains("trackiops record"),
        "{said}"
    );
}

#[test]
fn status_tells_a_person_and_a_program_how_it_goes() {
    let mut recording = Recording::begin();
    let status = |flags: &[&str]| {
        let mut command = trackiops();
        command.args(["status", "--socket"]).arg(recording.socket());
        let output = command.args(flags).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), text)
    };
    let mut windows = recent(3);
    recording.put(&windows[..2]);
    let (code, text) = status(&[]);
    assert_eq!(code, 0, "{text}");
    for words in [
        "state       well",
        "1 on h, process",
        "Linux 6.12, direct engine",
        "44.0 KiB/s read by 11.0 requests/s",
        "2 files",
        "21 requests seen, 0 folded, 0 lost",
        "2 closed, 0 not written yet",
        "without a limit",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let id = store_ids(&recording.store()).unwrap().id.to_string();
    assert!(text.contains(&format!("store id    {id}\n")), "{text}");
    windows[2].health.lost = 3;
    recording.put(&windows[2..]);
    let (code, text) = status(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &json["state"]), (1, &"degraded".into()));
    assert_eq!(json["complaints"][0], "3 requests lost in the last minute");
    assert_eq!(json["status"]["store_id"], id);
    assert_eq!(json["status"]["total"]["health"]["lost"], 3);
    assert_eq!(json["status"]["recent"]["health"]["covered_ms"], 3000);
    assert!(json["process"]["rss_bytes"].as_u64().unwrap() > 1 << 20);
    recording.end();
    let mut command = trackiops();
    command.args(["status", "--socket"]).arg(recording.socket());
    assert_eq!(command.output().unwrap().status.code(), Some(2));
}

#[test]
fn long_steps_and_late_windows_add_up() {
    let mut windows = recent(300);
    // A late request of the first step, after the end of that step.
    let late = windows.remove(3);
    windows.insert(200, late);
    let mut recording = Recording::begin();
    let watch = recording.watch(&["--json", "--step", "2m", "--by", "mount"]);
    recording.put(&windows);
    recording.end();
    let (wrote, _) = watch.end();
    let sums = |text: &str| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let time = row["time"].as_str().unwrap().to_owned();
            *sums.entry(time).or_default() += row["read_requests"].as_u64().unwrap();
        }
        sums
    };
    let stored = recording.query(&["--json", "--step", "2m", "--by", "mount"]);
    assert_eq!(sums(&wrote), sums(&stored));
    assert_eq!(wrote.lines().count(), stored.lines().count() + 1);
}

#[test]
fn what_is_slow_is_an_event_with_its_verdict() {
    let mut recording = Recording::begin();
    let watch = recording.watch(&["--events", "--json"]);
    // Three usual minutes, the minute of the backup, and one after it.
    for windows in noisy_neighbour()[420..720].chunks(10) {
        recording.put(windows);
        sleep(Duration::from_millis(50));
    }
    recording.end();
    sleep(Duration::from_millis(1000));
    let wrote = fs::read_to_string(&watch.wrote).unwrap();
    let events = wrote
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let events: Vec<serde_json::Value> = events.collect();
    let of_kind = |kind: &str| -> Vec<_> {
        events
            .iter()
            .filter(|event| event["event"] == kind)
            .collect()
    };
    let slow = of_kind("slow");
    assert_eq!((slow.len(), of_kind("slow-end").len()), (1, 1), "{wrote}");
    assert_eq!(slow[0]["cause"], "noisy-neighbour");
    assert_eq!(slow[0]["load"]["name"], "/srv/scratch/backup.tar");
    assert_eq!(slow[0]["since"], "2026-11-21T03:10:00.000Z");
    let text = slow[0]["text"].as_str().unwrap();
    assert!(text.contains("Cause: a noisy neighbour"), "{text}");
}

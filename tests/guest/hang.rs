//! A server that does not answer is reported while it hangs, with the age of its oldest request. It delays only processes that wait for it.
//! Each waiting request is counted once, with its waiting time. `hang.sh` has the phases.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;
use std::sync::LazyLock;

use trackiops_query::{Explain, scan};
use trackiops_schemas::row::Health;
use trackiops_schemas::time::UtcMs;
use trackiops_store::{Dataset, Snapshot};

use crate::run::{Answer, Run, answers, kernel, long, number, scripts};

/// The versions of NFS of the hung server's mounts.
const VERSIONS: [&str; 2] = ["3", "4.1"];
const HUNG: &str = "127.0.0.2";
const HEALTHY: &str = "127.0.0.1";
/// Most time from the begin or end of a stall to its report, s.
const TOLD_WITHIN: f64 = 2.0;
/// Largest error of an age, s. The first look comes up to 0.75 s after the request began, and the last look of a window up to 0.75 s before
/// it ends.
const AGE: f64 = 1.5;

/// How late a busy host may make a look or a line of the terminal, s.
const LATE: f64 = 6.0;

/// How long the server is away, s.
fn down() -> f64 {
    if long() { 90.0 } else { 15.0 }
}

struct Hang {
    run: Run,
    /// Times of events, s since the epoch.
    times: BTreeMap<String, f64>,
    /// Lines of the recorder's terminal, each with its time.
    terminal: Vec<(f64, String)>,
    /// Health rows of one second, by begin.
    health: BTreeMap<UtcMs, Health>,
}

static HANG: LazyLock<Hang> = LazyLock::new(|| {
    let helpers = ["steady.py", "terminal.py", "mapped.py"];
    let helpers = helpers.map(|name| scripts().join(name).display().to_string());
    let mut flags = vec!["--timeout", "1200", "--deb", "tmux"];
    flags.extend(helpers.iter().flat_map(|path| ["--add", path.as_str()]));
    let seconds = down().to_string();
    let run = Run::on(
        &kernel(),
        "hang",
        &flags,
        &[&seconds, VERSIONS[0], VERSIONS[1]],
    );
    let timed = |name: &str| -> Vec<(f64, String)> {
        let parse = |line: &str| {
            let (at, what) = line.split_once('\t').expect("a time and a tab");
            (at.parse().expect("a time"), what.to_owned())
        };
        run.text(name).lines().map(parse).collect()
    };
    Hang {
        times: timed("times")
            .into_iter()
            .map(|(at, what)| (what, at))
            .collect(),
        terminal: timed("terminal"),
        health: health(&run.store()),
        run,
    }
});

fn health(store: &Path) -> BTreeMap<UtcMs, Health> {
    let snapshot = Snapshot::open(store).expect("a store");
    let segments = snapshot.segments(Dataset::Health, None).expect("segments");
    let mut rows: BTreeMap<UtcMs, Health> = BTreeMap::new();
    for segment in segments.iter().filter(|s| s.granularity.ms() == 1000) {
        for (time, health) in
            scan::health(segment, |_| true, &Explain::default()).expect("health rows")
        {
            rows.entry(time).or_default().merge(&health);
        }
    }
    rows
}

/// Work of `steady.py` on a file in one phase.
struct Calls {
    path: String,
    fileid: u64,
    reads: u64,
    writes: u64,
    /// Begin and length of the longest call, s.
    began: f64,
    longest: f64,
}

impl Calls {
    fn bytes_each(&self) -> u64 {
        if self.path.ends_with("/direct") {
            4096
        } else {
            65536
        }
    }
}

impl Hang {
    fn calls(&self, phase: &str) -> Vec<Calls> {
        let calls = |file: Answer| Calls {
            path: file["path"].as_str().expect("a path").to_owned(),
            fileid: number(&file, "fileid") as u64,
            reads: number(&file, "reads") as u64,
            writes: number(&file, "writes") as u64,
            began: number(&file, "began"),
            longest: number(&file, "longest"),
        };
        answers(&self.run.text(phase))
            .into_iter()
            .map(calls)
            .collect()
    }

    /// The calls to the hung server.
    fn hung(&self, phase: &str) -> Vec<Calls> {
        let mut calls = self.calls(phase);
        calls.retain(|calls| !calls.path.starts_with("/mnt/healthy/"));
        assert_eq!(calls.len(), 2 * VERSIONS.len());
        calls
    }

    /// Begin and end of the time in which calls to the hung server waited.
    fn waited(&self, phase: &str) -> (f64, f64) {
        let calls = self.hung(phase);
        let begin = calls.iter().map(|c| c.began).fold(f64::MAX, f64::min);
        let end = calls
            .iter()
            .map(|c| c.began + c.longest)
            .fold(0.0, f64::max);
        (begin, end)
    }

    /// Delay by a busy host, s: it affects calls of milliseconds, and may affect anything else.
    fn lag(&self, phase: &str) -> f64 {
        let mut calls = self.calls(phase);
        calls.retain(|calls| calls.path.starts_with("/mnt/healthy/"));
        calls.iter().map(|c| c.longest).fold(0.0, f64::max)
    }

    fn at(&self, what: &str) -> f64 {
        self.times[what]
    }

    /// Lines of the terminal written from one time to another.
    fn lines(&self, from: f64, to: f64) -> impl Iterator<Item = &(f64, String)> {
        self.terminal
            .iter()
            .filter(move |(at, _)| (from..to).contains(at))
    }

    /// Age of the oldest request for a server in the window that begins at a time, s.
    fn age(&self, start: UtcMs, server: &str) -> f64 {
        let pending = self.health[&start]
            .pending
            .as_ref()
            .expect("what was pending");
        let clients = pending
            .clients
            .iter()
            .filter(|c| c.server.as_deref() == Some(server));
        clients.map(|c| c.age_ms_max).max().unwrap_or(0) as f64 / 1000.0
    }

    /// The seconds between two times.
    fn seconds(&self, from: f64, to: f64) -> impl Iterator<Item = UtcMs> {
        (from.ceil() as i64..to.floor() as i64).map(|second| UtcMs(second * 1000))
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_stall_is_told_within_two_seconds_and_so_is_its_end() {
    for (phase, over) in [("hung", "over"), ("stopped", "end")] {
        let (begin, end) = HANG.waited(phase);
        let said = |what: &str, from: f64| {
            let told = |(_, line): &&(f64, String)| line.starts_with(HUNG) && line.contains(what);
            HANG.lines(from, HANG.at(over))
                .filter(told)
                .map(|(at, _)| *at)
                .collect::<Vec<_>>()
        };
        let (stalled, ended) = (said("STALLED", begin), said("no longer stalled", begin));
        let first = stalled.first().expect("the stall is told");
        let last = ended.last().expect("its end is told");
        println!(
            "{phase} for {:.1} s: told {:.2} s after it began, its end {:.2} s after it was over",
            end - begin,
            first - begin,
            last - end
        );
        assert!(end - begin >= down() - 1.0);
        // A stopped nfsd answers no client.
        let within = TOLD_WITHIN + HANG.lag("hung");
        assert!((0.0..=within).contains(&(first - begin)));
        assert!(last - end <= within);
        assert_eq!(stalled.len(), ended.len());
        let status = |(at, line): &(f64, String)| {
            line.contains("requests/s") && line.contains(HUNG) && *at > end + within
        };
        assert!(
            !HANG.lines(end, HANG.at(over)).any(status),
            "no stall any more"
        );
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_the_age_of_a_stall_grows_with_it_in_every_health_row() {
    let (begin, end) = HANG.waited("hung");
    let mut off = Vec::new();
    for start in HANG.seconds(begin + 1.0, end - 1.0) {
        let expected = start.0 as f64 / 1000.0 + 1.0 - begin;
        let age = HANG.age(start, HUNG);
        off.push((age - expected).abs());
        assert!(
            off[off.len() - 1] <= AGE + LATE,
            "{age} s, not {expected} s"
        );
    }
    assert!(off.len() as f64 >= down() - 4.0, "{} rows", off.len());
    off.sort_by(f64::total_cmp);
    println!(
        "ages are off by {:.2} to {:.2} s",
        off[0],
        off[off.len() - 1]
    );
    let median = off[off.len() / 2];
    assert!(
        median <= AGE,
        "half of all ages are off by {median} s or more"
    );
    let told = HANG
        .lines(begin + 3.0, end)
        .filter(|(_, line)| line.contains("requests/s"));
    let mut lines = 0;
    for (at, line) in told {
        let (_, age) = line
            .split_once(" STALLED ")
            .expect("the status line tells the stall");
        let age: f64 = age
            .split(' ')
            .next()
            .and_then(|age| age.parse().ok())
            .expect("an age");
        // The window closed earlier, and the age is in whole seconds.
        let off = AGE + LATE;
        assert!((at - begin - age).abs() <= off, "{at}: {line}");
        lines += 1;
    }
    assert!(f64::from(lines) >= down() - 5.0, "{lines} lines");
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_server_that_is_idle_or_slow_or_answers_beside_a_hung_one_is_not_stalled() {
    let before = |(_, line): &&(f64, String)| line.contains("STALLED");
    assert_eq!(HANG.lines(0.0, HANG.at("down")).find(before), None);
    let mut pending = 0;
    for start in HANG.seconds(HANG.at("idle"), HANG.at("down")) {
        assert!(HANG.age(start, HUNG) < 1.0 && HANG.age(start, HEALTHY) < 1.0);
        let seen = HANG.health[&start].pending.as_ref();
        pending += seen.map_or(0, |pending| pending.requests_max);
    }
    assert!(pending > 0, "looks saw requests that were under way");
    for start in HANG.seconds(HANG.at("down"), HANG.at("over")) {
        assert!(HANG.age(start, HEALTHY) < 1.0, "{start:?}");
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_a_dead_mount_never_blocks_the_recorder() {
    // Otherwise the phase proves nothing about `/proc/PID/maps`.
    assert!(HANG.run.text("mapped").trim_end().ends_with("locked"));
    for start in HANG.seconds(HANG.at("idle"), HANG.at("end")) {
        let health = &HANG.health[&start];
        assert_eq!(health.covered_ms, 1000, "{start:?}");
        assert!(health.pending.is_some(), "{start:?}");
        assert_eq!(health.lost, 0);
    }
    // Windows close on time: the server is away for far longer.
    let closed = HANG.lines(HANG.at("down"), HANG.at("over"));
    let closed: Vec<f64> = closed
        .filter(|(_, line)| line.contains("requests/s"))
        .map(|(at, _)| *at)
        .collect();
    let longest = closed
        .windows(2)
        .map(|two| two[1] - two[0])
        .fold(0.0, f64::max);
    println!(
        "{} windows closed, {longest:.2} s apart at most",
        closed.len()
    );
    assert!(longest < LATE, "{longest} s without a window");
    // Files of the answering server have names.
    let answers = HANG.run.query(&["--step", "all"]);
    for file in HANG.calls("hung") {
        let named = |a: &&Answer| a["path"] == file.path.as_str();
        assert!(answers.iter().any(|a| named(&a)), "{}", file.path);
    }
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_late_completions_are_counted_once_with_the_time_that_they_took() {
    let all = HANG.run.query(&["--step", "all"]);
    let phases = ["slow", "hung", "stopped"].map(|phase| HANG.calls(phase));
    for file in &phases[0] {
        let own = |calls: &&Calls| calls.path == file.path;
        let calls: Vec<_> = phases.iter().flatten().filter(own).collect();
        let answer = of_file(&all, file);
        for (direction, count) in [
            ("read", calls.iter().map(|c| c.reads).sum::<u64>()),
            ("write", calls.iter().map(|c| c.writes).sum()),
        ] {
            let recorded = ["requests", "bytes", "errors", "untimed"]
                .map(|column| number(answer, &format!("{direction}_{column}")) as u64);
            assert_eq!(
                recorded,
                [count, count * file.bytes_each(), 0, 0],
                "{}",
                file.path
            );
        }
    }
    let mountstats = HANG.run.mountstats("before", "after");
    for (mount_point, (source, counters)) in &mountstats.mounts {
        let files = || {
            all.iter()
                .filter(|answer| answer["mount"] == source.as_str())
        };
        let sum = |column| {
            files()
                .map(|answer| number(answer, column) as u64)
                .sum::<u64>()
        };
        assert_eq!(
            sum("read_bytes"),
            counters.server_read_bytes,
            "{mount_point}"
        );
        assert_eq!(
            sum("write_bytes"),
            counters.server_written_bytes,
            "{mount_point}"
        );
    }
    let time = |what| {
        let ms = (HANG.at(what) * 1000.0) as i64;
        trackiops_query::times::rfc3339(UtcMs(ms))
    };
    for (phase, from, to) in [("hung", "down", "over"), ("stopped", "stop", "end")] {
        let answers = HANG.run.query(&[
            "--step",
            "all",
            "--since",
            &time(from),
            "--until",
            &time(to),
        ]);
        for file in HANG.hung(phase) {
            let answer = of_file(&answers, &file);
            let longest = |direction| number(answer, &format!("{direction}_latency_us_max")) / 1e6;
            let recorded = f64::max(longest("read"), longest("write"));
            println!(
                "{phase} {}: call {:.3} s, request {recorded:.3} s",
                file.path, file.longest
            );
            assert!(recorded <= file.longest);
            // After a restart, the waiting attempt fails in v4, because its session is gone. The next attempt is timed.
            if phase == "hung" || file.path.starts_with("/mnt/3/") {
                assert!(recorded >= down() - 1.0 && recorded >= file.longest - 1.0);
            }
        }
    }
}

fn of_file<'a>(answers: &'a [Answer], file: &Calls) -> &'a Answer {
    let mount = match file.path.split('/').nth(2) {
        Some("healthy") => "127.0.0.1:/exp2".to_owned(),
        version => format!("{HUNG}:/exp/hung-{}", version.expect("a version")),
    };
    let own =
        |a: &&Answer| a["mount"] == mount.as_str() && number(a, "fileid") as u64 == file.fileid;
    answers
        .iter()
        .find(own)
        .unwrap_or_else(|| panic!("{}", file.path))
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_queries_tell_a_stall_while_it_lasts_and_after() {
    let while_it_lasts = HANG.run.text("during.err");
    let mounts = VERSIONS
        .map(|version| format!("{HUNG}:/exp/hung-{version}"))
        .join(", ");
    let server = format!(" s: {HUNG} ({mounts}) did not answer between ");
    assert!(while_it_lasts.contains("STALLED ") && while_it_lasts.contains(&server));
    let (begin, end) = HANG.waited("hung");
    let after = stderr(&HANG.run.query_output(&["--step", "all"]));
    let stall = after
        .lines()
        .find(|line| line.contains(&server))
        .expect("the stall is told");
    println!("{stall}");
    let age = stall
        .split(' ')
        .nth(1)
        .and_then(|age| age.parse::<f64>().ok());
    let age = age.expect("an age");
    assert!(
        (end - begin - age).abs() <= AGE + 1.0,
        "{stall}: {}",
        end - begin
    );
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_top_shows_a_hung_server_while_it_is_and_later() {
    let screen = |name: &str| {
        let screen = HANG.run.text(&format!("screen-{name}"));
        println!("--- {name}\n{}", screen.trim_end());
        screen
    };
    let hung = |screen: &str| {
        let line = screen.lines().find(|line| line.starts_with(HUNG));
        line.unwrap_or_else(|| panic!("{screen}")).to_owned()
    };
    let fits = |screen: &str, lines, columns| {
        screen.lines().count() <= lines && screen.lines().all(|l| l.chars().count() <= columns)
    };
    let files = screen("files");
    assert!(files.contains(" LIVE ") && fits(&files, 24, 80));
    let stalled = screen("stalled");
    assert!(hung(&stalled).contains(" now "));
    for version in VERSIONS {
        assert!(stalled.contains(&format!("{HUNG}:/exp/hung-{version}")));
    }
    // A larger screen, and the healthy server continues.
    let wide = screen("wide");
    assert!(wide.lines().any(|line| line.chars().count() > 80) && fits(&wide, 40, 120));
    assert!(screen("file").contains("Latency over time"));
    screen("back");
    assert!(screen("answered").contains(" LIVE "));
    let past = screen("past");
    assert!(past.contains(" PAST ") && !hung(&past).contains(" now "));
    // The printed command asks for the same.
    let query = screen("query");
    let words: Vec<_> = query
        .split_whitespace()
        .skip_while(|word| *word != "query")
        .skip(1)
        .collect();
    let told = stderr(&HANG.run.query_output(&words));
    assert!(told.contains(&format!(" s: {HUNG} (")), "{words:?}: {told}");
    screen("live");
    assert!(screen("ended").contains("ended with 0"));
}

#[test]
#[ignore = "boots a guest: make test-guests"]
fn guest_without_debugfs_what_is_pending_is_unknown_and_doctor_says_so() {
    assert!(HANG.run.text("doctor.out").contains("mount -t debugfs"));
    assert_eq!(HANG.run.text("blind.status").trim(), "0");
    let health = health(&HANG.run.out.join("blind"));
    assert!(health.len() >= 3);
    assert!(health.values().all(|health| health.pending.is_none()));
}

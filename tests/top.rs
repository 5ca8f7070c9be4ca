//! `trackiops top` in a terminal: its display, and the effects of keys.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use trackiops_schemas::ops::{Operation, OperationRow, OperationSums};
use trackiops_schemas::row::{ClosedWindow, Row};
use trackiops_testkit::recording::{Recording, of_two_files, recent};
use trackiops_testkit::windows::{T0, connection, file, reads, stalled, used_by, window};

const LONG: Duration = Duration::from_secs(20);

/// A terminal that runs `top`.
struct Screen {
    child: Child,
    terminal: File,
    parser: Arc<Mutex<vt100::Parser>>,
}

impl Screen {
    fn open(recording: &Recording, flags: &[&str], size: (u16, u16)) -> Self {
        let mut command = trackiops();
        command.arg("top").arg("--socket").arg(recording.socket());
        command.arg("--store").arg(recording.store()).args(flags);
        Self::of(command, size)
    }

    fn of(mut command: Command, (lines, columns): (u16, u16)) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let name = OsStr::from_bytes(name.to_bytes()).to_owned();
        let terminal = File::from(terminal);
        set_size(&terminal, lines, columns);
        let inside = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name)
            .unwrap();
        command.env("LANG", "C.UTF-8").env("TERM", "xterm-256color");
        command.env_remove("COLUMNS");
        command.stdin(inside.try_clone().unwrap());
        command.stdout(inside.try_clone().unwrap()).stderr(inside);
        let child = command.spawn().unwrap();
        drop(command);
        let parser = Arc::new(Mutex::new(vt100::Parser::new(
            cells(lines),
            cells(columns),
            0,
        )));
        let (mut reader, drawn) = (terminal.try_clone().unwrap(), Arc::clone(&parser));
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                drawn.lock().unwrap().process(&bytes[..read]);
            }
        });
        Self {
            child,
            terminal,
            parser,
        }
    }

    fn text(&self) -> String {
        self.parser.lock().unwrap().screen().contents()
    }

    fn keys(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen meets a condition.
    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if is_so(&text) {
                return text;
            }
            assert!(begun.elapsed() < LONG, "{what}: not in\n{text}");
            sleep(Duration::from_millis(20));
        }
    }

    fn has(&self, words: &str) -> String {
        self.until(words, |text| text.contains(words))
    }

    /// The screen with these words, once it no longer changes.
    fn still_has(&self, words: &str) -> String {
        loop {
            let text = self.has(words);
            sleep(Duration::from_millis(200));
            if self.text() == text {
                return text;
            }
        }
    }

    fn resize(&mut self, lines: u16, columns: u16) {
        set_size(&self.terminal, lines, columns);
        self.parser
            .lock()
            .unwrap()
            .screen_mut()
            .set_size(cells(lines), cells(columns));
        self.signal(Signal::WINCH);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end, and asserts that the terminal is restored.
    fn ended(&mut self) -> i32 {
        let status = self.child.wait().unwrap();
        sleep(Duration::from_millis(100));
        let parser = self.parser.lock().unwrap();
        let screen = parser.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        status.code().unwrap()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn set_size(terminal: &File, lines: u16, columns: u16) {
    let size = Winsize {
        ws_row: lines,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(terminal, size).unwrap();
}

fn cells(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap()
}

fn trackiops() -> Command {
    // The release, if given: to measure its speed.
    let program = std::env::var_os("TRACKIOPS_BIN");
    let mut command = Command::new(program.unwrap_or(env!("CARGO_BIN_EXE_trackiops").into()));
    command.env("TZ", "UTC").env("COLUMNS", "80");
    command
}

/// The line with this word.
fn line<'t>(text: &'t str, word: &str) -> &'t str {
    text.lines()
        .find(|line| line.contains(word))
        .unwrap_or_default()
}

#[test]
fn files_are_ranked_and_one_is_shown_in_full() {
    let recording = Recording::begin();
    let mut screen = Screen::open(&recording, &[], (24, 80));
    screen.has("LIVE");
    recording.put(&recent(20));
    // The last ten windows: 10 + ... + 19 + 3 and 2 more, each.
    let text = screen.has("2 rows, 24.5 requests/s");
    let a = text.lines().position(|line| line.contains("/mnt/a/x"));
    let b = text.lines().position(|line| line.contains("/mnt/b/y"));
    assert!(a < b, "{text}");
    assert!(line(&text, "/mnt/a/x").contains(" 19.5 "), "{text}");
    assert!(line(&text, "/mnt/b/y").contains(" 5.00 "), "{text}");
    assert!(line(&text, "IOPS ").contains("█ 29.0 "), "{text}");
    // The smallest first, another column, and back.
    screen.keys("r");
    screen.until("reversed", |text| {
        text.find("/mnt/b/y").unwrap_or(0) < text.find("/mnt/a/x").unwrap_or(0)
    });
    screen.keys("rSS");
    screen.has(">p99");
    screen.keys("j\r");
    let text = screen.has("Requests");
    assert!(text.contains("/mnt/b/y"), "{text}");
    // Further down.
    for words in [
        "Latency over time",
        "Distribution",
        "Who",
        "1000:/user.slice",
        "Names",
    ] {
        for _ in 0..60 {
            if screen.text().contains(words) {
                break;
            }
            screen.keys("j");
            sleep(Duration::from_millis(60));
        }
        screen.has(words);
    }
    screen.keys("\x1b");
    screen.has(">p99");
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn tabs_filters_and_the_past() {
    let recording = Recording::begin();
    let mut screen = Screen::open(&recording, &[], (30, 100));
    screen.has("LIVE");
    recording.put(&recent(30));
    screen.has("/mnt/a/x");
    screen.keys("/B/y\r");
    screen.until("one row", |text| {
        text.contains("1 row,") && !text.contains("/mnt/a/x")
    });
    screen.keys("\x1b");
    screen.has("/mnt/a/x");
    screen.keys("4");
    let text = screen.has("1000:/user.slice");
    assert!(text.contains("0:/system.slice"), "{text}");
    screen.keys("3");
    screen.has("srv:/export");
    screen.keys("6");
    screen.has("every server answered");
    screen.keys("2");
    screen.has("/mnt/");
    // Ten windows earlier, the first file had less.
    screen.keys("1[");
    screen.until("the files of the past", |text| {
        text.contains("PAST") && text.contains("/mnt/a/x")
    });
    screen.until("less", |text| line(text, "/mnt/a/x").contains(" 19.5 "));
    screen.keys("y");
    let text = screen.has("trackiops query --since");
    let command = text
        .lines()
        .skip_while(|line| !line.contains("trackiops query"));
    let command = command.collect::<Vec<_>>().join(" ");
    let mut words = command.split_whitespace().skip(1);
    let mut query = trackiops();
    query
        .args(words.by_ref())
        .arg("--json")
        .arg("--store")
        .arg(recording.store());
    let output = query.output().unwrap();
    let rows = String::from_utf8(output.stdout).unwrap();
    assert!(rows.contains("\"iops\":19.5"), "{command}: {rows}");
    screen.keys("L");
    screen.until("live", |text| {
        text.contains("LIVE") && line(text, "/mnt/a/x").contains(" 29.5 ")
    });
    screen.keys("?");
    screen.has("smallest first");
    screen.keys("x");
    screen.has("/mnt/a/x");
    // The smallest terminals, and large ones.
    for (lines, columns) in [(5, 20), (1, 1), (60, 200), (24, 80)] {
        screen.resize(lines, columns);
        sleep(Duration::from_millis(150));
    }
    screen.keys("1");
    screen.has("/mnt/a/x");
    screen.signal(Signal::TERM);
    assert_eq!(screen.ended(), 0);
}

#[test]
fn it_goes_on_with_the_next_recorder_and_space_holds_it() {
    let windows = recent(6);
    let mut recording = Recording::begin();
    let mut screen = Screen::open(&recording, &["--step", "1s"], (24, 80));
    screen.has("LIVE");
    recording.put(&windows[..2]);
    screen.until("the second", |text| {
        line(text, "/mnt/a/x").contains(" 6.00 ")
    });
    recording.end();
    screen.has("no recorder serves");
    screen.has(" STALE ");
    recording.resume();
    sleep(Duration::from_millis(1200));
    recording.put(&windows[2..4]);
    let text = screen.until("the fourth", |text| {
        line(text, "/mnt/a/x").contains(" 8.00 ")
    });
    assert!(!text.contains("no recorder"), "{text}");
    assert!(text.contains(" LIVE "), "{text}");
    screen.keys(" ");
    screen.has("PAUSED");
    recording.put(&windows[4..5]);
    sleep(Duration::from_millis(500));
    assert!(line(&screen.text(), "/mnt/a/x").contains(" 8.00 "));
    screen.keys(" ");
    recording.put(&windows[5..]);
    screen.until("the last", |text| line(text, "/mnt/a/x").contains(" 10.0 "));
    screen.keys("\x03");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn a_frame_of_a_stored_time_is_always_the_same() {
    let recording = Recording::begin();
    recording.put(&of_two_files(T0, 60));
    let once = |flags: &[&str], locale: &str| {
        let mut command = trackiops();
        command
            .args(["top", "--once", "--store"])
            .arg(recording.store());
        command.args(flags).env("LC_ALL", locale);
        let output = command.output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{text}");
        text
    };
    let text = once(&["--since", "2026-11-21T03:52:20Z"], "C.UTF-8");
    let expected = "\
nothing was slow in the 10 min until 2026-11-21 03:52:30
trackiops top  store  PAST  2026-11-21 03:52:20 to 03:52:30 (10 s)
2 rows, 34.5 requests/s, 138 KiB/s
IOPS ▃▃▄▄▄▅▅▆▆▆▇▇███ 39.0   p99 ███████████████ 300 us
1:files  2:tree  3:mounts  4:tenants  5:operations  6:stalls  7:volumes
name                        IOPS  throughput    >took     lost      p99    q/n/c
/mnt/a/x                    29.5   118 KiB/s  82.5 ms        0   300 us  0/0/100
/mnt/b/y                    5.00  20.0 KiB/s  12.0 ms        0   300 us  0/0/100
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    // No screen is filled up.
    let blank = text.lines().filter(|line| line.is_empty());
    assert_eq!(blank.count(), 1, "{text}");
    let text = once(&["--since", "2026-11-21T03:52:20Z", "--dir", "/mnt/b"], "C");
    assert!(
        text.contains("/mnt/b/y") && !text.contains("/mnt/a") && text.is_ascii(),
        "{text}"
    );
}

/// Reads of a file take 1 ms each for a minute. Then a backup begins, and they take 3 ms each for ten seconds.
fn a_backup_that_begins(start_ms: i64) -> Vec<ClosedWindow> {
    let of = |bytes: u64, us: u64| {
        let mut row = Row::default();
        row.read.requests = 10;
        row.read.bytes = 10 * bytes;
        row.read.latency_ns_sum = 10 * us * 1000;
        row.read.latency_ns_max = us * 1000;
        (0..10).for_each(|_| row.read.latency.record(us * 1000));
        row
    };
    let orders = used_by(&file(1, 49, Some("/mnt/db/orders.db")), "7:/db");
    let backup = used_by(&file(2, 49, Some("/mnt/scratch/backup.tar")), "8:/batch");
    let second = |second: i64| {
        let is_on = second >= 60;
        let mut rows = vec![(orders.clone(), of(4096, if is_on { 3000 } else { 1000 }))];
        rows.extend(is_on.then(|| (backup.clone(), of(1 << 20, 50_000))));
        window(start_ms + 1000 * second, rows)
    };
    (0..70).map(second).collect()
}

/// The lost time of a row, which follows name, IOPS, throughput and time.
fn lost(text: &str, name: &str) -> String {
    let words = line(text, name).split_whitespace();
    words.skip(6).take(2).collect::<Vec<_>>().join(" ")
}

#[test]
fn time_lost_beyond_the_usual_is_compared_with_the_store_which_is_read_once() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start_ms = (now.as_secs().cast_signed() - 100) / 10 * 10_000;
    let windows = a_backup_that_begins(start_ms);
    let recording = Recording::begin();
    // Only the store knows the time before.
    recording.put(&windows[..60]);
    let mut screen = Screen::open(&recording, &[], (24, 80));
    screen.has("LIVE");
    recording.put(&windows[60..65]);
    // 50 reads took 2 ms longer.
    screen.until("lost time", |text| lost(text, "orders.db") == "100 ms");
    // From here on, the store cannot be read.
    let store = recording.store();
    let elsewhere = store.with_file_name("elsewhere");
    fs::rename(&store, &elsewhere).unwrap();
    recording.put(&windows[65..]);
    let text = screen.until("more lost time", |text| lost(text, "orders.db") == "200 ms");
    // New files have nothing to compare with.
    assert!(lost(&text, "backup.tar").starts_with("- "), "{text}");
    assert!(text.find("backup.tar") < text.find("orders.db"), "{text}");
    screen.keys("S");
    screen.until("an order by it", |text| {
        text.contains(">lost") && text.find("orders.db") < text.find("backup.tar")
    });
    for (tab, name) in [("2", "/mnt/db"), ("3", "srv:/export"), ("4", "7:/db")] {
        screen.keys(tab);
        screen.until(name, |text| {
            text.contains(">lost") && lost(text, name) == "200 ms"
        });
    }
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn lost_time_of_the_past_is_that_of_the_query_it_prints() {
    let recording = Recording::begin();
    recording.put(&a_backup_that_begins(T0));
    let mut command = trackiops();
    command.args(["top", "--since", "2026-11-21T03:53:00Z", "--store"]);
    command.arg(recording.store());
    let mut screen = Screen::of(command, (24, 100));
    screen.until("lost time", |text| lost(text, "orders.db") == "200 ms");
    screen.keys("Sy");
    // It may be wrapped anywhere.
    let printed = |text: &str| {
        let lines = text.lines();
        let lines = lines.skip_while(|line| !line.contains("trackiops query"));
        lines.map(str::trim).collect::<Vec<_>>().join(" ")
    };
    let text = screen.until("the query", |text| printed(text).contains("--sort lost"));
    let printed = printed(&text);
    let mut query = trackiops();
    query.args(printed.split_whitespace().skip(1)).arg("--json");
    let output = query
        .arg("--store")
        .arg(recording.store())
        .output()
        .unwrap();
    let rows = String::from_utf8(output.stdout).unwrap();
    let first = rows.lines().next().unwrap();
    assert!(
        first.contains("/mnt/db/orders.db") && first.contains("\"lost_us\":200000"),
        "{printed}: {rows}"
    );
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn a_figure_that_rows_are_sorted_by_is_shown_where_others_give_way() {
    let recording = Recording::begin();
    recording.put(&of_two_files(T0, 60));
    let mut command = trackiops();
    command.args(["top", "--since", "2026-11-21T03:52:20Z", "--store"]);
    command.arg(recording.store());
    let mut screen = Screen::of(command, (24, 80));
    let text = screen.has("/mnt/a/x");
    let titles = line(&text, "name ");
    assert!(
        titles.contains("lost") && !titles.contains("errors"),
        "{text}"
    );
    // From the time to the errors.
    screen.keys("SSSSSS");
    let text = screen.has(">errors");
    assert!(!line(&text, "name ").contains("q/n/c"), "{text}");
    screen.resize(24, 100);
    screen.until("all of them", |text| {
        let titles = line(text, "name ");
        titles.contains("q/n/c") && titles.contains(">errors")
    });
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn latencies_have_colours_unless_no_color_is_set() {
    let recording = Recording::begin();
    recording.put(&of_two_files(T0, 60));
    for (no_color, expected) in [("", true), ("1", false)] {
        let mut command = trackiops();
        command.args(["top", "--since", "2026-11-21T03:52:20Z", "--store"]);
        command.arg(recording.store()).env("NO_COLOR", no_color);
        let screen = Screen::of(command, (24, 80));
        let text = screen.still_has("/mnt/b/y");
        let parser = screen.parser.lock().unwrap();
        let is_green = |line: u16| {
            let mut cells = (0..80).filter_map(|column| parser.screen().cell(line, column));
            cells.any(|cell| cell.fgcolor() == vt100::Color::Idx(2))
        };
        let green: Vec<_> = (0..24).filter(|line| is_green(*line)).collect();
        let lines: Vec<_> = text.lines().collect();
        let has = green
            .iter()
            .all(|line| lines[usize::from(*line)].contains("300 us"));
        assert!(
            has && green.len() == if expected { 3 } else { 0 },
            "{green:?}: {text}"
        );
    }
}

#[test]
fn a_wide_screen_has_longer_courses_and_says_which_rows_it_shows() {
    let recording = Recording::begin();
    let windows = (0..60).map(|second| {
        let row = |id: u64| (file(id, 49, Some(&format!("/mnt/a/{id}"))), reads(60 - id));
        window(T0 + 1000 * second, (0..40).map(row).collect())
    });
    recording.put(&windows.collect::<Vec<_>>());
    let mut command = trackiops();
    command.args(["top", "--since", "2026-11-21T03:52:50Z", "--store"]);
    command.arg(recording.store());
    let mut screen = Screen::of(command, (24, 200));
    screen.has("1-16 of 40 rows, ");
    screen.until("a long course", |text| {
        let mut lines = text.lines();
        let row = lines.find(|line| line.starts_with("/mnt/a/0 "));
        row.is_some_and(|row| row.chars().filter(|c| !c.is_ascii()).count() > 50)
    });
    screen.keys("G");
    screen.has("25-40 of 40 rows, ");
    screen.resize(60, 200);
    screen.until("all", |text| text.contains("\n40 rows, "));
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn a_frame_of_nothing_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    fs::create_dir(&store).unwrap();
    let once = |since: &str| {
        let mut command = trackiops();
        command.args(["top", "--once", "--since", since, "--store"]);
        command.arg(&store).output().unwrap()
    };
    let output = once("2026-11-21T03:52:20Z");
    assert_ne!(output.status.code(), Some(0), "{output:?}");
    let recording = Recording::begin();
    recording.put(&of_two_files(T0, 60));
    let mut command = trackiops();
    command.args(["top", "--once", "--since", "2020-01-01", "--store"]);
    let output = command.arg(recording.store()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    // All of the reason is on the screen, at its width.
    let frame = String::from_utf8(output.stdout).unwrap();
    assert!(
        frame.lines().all(|line| line.chars().count() <= 80),
        "{frame}"
    );
    let reason = "the recording is from 2026-11-21 03:52:00 to 03:53:00";
    let words: Vec<_> = frame.split_whitespace().collect();
    assert!(words.join(" ").contains(reason), "{frame}");
}

#[test]
fn a_time_that_is_to_come_is_refused_as_by_a_query() {
    let recording = Recording::begin();
    recording.put(&of_two_files(T0, 60));
    let mut command = trackiops();
    command.args(["top", "--once", "--since", "2130-01-01", "--store"]);
    let output = command.arg(recording.store()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("2130-01-01 00:00:00 lies in the future"),
        "{said}"
    );
}

#[test]
fn no_number_loses_digits() {
    let recording = Recording::begin();
    let busy = file(1, 49, Some("/mnt/busy/orders.db"));
    let rows = |requests: u64| {
        let mut row = reads(requests);
        row.read.errors = 123_456_789;
        row.read.bytes = 1_100_000_000_000_000;
        vec![(busy.clone(), row)]
    };
    recording.put(&[window(T0, rows(123_456_789)), window(T0 + 1000, rows(1))]);
    let text = |columns: &str| {
        let mut command = trackiops();
        command.args([
            "top",
            "--once",
            "--since",
            "2026-11-21T03:52:00Z",
            "--store",
        ]);
        command.arg(recording.store()).env("COLUMNS", columns);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let whole: Vec<String> = line(&text("200"), "orders.db")
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    for columns in ["40", "50", "60", "70", "80", "90"] {
        let text = text(columns);
        let shown = line(&text, "s.db");
        let shown: Vec<_> = shown.split_whitespace().skip(1).collect();
        assert!(shown.len() > 2, "{text}");
        for word in shown {
            let is_course = word.chars().all(|c| !c.is_ascii());
            assert!(
                is_course || whole.iter().any(|of| of == word),
                "{columns}: {word} in {text}"
            );
        }
    }
}

#[test]
fn the_first_seconds_are_not_missing() {
    let recording = Recording::begin();
    let mut screen = Screen::open(&recording, &[], (24, 80));
    screen.has("LIVE");
    recording.put(&recent(2));
    let text = screen.has("/mnt/a/x");
    sleep(Duration::from_millis(500));
    let text = text + &screen.text();
    assert!(!text.contains("not recorded"), "{text}");
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn it_runs_where_its_session_is_of_another_pid_namespace() {
    // Like `docker exec` and `kubectl exec`.
    let inside = |program: &OsStr| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork"]);
        command.arg(program).env("TZ", "UTC");
        command
    };
    if !inside("true".as_ref())
        .status()
        .is_ok_and(|status| status.success())
    {
        println!("SKIPPED: no PID namespace can be made here");
        return;
    }
    let recording = Recording::begin();
    let mut command = inside(trackiops().get_program());
    command.arg("top").arg("--socket").arg(recording.socket());
    command.arg("--store").arg(recording.store());
    let mut screen = Screen::of(command, (24, 80));
    screen.has("LIVE");
    recording.put(&recent(5));
    screen.has("/mnt/a/x");
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn a_server_that_does_not_answer_is_shown_then_and_later() {
    let recording = Recording::begin();
    let mut screen = Screen::open(&recording, &[], (24, 80));
    screen.has("LIVE");
    let mut windows = recent(40);
    for (second, window) in windows[15..20].iter_mut().enumerate() {
        let pending = stalled("10.0.0.5", "srv:/export", 1000 * second as u64 + 500, 3);
        window.health.pending = Some(pending);
    }
    recording.put(&windows[..20]);
    screen.keys("6");
    screen.until("the stall", |text| {
        let stall = line(text, "10.0.0.5");
        stall.contains(" 4.5 s ") && stall.contains(" now ")
    });
    recording.put(&windows[20..22]);
    let text = screen.until("its end", |text| !line(text, "10.0.0.5").contains(" now "));
    assert!(line(&text, "10.0.0.5").contains(" 4.5 s "), "{text}");
    recording.put(&windows[22..]);
    screen.has("every server answered");
    // `[` goes to whole tens of seconds, so the stall is one to three steps back.
    let is_shown = |text: &str| line(text, "10.0.0.5").contains(" 4.5 s ");
    for _ in 0..3 {
        screen.keys("[");
        if is_shown(&screen.still_has("PAST")) {
            break;
        }
    }
    screen.until("in the past", is_shown);
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn each_connection_is_shown_once_with_what_tcp_knows_of_it() {
    let recording = Recording::begin();
    let mut screen = Screen::open(&recording, &[], (30, 120));
    screen.has("LIVE");
    let mut sums = OperationSums {
        requests: 1,
        execute_ns_sum: 1_000_000,
        execute_ns_max: 1_000_000,
        ..OperationSums::default()
    };
    sums.execute.record(1_000_000);
    let operation = |op: &str| OperationRow {
        operation: Operation {
            mount: Some("srv:/export".to_owned()),
            op: op.to_owned(),
            transport: Some("tcp-1".to_owned()),
        },
        sums: sums.clone(),
    };
    let mut windows = recent(5);
    for window in &mut windows {
        window.ops = vec![
            operation("READ"),
            operation("WRITE"),
            connection("tcp-1", 300, 2, 100),
            connection("tcp-2", 41_000, 0, 100),
        ];
        window.health.ops_covered_ms = window.health.covered_ms;
    }
    recording.put(&windows);
    screen.keys("5");
    screen.has("srv:/export WRITE");
    screen.keys("a");
    let text = screen.has("2 rows, 10 retransmitted");
    let figures = |name: &str| {
        let words = line(&text, name).split_whitespace();
        let words = words.skip_while(|word| !word.starts_with("tcp-"));
        words.take(8).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(figures("srv tcp-1"), "tcp-1 300 us 300 us 10 0 0", "{text}");
    assert_eq!(figures("tcp-2"), "tcp-2 41.0 ms 41.0 ms 0 0 0", "{text}");
    screen.keys("y");
    screen.has("--by transport --sort tcp_retrans");
    // Other tabs have no connections, and `a` leads back.
    screen.keys("3");
    screen.until("mounts", |text| line(text, "name ").contains("q/n/c"));
    screen.keys("5a");
    screen.has("srv:/export WRITE");
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn rows_of_several_hosts_name_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    let mut command = trackiops();
    command.args(["top", "--since", "2026-11-21T03:00:00Z"]);
    for (host, count) in [("web-1", 30), ("web-2", 50)] {
        text += &format!("recording {host} 1s,10s 1m 2026-11-21T03:00:00Z {host}\n");
        text += "mount 0:49 srv:/home /mnt/home\n";
        text += &format!("3 read /mnt/home/a {count} x4096 1ms\n");
        text += &format!("3 op READ srv:/home tcp-0 {count} 1ms\n");
        text += "3 tcp tcp-0 300us 200us 142 5\n9 idle\n";
        command.arg("--store").arg(dir.path().join(host));
    }
    trackiops_testkit::case::record(&text, dir.path()).unwrap();
    let mut screen = Screen::of(command, (24, 120));
    for (keys, name) in [
        ("", "/mnt/home/a"),
        ("5", "srv:/home READ"),
        ("a", "srv tcp-0"),
    ] {
        screen.keys(keys);
        screen.has(&format!("{name} on web-1 "));
        let text = screen.has(&format!("{name} on web-2 "));
        assert_eq!(text.matches(name).count(), 2, "{text}");
    }
    screen.keys("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn screens_of_a_stored_time() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/top_screens.txt");
    let golden = fs::read_to_string(&path).unwrap();
    let recording = golden.split("\n== ").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let described = recording.lines().filter(|line| !line.starts_with('#'));
    trackiops_testkit::case::record(&described.collect::<Vec<_>>().join("\n"), dir.path()).unwrap();
    let mut command = trackiops();
    command
        .arg("top")
        .arg("--store")
        .arg(dir.path().join("store"));
    command.args(["--since", "2026-11-21T03:00:00Z"]);
    let mut screen = Screen::of(command, (24, 80));
    let mut shown = recording.trim_end().to_owned() + "\n";
    // The keys, the size before them, and the screen after them.
    let mut sized = (24, 80);
    for (keys, size, words) in [
        ("", (24, 80), "orders.db"),
        ("2", (24, 80), "/mnt/home/.cache "),
        ("3", (24, 80), "srv:/home"),
        ("4", (24, 80), "web.service"),
        ("5", (24, 80), "GETATTR"),
        ("6", (24, 80), "10.0.0.5  "),
        ("?", (24, 80), "smallest first"),
        ("?1", (40, 120), "app.log"),
        ("j\r", (40, 120), "writes: 20"),
        ("y", (40, 120), "--step all"),
        ("", (24, 80), "no room for r-iops, r-completion"),
        ("\x1b", (24, 80), "app.log"),
        ("/log", (24, 80), "1 row"),
        ("\x1b", (24, 80), "3 rows"),
        ("a", (24, 80), "called for"),
        ("y", (24, 80), "app_iops"),
        ("S", (40, 120), ">requested"),
        ("a", (24, 80), "read p99"),
        ("5", (40, 120), "GETATTR"),
        ("a", (24, 80), "srv tcp-0"),
    ] {
        if size != sized {
            screen.resize(size.0, size.1);
            // A key that comes with a resize may only be read with the next key.
            sleep(Duration::from_millis(500));
            sized = size;
        }
        screen.keys(keys);
        let text = screen.still_has(words);
        let text: Vec<_> = text.lines().map(str::trim_end).collect();
        let title = format!("== {}x{} {}", size.1, size.0, keys.escape_debug());
        shown += &format!("\n{}\n{}\n", title.trim_end(), text.join("\n").trim_end());
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(&path, &shown).unwrap();
    }
    assert_eq!(
        shown, golden,
        "UPDATE_GOLDEN=1 cargo test --test program top:: renews the screens"
    );
}

#[test]
fn without_a_terminal_or_a_recorder_it_says_what_to_do() {
    let recording = Recording::begin();
    let refused = |socket: &str, flags: &[&str]| {
        let mut command = trackiops();
        command.args(["top", "--socket", socket]).args(flags);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let socket = recording.socket();
    let said = refused(socket.to_str().unwrap(), &[]);
    assert!(said.contains("--once"), "{said}");
    let said = refused("/nonexistent", &[]);
    assert!(
        said.contains("no recorder serves") && said.contains("trackiops record"),
        "{said}"
    );
}

/// Prints the time of frames with many files.
#[test]
#[ignore = "prints a time: TRACKIOPS_BIN=RELEASE cargo test --test program top:: -- --ignored --nocapture"]
fn a_frame_of_65536_files() {
    let recording = Recording::begin();
    let rows = (0..65_536).map(|id| {
        let path = format!("/mnt/nfs/dir{}/file{id}", id % 256);
        (file(id, 49, Some(&path)), reads(2 + id % 100))
    });
    let window = window(T0, rows.collect());
    let screen = Screen::open(&recording, &["--step", "1s"], (50, 160));
    screen.has("LIVE");
    recording.put(&[window]);
    screen.has("65536 rows");
    sleep(Duration::from_secs(2));
    let cpu = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", screen.child.id())).unwrap();
        let fields: Vec<_> = stat.split_whitespace().map(str::to_owned).collect();
        fields[13].parse::<u64>().unwrap() + fields[14].parse::<u64>().unwrap()
    };
    let (begun, before) = (Instant::now(), cpu());
    // Each key draws a frame.
    for _ in 0..100 {
        (&screen.terminal).write_all(b"j").unwrap();
        sleep(Duration::from_millis(40));
    }
    sleep(Duration::from_millis(100));
    let ticks = cpu() - before;
    println!(
        "100 frames in {:?}: {ticks} ticks of 10 ms",
        begun.elapsed()
    );
}

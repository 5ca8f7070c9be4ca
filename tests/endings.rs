//! What ends commands that live longer than an answer, and what does not: docs/reference/endings.md says it, and each of its cells is tried on a
//! pseudo-terminal.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::num::NonZeroU16;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, mkfifoat};
use rustix::process::{Pid, Signal, getegid, geteuid, ioctl_tiocsctty, kill_process, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, LocalModes, Winsize, tcflow, tcgetattr, tcsetwinsize};
use trackiops_testkit::program;
use trackiops_testkit::recording::{Recording, recent};

use crate::server;

/// For what takes a second, and for `record`, on a machine that has other work.
const ENDS: Duration = Duration::from_millis(2500);
const RECORD_ENDS: Duration = Duration::from_secs(7);
/// How long what goes on is looked at.
const GOES_ON: Duration = Duration::from_secs(2);
/// CPU time that a command may take meanwhile: one that spins takes all of it.
const MOST_CPU: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);
/// Commands at once.
const AT_ONCE: usize = 8;
/// Lines and columns of terminals.
const SIZE: [u16; 2] = [24, 80];

/// A way in which a command runs. The same column may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Waits for the NFS client, where that is not loaded.
    Record,
    /// Of the level `app`.
    RecordCalls,
    Top,
    TopOfThePast,
    Watch,
    WatchEvents,
    Metrics,
    Serve,
    Import,
    Query,
    Analyze,
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Signal(Signal),
    TerminateBlocked,
    TerminalClosed,
    TerminalClosedUnderNohup,
    ShellKilled,
    ParentKilled,
    ReaderGone,
    InputEnds,
    RecorderEnds,
    StoreGone,
}

/// The rows of the table.
const CASES: [(&str, &[Case]); 11] = [
    (
        "SIGINT (Ctrl-C), SIGTERM",
        &[Case::Signal(Signal::INT), Case::Signal(Signal::TERM)],
    ),
    (
        "SIGTERM, while its terminal or pipe takes no output",
        &[Case::TerminateBlocked],
    ),
    ("SIGHUP", &[Case::Signal(Signal::HUP)]),
    ("its terminal is closed", &[Case::TerminalClosed]),
    (
        "its terminal is closed, and SIGHUP is ignored (`nohup`)",
        &[Case::TerminalClosedUnderNohup],
    ),
    (
        "the shell that its terminal belongs to is killed",
        &[Case::ShellKilled],
    ),
    (
        "its parent is killed, and the terminal stays",
        &[Case::ParentKilled],
    ),
    (
        "nobody reads its standard output any more",
        &[Case::ReaderGone],
    ),
    ("its standard input ends", &[Case::InputEnds]),
    ("the recorder ends", &[Case::RecorderEnds]),
    ("the store is moved away or deleted", &[Case::StoreGone]),
];

/// The columns of the table.
const COLUMNS: [(&str, &[Kind]); 7] = [
    ("`record`", &[Kind::Record]),
    ("`top`", &[Kind::Top, Kind::TopOfThePast]),
    ("`watch`", &[Kind::Watch, Kind::WatchEvents]),
    ("`metrics`", &[Kind::Metrics]),
    ("`serve`", &[Kind::Serve]),
    ("`import -`", &[Kind::Import]),
    ("`query`, `analyze`", &[Kind::Query, Kind::Analyze]),
];

/// What the table says of each command and case.
fn documented() -> Vec<(Kind, Case, bool)> {
    let text = include_str!("../docs/reference/endings.md");
    let cells = |line: &str| -> Vec<String> {
        let line = line.strip_prefix('|').unwrap().strip_suffix('|').unwrap();
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut lines = text.lines().filter(|line| line.starts_with('|'));
    let head = cells(lines.next().unwrap());
    assert_eq!(head[1..], COLUMNS.map(|(title, _)| title.to_owned()));
    let rows: BTreeMap<_, _> = lines
        .skip(1)
        .map(|line| {
            let mut cells = cells(line);
            (cells.remove(0), cells)
        })
        .collect();
    assert_eq!(rows.len(), CASES.len());
    let mut all = Vec::new();
    for (title, cases) in CASES {
        for (cell, (_, kinds)) in rows[title].iter().zip(COLUMNS) {
            let ends = match cell.as_str() {
                "ends" => true,
                "goes on" => false,
                "" => continue,
                other => panic!("{title}: {other}"),
            };
            for case in cases {
                all.extend(kinds.iter().map(|kind| (*kind, *case, ends)));
            }
        }
    }
    all
}

#[test]
fn commands_end_as_documented_and_take_no_cpu_time() {
    let programs = tempfile::tempdir().unwrap();
    // The copy for those that must not be root is made before any of them starts.
    server::trackiops(programs.path());
    let is_root = geteuid().is_root();
    let mut runs = documented();
    runs.retain(|(kind, ..)| is_root || *kind != Kind::Record);
    all_end_so(runs, AT_ONCE, programs.path());
}

#[test]
#[ignore = "make test-levels: needs root and BPF"]
fn a_recorder_of_calls_ends_as_documented() {
    let programs = tempfile::tempdir().unwrap();
    let runs = documented().into_iter();
    let runs = runs.filter(|(kind, ..)| *kind == Kind::Record);
    let runs = runs.map(|(_, case, ends)| (Kind::RecordCalls, case, ends));
    // Two would record each other's calls.
    all_end_so(runs.collect(), 1, programs.path());
}

/// Tries them, so many at once. `TRACKIOPS_ENDINGS` names a part of them, such as `Top, TerminalClosed`.
fn all_end_so(mut runs: Vec<(Kind, Case, bool)>, at_once: usize, programs: &Path) {
    let only = std::env::var("TRACKIOPS_ENDINGS").unwrap_or_default();
    runs.retain(|run| format!("{run:?}").contains(&only));
    let wrong = in_parallel(runs, at_once, |(kind, case, ends)| {
        Run::start(kind, case, programs).meets(case, ends)
    });
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What is wrong with each of them.
fn in_parallel(
    runs: Vec<(Kind, Case, bool)>,
    at_once: usize,
    check: impl Fn((Kind, Case, bool)) -> Result<(), String> + Sync,
) -> Vec<String> {
    let (runs, wrong) = (Mutex::new(runs), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some(run) = runs.lock().unwrap().pop() else {
                        return;
                    };
                    if let Err(why) = check(run) {
                        wrong.lock().unwrap().push(format!("{run:?}: {why}"));
                    }
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

/// A command on a terminal.
struct Run {
    kind: Kind,
    /// The process that was started: the command, or a shell above it.
    child: Child,
    /// The command.
    pid: Pid,
    recording: Option<Recording>,
    store: PathBuf,
    /// The end of a terminal emulator, until it is closed.
    master: Option<File>,
    /// The command's end.
    slave: File,
    stdin: Option<PipeWriter>,
    stdout: Option<PipeReader>,
    /// What it wrote to the terminal.
    said: Vec<u8>,
    _dir: tempfile::TempDir,
}

impl Run {
    /// Starts it, and waits until it has nothing to do.
    fn start(kind: Kind, case: Case, programs: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let recording = Recording::begin();
        recording.put(&recent(3));
        let command = command(kind, &recording, dir.path(), programs);
        let (master, slave) = terminal();
        let (mut stdin, mut stdout) = (None, None);
        let mut command = below_shells(command, case);
        if matches!(kind, Kind::Metrics | Kind::Serve) && geteuid().is_root() {
            command.uid(server::NOBODY).gid(getegid().as_raw());
        }
        command.stdin(slave.try_clone().unwrap());
        command.stdout(slave.try_clone().unwrap());
        command.stderr(slave.try_clone().unwrap());
        if case == Case::InputEnds || kind == Kind::Import {
            let (reader, writer) = io::pipe().unwrap();
            command.stdin(reader);
            stdin = Some(writer);
        }
        if case == Case::ReaderGone {
            let (reader, writer) = io::pipe().unwrap();
            command.stdout(writer);
            stdout = Some(reader);
        }
        let of_child = slave.try_clone().unwrap();
        let ignores = case == Case::TerminalClosedUnderNohup;
        // SAFETY: these are system calls that signal-safety(7) does not forbid after fork.
        unsafe {
            command.pre_exec(move || {
                setsid()?;
                ioctl_tiocsctty(&of_child)?;
                if ignores {
                    libc::signal(libc::SIGHUP, libc::SIG_IGN);
                }
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // It has the pipes' ends.
        drop(command);
        let mut run = Self {
            kind,
            pid: Pid::from_child(&child),
            child,
            store: store_of(kind, &recording, dir.path()),
            recording: Some(recording),
            master: Some(master),
            slave,
            stdin,
            stdout,
            said: Vec::new(),
            _dir: dir,
        };
        run.settle();
        run
    }

    /// Waits until it says what it says at first, and then does nothing.
    fn settle(&mut self) {
        let words = match self.kind {
            Kind::Record | Kind::RecordCalls => "recording|waiting for the NFS client",
            Kind::Top => "LIVE",
            Kind::TopOfThePast => "PAST",
            Kind::Metrics => "metrics at",
            Kind::Serve => "serving at",
            Kind::Watch | Kind::WatchEvents | Kind::Import | Kind::Query | Kind::Analyze => "",
        };
        let begun = Instant::now();
        let (mut quiet, mut before) = (Instant::now(), None);
        loop {
            self.pump();
            if let Some(pid) = self.command() {
                self.pid = pid;
                let used = cpu(pid);
                if used != before || used.is_none() {
                    (quiet, before) = (Instant::now(), used);
                }
                let said = String::from_utf8_lossy(&self.said);
                let has_said = words.split('|').any(|words| said.contains(words));
                if has_said && quiet.elapsed() > Duration::from_millis(400) {
                    return;
                }
            }
            assert!(begun.elapsed() < LONG, "{:?}: {}", self.kind, self.text());
            sleep(Duration::from_millis(20));
        }
    }

    /// The process that runs the command: the one that was started, or the last of its descendants.
    fn command(&self) -> Option<Pid> {
        let mut pid = Pid::from_child(&self.child);
        while let Some(child) = child_of(pid) {
            pid = child;
        }
        let exe = fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero()));
        exe.is_ok_and(|exe| exe.file_name().is_some_and(|name| name == "trackiops"))
            .then_some(pid)
    }

    /// Reads what is on the terminal.
    fn pump(&mut self) {
        let Some(mut master) = self.master.as_ref() else {
            return;
        };
        let mut bytes = [0; 65_536];
        while let Ok(read @ 1..) = master.read(&mut bytes) {
            self.said.extend_from_slice(&bytes[..read]);
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.said).into_owned()
    }

    /// Lets it happen, and looks at what comes of it.
    fn meets(&mut self, case: Case, ends: bool) -> Result<(), String> {
        let before = cpu(self.pid).ok_or_else(|| format!("it has not begun: {}", self.text()))?;
        let begun = Instant::now();
        self.happens(case);
        let most = match (ends, self.kind) {
            (false, _) => GOES_ON,
            (true, Kind::Record | Kind::RecordCalls) => RECORD_ENDS,
            (true, _) => ENDS,
        };
        let mut last = before;
        while begun.elapsed() < most {
            if case != Case::TerminateBlocked {
                self.pump();
            }
            match cpu(self.pid) {
                None if ends => break,
                None => return Err(format!("ended after {:?}", begun.elapsed())),
                Some(used) => last = used,
            }
            sleep(Duration::from_millis(10));
        }
        let took = begun.elapsed();
        let used = last.saturating_sub(before);
        println!("{:?} {case:?}: {took:.2?}, {used:?} of CPU time", self.kind);
        if ends && cpu(self.pid).is_some() {
            return Err(format!("goes on after {took:?}, with {used:?} of CPU time"));
        }
        if used > MOST_CPU {
            return Err(format!("used {used:?} of CPU time in {took:?}"));
        }
        self.pump();
        if ends && matches!(case, Case::Signal(_)) && self.ends_by_itself() {
            let status = self.child.wait().unwrap();
            if !status.success() {
                return Err(format!("{status}"));
            }
        }
        match ends && self.master.is_some() && case != Case::TerminateBlocked {
            true => self.terminal_is_restored(),
            false => Ok(()),
        }
    }

    /// Whether it has something to do before it ends: seal a store, restore a terminal, remove a socket.
    fn ends_by_itself(&self) -> bool {
        !matches!(
            self.kind,
            Kind::Watch | Kind::WatchEvents | Kind::Import | Kind::Query | Kind::Analyze
        )
    }

    fn happens(&mut self, case: Case) {
        let kill = |pid, signal| kill_process(pid, signal).unwrap();
        match case {
            Case::Signal(signal) => kill(self.pid, signal),
            Case::TerminateBlocked => {
                // As Ctrl-S does.
                tcflow(&self.slave, Action::OOff).unwrap();
                self.has_something_to_write();
                sleep(Duration::from_millis(700));
                kill(self.pid, Signal::TERM);
            }
            Case::TerminalClosed | Case::TerminalClosedUnderNohup => self.master = None,
            Case::ShellKilled => kill(Pid::from_child(&self.child), Signal::KILL),
            Case::ParentKilled => {
                let parent = child_of(Pid::from_child(&self.child)).unwrap();
                kill(parent, Signal::KILL);
            }
            Case::ReaderGone => self.stdout = None,
            Case::InputEnds => self.stdin = None,
            Case::RecorderEnds => self.recording.as_mut().unwrap().end(),
            Case::StoreGone => {
                fs::rename(&self.store, self.store.with_extension("gone")).unwrap();
            }
        }
    }

    fn has_something_to_write(&mut self) {
        match self.kind {
            Kind::Record | Kind::RecordCalls => kill_process(self.pid, Signal::HUP).unwrap(),
            Kind::Top | Kind::TopOfThePast => {
                self.master.as_ref().unwrap().write_all(b"2?").unwrap();
            }
            Kind::Watch => self.recording.as_ref().unwrap().put(&recent(3)),
            Kind::WatchEvents | Kind::Metrics => self.recording.as_mut().unwrap().end(),
            Kind::Serve | Kind::Import | Kind::Query | Kind::Analyze => {}
        }
    }

    /// Lines are echoed, and no other screen is shown.
    fn terminal_is_restored(&self) -> Result<(), String> {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        if !modes.contains(LocalModes::ICANON | LocalModes::ECHO) {
            return Err("the terminal has other modes".to_owned());
        }
        let [lines, columns] = SIZE.map(|cells| NonZeroU16::new(cells).unwrap());
        let mut parser = vt100::Parser::new(lines, columns, 0);
        parser.process(&self.said);
        let screen = parser.screen();
        if screen.alternate_screen() || screen.hide_cursor() {
            return Err("the terminal shows another screen".to_owned());
        }
        match screen.mouse_protocol_mode() {
            vt100::MouseProtocolMode::None => Ok(()),
            mode => Err(format!("the mouse is left in {mode:?}")),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if cpu(self.pid).is_some() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The recording ends in it.
        let _ = fs::rename(self.store.with_extension("gone"), &self.store);
    }
}

/// A terminal of which both ends are open.
fn terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let size = Winsize {
        ws_row: SIZE[0],
        ws_col: SIZE[1],
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&slave, size).unwrap();
    let flags = fcntl_getfl(&master).unwrap();
    fcntl_setfl(&master, flags | OFlags::NONBLOCK).unwrap();
    (File::from(master), slave)
}

fn store_of(kind: Kind, recording: &Recording, dir: &Path) -> PathBuf {
    match kind {
        Kind::Record | Kind::RecordCalls => dir.join("recorded"),
        _ => recording.store(),
    }
}

/// The command itself.
fn command(kind: Kind, recording: &Recording, dir: &Path, programs: &Path) -> Command {
    let fifo = || -> PathBuf {
        let path = dir.join("fifo");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        path
    };
    let mut command = match kind {
        Kind::Metrics | Kind::Serve => server::trackiops(programs),
        _ => program::command(Path::new(env!("CARGO_BIN_EXE_trackiops"))),
    };
    command.env("TZ", "UTC").env("TERM", "xterm-256color");
    command
        .env_remove("TRACKIOPS_STORE")
        .env("TRACKIOPS_CONFIG", "none");
    match kind {
        Kind::Record | Kind::RecordCalls => {
            command.arg("record");
            command.args(match kind {
                Kind::Record => &["--wait"][..],
                _ => &["--levels", "app"],
            });
            command.arg("--store").arg(store_of(kind, recording, dir));
            command.arg("--live-socket").arg(dir.join("live.sock"));
        }
        Kind::Top => {
            command.arg("top").arg("--socket").arg(recording.socket());
        }
        Kind::TopOfThePast => {
            command
                .args(["top", "--since", "1m", "--store"])
                .arg(recording.store());
        }
        Kind::Watch => {
            command.arg("watch").arg("--socket").arg(recording.socket());
        }
        Kind::WatchEvents => {
            command.args(["watch", "--on", "stall=/bin/true", "--socket"]);
            command.arg(recording.socket());
        }
        Kind::Metrics => {
            command.args(["metrics", "--listen", "127.0.0.1:0", "--socket"]);
            command.arg(recording.socket());
        }
        Kind::Serve => {
            command.args(["serve", "--listen", "127.0.0.1:0", "--socket"]);
            command
                .arg(recording.socket())
                .arg("--store")
                .arg(recording.store());
        }
        Kind::Import => {
            command
                .args(["import", "nfsdump", "-", "--store"])
                .arg(dir.join("imported"));
        }
        // Both wait for a file that another process has yet to write: as good as a long question.
        Kind::Query => {
            command.arg("query").arg("--tenants").arg(fifo());
            command.arg("--store").arg(recording.store());
        }
        Kind::Analyze => {
            command.args(["analyze", "sizes"]).arg(fifo());
        }
    }
    command
}

/// The command as a child of as many shells as the case needs. They have its terminal and its process group.
fn below_shells(command: Command, case: Case) -> Command {
    let shells = match case {
        Case::ShellKilled => "\"$@\"; :",
        Case::ParentKilled => "sh -c '\"$@\"; :' sh \"$@\"; sleep 100",
        _ => return command,
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", shells, "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}

fn child_of(pid: Pid) -> Option<Pid> {
    let pid = pid.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
}

/// CPU time of a process that has not ended.
fn cpu(pid: Pid) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // Fields after the name, which may have spaces.
    let fields: Vec<_> = stat.rsplit_once(") ")?.1.split(' ').collect();
    if matches!(fields[0], "Z" | "X") {
        return None;
    }
    let ticks: u64 = [fields[11], fields[12]]
        .iter()
        .map(|of| of.parse::<u64>().unwrap())
        .sum();
    Some(Duration::from_millis(
        ticks * 1000 / rustix::param::clock_ticks_per_second(),
    ))
}

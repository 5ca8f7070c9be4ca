//! A command on a pseudo-terminal, and the event that it meets.

use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::num::NonZeroU16;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, getegid, geteuid, ioctl_tiocsctty, kill_process, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Action, LocalModes, Winsize, tcflow, tcgetattr, tcsetwinsize};
use trackiops_testkit::recording::{Recording, recent};

use super::command::{below_shells, command, store_of};
use super::table::{Case, Kind};
use crate::server;

/// Limit for commands that end within a second, and for `record`, on a busy machine.
const ENDS: Duration = Duration::from_millis(2500);
const RECORD_ENDS: Duration = Duration::from_secs(7);
/// How long a command that continues is observed.
const GOES_ON: Duration = Duration::from_secs(2);
/// Most CPU time meanwhile; a command that spins exceeds it.
const MOST_CPU: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(60);
/// Lines and columns of terminals.
const SIZE: [u16; 2] = [24, 80];

/// A command on a terminal.
pub struct Run {
    kind: Kind,
    /// The process that was started: the command, or a shell above it.
    child: Child,
    /// The command.
    pid: Pid,
    recording: Option<Recording>,
    store: PathBuf,
    /// The side of a terminal emulator, until it is closed.
    master: Option<File>,
    /// The command's side.
    slave: File,
    stdin: Option<PipeWriter>,
    stdout: Option<PipeReader>,
    /// Its output to the terminal.
    said: Vec<u8>,
    _dir: tempfile::TempDir,
}

impl Run {
    /// Starts it, and waits until it is idle.
    pub fn start(kind: Kind, case: Case, programs: &Path) -> Self {
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
        // SAFETY: these are plain system calls, which are safe after fork (signal-safety(7)).
        unsafe {
            command.pre_exec(move || {
                setsid()?;
                ioctl_tiocsctty(&of_child)?;
                // The parent may ignore SIGINT, like a shell does for background jobs.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                let hangup = if ignores {
                    libc::SIG_IGN
                } else {
                    libc::SIG_DFL
                };
                libc::signal(libc::SIGHUP, hangup);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // It holds ends of the pipes.
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

    /// Waits for its first output, and until it is idle.
    fn settle(&mut self) {
        let words = match self.kind {
            Kind::Record | Kind::RecordCalls => "recording|waiting for the NFS client",
            Kind::Top => "LIVE",
            Kind::TopOfThePast => "PAST",
            Kind::Metrics => "metrics at",
            Kind::Serve => "serving at",
            Kind::Watch | Kind::WatchEvents | Kind::Import => "",
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

    /// Reads pending output from the terminal.
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

    /// Causes the event, and checks the result.
    pub fn meets(&mut self, case: Case, ends: bool) -> Result<(), String> {
        let before = cpu(self.pid).ok_or_else(|| format!("it has not begun: {}", self.text()))?;
        let begun = Instant::now();
        self.happens(case)?;
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
        let seals = ends && self.kind == Kind::RecordCalls;
        if used > MOST_CPU && !seals {
            return Err(format!("used {used:?} of CPU time in {took:?}"));
        }
        self.pump();
        if ends && matches!(case, Case::Signal(_)) && self.ends_by_itself() {
            let status = self.child.wait().unwrap();
            if !status.success() {
                return Err(format!("{status}"));
            }
        }
        if case == Case::Stopped {
            return self.has_the_terminal_again();
        }
        match ends && self.master.is_some() && case != Case::TerminateBlocked {
            true => self.terminal_is_restored(),
            false => Ok(()),
        }
    }

    /// Stops it as Ctrl-Z does. Its shell continues it.
    fn stops(&mut self) -> Result<(), String> {
        kill_process(self.pid, Signal::TSTP).unwrap();
        let begun = Instant::now();
        while state(self.pid).as_deref() != Some("T") {
            if begun.elapsed() > Duration::from_secs(1) {
                return Err("does not stop".to_owned());
            }
            sleep(Duration::from_millis(5));
        }
        // What it has written may reach the terminal later.
        loop {
            self.pump();
            let is_restored = self.terminal_is_restored();
            if is_restored.is_ok() || begun.elapsed() > Duration::from_secs(1) {
                return is_restored;
            }
            sleep(Duration::from_millis(5));
        }
    }

    fn has_the_terminal_again(&self) -> Result<(), String> {
        if state(self.pid).is_none_or(|state| state == "T") {
            return Err("does not go on".to_owned());
        }
        if !matches!(self.kind, Kind::Top | Kind::TopOfThePast) {
            return Ok(());
        }
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        let screen = self.screen();
        match modes.contains(LocalModes::ICANON) || !screen.screen().alternate_screen() {
            true => Err("the terminal does not show it".to_owned()),
            false => Ok(()),
        }
    }

    /// Whether it cleans up before it ends: seals a store, restores a terminal, removes a socket.
    fn ends_by_itself(&self) -> bool {
        !matches!(self.kind, Kind::Watch | Kind::WatchEvents | Kind::Import)
    }

    fn happens(&mut self, case: Case) -> Result<(), String> {
        let kill = |pid, signal| kill_process(pid, signal).unwrap();
        match case {
            Case::Signal(signal) => kill(self.pid, signal),
            Case::TerminateBlocked => {
                // Like Ctrl-S.
                tcflow(&self.slave, Action::OOff).unwrap();
                self.has_something_to_write();
                sleep(Duration::from_millis(700));
                kill(self.pid, Signal::TERM);
            }
            Case::Stopped => return self.stops(),
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
        Ok(())
    }

    fn has_something_to_write(&mut self) {
        match self.kind {
            Kind::Record | Kind::RecordCalls => kill_process(self.pid, Signal::HUP).unwrap(),
            Kind::Top | Kind::TopOfThePast => {
                self.master.as_ref().unwrap().write_all(b"2?").unwrap();
            }
            Kind::Watch => self.recording.as_ref().unwrap().put(&recent(3)),
            Kind::WatchEvents | Kind::Metrics => self.recording.as_mut().unwrap().end(),
            Kind::Serve | Kind::Import => {}
        }
    }

    /// Checks that lines are echoed and the main screen is shown.
    fn terminal_is_restored(&self) -> Result<(), String> {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        if !modes.contains(LocalModes::ICANON | LocalModes::ECHO) {
            return Err("the terminal has other modes".to_owned());
        }
        let parser = self.screen();
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

impl Run {
    /// What its output makes of the terminal's screen.
    fn screen(&self) -> vt100::Parser {
        let [lines, columns] = SIZE.map(|cells| NonZeroU16::new(cells).unwrap());
        let mut parser = vt100::Parser::new(lines, columns, 0);
        parser.process(&self.said);
        parser
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if cpu(self.pid).is_some() {
            let _ = kill_process(self.pid, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The recording ends in this directory.
        let _ = fs::rename(self.store.with_extension("gone"), &self.store);
    }
}

/// A terminal with both ends open.
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

fn child_of(pid: Pid) -> Option<Pid> {
    let pid = pid.as_raw_nonzero();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    Pid::from_raw(children.split_whitespace().next()?.parse().ok()?)
}

/// The state of a process, such as `S`.
fn state(pid: Pid) -> Option<String> {
    stat(pid)?.into_iter().next()
}

/// The fields of a process's `stat` after its name, which may contain spaces.
fn stat(pid: Pid) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let fields = stat.rsplit_once(") ")?.1.split(' ');
    Some(fields.map(str::to_owned).collect())
}

/// CPU time of a running process.
fn cpu(pid: Pid) -> Option<Duration> {
    let fields = stat(pid)?;
    if matches!(fields[0].as_str(), "Z" | "X") {
        return None;
    }
    let ticks: u64 = [&fields[11], &fields[12]]
        .iter()
        .map(|of| of.parse::<u64>().unwrap())
        .sum();
    Some(Duration::from_millis(
        ticks * 1000 / rustix::param::clock_ticks_per_second(),
    ))
}

//! One boot, from QEMU's start to the script's status.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::console::Console;
use crate::qemu::{Channels, Running};
use crate::results;

/// From power-on to the script's first line. Slow if emulated on a loaded host.
const BOOT_LIMIT: Duration = Duration::from_secs(240);
/// Time for the last bytes of the other ports to reach their pipes.
const SETTLE: Duration = Duration::from_millis(100);
/// Limit for the time after the script: to kill its processes, and to copy results.
const END_LIMIT: Duration = Duration::from_secs(120);
/// Wait after the first sign of a failure, so that the console's trace is complete.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// How a boot ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The script's own exit status.
    Exited(i32),
    TimedOut,
    /// The kernel or the machine failed; the reason.
    Failed(String),
    /// The script did not begin in time.
    NotUp(Duration),
}

/// A finished boot.
pub struct Report {
    pub outcome: Outcome,
    /// From QEMU's start to the script's.
    pub script_started: Option<Duration>,
    pub console: Console,
    /// Why results could not be unpacked.
    pub results: Result<()>,
}

enum Event {
    Started,
    Exited(i32),
    TimedOut,
    /// The guest's set-up gave up, or the console reported a failure.
    Failed(String),
    /// QEMU is gone.
    Ended,
}

/// Targets of the script's output.
pub struct Sinks<'a> {
    pub stdout: Box<dyn Write + Send>,
    pub stderr: Box<dyn Write + Send>,
    pub out: Option<&'a Path>,
}

/// Follows a machine to its end and stops it.
pub fn follow(
    machine: (Running, Channels),
    sinks: Sinks,
    script_limit: Duration,
    boot_limit: Option<Duration>,
) -> Report {
    let (mut machine, channels) = machine;
    let start = Instant::now();
    let (sender, events) = channel();
    let console = Arc::new(Mutex::new(Console::default()));
    let Channels {
        console: console_pipe,
        complaints,
        control,
        stdout,
        stderr,
        results,
    } = channels;
    let watch = watch_console(console_pipe, Arc::clone(&console), sender.clone());
    let control = read_control(control, sender);
    let complaints = read_all(complaints);
    let copies = [copy(stdout, sinks.stdout), copy(stderr, sinks.stderr)];
    let out = sinks.out.map(Path::to_path_buf);
    let collects = out.is_some();
    let (complete, completed) = channel();
    let unpack = thread::spawn(move || {
        results::unpack(results, out.as_deref(), || {
            let _ = complete.send(());
        })
    });

    let limits = Limits {
        start,
        boot: boot_limit.unwrap_or(BOOT_LIMIT),
        script: script_limit,
        last_words: LAST_WORDS,
    };
    let (mut outcome, script_started) = wait(&events, &limits);
    // The guest's output may still be on its way: each port has its own queue, and the last message on the control port may overtake the
    // results.
    if collects && matches!(outcome, Outcome::Exited(_) | Outcome::TimedOut) {
        let _ = completed.recv_timeout(END_LIMIT);
    }
    thread::sleep(SETTLE);
    machine.kill();
    // Without QEMU, every pipe ends, and so does every thread.
    for thread in copies.into_iter().chain([watch, control]) {
        let _ = thread.join();
    }
    let complaints = complaints.join().unwrap_or_default();
    let results = unpack
        .join()
        .unwrap_or_else(|_| Err(anyhow::anyhow!("unpacking panicked")));
    let console = std::mem::take(&mut *console.lock().unwrap_or_else(PoisonError::into_inner));
    // Messages of the kernel about the script's end may arrive after its status.
    if let (Outcome::Exited(_) | Outcome::TimedOut, Some(line)) = (&outcome, console.failure()) {
        outcome = Outcome::Failed(line.to_owned());
    }
    if let Outcome::Failed(cause) = &mut outcome
        && !complaints.trim().is_empty()
    {
        cause.push_str(&format!("\nqemu: {}", complaints.trim()));
    }
    Report {
        outcome,
        script_started,
        console,
        results,
    }
}

struct Limits {
    start: Instant,
    boot: Duration,
    script: Duration,
    last_words: Duration,
}

fn wait(events: &Receiver<Event>, limits: &Limits) -> (Outcome, Option<Duration>) {
    let mut script_started = None;
    let mut deadline = limits.start + limits.boot;
    loop {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Started) => {
                script_started = Some(limits.start.elapsed());
                deadline = Instant::now() + limits.script + END_LIMIT;
            }
            Ok(Event::Exited(status)) => return (Outcome::Exited(status), script_started),
            Ok(Event::TimedOut) => return (Outcome::TimedOut, script_started),
            Ok(Event::Failed(cause)) => {
                last_words(events, limits.last_words);
                return (Outcome::Failed(cause), script_started);
            }
            Ok(Event::Ended) | Err(RecvTimeoutError::Disconnected) => {
                return (
                    Outcome::Failed("the guest ended by itself".into()),
                    script_started,
                );
            }
            Err(RecvTimeoutError::Timeout) if script_started.is_some() => {
                return (Outcome::TimedOut, script_started);
            }
            Err(RecvTimeoutError::Timeout) => {
                return (Outcome::NotUp(limits.boot), script_started);
            }
        }
    }
}

/// Waits until a failing kernel has printed its trace.
fn last_words(events: &Receiver<Event>, time: Duration) {
    let deadline = Instant::now() + time;
    while let Ok(event) = events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        if matches!(event, Event::Ended) {
            return;
        }
    }
}

fn watch_console(
    mut pipe: impl Read + Send + 'static,
    console: Arc<Mutex<Console>>,
    events: Sender<Event>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 16384];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            let failure = console
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(&buffer[..length]);
            if let Some(line) = failure {
                let _ = events.send(Event::Failed(line));
            }
        }
        let _ = events.send(Event::Ended);
    })
}

fn read_control(pipe: impl Read + Send + 'static, events: Sender<Event>) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in std::io::BufRead::lines(std::io::BufReader::new(pipe)) {
            let Ok(line) = line else { return };
            let _ = events.send(parse_control(&line));
        }
    })
}

fn parse_control(line: &str) -> Event {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("start", _) => Event::Started,
        ("timeout", _) => Event::TimedOut,
        ("exit", status) => match status.parse() {
            Ok(status) => Event::Exited(status),
            Err(_) => Event::Failed(format!("the guest reported the status `{status}`")),
        },
        ("failed", cause) => Event::Failed(cause.to_string()),
        _ => Event::Failed(format!("the guest said `{line}`")),
    }
}

fn read_all(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Copies bytes as they arrive. If the sink's reader went away, the guest must continue.
fn copy(mut pipe: impl Read + Send + 'static, mut sink: Box<dyn Write + Send>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 16384];
        while let Ok(length @ 1..) = pipe.read(&mut buffer) {
            let _ = sink
                .write_all(&buffer[..length])
                .and_then(|()| sink.flush());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            start: Instant::now(),
            boot: Duration::from_millis(20),
            script: Duration::from_secs(60),
            last_words: Duration::ZERO,
        }
    }

    fn outcome(lines: &[&str]) -> Outcome {
        let (sender, events) = channel();
        for line in lines {
            sender.send(parse_control(line)).unwrap();
        }
        wait(&events, &limits()).0
    }

    #[test]
    fn the_guests_words_decide() {
        assert_eq!(outcome(&["start", "exit 7"]), Outcome::Exited(7));
        assert_eq!(outcome(&["start", "timeout"]), Outcome::TimedOut);
        assert_eq!(
            outcome(&["failed no nfsd"]),
            Outcome::Failed("no nfsd".into())
        );
        assert!(matches!(outcome(&["exit x"]), Outcome::Failed(_)));
        assert!(matches!(outcome(&["start", "what"]), Outcome::Failed(_)));
    }

    #[test]
    fn a_guest_that_goes_away_or_never_comes_up_has_failed() {
        let (sender, events) = channel();
        sender.send(Event::Started).unwrap();
        sender.send(Event::Ended).unwrap();
        assert!(matches!(wait(&events, &limits()).0, Outcome::Failed(_)));
        assert!(matches!(wait(&events, &limits()).0, Outcome::NotUp(_)));
    }
}

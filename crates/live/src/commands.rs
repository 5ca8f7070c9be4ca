//! Programs that `watch --on` runs: without a shell, without privileges, and not too often.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use rustix::thread::set_no_new_privs;

use crate::events::{Event, KINDS};

/// Most programs that run at once.
const MOST_RUNNING: usize = 4;
/// After this time, a program is killed, together with the processes that it started.
const LONGEST: Duration = Duration::from_secs(60);
/// If this process has ended, SIGALRM ends the program after this time.
const ALARM_SECONDS: u32 = 65;
/// The user `nobody`, who runs programs for root.
const NOBODY: u32 = 65_534;
/// Directories to search for programs that are named without one.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program for a kind of event.
#[derive(Clone, Debug, PartialEq)]
pub struct OnEvent {
    kind: &'static str,
    words: Vec<String>,
}

impl FromStr for OnEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, command) = text
            .split_once('=')
            .ok_or("write EVENT=COMMAND, such as stall='/usr/local/bin/page storage'")?;
        let known = KINDS.map(|(known, _)| known);
        let kind = known
            .into_iter()
            .find(|known| *known == kind)
            .ok_or_else(|| format!("there is no event `{kind}`; there are {}", known.join(", ")))?;
        let words = shlex::split(command).ok_or("a quotation mark is missing")?;
        if words.is_empty() {
            return Err(format!("name a program to run at {kind}"));
        }
        Ok(Self { kind, words })
    }
}

/// The last run of a program for an event's subject, and the number of events since then that did not run it.
#[derive(Debug)]
struct Run {
    at: Instant,
    left_out: u64,
}

/// Runs programs at events.
#[derive(Debug)]
pub struct Commands {
    on: Vec<OnEvent>,
    /// Shortest time between two runs for the same kind of event and the same subject.
    every: Duration,
    last: HashMap<(usize, String), Run>,
    running: Vec<(Child, Instant)>,
    /// Shows a message to a person.
    say: fn(&dyn Display),
}

impl Commands {
    /// From here on, neither this process nor its programs can gain privileges. `say` shows a message to a person.
    pub fn new(on: Vec<OnEvent>, every: Duration, say: fn(&dyn Display)) -> io::Result<Self> {
        if !on.is_empty() {
            set_no_new_privs(true)?;
        }
        Ok(Self {
            on,
            every,
            last: HashMap::new(),
            running: Vec::new(),
            say,
        })
    }

    /// Runs the programs of an event. `json` writes the event, with the number of similar events before it that ran no program.
    pub fn run(&mut self, event: &Event, json: impl Fn(u64) -> String) {
        for number in 0..self.on.len() {
            if self.on[number].kind != event.kind {
                continue;
            }
            let key = (number, event.subject.clone());
            let now = Instant::now();
            if let Some(last) = self.last.get_mut(&key)
                && now.duration_since(last.at) < self.every
            {
                last.left_out += 1;
                continue;
            }
            let left_out = self.last.get(&key).map_or(0, |last| last.left_out);
            self.reap();
            let program = &self.on[number].words[0];
            if self.running.len() >= MOST_RUNNING {
                (self.say)(&format_args!(
                    "`{program}` does not run at {}: {MOST_RUNNING} programs run already",
                    event.kind
                ));
                continue;
            }
            match start(&self.on[number].words, &json(left_out)) {
                Ok(child) => self.running.push((child, now)),
                Err(error) => (self.say)(&format_args!(
                    "cannot run `{program}` at {}: {error}",
                    event.kind
                )),
            }
            let run = Run {
                at: now,
                left_out: 0,
            };
            self.last.insert(key, run);
        }
        // Forget old runs.
        self.last
            .retain(|_, last| last.left_out > 0 || last.at.elapsed() < self.every);
    }

    /// Kills programs that run too long, and reports failed ones.
    pub fn reap(&mut self) {
        let say = self.say;
        self.running
            .retain_mut(|(child, since)| match child.try_wait() {
                Ok(None) if since.elapsed() > LONGEST => {
                    say(&format_args!(
                        "a program that --on ran has not ended within {} s, and is killed",
                        LONGEST.as_secs()
                    ));
                    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
                    let _ = child.wait();
                    false
                }
                Ok(None) => true,
                Ok(Some(status)) => {
                    if !status.success() {
                        say(&format_args!(
                            "a program that --on ran has failed: {status}"
                        ));
                    }
                    false
                }
                Err(_) => false,
            });
    }
}

/// Starts a program with the event on its standard input.
fn start(words: &[String], event: &str) -> io::Result<Child> {
    // Not a pipe: writing to a pipe would block if the program does not read.
    let mut stdin = File::from(memfd_create("event", MemfdFlags::CLOEXEC)?);
    stdin.write_all(event.as_bytes())?;
    stdin.rewind()?;
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .env_clear()
        .env("PATH", PATH)
        .current_dir("/")
        .stdin(stdin)
        .stdout(Stdio::null())
        // In a separate process group, so that Ctrl-C does not interrupt it.
        .process_group(0);
    if geteuid().is_root() {
        // Without supplementary groups and capabilities.
        command.uid(NOBODY).gid(NOBODY);
    }
    // SAFETY: the closure only calls alarm(2), which signal-safety(7) lists. The alarm survives execve(2).
    unsafe {
        command.pre_exec(|| {
            libc::alarm(ALARM_SECONDS);
            Ok(())
        });
    }
    command.spawn()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_command_has_an_event_and_words() {
        let on: OnEvent = "stall=/bin/page 'the storage team' now".parse().unwrap();
        assert_eq!(on.kind, "stall");
        assert_eq!(on.words, ["/bin/page", "the storage team", "now"]);
        for (wrong, says) in [
            ("/bin/page", "write EVENT=COMMAND"),
            (
                "stal=/bin/page",
                "there is no event `stal`; there are stall",
            ),
            ("stall=", "name a program"),
            ("stall='/bin/page", "a quotation mark is missing"),
        ] {
            let error = wrong.parse::<OnEvent>().unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}

//! Shows the progress of a long command on stderr, if that is a terminal.

use std::fs;
use std::io::{self, IsTerminal};
use std::mem;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use trackiops_query::Explain;
use trackiops_render::units;

use crate::output::write_stderr;

/// A shorter command shows no progress.
const LONG: Duration = Duration::from_secs(1);
/// How often the progress is updated.
const LOOK: Duration = Duration::from_millis(200);

/// A progress line, shown once the command has taken long.
struct Shown {
    done: Sender<()>,
    thread: JoinHandle<()>,
}

impl Shown {
    fn begin(line: impl Fn() -> String + Send + 'static) -> Self {
        let (done, is_done) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let mut wait = LONG;
            let mut said = 0;
            while is_done.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                let line = line();
                write_stderr(format_args!("\r{line:<said$}"));
                (said, wait) = (line.len(), LOOK);
            }
            if said > 0 {
                write_stderr(format_args!("\r{:said$}\r", ""));
            }
        });
        Self { done, thread }
    }

    fn end(self) {
        drop(self.done);
        let _ = self.thread.join();
    }
}

/// Calls `answer`, and shows progress if it takes long.
pub fn with_progress<T>(explain: &Explain, answer: impl FnOnce() -> T) -> T {
    if !io::stderr().is_terminal() {
        return answer();
    }
    let explain = explain.clone();
    let shown = Shown::begin(move || progress_line(explain.progress().part()));
    let answered = answer();
    shown.end();
    answered
}

fn progress_line(part: Option<f64>) -> String {
    match part {
        Some(part) => format!("reading the store: {:.0} %", part * 100.0),
        None => "looking through the store".to_owned(),
    }
}

/// The progress of reading, until there is something to write.
static READING: Mutex<Option<Shown>> = Mutex::new(None);

/// Shows the number of bytes read, from now until [`end_reading`]; `total` if it is known. Progress that is already shown continues.
pub fn begin_reading(doing: &'static str, total: Option<u64>) {
    let Some(before) = bytes_read().filter(|_| io::stderr().is_terminal()) else {
        return;
    };
    let mut reading = READING.lock().unwrap_or_else(PoisonError::into_inner);
    if reading.is_some() {
        return;
    }
    let begin = Instant::now();
    let shown = Shown::begin(move || {
        let read = bytes_read().unwrap_or(before).saturating_sub(before);
        reading_line(doing, read, total, begin.elapsed())
    });
    *reading = Some(shown);
}

/// Ends the progress of [`begin_reading`], and removes its line.
pub fn end_reading() {
    let shown = mem::take(&mut *READING.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(shown) = shown {
        shown.end();
    }
}

/// Bytes that the process has read from files (proc_pid_io(5)).
fn bytes_read() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("rchar:"))?;
    line.trim().parse().ok()
}

/// Bytes, their rate, and the remaining time, if it is known.
fn reading_line(doing: &str, read: u64, total: Option<u64>, time: Duration) -> String {
    let rate = read as f64 / time.as_secs_f64().max(0.001);
    let mut line = format!("{doing}: {}", units::bytes(read));
    // Reading journals again makes the number exceed the size of the files.
    let rest = total.and_then(|total| total.checked_sub(read));
    if let (Some(total), Some(_)) = (total, rest) {
        line += &format!(" of {}", units::bytes(total));
    }
    line += &format!(", {}", units::bytes_per_second(rate));
    if let Some(rest) = rest.filter(|_| rate > 0.0) {
        line += &format!(", about {:.0} s left", (rest as f64 / rate).ceil());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_told_as_a_part() {
        assert_eq!(progress_line(None), "looking through the store");
        assert_eq!(progress_line(Some(0.426)), "reading the store: 43 %");
        let line = |read, total| reading_line("importing", read, total, Duration::from_secs(2));
        assert_eq!(line(4 << 20, None), "importing: 4.00 MiB, 2.00 MiB/s");
        assert_eq!(
            line(4 << 20, Some(16 << 20)),
            "importing: 4.00 MiB of 16.0 MiB, 2.00 MiB/s, about 6 s left"
        );
        assert_eq!(
            line(4 << 20, Some(1 << 20)),
            "importing: 4.00 MiB, 2.00 MiB/s"
        );
    }
}

//! Ends the process when its stdout's reader or its terminal is gone, or when it is asked to end.
//!
//! A separate thread checks this, because the others may be blocked: by a terminal or pipe that accepts nothing, by a long query, or by
//! crossterm, which never returns from the end of its input.

use std::future::Future;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, Builder};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::process::{getpid, getppid};
use tokio::sync::oneshot;

use crate::signals;

/// Interval of checks for events that wake no poll: a parent's end, and some ways of losing a terminal (`tty_ldisc_hangup` in
/// drivers/tty/tty_ldisc.c only wakes readers and writers).
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Time limit for restoring a terminal: a stopped terminal accepts nothing.
const RESTORING: Duration = Duration::from_millis(300);
/// Time limit for a server to end.
const ENDING: Duration = Duration::from_millis(800);

/// Whether the command writes a file in addition to stdout.
static WRITES_FILE: AtomicBool = AtomicBool::new(false);

/// Keeps the process alive when stdout has lost its reader, because the command has more to do.
pub fn outlive_reader() {
    WRITES_FILE.store(true, Ordering::Release);
}

/// From now on, the process ends when stdout has no reader: the pipe's other end is closed, or the terminal is gone. Otherwise it would
/// only notice at its next write, which may never come.
pub fn end_with_reader() {
    let stdout = io::stdout();
    if !can_be_gone(stdout.as_fd()) {
        return;
    }
    // Without the thread, the next write ends the process.
    let _ = Builder::new().name("reader".to_owned()).spawn(|| {
        let stdout = io::stdout();
        let most = stdout.is_terminal().then_some(LOOK_EVERY);
        while !is_any_gone(&[stdout.as_fd()], None, most) {}
        if !WRITES_FILE.load(Ordering::Acquire) {
            signals::exit_now(0);
        }
    });
}

/// From now on, the process calls `restore` and ends when its terminal or its parent is gone, or a signal asks it to end.
pub fn end_with_terminal(restore: fn()) -> io::Result<()> {
    let asked = signals::asked_to_end()?;
    let parent = getppid();
    // A session leader has the terminal for itself.
    let leads = session() == getpid().as_raw_nonzero().get();
    Builder::new().name("terminal".to_owned()).spawn(move || {
        let (stdin, stdout) = (io::stdin(), io::stdout());
        let terminal = [stdin.as_fd(), stdout.as_fd()];
        let is_orphan = || !leads && getppid() != parent;
        while !is_any_gone(&terminal, Some(asked), Some(LOOK_EVERY)) && !is_orphan() {}
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            restore();
            let _ = done.send(());
        });
        let _ = is_done.recv_timeout(RESTORING);
        signals::exit_now(0)
    })?;
    Ok(())
}

/// The session of this process: 0 if it began outside the process's PID namespace, as with `docker exec`. rustix's `getsid` assumes that
/// this cannot happen.
fn session() -> libc::pid_t {
    // SAFETY: getsid takes a number and accesses no memory of this process.
    unsafe { libc::getsid(0) }
}

/// From now on, a signal to end makes the result ready. Soon afterwards the process ends, even if it is blocked.
pub fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    let asked = signals::asked_to_end()?;
    let (stop, is_asked) = oneshot::channel();
    Builder::new().name("signals".to_owned()).spawn(move || {
        while !is_any_gone(&[], Some(asked), None) {}
        let _ = stop.send(());
        thread::sleep(ENDING);
        signals::exit_now(0)
    })?;
    Ok(async {
        let _ = is_asked.await;
    })
}

/// Files and devices other than terminals cannot disappear.
fn can_be_gone(output: BorrowedFd<'_>) -> bool {
    let kind = fstat(output).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket)) || output.is_terminal()
}

/// Waits at most `most` until the other end of one of `ends` is closed, or `asked` is readable.
fn is_any_gone(
    ends: &[BorrowedFd<'_>],
    asked: Option<BorrowedFd<'_>>,
    most: Option<Duration>,
) -> bool {
    // poll always reports a closed other end.
    let ends = ends
        .iter()
        .map(|end| PollFd::from_borrowed_fd(*end, PollFlags::empty()));
    let asked = asked.map(|asked| PollFd::from_borrowed_fd(asked, PollFlags::IN));
    let mut fds: Vec<_> = ends.chain(asked).collect();
    let most = most.and_then(|most| Timespec::try_from(most).ok());
    match poll(&mut fds, most.as_ref()) {
        Ok(ready) => ready > 0,
        Err(error) => error != Errno::INTR,
    }
}

//! What a command lives for: its reader, its terminal, and not being asked to end. Without one of them the process ends.
//!
//! That is seen to by a thread of its own, since the others may be held up: by a terminal or a pipe that takes nothing more, by a long
//! question, or by crossterm, which never returns from the end of its input.

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

/// Interval of looks at what wakes nobody: a parent's end, and some ways in which a terminal is lost (`tty_ldisc_hangup` in
/// drivers/tty/tty_ldisc.c wakes readers and writers alone).
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a terminal may take to be restored: one that is stopped takes nothing.
const RESTORING: Duration = Duration::from_millis(300);
/// How long a server may take to end.
const ENDING: Duration = Duration::from_millis(800);

/// Whether the command writes a file beside what it writes to stdout.
static WRITES_FILE: AtomicBool = AtomicBool::new(false);

/// The command has something to do when nobody reads its stdout any more.
pub fn outlive_reader() {
    WRITES_FILE.store(true, Ordering::Release);
}

/// From now on the process ends when nobody can read its stdout any more: the other end of a pipe is closed, or the terminal is gone.
/// Without this it would notice when it writes, which may be never.
pub fn end_with_reader() {
    let stdout = io::stdout();
    if !can_be_gone(stdout.as_fd()) {
        return;
    }
    // Without the thread, the next write ends it.
    let _ = Builder::new().name("reader".to_owned()).spawn(|| {
        let stdout = io::stdout();
        let most = stdout.is_terminal().then_some(LOOK_EVERY);
        while !is_any_gone(&[stdout.as_fd()], None, most) {}
        if !WRITES_FILE.load(Ordering::Acquire) {
            signals::exit_now(0);
        }
    });
}

/// From now on the process ends when its terminal or its parent is gone or a signal asks it to, and calls `restore` before that.
pub fn end_with_terminal(restore: fn()) -> io::Result<()> {
    let asked = signals::asked_to_end()?;
    let parent = getppid();
    // Whoever leads a session has its terminal for itself.
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

/// The session of this process: 0 where it was begun outside of this process's PID namespace, as by `docker exec`. rustix's `getsid` takes
/// that for impossible.
fn session() -> libc::pid_t {
    // SAFETY: it takes a number and touches no memory.
    unsafe { libc::getsid(0) }
}

/// From now on signals that end a command make the result ready. The process ends soon afterwards, whatever holds it up.
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

/// Files and devices but terminals are there for ever.
fn can_be_gone(output: BorrowedFd<'_>) -> bool {
    let kind = fstat(output).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket)) || output.is_terminal()
}

/// Waits for a while until the other end of one of these is closed, or `asked` can be read.
fn is_any_gone(
    ends: &[BorrowedFd<'_>],
    asked: Option<BorrowedFd<'_>>,
    most: Option<Duration>,
) -> bool {
    // That the other end is closed is always told.
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

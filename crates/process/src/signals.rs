//! Signals that end the process, and the removal of its incomplete file.

use std::ffi::{CString, c_char, c_int};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// Signals by which a person or a supervisor ends a command.
const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The name of the incomplete file, or null.
static DRAFT: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// Whether a signal has asked the process to end, after [`asked_to_end`].
static WAS_ASKED: AtomicBool = AtomicBool::new(false);

/// Whether SIGTSTP has asked the process to stop, and whether SIGCONT has continued it, after [`notice_stops`].
static STOP_ASKED: AtomicBool = AtomicBool::new(false);
static HAS_CONTINUED: AtomicBool = AtomicBool::new(false);

/// Becomes readable when a signal asks the process to end. It is never closed, because the handler may be writing to it.
static ASKED: OnceLock<OwnedFd> = OnceLock::new();

/// Whether a signal is ignored.
pub fn is_ignored(signal: c_int) -> bool {
    action_of(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

/// The current action of a signal.
fn action_of(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: the structure is a local variable, zeroes are valid in it, and a null action changes nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, ptr::null(), &raw mut action) == 0).then_some(action)
    }
}

/// From now on, signals that would end the process only make the result readable. An ignored SIGHUP stays ignored, as with `nohup`.
pub fn asked_to_end() -> io::Result<BorrowedFd<'static>> {
    let new = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let asked = ASKED.get_or_init(|| new);
    for signal in ENDING {
        if signal == libc::SIGHUP && is_ignored(signal) {
            continue;
        }
        let handler: extern "C" fn(c_int) = tell_asked;
        // SAFETY: `tell_asked` only uses operations that signal-safety(7) allows, and it is never unloaded.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    Ok(asked.as_fd())
}

/// From now on, [`was_asked`] notices SIGINT and SIGTERM. Unlike [`asked_to_end`], it leaves an earlier handler in place, and tokio's handlers,
/// which are installed later, call this one.
pub fn notice_end() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let is_unhandled =
            |action: libc::sigaction| [libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        if action_of(signal).is_some_and(is_unhandled) {
            let handler: extern "C" fn(c_int) = tell_asked;
            // SAFETY: `tell_asked` only uses operations that signal-safety(7) allows, and it is never unloaded.
            unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        }
    }
}

/// Whether a signal has asked the process to end, since [`asked_to_end`] or [`notice_end`] was called.
pub fn was_asked() -> bool {
    WAS_ASKED.load(Ordering::Acquire)
}

/// From now on, [`stop_if_asked`] stops the process instead of SIGTSTP. An ignored SIGTSTP stays ignored.
pub fn notice_stops() {
    // SAFETY: the handlers only store to atomics, and they are never unloaded.
    unsafe {
        if !is_ignored(libc::SIGTSTP) {
            libc::signal(
                libc::SIGTSTP,
                ask_to_stop as *const () as libc::sighandler_t,
            );
        }
        libc::signal(
            libc::SIGCONT,
            note_continued as *const () as libc::sighandler_t,
        );
    }
}

extern "C" fn ask_to_stop(_: c_int) {
    STOP_ASKED.store(true, Ordering::Release);
}

extern "C" fn note_continued(_: c_int) {
    HAS_CONTINUED.store(true, Ordering::Release);
}

/// Calls `before` and stops the process until SIGCONT, if the caller or SIGTSTP asks for it. Returns whether the process was stopped since
/// the last call, however that happened.
pub fn stop_if_asked(by_caller: bool, before: fn()) -> bool {
    if (STOP_ASKED.swap(false, Ordering::AcqRel) || by_caller) && !is_ignored(libc::SIGTSTP) {
        before();
        // SAFETY: the default action runs no code of this process, and `notice_stops` has the reason for the handler.
        unsafe {
            libc::signal(libc::SIGTSTP, libc::SIG_DFL);
            // The kernel does not stop a process group that no shell could continue.
            libc::raise(libc::SIGTSTP);
            libc::signal(
                libc::SIGTSTP,
                ask_to_stop as *const () as libc::sighandler_t,
            );
        }
        HAS_CONTINUED.store(true, Ordering::Release);
    }
    HAS_CONTINUED.swap(false, Ordering::AcqRel)
}

/// Makes [`ASKED`] readable.
extern "C" fn tell_asked(_: c_int) {
    WAS_ASKED.store(true, Ordering::Release);
    let Some(asked) = ASKED.get() else { return };
    let one = 1_u64;
    // SAFETY: write(2) is listed in signal-safety(7), and reads 8 bytes from `one`, which lives on this stack. It does not block, because
    // the descriptor is non-blocking. The interrupted code keeps its errno.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(asked.as_raw_fd(), (&raw const one).cast(), size_of::<u64>());
        *errno = before;
    }
}

/// Ends the process at once, whatever its other threads do, and removes the incomplete file. It flushes nothing: a flush could wait for a
/// terminal that accepts nothing.
pub fn exit_now(status: u8) -> ! {
    remove_draft();
    // SAFETY: `_exit` accesses no memory of the process; it only ends it.
    unsafe { libc::_exit(status.into()) }
}

/// Makes a write beyond `ulimit -f` fail. By default, it would end the process.
pub fn ignore_file_size_limit() {
    ignore(libc::SIGXFSZ);
}

/// Lets the process write to its terminal while another process group has it. By default, that would stop the process.
pub fn ignore_background_output() {
    ignore(libc::SIGTTOU);
}

fn ignore(signal: c_int) {
    // SAFETY: `SIG_IGN` runs no code of this process.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Until [`forget_draft`] is called, a signal that ends the process removes this incomplete file. A process writes one such file at a time.
pub fn remove_on_end(draft: &Path) {
    let Ok(draft) = CString::new(draft.as_os_str().as_bytes()) else {
        return;
    };
    // Never freed, because the handler may be reading it.
    DRAFT.store(draft.into_raw(), Ordering::Release);
    for signal in ENDING {
        remove_draft_on(signal);
    }
}

/// Call it when the file is in place or removed.
pub fn forget_draft() {
    DRAFT.store(ptr::null_mut(), Ordering::Release);
}

/// Leaves a signal alone if it is ignored, as with `nohup`, or handled, as in a recorder.
fn remove_draft_on(signal: c_int) {
    let action = action_of(signal).filter(|action| action.sa_sigaction == libc::SIG_DFL);
    let Some(mut action) = action else { return };
    let handler: extern "C" fn(c_int) = end_without_draft;
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESETHAND;
    // SAFETY: the structure is a local variable, and the handler only calls functions that signal-safety(7) lists.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

/// Removes the file and raises the signal again, which now ends the process: `SA_RESETHAND` has restored the default action.
extern "C" fn end_without_draft(signal: c_int) {
    remove_draft();
    // SAFETY: raise(3) is listed in signal-safety(7).
    unsafe { libc::raise(signal) };
}

fn remove_draft() {
    let draft = DRAFT.load(Ordering::Acquire);
    if !draft.is_null() {
        // SAFETY: unlink(2) is listed in signal-safety(7). `draft` points to a C string that is never freed.
        unsafe { libc::unlink(draft) };
    }
}

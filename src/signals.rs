//! Signals that would end the process in the middle of a file.

use std::ffi::{CString, c_char, c_int};
use std::future::Future;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use tokio::signal::unix::{SignalKind, signal};

/// Signals by which a person or a supervisor ends a command.
const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The name of the file that is not whole yet, or null.
static DRAFT: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// Whether a signal has asked the process to end.
static IS_ENDED: AtomicBool = AtomicBool::new(false);

/// Whether a signal is ignored.
pub fn is_ignored(signal: c_int) -> bool {
    // SAFETY: the structure is ours, zeroes are valid in it, and no action is changed.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// From now on, signals by which a service is ended only make the result ready. To be called in a runtime.
pub fn asked_to_stop() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// From now on, signals that would end the process only have the result say so.
pub fn ends() -> impl Fn() -> bool {
    extern "C" fn note(_: c_int) {
        IS_ENDED.store(true, Ordering::Release);
    }
    for signal in ENDING {
        let handler: extern "C" fn(c_int) = note;
        // SAFETY: an atomic store is all that the handler does.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
    || IS_ENDED.load(Ordering::Acquire)
}

/// Has a write fail that would make a file longer than `ulimit -f`. By default it would end the
/// process.
pub fn ignore_file_size_limit() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Until [`forget_draft`] is called, a signal that ends the process removes this file, which is not
/// whole yet. A process writes one such file at a time.
pub fn remove_on_end(draft: &Path) {
    let Ok(draft) = CString::new(draft.as_os_str().as_bytes()) else {
        return;
    };
    // Never freed: the handler may be reading it.
    DRAFT.store(draft.into_raw(), Ordering::Release);
    for signal in ENDING {
        remove_draft_on(signal);
    }
}

/// To be called when the file is in place or removed.
pub fn forget_draft() {
    DRAFT.store(ptr::null_mut(), Ordering::Release);
}

/// Leaves a signal alone that is ignored, as by `nohup`, or handled, as by a recorder.
fn remove_draft_on(signal: c_int) {
    // SAFETY: both structures are ours, zeroes are valid in them, and the handler calls only what
    // signal-safety(7) lists.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(signal, ptr::null(), &raw mut action) == 0;
        if known && action.sa_sigaction == libc::SIG_DFL {
            let handler: extern "C" fn(c_int) = remove_draft;
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

/// Removes the file and raises the signal again, which now ends the process: `SA_RESETHAND` has
/// restored the default action.
extern "C" fn remove_draft(signal: c_int) {
    let draft = DRAFT.load(Ordering::Acquire);
    // SAFETY: both are listed in signal-safety(7); a draft's name is never freed.
    unsafe {
        if !draft.is_null() {
            libc::unlink(draft);
        }
        libc::raise(signal);
    }
}

//! Places at which a test ends the process as SIGKILL does. In a release there is nothing of them.

/// Ends the process here if it is the turn of this place: `TRACKIOPS_KILL_AT` is after how many of them. The names of those
/// that were passed are appended to the file `TRACKIOPS_KILL_LOG`.
#[cfg(feature = "fail-points")]
pub(crate) fn point(name: &str) {
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};

    static PASSED: AtomicU64 = AtomicU64::new(0);
    let passed = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
    if let Some(log) = std::env::var_os("TRACKIOPS_KILL_LOG") {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log);
        let _ = log.and_then(|mut log| writeln!(log, "{name}"));
    }
    let at = std::env::var("TRACKIOPS_KILL_AT").ok();
    if at.and_then(|at| at.parse::<u64>().ok()) == Some(passed) {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

/// Nothing.
#[cfg(not(feature = "fail-points"))]
#[inline(always)]
pub(crate) fn point(_: &str) {}

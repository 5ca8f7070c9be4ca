//! Places at which a test ends the process as SIGKILL does. In a release there is nothing of them.

/// Ends the process here if it is the turn of this place: `TRACKIOPS_KILL_AT` is the how manyth time and the name, such
/// as `2 seal: renamed`.
#[cfg(feature = "fail-points")]
pub(crate) fn point(name: &str) {
    use std::collections::HashMap;
    use std::sync::{Mutex, PoisonError};

    static PASSED: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);
    let Ok(turn) = std::env::var("TRACKIOPS_KILL_AT") else {
        return;
    };
    let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
    let times = passed
        .get_or_insert_default()
        .entry(name.to_owned())
        .or_default();
    *times += 1;
    if turn == format!("{times} {name}") {
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

//! Places where a test kills or stops the process, or makes the thread panic or break a rule. No release contains them.

/// Kills or stops the process, or panics, if the visit to this place is the chosen one. `TRACKIOPS_KILL_AT`, `TRACKIOPS_STOP_AT` and
/// `TRACKIOPS_PANIC_AT` contain the number of the visit and the name of the place, such as `2 seal: renamed`. With `TRACKIOPS_FAIL_FROM`,
/// counting starts when a file of that name exists.
#[cfg(feature = "fail-points")]
#[allow(
    clippy::panic,
    reason = "that is what it is for, and no release has it"
)]
pub fn hit(name: &str) {
    use std::collections::HashMap;
    use std::env;
    use std::path::Path;
    use std::sync::{Mutex, PoisonError};

    static PASSED: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);
    let turns = [
        "TRACKIOPS_KILL_AT",
        "TRACKIOPS_STOP_AT",
        "TRACKIOPS_PANIC_AT",
    ];
    let turns = turns.map(|turn| env::var(turn).ok());
    let [kill_at, stop_at, panic_at] = &turns;
    if turns.iter().all(Option::is_none) {
        return;
    }
    let has_begun = env::var_os("TRACKIOPS_FAIL_FROM").is_none_or(|file| Path::new(&file).exists());
    if !has_begun {
        return;
    }
    let turn = {
        let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
        let times = passed.get_or_insert_default().entry(name.to_owned());
        let times = times.and_modify(|times| *times += 1).or_insert(1);
        Some(format!("{times} {name}"))
    };
    if turn == *kill_at {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
    if turn == *stop_at {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::STOP);
    }
    if turn == *panic_at {
        panic!("fail point: {name}");
    }
}

/// Does nothing.
#[cfg(not(feature = "fail-points"))]
#[inline(always)]
pub fn hit(_: &str) {}

/// Tries to write the file in `TRACKIOPS_ESCAPE_TO`, which a thread that is confined to a store cannot do, and prints the result.
#[cfg(feature = "fail-points")]
pub fn escape() {
    if let Some(file) = std::env::var_os("TRACKIOPS_ESCAPE_TO") {
        let escaped = std::fs::write(file, "escaped").map_err(|error| error.kind());
        let thread = std::thread::current();
        eprintln!("{}: {escaped:?}", thread.name().unwrap_or_default());
    }
}

/// Does nothing.
#[cfg(not(feature = "fail-points"))]
#[inline(always)]
pub fn escape() {}

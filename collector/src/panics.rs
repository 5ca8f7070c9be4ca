//! Tests of threads that panic. Each runs in a process of its own: the test program starts itself
//! again to run one test.

use std::env;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Runs an otherwise ignored test in a child process that panics at the fail point `panic_at`.
pub fn run(test: &str, panic_at: &str) {
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--quiet"])
        .env("TRACKIOPS_PANIC_AT", panic_at)
        .status();
    assert!(status.unwrap().success(), "{test}");
}

/// Waits until a thread has died, and returns its name.
pub fn died() -> &'static str {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if let Some(death) = trackiops_threads::death() {
            return &death.thread;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("no thread has died");
}

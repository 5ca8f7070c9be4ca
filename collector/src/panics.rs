//! Tests of threads that panic. Each is a process of its own: this program once more, running one test.

use std::env;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Runs a test that is ignored otherwise, in which it comes to a panic.
pub fn run(test: &str, panic_at: &str) {
    let status = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--quiet"])
        .env("TRACKIOPS_PANIC_AT", panic_at)
        .status();
    assert!(status.unwrap().success(), "{test}");
}

/// Which thread has died, as soon as one has.
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

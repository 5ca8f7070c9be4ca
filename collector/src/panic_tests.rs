//! Tests of threads that panic. Each runs in a separate process: the test program starts itself
//! again to run one test.

use std::env;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Runs an otherwise ignored test of a module (`module_path!()`) in a child process that panics at
/// the fail point `panic_at`.
pub fn run(module: &str, test: &str, panic_at: &str) {
    let (_crate, module) = module.split_once("::").unwrap();
    let test = format!("{module}::{test}");
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", &test, "--ignored"])
        .env("TRACKIOPS_PANIC_AT", panic_at)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{test}: {said}");
    // A filter that matches no test is a success as well.
    assert!(said.contains("1 passed"), "{test}: {said}");
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

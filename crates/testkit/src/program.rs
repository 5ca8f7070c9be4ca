//! Common code of tests that start the program.

use std::env;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Runs a script in a directory with the Python in TRACKIOPS_PYTHON, which `make` sets, and prints its output. Panics if it fails.
pub fn python<A: AsRef<OsStr>>(script: &Path, args: impl IntoIterator<Item = A>, dir: &Path) {
    let python = env::var_os("TRACKIOPS_PYTHON").expect("make sets TRACKIOPS_PYTHON");
    let mut command = command(Path::new(&python));
    command.arg(script).args(args).current_dir(dir);
    let output = command.env("TZ", "UTC").output();
    let output = output.expect("Python can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    print!("{said}");
}

/// A command that runs the program. Under emulation of another architecture, the tests' children must be emulated, too.
pub fn command(program: &Path) -> Command {
    let mut command = match env::var_os("TRACKIOPS_TEST_EMULATOR") {
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(program);
            command
        }
        None => Command::new(program),
    };
    without_settings(&mut command);
    command
}

/// Keeps the store and the settings of the user who runs the tests from a command: those in files, and those in variables.
pub fn without_settings(command: &mut Command) {
    let is_setting = |name: &str| {
        let of_tables = ["TRACKIOPS_RECORD_", "TRACKIOPS_SERVE_"];
        name == "TRACKIOPS_STORE" || of_tables.iter().any(|table| name.starts_with(table))
    };
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(is_setting) {
            command.env_remove(name);
        }
    }
    command.env("TRACKIOPS_CONFIG", "none");
}

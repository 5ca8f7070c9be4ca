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
    // The user who runs the tests may have a store and a configuration.
    command.env_remove("TRACKIOPS_STORE");
    command.env("TRACKIOPS_CONFIG", "none");
    command
}

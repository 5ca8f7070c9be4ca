//! What tests that start the program have in common.

use std::env;
use std::path::Path;
use std::process::Command;

/// A command that runs the program. Where another architecture is emulated, what the tests start has to be, too.
pub fn command(program: &Path) -> Command {
    let mut command = match env::var_os("TRACKIOPS_TEST_EMULATOR") {
        Some(emulator) => {
            let mut command = Command::new(emulator);
            command.arg(program);
            command
        }
        None => Command::new(program),
    };
    // Whoever runs the tests may have a store, and a configuration.
    command.env_remove("TRACKIOPS_STORE");
    command.env("TRACKIOPS_CONFIG", "none");
    command
}

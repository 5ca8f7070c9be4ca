//! `cargo vm`: boots real Debian kernels with a real NFS server and client, and runs scripts in them.
//!
//! `tests/vm/README.md` describes the guest's environment for scripts.

mod accel;
mod apt;
mod built;
mod cache;
mod cli;
mod console;
mod host;
mod image;
mod initrd;
mod kernel;
mod lock;
mod mirror;
mod modules;
mod packages;
mod payload;
mod qemu;
mod results;
mod rootfs;
mod run;
mod session;
mod trackiops;
mod update;

use std::process::ExitCode;

use clap::Parser;

/// The guest failed, or could not be built or started.
const FAILED: u8 = 125;
/// The script took too long. `timeout` of coreutils uses the same status.
const TIMED_OUT: u8 = 124;
/// Invalid arguments. clap uses the same status.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let result = match cli::Cli::parse().command {
        cli::Command::Run(run) => run::run(&run),
        cli::Command::Fetch(guest) => run::fetch(&guest).map(|_| 0),
        cli::Command::Update(update) => update::update(&update.kernels).map(|()| 0),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            host::say(format_args!("error: {error:#}"));
            ExitCode::from(
                if error.is::<run::Usage>() || error.is::<kernel::Unknown>() {
                    USAGE
                } else {
                    FAILED
                },
            )
        }
    }
}

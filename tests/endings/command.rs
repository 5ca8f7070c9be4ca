//! The commands.

use std::path::{Path, PathBuf};
use std::process::Command;

use trackiops_testkit::program;
use trackiops_testkit::recording::Recording;

use super::table::{Case, Kind};
use crate::server;

pub fn store_of(kind: Kind, recording: &Recording, dir: &Path) -> PathBuf {
    match kind {
        Kind::Record | Kind::RecordCalls => dir.join("recorded"),
        _ => recording.store(),
    }
}

/// The command itself.
pub fn command(kind: Kind, recording: &Recording, dir: &Path, programs: &Path) -> Command {
    let mut command = match kind {
        Kind::Metrics | Kind::Serve => server::trackiops(programs),
        _ => program::command(Path::new(env!("CARGO_BIN_EXE_trackiops"))),
    };
    command.env("TZ", "UTC").env("TERM", "xterm-256color");
    command
        .env_remove("TRACKIOPS_STORE")
        .env("TRACKIOPS_CONFIG", "none");
    match kind {
        Kind::Record | Kind::RecordCalls => {
            command.arg("record");
            command.args(match kind {
                Kind::Record => &["--wait"][..],
                _ => &["--levels", "app"],
            });
            command.arg("--store").arg(store_of(kind, recording, dir));
            command.arg("--live-socket").arg(dir.join("live.sock"));
        }
        Kind::Top => {
            command.arg("top").arg("--socket").arg(recording.socket());
        }
        Kind::TopOfThePast => {
            command
                .args(["top", "--since", "1m", "--store"])
                .arg(recording.store());
        }
        Kind::Watch => {
            command.arg("watch").arg("--socket").arg(recording.socket());
        }
        Kind::WatchEvents => {
            command.args(["watch", "--on", "stall=/bin/true", "--socket"]);
            command.arg(recording.socket());
        }
        Kind::Metrics => {
            command.args(["metrics", "--listen", "127.0.0.1:0", "--socket"]);
            command.arg(recording.socket());
        }
        Kind::Serve => {
            command.args(["serve", "--listen", "127.0.0.1:0", "--socket"]);
            command
                .arg(recording.socket())
                .arg("--store")
                .arg(recording.store());
        }
        Kind::Import => {
            command
                .args(["import", "nfsdump", "-", "--store"])
                .arg(dir.join("imported"));
        }
    }
    command
}

/// The command as a descendant of as many shells as the case needs. They share its terminal and its process group.
pub fn below_shells(command: Command, case: Case) -> Command {
    let shells = match case {
        Case::ShellKilled => "\"$@\"; :",
        // With jobs, whose process groups have the terminal by turns.
        Case::Stopped => "set -m; \"$@\"; sleep 1; fg",
        Case::ParentKilled => "sh -c '\"$@\"; :' sh \"$@\"; sleep 100",
        _ => return command,
    };
    let mut shell = Command::new("sh");
    shell.args(["-c", shells, "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
}
